//! Simulates one year with rows in every state. Mitt keeps each body for as long as it is needed,
//! and all other data expires.
//!
//! Time passes in steps. In each step, the sweep first updates the bodies. Then the test deletes
//! the expired items by their `ttl`, like DynamoDB. It deletes the expired objects by the days in
//! their tag, like the lifecycle rules of the bucket. No worker settles the open events.

use std::collections::BTreeMap;
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{
    By, FoundBy, MissingBody, Received, Settlement, transition::WORK_SHARDS,
};
use shared::inbox::rejected::{NewRejection, RejectedRequests, StoreResult};
use shared::sources::Config;
use shared::webhook::envelope::Envelope;
use shared::webhook::event::{Event, EventKey, Via};
use shared::webhook::verify::Reason;

use crate::support::{
    ATTEMPTS, NOW, Table, after, dead, event_with, noise, number, retry_at, text,
};

const BY: By<'static> = By {
    who: "anna",
    why: "both are genuine",
};

/// The sizes of a body in the state row, a body in a separate row, and a body in the bucket.
const SIZES: [usize; 3] = [100, 3_000, 40_000];

const OPEN: [&str; 3] = ["received", "processing", "failed"];

fn day(days: u64) -> UnixMillis {
    NOW + Duration::from_secs(days * 24 * 3600)
}

struct World {
    table: Table,
    /// The creation time of each object.
    objects: BTreeMap<String, UnixMillis>,
    /// The bodies that must be readable, with their bytes.
    bodies: BTreeMap<EventKey, Vec<u8>>,
}

impl World {
    fn event(&mut self, state: &str, size: usize) -> Event {
        let event = event_with(&format!("{state}-{size}"), Via::Webhook, noise(size));
        let body = event.body().to_vec();
        self.bodies.insert(event.key().clone(), body);
        event
    }

    /// Creates an event in this state.
    async fn bring(&mut self, state: &str, size: usize) -> EventKey {
        let event = self.event(state, size);
        let key = self.table.receive(&event).await;
        let table = &self.table;
        match state {
            "processing" => drop(table.lease(&key, NOW).await),
            "failed" | "done" | "dead_letter" => {
                let lease = table.lease(&key, NOW).await;
                let settlement = match state {
                    "failed" => retry_at(after(60_000)),
                    "done" => Settlement::Done,
                    _ => dead(),
                };
                table.settle(lease, settlement).await;
            }
            _ => {}
        }
        key
    }

    /// Creates a quarantined event, which has another body under the id of an event.
    async fn quarantine(&mut self, state: &str, size: usize) -> EventKey {
        self.table
            .receive(&event_with(state, Via::Webhook, "{}"))
            .await;
        let other = event_with(state, Via::Webhook, noise(size));
        let received = self.table.ledger.receive(&other, NOW).await.unwrap();
        let Received::Conflict(key) = received else {
            panic!("{received:?}");
        };
        self.bodies.insert(key.clone(), other.body().to_vec());
        key
    }

    /// Runs the sweep, which updates rows and bodies. No worker receives the messages.
    async fn sweep(&self, now: UnixMillis) {
        let ledger = &self.table.ledger;
        for shard in 0..WORK_SHARDS {
            for (key, seen) in ledger.sweep().due(shard, now, 500).await.unwrap() {
                ledger
                    .sweep()
                    .sweep_one(&key, seen, ATTEMPTS, true, now)
                    .await
                    .unwrap();
            }
        }
        ledger.hold_dead_letters(now).await.unwrap();
    }

    /// Deletes the expired items and objects.
    async fn expire(&mut self, now: UnixMillis) {
        for item in self.table.all().await {
            if item.contains_key("ttl") && number(&item, "ttl") <= now.secs() {
                let (pk, sk) = (text(&item, "pk"), text(&item, "sk"));
                self.table.delete(&pk, &sk).await;
            }
        }
        let (s3, bucket) = self.table.bucket.clone().unwrap();
        let listed = s3.list_objects_v2().bucket(&bucket).send().await.unwrap();
        for object in listed.contents() {
            let key = object.key().unwrap();
            let made = *self.objects.entry(key.to_owned()).or_insert(now);
            let tags = s3.get_object_tagging().bucket(&bucket).key(key);
            let tags = tags.send().await.unwrap();
            // No lifecycle rule of the bucket matches the tag `open`.
            let days = tags.tag_set()[0].value().parse::<u64>();
            if days.is_ok_and(|days| now.since(made).as_secs() >= days * 24 * 3600) {
                let delete = s3.delete_object().bucket(&bucket).key(key);
                delete.send().await.unwrap();
            }
        }
    }

    async fn pass(&mut self, days: impl Iterator<Item = u64>) {
        for days in days {
            self.sweep(day(days)).await;
            self.expire(day(days)).await;
        }
    }

    async fn keeps(&self, key: &EventKey, when: &str) {
        let body = self.table.body(key).await;
        assert_eq!(body.as_ref(), Ok(&self.bodies[key]), "{key} {when}");
    }

    /// Checks that an event that is done expires like any other event.
    async fn expires(&self, key: &EventKey, size: usize, when: &str) {
        let row = self.table.ledger.event(key).await.unwrap();
        // A body in the row exists as long as the row.
        let expected = match (when, size) {
            ("after 30 days", 100) => Ok(self.bodies[key].clone()),
            _ => Err(MissingBody::Gone),
        };
        assert_eq!(row.is_some(), when == "after 30 days", "{key} {when}");
        if row.is_some() {
            assert_eq!(self.table.body(key).await, expected, "{key} {when}");
        }
    }

    /// Releases events after a year. Each event is processed with its body, and then expires like
    /// any other event.
    async fn decide_late(&mut self, waiting: &[EventKey]) {
        let (ledger, late) = (self.table.ledger.clone(), day(371));
        for key in waiting {
            let decided = ledger.release(key, BY, late).await.unwrap();
            assert!(decided.work_message().is_some(), "{key}: {decided:?}");
            self.keeps(key, "when it is released").await;
            let lease = self.table.lease(key, late).await;
            let settled = ledger.settle(lease, Settlement::Done, &[], late).await;
            settled.unwrap();
        }
        self.pass([400, 465, 500].into_iter()).await;
        for key in waiting {
            assert!(ledger.event(key).await.unwrap().is_none(), "{key} expires");
        }
    }
}

/// Stores a rejected request. Returns the number of stored items.
async fn reject(table: &Table) -> usize {
    let config = "schema = 1\n[[source]]\nname = \"stripe-main\"\npreset = \"stripe\"\n\
                  action = [{ kind = \"keep\" }]";
    let config = Config::parse(config).unwrap();
    let envelope = Envelope {
        method: "POST".into(),
        url: "https://hooks.example.test/in/stripe-main".into(),
        headers: std::iter::empty::<(&str, &str)>().collect(),
        body: "{}".into(),
        received_at: NOW,
    };
    let refused = NewRejection {
        source: config.source("stripe-main").unwrap(),
        envelope: &envelope,
        reason: Reason::BadSignature,
        route: None,
        secrets: &[],
    };
    let quarantine = RejectedRequests::new(table.db.clone(), &table.name);
    let kept = quarantine
        .store(&refused, NOW, Duration::from_secs(30))
        .await;
    assert!(matches!(kept, Ok(StoreResult::Stored(_))), "{kept:?}");
    rejected(table).await
}

async fn rejected(table: &Table) -> usize {
    let all = table.all().await;
    let requests = all.iter().filter(|item| item.contains_key("why"));
    requests.count()
}

#[tokio::test]
async fn nothing_that_needs_its_body_loses_it_in_a_year() {
    let mut world = World {
        table: Table::with_bucket().await,
        objects: BTreeMap::new(),
        bodies: BTreeMap::new(),
    };
    let (mut stay, mut done, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    for size in SIZES {
        for state in OPEN {
            stay.push(world.bring(state, size).await);
        }
        stay.push(world.bring("dead_letter", size).await);
        done.push(world.bring("done", size).await);
        waiting.push(world.quarantine(&format!("waiting-{size}"), size).await);
        let discarded = world.quarantine(&format!("discarded-{size}"), size).await;
        world
            .table
            .ledger
            .discard(&discarded, BY, NOW)
            .await
            .unwrap();
        stay.push(discarded);
    }
    assert_eq!(reject(&world.table).await, 1);
    // The body is in the bucket, and its event is in the spill queue for as long as the queue keeps
    // messages.
    let spilled = world.event("spilled", 40_000);
    let placed = world.table.ledger.store_body(&spilled).await.unwrap();

    world.expire(NOW).await;
    world.pass(1..=14).await;
    assert_eq!(rejected(&world.table).await, 0, "kept for a week");
    let ledger = world.table.ledger.clone();
    let received = ledger.receive_stored(&spilled, &placed, FoundBy::WorkIndex, day(14));
    assert_eq!(received.await.unwrap(), Received::New);
    stay.push(spilled.key().clone());

    let spans: [(&str, Vec<u64>); 3] = [
        ("after 30 days", (15..=31).collect()),
        ("after 90 days", (32..=92).step_by(5).collect()),
        ("after 365 days", (100..=370).step_by(15).collect()),
    ];
    for (when, days) in spans {
        world.pass(days.into_iter()).await;
        for key in stay.iter().chain(&waiting) {
            world.keeps(key, when).await;
        }
        for (key, size) in done.iter().zip(SIZES) {
            world.expires(key, size, when).await;
        }
    }

    world.decide_late(&waiting).await;
    for key in &stay {
        world.keeps(key, "at the end").await;
    }
    let bodies = world.table.all().await;
    let bodies = bodies
        .iter()
        .filter(|item| text(item, "sk").starts_with("B#"));
    let open = stay.iter().filter(|key| key.id().contains("-3000"));
    assert_eq!(bodies.count(), open.count(), "no body outlives its event");
}
