//! Events that wait for a worker, as the commands of an operator show them.

use std::time::Duration;

use anyhow::bail;
use shared::inbox::ledger::{Claim, Settlement};
use shared::webhook::event::{Event, EventKey, Fetched, Via};

use crate::support::world::World;

const SOURCES: &str = r#"
schema = 1
[[source]]
name = "stripe-main"
preset = "stripe"
action = [{ kind = "pull", queue = "triage" }]
"#;

impl World {
    /// Stores an event that waits for a worker.
    async fn parked(&self, id: &str) -> anyhow::Result<EventKey> {
        let event = Event::fetched(Fetched {
            source: "stripe-main",
            provider: "stripe",
            preset: "stripe",
            id,
            kind: "invoice.paid",
            body: "{}".into(),
            now: self.now,
            via: Via::Webhook,
            config: "0123456789ab",
        });
        self.ledger.receive(&event, self.now).await?;
        let lease = Duration::from_secs(35);
        let claim = self
            .ledger
            .claim(event.key(), "worker", self.now, lease, 10);
        let Claim::Leased(lease) = claim.await? else {
            bail!("{id} is free")
        };
        let queue = "triage".to_owned();
        let parked = Settlement::Parked { queue };
        self.ledger.settle(*lease, parked, &[], self.now).await?;
        Ok(event.key().clone())
    }
}

#[tokio::test]
async fn an_event_that_waits_for_a_worker_is_listed() -> anyhow::Result<()> {
    let world = World::start("queues", SOURCES)?;
    world.parked("evt_1").await?;
    let listed = world.json(&["inbox", "list", "--status", "received"])?;
    let events = listed["items"].as_array().map_or(0, Vec::len);
    assert_eq!(events, 1, "{listed}");

    let shown = world.json(&["inbox", "inspect", "stripe-main:evt_1"])?;
    assert_eq!(shown["queue"], "triage", "{shown}");
    let text = world.text(&["inbox", "inspect", "stripe-main:evt_1"])?;
    for part in [
        "status         received · waiting for a worker of triage\n",
        "next_action    wait, a worker of triage takes it\n",
    ] {
        assert!(text.contains(part), "{text}");
    }

    let show = world.text(&["sources", "show", "stripe-main"])?;
    assert!(show.contains(" 1 open"), "{show}");
    let stats = world.json(&["inbox", "stats"])?;
    assert!(stats["items"][0]["oldest_open_at"].is_string(), "{stats}");
    Ok(())
}
