//! What genuine events lack, as the functions warn about it.

use std::collections::{BTreeMap, BTreeSet};

use shared::sources::ordering::{Mode, Order, Stored};
use shared::webhook::missing::{MissingPath, PathUse};
use shared::webhook::preset::Preset;
use shared::webhook::verify::{Arrival, Verifier};

use super::{committed, each_event_of, envelope, secrets, text, verifier};

/// The values that the documentation of the provider has, but that the shortened bodies of the
/// vectors lack.
const SHORTENED: &[(&str, PathUse)] = &[
    ("airwallex", PathUse::Order),
    ("azure-devops", PathUse::Id),
    ("checkr", PathUse::Order),
    ("close", PathUse::Order),
    ("docusign", PathUse::Id),
    ("duffel", PathUse::Order),
    ("dwolla", PathUse::Order),
    ("easypost", PathUse::Order),
    ("fourthwall", PathUse::Order),
    ("fusionauth", PathUse::Order),
    ("heroku", PathUse::Order),
    ("huggingface", PathUse::Order),
    ("lob", PathUse::Order),
    ("pipedrive", PathUse::Id),
    ("pipedrive", PathUse::Order),
    ("recurly", PathUse::Id),
    ("revenuecat", PathUse::Order),
    ("shippo", PathUse::Order),
    ("tally", PathUse::Order),
    ("vapi", PathUse::Order),
];

/// Events of providers have what their presets say, so no operator is told otherwise.
#[test]
fn no_genuine_event_lacks_a_path_of_its_preset() {
    let (mut lacking, mut shortened) = (BTreeSet::new(), BTreeSet::new());
    // The bodies of other files can be cut, so that they lack more.
    each_event_of(&committed(), |id, vector, verifier, envelope, event| {
        // The other requests show a signature of bytes that are no event of the provider.
        let expected = &vector["expect"];
        if text(&expected["verdict"]) == "policy" || expected["event"].is_null() {
            return;
        }
        let preset = &verifier.preset;
        let missing = event.missing().iter().map(|missing| missing.used_for);
        let mut missing: Vec<PathUse> = missing.collect();
        if let Some(order) = &preset.order {
            let entity = Order {
                mode: Mode::Strict,
                at: order.clone(),
                batch: preset.event.batch.clone(),
            };
            let headers = envelope.headers.iter();
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let headers = headers.collect();
            let stored = Stored {
                headers: &headers,
                content_type: envelope.headers.one("content-type").ok().flatten(),
                body: event.body(),
            };
            let has_entity = entity.has_entity(stored);
            if !has_entity && !preset.event.is_optional(PathUse::Order) {
                missing.push(PathUse::Order);
            }
        }
        for used_for in missing {
            let known = SHORTENED
                .iter()
                .find(|it| **it == (preset.id.as_str(), used_for));
            match known {
                Some(known) => shortened.insert(*known),
                None => lacking.insert(format!("{id} lacks its {used_for}")),
            };
        }
    });
    assert_eq!(lacking, BTreeSet::new());
    assert_eq!(shortened, SHORTENED.iter().copied().collect());
}

#[test]
fn a_preset_for_older_events_lacks_the_id_of_new_ones() {
    let preset = include_str!("../../presets/fireflies.toml");
    let preset = preset
        .replace("first:json:meeting_id|json:meetingId", "json:meetingId")
        .replace("first:json:event|json:eventType", "json:eventType")
        .replace(
            r#"type = ["json:event", "json:eventType"]"#,
            r#"type = ["json:eventType"]"#,
        );
    let file = committed();
    let mut vectors = file["vectors"].as_array().unwrap().iter();
    let vector = vectors.find(|vector| vector["id"] == "fireflies/valid-v2#2s");
    let vector = vector.unwrap();
    let verifier = Verifier {
        preset: Preset::parse(&preset, &BTreeMap::new()).unwrap(),
        ..verifier(vector).unwrap()
    };
    let answer = verifier.verify(&envelope(vector, false), &secrets(vector));
    let Ok(Arrival::Event(event)) = answer else {
        panic!("{answer:?}");
    };
    let lacks = |used_for, path: &str| MissingPath::new(used_for, path);
    assert_eq!(
        event.missing(),
        [
            lacks(PathUse::Id, "json:meetingId, json:eventType"),
            lacks(PathUse::Type, "json:eventType"),
        ]
    );
}
