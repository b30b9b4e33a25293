use std::collections::BTreeMap;

use shared::webhook::event::Sha;
use shared::webhook::preset::Location;
use shared::webhook::sign::{
    Algorithm, KeyPair, Means, Original, Receiver, means, outgoing, unsignable,
};
use shared::webhook::verify::{Arrival, Verifier};

use super::*;

const NOW: UnixMillis = UnixMillis(1_795_169_681_000);
const URL: &str = "https://in.example.test/in/s";
const RSA: &str = include_str!("../../../../shared/tests/data/rsa-test-key.pem");

/// Returns every variant of every preset for which `send` can create a webhook.
fn all() -> Vec<(Preset, String, Signer)> {
    let params = BTreeMap::from([
        ("audience".to_owned(), "https://in.example.test".to_owned()),
        ("email".to_owned(), "push@example.test".to_owned()),
        ("api_key".to_owned(), "api-key".to_owned()),
        ("user_id".to_owned(), "user-1".to_owned()),
    ]);
    let mut all = Vec::new();
    for id in Preset::ids() {
        let plain = Preset::embedded(id, &BTreeMap::new()).unwrap();
        let known = |name: &String| plain.params.contains_key(name);
        let params = params.clone().into_iter().filter(|(name, _)| known(name));
        let preset = Preset::embedded(id, &params.collect()).unwrap();
        for scheme in &preset.schemes {
            let signer = match means(scheme) {
                Means::No(_) => continue,
                Means::KeyPair(Algorithm::RsaSha256) => {
                    Signer::KeyPair(KeyPair::from_pem(RSA).unwrap())
                }
                _ => Signer::random(scheme).unwrap(),
            };
            all.push((preset.clone(), scheme.variant.clone(), signer));
        }
    }
    all
}

/// Twilio sends its event types in a form, but one of its variants sends JSON.
fn has_type(preset: &Preset, variant: &str) -> bool {
    let json_of_twilio = preset.id == "twilio" && variant == "json";
    !preset.event.kind.0.is_empty() && !json_of_twilio
}

fn verifier(preset: &Preset, variant: &str, signer: &Signer) -> Verifier {
    let scheme = preset.scheme(variant).unwrap();
    Verifier {
        source: "s".into(),
        preset: preset.clone(),
        variant: variant.into(),
        trust: signer.trusted(scheme).unwrap(),
        config: "c".into(),
    }
}

#[test]
fn what_is_drafted_of_any_preset_is_accepted_and_named_as_it_was_drafted() {
    let mut count = 0;
    for (preset, variant, signer) in all() {
        let name = format!("{} {variant}", preset.id);
        let draft = draft(&preset, &variant, None, None, NOW).unwrap();
        let signed = draft.sign(&preset, &variant, &signer, URL, NOW);
        let signed = signed.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let scheme = preset.scheme(&variant).unwrap();
        let secrets = signer.stored(scheme).unwrap();
        let answer = verifier(&preset, &variant, &signer).verify(&signed.envelope(NOW), &secrets);
        let Ok(Arrival::Event(event)) = answer else {
            panic!("{name}: {answer:?}\n{draft:?}");
        };
        assert_eq!(event.kind(), draft.kind, "{name}");
        assert_eq!(
            !draft.kind.is_empty(),
            has_type(&preset, &variant),
            "{name}"
        );
        let shown = event.items().first().unwrap().id.as_deref();
        if shown.is_some() {
            assert_eq!(shown, Some(draft.id.as_str()), "{name}");
        }
        let key = event.key().id();
        let hashed = ["sha256:", "at:", "h:"].iter().any(|p| key.starts_with(p));
        let hashed = hashed || preset.event.composite.contains(&Location::ItemSha256);
        let hashed = hashed || key.contains(&Sha::of(&signed.body).hex());
        assert!(
            hashed || key.contains(&draft.id) || shown.is_some(),
            "{name}: {key}"
        );
        count += 1;
    }
    assert!(count > 100, "only {count} variants can be sent");
}

/// The receiver has a key of its own, and gets the event hours or weeks after its receipt.
#[test]
fn an_event_of_any_preset_is_accepted_when_it_is_signed_again() {
    let mut count = 0;
    for (preset, variant, provider) in all() {
        let scheme = preset.scheme(&variant).unwrap();
        if unsignable(scheme).is_some() {
            continue;
        }
        let name = format!("{} {variant}", preset.id);
        let draft = draft(&preset, &variant, None, None, NOW).unwrap();
        let received = draft.sign(&preset, &variant, &provider, URL, NOW).unwrap();
        let signer = match means(scheme) {
            Means::KeyPair(Algorithm::RsaSha256) => provider.clone(),
            _ => Signer::random(scheme).unwrap(),
        };
        let envelope = received.envelope(NOW);
        let original = Original {
            id: &draft.id,
            kind: &draft.kind,
            headers: envelope.headers,
            body: envelope.body,
        };
        let receiver = Receiver {
            url: &received
                .url
                .replace("in.example.test/in/s", "app.example.com/hooks"),
            signed_url: None,
        };
        for hours in [0, 2, 20 * 24] {
            let at = UnixMillis(NOW.0 + hours * 3_600_000);
            let again = outgoing(&preset, scheme, &original, &signer.key(), receiver, at);
            let again = Signed::from(again.unwrap_or_else(|error| panic!("{name}: {error:#}")));
            let in_body = scheme.signs_in_body();
            assert!(in_body || again.body == received.body, "{name}");
            let secrets = signer.stored(scheme).unwrap();
            let mut verifier = verifier(&preset, &variant, &signer);
            verifier.trust.public_url = Some("https://app.example.com/hooks".to_owned());
            let answer = verifier.verify(&again.envelope(at), &secrets);
            let Ok(Arrival::Event(event)) = answer else {
                panic!("{name}, after {hours} h: {answer:?}\n{again:?}");
            };
            assert_eq!(event.kind(), draft.kind, "{name}");
        }
        count += 1;
    }
    assert!(count > 100, "only {count} variants can be signed");
}

#[test]
fn an_id_and_a_type_that_are_asked_for_are_those_of_the_event() {
    for (preset, variant, signer) in all() {
        let name = format!("{} {variant}", preset.id);
        let at = &preset.event;
        let fixed = |at: &Location| matches!(at, Location::Const(_));
        // Dropbox Sign has a pattern for its types.
        let fixed = !has_type(&preset, &variant)
            || at.kind.0.iter().any(fixed)
            || preset.id == "dropbox-sign";
        let kind = (!fixed).then_some("asked.for");
        let asked = |id| draft(&preset, &variant, kind, Some(id), NOW);
        let (id, draft) = match asked("asked1") {
            Ok(draft) => ("asked1", draft),
            Err(error) => {
                let error = format!("{error:#}");
                assert!(error.contains("has to match"), "{name}: {error}");
                let id = match preset.id.as_str() {
                    "twilio" => "SMa5ced1",
                    other => {
                        assert_eq!(other, "configcat");
                        "00000000-0000-4000-8000-000000000001"
                    }
                };
                (id, asked(id).unwrap())
            }
        };
        let signed = draft.sign(&preset, &variant, &signer, URL, NOW).unwrap();
        let secrets = signer.stored(preset.scheme(&variant).unwrap()).unwrap();
        let answer = verifier(&preset, &variant, &signer).verify(&signed.envelope(NOW), &secrets);
        let Ok(Arrival::Event(event)) = answer else {
            panic!("{name}: {answer:?}\n{draft:?}");
        };
        if let Some(kind) = kind {
            assert_eq!(event.kind(), kind, "{name}");
        }
        if !at.id.0.is_empty() {
            let shown = event.items().first().unwrap().id.as_deref();
            assert_eq!(shown, Some(id), "{name}\n{draft:?}");
        }
    }
}

#[test]
fn every_sample_is_one_that_its_preset_accepts_and_names() {
    for sample in SAMPLES {
        let preset = Preset::embedded(sample.preset, &BTreeMap::new()).unwrap();
        let signer = Signer::random(preset.scheme("default").unwrap()).unwrap();
        let draft = sample.draft(None, NOW).unwrap();
        let signed = draft.sign(&preset, "default", &signer, URL, NOW).unwrap();
        let secrets = signer.stored(preset.scheme("default").unwrap()).unwrap();
        let verifier = verifier(&preset, "default", &signer);
        match verifier.verify(&signed.envelope(NOW), &secrets).unwrap() {
            Arrival::Event(event) => {
                assert_eq!(event.kind(), sample.kind);
                let key = event.key().id();
                assert!(key.contains(&draft.id) || key.starts_with("h:"), "{key}");
            }
            Arrival::Handshake(_) => assert_eq!(sample.kind, "url_verification"),
        }
    }
}

#[test]
fn no_two_drafts_are_the_same() {
    for (preset, variant, _) in all() {
        let draft = || draft(&preset, &variant, None, None, NOW).unwrap();
        let (one, other) = (draft(), draft());
        assert_ne!(
            (&one.headers, &one.query, &one.body),
            (&other.headers, &other.query, &other.body),
            "{} {variant}",
            preset.id
        );
    }
}
