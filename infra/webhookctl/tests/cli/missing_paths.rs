//! A provider has changed its events: commands name the location, the preset and the documentation.

use crate::support::folder::told;
use crate::support::world::World;

/// A source with the locations of the provider's older events.
const SOURCES: &str = r#"schema = 1
[[source]]
name = "meetings"
preset = "generic-hmac"
params = { id = "json:meetingId", type = "json:eventType" }
[[source.action]]
kind = "keep"

[[source]]
name = "others"
preset = "generic-hmac"
[[source.action]]
kind = "keep"
"#;

#[test]
fn commands_name_what_events_lack() -> anyhow::Result<()> {
    let world = World::start("missing-paths", SOURCES)?;
    let old = r#"{"meetingId":"m1","eventType":"done"}"#;
    world.json(&["send", "meetings", "--data", old, "--wait"])?;
    let before = world.json(&["sources", "list"])?;
    assert!(before["items"][0]["note"].is_null(), "{before}");

    let new = r#"{"meeting_id":"m1","event":"done"}"#;
    world.json(&["send", "meetings", "--data", new, "--wait"])?;
    world.json(&["send", "others", "--data", new, "--wait"])?;
    let status = world.run(&["status", "-s", "meetings", "-o", "json"])?;
    assert_eq!(status.status.code(), Some(5), "{}", told(&status));
    let status: serde_json::Value = serde_json::from_slice(&status.stdout)?;
    let items = status["items"].as_array().expect("items are a list");
    let texts: Vec<&str> = items
        .iter()
        .filter_map(|item| item["text"].as_str())
        .collect();
    let [id, kind] = texts.as_slice() else {
        panic!("{status}");
    };
    assert!(id.contains("has no id at json:meetingId"), "{id}");
    assert!(kind.contains("has no type at json:eventType"), "{kind}");
    for (item, text) in items.iter().zip(&texts) {
        assert_eq!(item["code"], "path_missing");
        assert_eq!(item["severity"], "warn");
        assert_eq!(item["count"], 1);
        assert_eq!(item["command"], "webhookctl sources show meetings");
        assert!(text.contains("preset generic-hmac (checked 20"), "{text}");
        assert!(text.contains("with https://"), "{text}");
    }
    let others = world.run(&["status", "-s", "others"])?;
    assert!(!told(&others).contains("missing"), "{}", told(&others));

    for line in [&["sources", "list"][..], &["sources", "show", "meetings"]] {
        let said = told(&world.run(line)?);
        assert!(said.contains("2 paths missing"), "{line:?}: {said}");
    }
    let doctor = told(&world.run(&["doctor", "--only", "source.paths"])?);
    assert!(doctor.contains("meetings"), "{doctor}");
    assert!(doctor.contains("json:meetingId"), "{doctor}");
    Ok(())
}
