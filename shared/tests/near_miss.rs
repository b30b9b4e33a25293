//! Checks which cause Mitt names for a rejection, and when it names no cause.

#![expect(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::collections::BTreeMap;

use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::Preset;
use shared::webhook::sign::signed;
use shared::webhook::verify::{Compared, NearMiss, Of, Other, Trust, Verifier};

const AT: UnixMillis = UnixMillis(1_795_169_681_000);

fn verifier(preset: &str) -> Verifier {
    Verifier {
        source: "orders".into(),
        preset: Preset::embedded(preset, &BTreeMap::new()).unwrap(),
        variant: "default".into(),
        trust: Trust::default(),
        config: "test".into(),
    }
}

fn sent(verifier: &Verifier, secret: &str, body: &str) -> Envelope {
    let scheme = verifier.preset.scheme("default").unwrap();
    let envelope = Envelope {
        method: "POST".into(),
        url: "https://hooks.example.test/in/orders".into(),
        headers: [("webhook-id", "msg_1")].into_iter().collect(),
        body: body.to_owned().into(),
        received_at: AT,
    };
    signed(scheme, &Secret::new("sender", secret), envelope, AT).unwrap()
}

fn near(
    verifier: &Verifier,
    envelope: &Envelope,
    ours: &str,
    others: &[Other],
) -> Option<NearMiss> {
    verifier.near_miss(envelope, &[Secret::new("current.1", ours)], others)
}

fn other(of: Of, value: &str) -> Other {
    Other {
        of,
        secret: Secret::new("other", value),
    }
}

#[test]
fn our_own_secrets_come_before_those_of_others() {
    for preset in ["github", "stripe", "shopify"] {
        let verifier = verifier(preset);
        let envelope = sent(&verifier, "signing", "{}");
        let theirs = other(Of::Source("stripe-test".into()), "signing");
        let unknown = other(Of::Unused("stray".into()), "signing");
        let ours = other(Of::Itself, "signing");
        let found = |others: &[Other]| near(&verifier, &envelope, "stored", others).unwrap();
        let first = found(&[unknown.clone(), theirs.clone(), ours]);
        assert_eq!(first.cause, "other_secret");
        assert_eq!(first.secret.as_deref(), Some("other"));
        let second = found(&[theirs]);
        assert!(
            second
                .text
                .starts_with("the request is signed for stripe-test"),
            "{second:?}"
        );
        let third = found(&[unknown]);
        assert!(third.text.contains("stored as stray"), "{third:?}");
    }
}

#[test]
fn nothing_is_named_for_what_is_accepted_or_forged() {
    for preset in [
        "github",
        "stripe",
        "twilio",
        "standard-webhooks",
        "hubspot",
        "adyen",
    ] {
        let verifier = verifier(preset);
        let body = match preset {
            "adyen" => r#"{"notificationItems":[{"NotificationRequestItem":{"eventCode":"A"}}]}"#,
            _ => "{\"a\": [1, \"é/\"]}\n",
        };
        let (ours, forged) = ("6d697474", "6d697475");
        let good = sent(&verifier, ours, body);
        assert_eq!(near(&verifier, &good, ours, &[]), None, "{preset}");
        assert_eq!(near(&verifier, &good, forged, &[]), None, "{preset}");
    }
}

#[test]
fn what_is_only_late_has_no_other_cause() {
    for preset in ["stripe", "slack", "standard-webhooks"] {
        let verifier = verifier(preset);
        let mut late = sent(&verifier, "6d697474", "{}");
        late.received_at = AT + std::time::Duration::from_secs(3600);
        let same = other(Of::Source("another".into()), "6d697474");
        assert_eq!(
            near(&verifier, &late, "6d697474", &[same]),
            None,
            "{preset}"
        );
    }
}

/// The secret is wrong and the request is late. Mitt reports the wrong secret first.
#[test]
fn a_late_request_of_another_source_is_known_as_theirs() {
    let verifier = verifier("stripe");
    let mut late = sent(&verifier, "signing", "{}");
    late.received_at = AT + std::time::Duration::from_secs(3600);
    let theirs = other(Of::Source("stripe-test".into()), "signing");
    let found = near(&verifier, &late, "stored", &[theirs]).unwrap();
    assert_eq!(found.cause, "other_source");
}

#[test]
fn a_body_that_would_grow_without_bound_is_left_alone() {
    let verifier = verifier("github");
    let deep = format!("{}{}{}", "[".repeat(120), "1,".repeat(60_000), "1");
    let body = format!("{deep}{}", "]".repeat(120));
    let mut envelope = sent(&verifier, "signing", &body);
    envelope.body = body.replacen('1', "2", 1).into();
    assert_eq!(near(&verifier, &envelope, "signing", &[]), None);
}

/// Two groups of signatures are valid. The group in the time window decides the verdict, and the
/// steps show this group.
#[test]
fn the_steps_are_about_the_signatures_that_decide() {
    let verifier = verifier("persona");
    let now = sent(&verifier, "signing", "{}");
    let early = {
        let scheme = verifier.preset.scheme("default").unwrap();
        let secret = Secret::new("sender", "signing");
        let long_ago = AT - std::time::Duration::from_secs(7200);
        let mut bare = now.clone();
        bare.headers = [("webhook-id", "msg_1")].into_iter().collect();
        signed(scheme, &secret, bare, long_ago).unwrap()
    };
    let group = |envelope: &Envelope| {
        let value = envelope.headers.one("persona-signature");
        value.unwrap().unwrap().to_owned()
    };
    let both = format!("{} {}", group(&early), group(&now));
    let mut envelope = now.clone();
    envelope.headers = [("persona-signature", both.as_str())].into_iter().collect();
    let explained = verifier.explain(&envelope, &[Secret::new("current.1", "signing")]);
    assert!(explained.verdict.is_ok());
    let steps = explained.steps;
    assert_eq!(steps.found.unwrap().len(), 2);
    let time = steps.time.unwrap();
    assert_eq!((time.age, time.verdict), (Some(0), Ok(())));
    let Compared::Equals(_, number) = steps.tried[0].compared else {
        panic!("the secret must match");
    };
    assert_eq!(number, 2);
}
