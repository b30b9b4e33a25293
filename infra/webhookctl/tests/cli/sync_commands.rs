//! `webhookctl sync` and the sync fields of `sources show`, as a user runs them. The test writes
//! the ledger of the stack with the library.

use std::time::Duration;

use crate::support::world::World;
use anyhow::{Context, ensure};
use serde_json::Value;
use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;
use shared::delivery::breaker::{Breakers, CallResult};
use shared::inbox::ledger::Lost;
use shared::monitoring::coverage::Comparison;
use shared::monitoring::coverage::{Piece, Sighting, Tally, Window};
use shared::monitoring::silence::ArrivalGaps;
use shared::webhook::event::{Event, EventKey, Fetched, Via};

const SOURCES: &str = r#"
schema = 1
[[source]]
name = "stripe-main"
preset = "stripe"
action = [{ kind = "keep" }]
[source.sync]

[[source]]
name = "acme"
preset = "standard-webhooks"
action = [{ kind = "keep" }]
"#;

fn start(name: &str) -> anyhow::Result<World> {
    World::start(name, SOURCES)
}

impl World {
    fn items(&self, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
        let output = self.run(&[arguments, &["-o", "json"]].concat())?;
        ensure!(output.status.success(), "{output:?}");
        let document: Value = serde_json::from_slice(&output.stdout)?;
        let schema = format!("webhookctl/{}/v1", arguments.join("."));
        ensure!(
            document["schema"] == schema || arguments.len() > 2,
            "{document}"
        );
        Ok(document["items"].as_array().context("items")?.clone())
    }

    /// The time is yesterday, so that no test crosses midnight.
    fn yesterday(&self, seconds: u64) -> UnixMillis {
        Day::of(self.now).before(1).begins() + Duration::from_secs(seconds)
    }

    /// Stores four events of yesterday. Two arrived by webhook. Only the sync found the other two,
    /// and the webhook of one of them arrived twelve minutes later.
    async fn yesterdays_events(&self) -> anyhow::Result<()> {
        let day = Day::of(self.yesterday(0));
        let mut tally = Tally::new(Window {
            from: day.begins(),
            to: day.begins() + Duration::from_secs(6 * 3600),
        });
        for (id, via) in [
            ("evt_1", Via::Webhook),
            ("evt_2", Via::Webhook),
            ("evt_missed", Via::BackupSync),
            ("evt_late", Via::BackupSync),
        ] {
            let happened = self.yesterday(3600);
            let late = if via == Via::Webhook { 2 } else { 1140 };
            let event = event(id, via, happened + Duration::from_secs(late));
            self.ledger.receive(&event, event.received_at()).await?;
            let seen = self
                .ledger
                .seen(event.key())
                .await?
                .context("the row exists")?;
            tally.saw(Sighting {
                id: id.to_owned(),
                kind: "invoice.paid".to_owned(),
                happened,
                webhook: seen.by_webhook(),
                kept: seen.received_at,
            });
        }
        let add = async |counted| {
            let piece: Piece = tally.piece(day, counted)?;
            Some((piece, Comparison { done: true }))
        };
        self.ledger
            .statistics()
            .count_day("stripe-main", day, add)
            .await?;
        let webhook = event("evt_late", Via::Webhook, self.yesterday(3600 + 1140 + 720));
        self.ledger.receive(&webhook, webhook.received_at()).await?;
        Ok(())
    }
}

fn event(id: &str, via: Via, at: UnixMillis) -> Event {
    Event::fetched(Fetched {
        source: "stripe-main",
        provider: "stripe",
        preset: "stripe",
        id,
        kind: "invoice.paid",
        body: format!(r#"{{"id":"{id}"}}"#).into(),
        now: at,
        via,
        config: "test",
    })
}

#[tokio::test]
async fn coverage_counts_what_it_has_seen_and_claims_nothing_else() -> anyhow::Result<()> {
    let world = start("coverage-command")?;
    let empty = world.items(&["sync", "coverage"])?;
    assert_eq!(
        empty.len(),
        1 + 8,
        "a row of acme, and eight days of stripe-main"
    );
    for row in &empty {
        assert!(row["miss_rate_percent"].is_null(), "{row}");
        let note = row["note"].as_str().context("the row has a reason")?;
        assert!(note.starts_with("no data"), "{row}");
    }
    assert!(!world.text(&["sync", "coverage"])?.contains('%'));

    world.yesterdays_events().await?;
    let rows = world.items(&["sync", "coverage"])?;
    let counted: Vec<&Value> = rows.iter().filter(|row| !row["seen"].is_null()).collect();
    assert_eq!(counted.len(), 1);
    let row = counted[0];
    for (name, expected) in [
        ("counted_minutes", 360),
        ("seen", 4),
        ("webhook_only", 0),
        ("both", 2),
        ("sync_only", 2),
        ("came_since", 1),
        ("miss_rate_percent", 50),
    ] {
        assert_eq!(
            row[name].as_f64(),
            Some(f64::from(expected)),
            "{name}: {row}"
        );
    }
    assert_eq!(row["webhook_delay_s"]["max"], 2);
    assert_eq!(row["sync_delay_s"]["p50"], 1140);
    let text = world.text(&["sync", "coverage", "-s", "stripe-main"])?;
    assert!(
        text.contains("50.0 %") && text.contains("no data"),
        "{text}"
    );
    assert!(
        text.contains("2 of 4 events did not arrive by webhook"),
        "{text}"
    );
    Ok(())
}

#[tokio::test]
async fn status_says_that_missed_events_are_stored_and_which_destination_is_not_called()
-> anyhow::Result<()> {
    let forward = r#"kind = "http", url = "https://hooks.acme.example/in", secret = "acme-route""#;
    let hosts = "schema = 1\nforward.allow_hosts = [\"hooks.acme.example\"]\n";
    let sources = SOURCES.replace("kind = \"keep\"", forward);
    let sources = sources.replace("schema = 1\n", hosts);
    let world = World::start("status-command", &sources)?;
    world.yesterdays_events().await?;
    let breakers = Breakers::beside(&world.ledger);
    let destination = "hooks.acme.example";
    for _ in 0..20 {
        let pass = breakers.pass(destination, world.now).await;
        let heard = CallResult::Failure;
        let told = breakers.heard(destination, pass, heard, world.now, 1.0);
        told.await;
    }
    let output = world.run(&["status"])?;
    let text = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(5), "{text}");
    for said in [
        "no webhook arrived, but the sync stored them: 2 of 4 events (50.0 %)",
        "hooks.acme.example is not called (2 sources); tested again in ",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn gaps_are_named_with_what_became_of_them() -> anyhow::Result<()> {
    let world = start("gaps-command")?;
    let none = world.text(&["sync", "gaps"])?;
    assert!(none.contains("No known gaps"), "{none}");

    world.yesterdays_events().await?;
    let lost = Lost {
        from: world.yesterday(0) - Duration::from_secs(3 * 86_400),
        to: world.yesterday(0) - Duration::from_secs(2 * 86_400),
        noted: world.now,
    };
    world.ledger.sync().note_lost("stripe-main", lost).await?;
    let rows = world.items(&["sync", "gaps"])?;
    assert_eq!(rows.len(), 3, "{rows:?}");
    let of = |id: &str| rows.iter().find(|row| row["event_id"] == id);
    let missed = of("evt_missed").context("the event is listed")?;
    assert_eq!(
        (&missed["late_s"], &missed["webhook_at"]),
        (&1140.into(), &Value::Null)
    );
    assert!(missed["status"].is_string(), "{missed}");
    let late = of("evt_late").context("the event is listed")?;
    assert!(late["webhook_at"].is_string(), "{late}");
    assert_eq!(rows[2]["kind"], "unreachable", "the oldest is the last");
    let text = world.text(&["sync", "gaps"])?;
    for said in [
        "never",
        "12m later",
        "cannot be listed",
        "2 missed events since",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let ids = world.text(&["sync", "gaps", "-o", "ids", "-q"])?;
    assert!(ids.contains("evt_missed"), "{ids}");
    // The id in the row finds the event.
    let shown = world.text(&["inbox", "inspect", "stripe-main:evt_late", "--full"])?;
    assert!(
        shown.contains("also seen via webhook, 12m later"),
        "{shown}"
    );

    let wrong = world.run(&["sync", "gaps", "-s", "stripe-mian"])?;
    assert_eq!(wrong.status.code(), Some(2));
    let wrong = world.run(&["sync", "gaps", "--since", "1h", "--until", "2h"])?;
    assert_eq!(wrong.status.code(), Some(2));
    Ok(())
}

#[tokio::test]
async fn status_says_where_each_sync_stands_and_who_is_silent() -> anyhow::Result<()> {
    let world = start("status-command")?;
    let of = |name: &str| -> anyhow::Result<Value> {
        let rows = world.items(&["sync", "status"])?;
        let row = rows.into_iter().find(|row| row["source"] == name);
        row.context("the source is listed")
    };
    assert_eq!(of("acme")?["state"], "no sync");
    let before = of("stripe-main")?;
    ensure!(before["state"] == "never ran", "{before}");

    let lease = world
        .ledger
        .sync()
        .sync_lease(
            "stripe-main",
            "backup-sync/1",
            world.now,
            Duration::from_secs(300),
        )
        .await?
        .context("the lease is free")?;
    let running = of("stripe-main")?;
    assert_eq!(
        (&running["state"], &running["lease"]["expired"]),
        (&"running".into(), &false.into())
    );
    let started = world.now - Duration::from_secs(840);
    world
        .ledger
        .sync()
        .sync_advance(lease, started, world.now)
        .await?;
    let done = of("stripe-main")?;
    assert_eq!(done["state"], "ok", "{done}");
    let lag = done["lag_s"].as_u64().context("a number")?;
    assert!((840..900).contains(&lag), "{done}");

    // The last event of acme arrived 36 minutes ago, and the usual interval is four minutes.
    let rhythm = ArrivalGaps {
        last: Some(world.now - Duration::from_secs(36 * 60)),
        looked: Some(world.now),
        gaps: vec![240; 20],
    };
    world
        .ledger
        .statistics()
        .keep_rhythm("acme", None, &rhythm)
        .await?;
    let acme = of("acme")?;
    assert_eq!(acme["note"], "silent 36m, usually every 4m");
    assert_eq!(acme["silence"]["silent_s"], 36 * 60);
    let shown = world.text(&["sources", "show", "acme"])?;
    assert!(shown.contains("silent 36m, usually every 4m"), "{shown}");
    assert!(shown.contains("every 4m; silent after 10m"), "{shown}");
    assert!(shown.contains("up to 3d03h loses no events"), "{shown}");
    Ok(())
}

#[tokio::test]
async fn a_source_says_what_its_sync_has_missed_and_which_outage_it_survives() -> anyhow::Result<()>
{
    let world = start("show-command")?;
    world.yesterdays_events().await?;
    let shown = world.text(&["sources", "show", "stripe-main"])?;
    for said in [
        "since yesterday 2 of 4 events missed by webhook: 50.0 %",
        "up to 29d23h",
        "Stripe retries for 3d",
        "while the sync runs, an outage of only the endpoint loses no events",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    let key = EventKey::new("stripe-main", "evt_late");
    let row = world.ledger.event(&key).await?.context("the row exists")?;
    assert_eq!(row.also.len(), 1);
    Ok(())
}
