//! `hold approve` and `hold reject` for a policy with `approvers`: the API of the stack decides who may.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::support::world::World;

const SOURCES: &str = r#"
schema = 1

[[source]]
name = "shop"
preset = "stripe"

[[source.action]]
kind = "pull"
queue = "refunds"
workers = ["arn:aws:iam::000000000000:role/agent"]

[[source.policy]]
name = "each"
decide = "hold"
approvers = ["arn:aws:iam::000000000000:role/oncall"]
"#;

const PATIENCE: Duration = Duration::from_secs(60);

impl World {
    /// Sends an event that is held. Returns its id and the id of the hold.
    fn send_held(&self) -> anyhow::Result<(String, String)> {
        let sent = self.json(&["send", "shop"])?;
        let id = sent["id"].as_str().context("an id")?.to_owned();
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(shown) = self.json(&["hold", "show", &id]) {
                let hold = shown["hold"].as_str().context("a hold")?.to_owned();
                return Ok((id, hold));
            }
            ensure!(Instant::now() < deadline, "the event is not held");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn the_api_decides_who_may_approve() -> anyhow::Result<()> {
    let world = World::start("approvers", SOURCES)?;
    let (id, hold) = world.send_held()?;
    let asked = [
        "hold",
        "approve",
        &id,
        "-m",
        "the customer called",
        "--confirm",
        &hold,
    ];
    for role in ["agent", "someone"] {
        let refused = world.error(&[&asked[..], &["--as", role]].concat())?;
        assert_eq!(refused, (4, "work.not_allowed".to_owned()), "{role}");
    }
    let approved = world.json(&[&asked[..], &["--as", "oncall"]].concat())?;
    assert_eq!(approved["status"], "received");
    let by = approved["by"].as_str().context("an ARN")?;
    assert!(by.contains("role/oncall"), "{by}");
    let log = world.json(&["log"])?;
    let entry = &log["items"][0];
    assert_eq!(
        (&entry["what"], &entry["by"]),
        (&"hold.approve".into(), &by.into())
    );
    assert_eq!(entry["through"], "api");

    let (id, _) = world.send_held()?;
    let rejected = ["hold", "reject", &id, "-m", "a mistake", "--as", "oncall"];
    assert_eq!(world.json(&rejected)?["status"], "dead_letter");
    assert_eq!(world.error(&rejected)?.1, "hold.not_held");
    Ok(())
}
