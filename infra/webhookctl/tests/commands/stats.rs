//! `webhookctl inbox stats`: events received, events waiting, their duration, and the cost of the
//! command.

use serde_json::Value;
use shared::base::calendar::Hour;
use shared::base::clock::UnixMillis;
use shared::base::timing::LEASE;
use shared::inbox::ledger::{Claim, Settlement};
use shared::webhook::event::EventKey;

use crate::world::World;

/// The outcome of an event.
enum Fate {
    Open,
    Failed,
    Dead,
    /// The event was done this number of milliseconds after its receipt.
    Done(u64),
}

impl World {
    async fn event(
        &self,
        source: &str,
        id: &str,
        kind: &str,
        at: UnixMillis,
        fate: Fate,
    ) -> EventKey {
        let key = self.put(source, id, kind, at).await;
        let end = match fate {
            Fate::Open => return key,
            Fate::Done(after) => (Settlement::Done, after),
            Fate::Failed => {
                let retry = Settlement::Retry {
                    error: "502".into(),
                    due: self.now + LEASE,
                    resend_after: None,
                };
                (retry, 10)
            }
            Fate::Dead => {
                let dead = Settlement::DeadLetter {
                    reason: "permanent",
                    error: "404".into(),
                };
                (dead, 10)
            }
        };
        let claim = self.ledger.claim(&key, "worker", at, LEASE, 10).await;
        let Claim::Leased(lease) = claim.unwrap() else {
            panic!("{key} is not free");
        };
        let at = at + std::time::Duration::from_millis(end.1);
        self.ledger.settle(*lease, end.0, &[], at).await.unwrap();
        key
    }

    /// Returns the rows of `inbox stats` with these arguments.
    async fn stats(&self, args: &[&str]) -> Vec<Value> {
        let line = [&["inbox", "stats"], args].concat();
        let document = self.json(&line).await;
        assert_eq!(document["schema"], "webhookctl/inbox.stats/v1");
        document["items"].as_array().unwrap().clone()
    }

    async fn of(&self, args: &[&str], field: &str, value: &str) -> Value {
        let rows = self.stats(args).await;
        let found = rows.iter().find(|row| row[field] == value);
        found
            .unwrap_or_else(|| panic!("no {value} in {rows:?}"))
            .clone()
    }

    /// Stores twenty done events, two open events, and one dead letter.
    pub(crate) async fn some_events(&self) {
        for n in 0..20 {
            let (id, at) = (format!("evt_{n}"), self.ago(3 * 3600 + n));
            let fate = Fate::Done(if n == 0 { 9_000 } else { 310 });
            self.event("stripe-main", &id, "invoice.paid", at, fate)
                .await;
        }
        let at = self.ago(1200);
        self.event("acme", "evt_open", "job.started", at, Fate::Open)
            .await;
        let at = self.ago(2400);
        self.event("acme", "evt_failed", "job.completed", at, Fate::Failed)
            .await;
        let at = self.ago(36 * 3600);
        self.event("stripe-main", "evt_dead", "charge.updated", at, Fate::Dead)
            .await;
    }
}

#[tokio::test]
async fn a_line_for_each_source_says_what_came_and_what_is_stuck() {
    let world = World::start().await;
    let empty = world.of(&[], "source", "acme").await;
    assert_eq!(
        (&empty["received"]["count"], &empty["health"]),
        (&0.into(), &"ok".into())
    );
    assert!(
        empty["p50_s"].is_null() && empty["oldest_open_s"].is_null(),
        "{empty}"
    );

    world.some_events().await;
    let acme = world.of(&[], "source", "acme").await;
    assert_eq!(acme["received"]["count"], 2);
    assert_eq!(
        (&acme["failed"]["count"], &acme["health"]),
        (&1.into(), &"failing".into())
    );
    let oldest = acme["oldest_open_s"].as_u64().unwrap();
    assert!((2400..2460).contains(&oldest), "{acme}");
    let stripe = world.of(&[], "source", "stripe-main").await;
    // A dead letter of any age counts as a dead letter. An old one does not count as received in
    // the time range.
    assert_eq!(stripe["received"]["count"], 20);
    assert_eq!(stripe["dead_letters"]["count"], 1);
    assert_eq!(
        (&stripe["p50_s"], &stripe["p95_s"]),
        (&0.31.into(), &0.31.into())
    );
    assert_eq!(stripe["sampled"], 20);

    let text = world.text(&["inbox", "stats", "-s", "acme*"]).await;
    assert!(text.starts_with("SOURCE  RECEIVED  FAILED  DEAD"), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    let footer = world.run(&["inbox", "stats"]).await.stderr;
    let footer = String::from_utf8(footer).unwrap();
    for said in [
        "last 24h",
        "received→done: p50 0.31s",
        "per hour ▁",
        "read units",
    ] {
        assert!(footer.contains(said), "{said}: {footer}");
    }
    world.end().await;
}

#[tokio::test]
async fn types_and_hours_are_told_apart() {
    let world = World::start().await;
    world.some_events().await;
    let args = ["--by", "type", "--since", "3d"];
    let dead = world.of(&args, "type", "charge.updated").await;
    assert_eq!(
        (&dead["source"], &dead["dead_letters"]["count"]),
        (&"stripe-main".into(), &1.into())
    );
    let failed = world.of(&args, "type", "job.completed").await;
    assert_eq!(failed["failed"]["count"], 1);
    let jobs = world.stats(&["--by", "type", "-t", "job.*"]).await;
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    let hours = world.stats(&["--by", "hour"]).await;
    let sum: u64 = hours
        .iter()
        .map(|row| row["received"]["count"].as_u64().unwrap())
        .sum();
    assert_eq!(sum, 22);
    assert!(
        hours[0]["hour"].as_str() > hours[1]["hour"].as_str(),
        "{hours:?}"
    );
    world.end().await;
}

#[tokio::test]
async fn hours_that_are_counted_are_read_and_not_counted_again() {
    let world = World::start().await;
    world.some_events().await;
    let before = world.stats(&[]).await;
    world.calls();
    world.stats(&[]).await;
    let live = world.calls().len();
    let report = world.invoke("count").await;
    assert_eq!((&report["hours"], &report["left"]), (&48.into(), &0.into()));
    assert!(report["events"].as_u64().unwrap() >= 21, "{report}");
    let again = world.invoke("count").await;
    assert_eq!(again["hours"], 0, "an hour is counted once");
    let after = world.stats(&[]).await;
    let counts =
        |rows: &[Value]| -> Vec<Value> { rows.iter().map(|row| row["received"].clone()).collect() };
    assert_eq!(counts(&before), counts(&after));
    let calls = world.calls().len();
    // The partitions of the day make the reads without the counts cheap, too.
    assert!(calls <= live && live <= 60, "{calls} calls, {live} live");
    // The command shows the stored count.
    let hour = Hour::of(world.ago(3 * 3600));
    let (kept, _) = world
        .ledger
        .statistics()
        .hour_counts(hour, hour)
        .await
        .unwrap();
    assert!(!kept[0].sources["stripe-main"].kinds.is_empty());
    world.end().await;
}

#[tokio::test]
async fn an_event_that_waits_for_too_long_is_an_answer_of_its_own() {
    let world = World::start().await;
    world.some_events().await;
    let late = world
        .run(&["inbox", "stats", "--max-lag", "15m", "-q"])
        .await;
    assert_eq!(late.status.code(), Some(5));
    assert!(late.stdout.is_empty(), "{late:?}");
    let said = String::from_utf8(late.stderr).unwrap();
    assert!(
        said.starts_with("error: acme: the oldest waiting event is 40m"),
        "{said}"
    );
    assert!(said.contains("; the limit is 15m [stats.lag]"), "{said}");
    // With `-o json`, the command also prints the rows.
    let rows = world
        .run(&["inbox", "stats", "--max-lag", "15m", "-o", "json"])
        .await;
    assert_eq!(rows.status.code(), Some(5));
    assert!(serde_json::from_slice::<Value>(&rows.stdout).is_ok());
    let fine = world
        .run(&["inbox", "stats", "--max-lag", "2h", "-q"])
        .await;
    assert_eq!((fine.status.code(), fine.stdout.len()), (Some(0), 0));
    for (line, code) in [
        (["--status", "failed"], "stats.selection"),
        (["--since", "120d"], "stats.span"),
        (["--max-lag", "soon"], "usage.span"),
        (["-s", "acm"], "usage.source"),
    ] {
        let refused = world.run(&[&["inbox", "stats"][..], &line].concat()).await;
        assert_eq!(refused.status.code(), Some(2), "{line:?}");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains(code), "{said}");
    }
    world.end().await;
}
