//! Tests the properties of all providers whose requests Mitt can sign. Mitt must accept valid
//! requests, and reject changed requests.
//!
//! `MITT_CASES=n` sets the total number of cases for all providers.

#![expect(clippy::unwrap_used, reason = "a test may end by panicking")]

mod adversary;
mod support;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::{Kind, Scheme};
use shared::webhook::sign::{can_sign, signed};
use shared::webhook::verify::{Arrival, Reason, Rejected, Verifier};
use support::{
    NOW, covers_body, draft, each, flipped, named_headers, other, replaced, secret, signature,
    verifiers,
};

#[test]
fn signed_requests_are_accepted_and_changed_ones_rejected() {
    let verifiers = verifiers(can_sign);
    assert!(verifiers.len() > 70, "{}", verifiers.len());
    for verifier in &verifiers {
        let drafts = (any::<Vec<u8>>(), "[!-~]{1,40}", "[a-zA-Z0-9]{1,20}");
        let changes = (any::<u16>(), 0..8_u8);
        each(
            verifier,
            verifiers.len(),
            (drafts, changes),
            |(draft, at)| {
                let (bytes, secret, word) = draft;
                holds(verifier, &bytes, &secret, &word, at)
            },
        );
    }
}

/// Mitt returns a result for every arbitrary request without a panic, and no such request becomes
/// an event.
#[test]
fn no_unsigned_request_is_accepted_or_causes_a_panic() {
    let proving = |scheme: &Scheme| !matches!(scheme.kind, Kind::FetchBack | Kind::None);
    let verifiers = verifiers(proving);
    for verifier in &verifiers {
        let scheme = verifier.preset.scheme(&verifier.variant).unwrap();
        let requests = (
            any::<Vec<u8>>(),
            "[ -~]{0,80}",
            "[ -~]{0,40}",
            any::<bool>(),
        );
        each(
            verifier,
            verifiers.len(),
            requests,
            |(body, value, other, get)| {
                let mut headers = named_headers(scheme, &value);
                headers.push(("x-other".into(), other.clone()));
                let envelope = Envelope {
                    method: if get { "GET" } else { "POST" }.into(),
                    url: format!("https://in.example.test/in/s?{other}"),
                    headers: headers.into_iter().collect(),
                    body: body.into(),
                    received_at: NOW,
                };
                let secret = secret(scheme, "another");
                let answer = verifier.verify(&envelope, &[secret]);
                prop_assert!(!matches!(answer, Ok(Arrival::Event(_))), "{answer:?}");
                verifier.answer_open_handshake(&envelope);
                verifier.wanted(&envelope);
                Ok(())
            },
        );
    }
}

fn holds(
    verifier: &Verifier,
    bytes: &[u8],
    text: &str,
    word: &str,
    (at, bit): (u16, u8),
) -> Result<(), TestCaseError> {
    let scheme = verifier.preset.scheme(&verifier.variant).unwrap();
    let (right, wrong) = (secret(scheme, text), secret(scheme, &format!("{text}x")));
    let draft = draft(scheme, bytes, word);
    // Skips messages that Mitt rejects even with a valid signature.
    let shape = scheme.reject_message_regex.as_ref();
    prop_assume!(shape.is_none_or(|shape| !shape.is_match(&String::from_utf8_lossy(bytes))));
    for shape in &scheme.shapes {
        let value = shape.from.find(&draft).unwrap();
        prop_assume!(value.is_none_or(|value| shape.allow.is_match(&value)));
    }
    let request = signed(scheme, &right, draft.clone(), NOW).unwrap();

    match verifier.verify(&request, &[wrong.clone(), right.clone()]) {
        Ok(Arrival::Event(event)) => {
            prop_assert_eq!(event.secret(), Some(text));
            prop_assert_eq!(event.body(), &request.body);
        }
        other => prop_assert!(false, "{other:?}\n{request:?}"),
    }
    refused(verifier, "another secret", &request, &wrong)?;

    // Flips a bit of the body.
    if covers_body(scheme) && !request.body.is_empty() {
        let mut changed = request.body.to_vec();
        let index = usize::from(at) % changed.len();
        changed[index] ^= 1 << bit;
        let changed = Envelope {
            body: changed.into(),
            ..request.clone()
        };
        refused(verifier, "a changed body", &changed, &right)?;
    }

    // Uses the proof of another request, which has the same secret and time, but another signature.
    let other = other(scheme, bytes, word);
    let other = signed(scheme, &right, other, NOW).unwrap();
    if scheme.sig.all || matches!(scheme.kind, Kind::Token | Kind::Basic) {
        // All requests have the same proof.
    } else if other.headers.iter().ne(request.headers.iter()) {
        let swapped = Envelope {
            headers: other.headers,
            ..request.clone()
        };
        refused(
            verifier,
            "the signature of another request",
            &swapped,
            &right,
        )?;
    }
    signature_is_checked(verifier, &request, &right, (at, bit))?;
    let later = signed(scheme, &right, draft, UnixMillis(NOW.0 + 1000)).unwrap();
    time_is_checked(verifier, &request, &later, &right)
}

fn refused(
    verifier: &Verifier,
    what: &str,
    request: &Envelope,
    secret: &Secret,
) -> Result<(), TestCaseError> {
    let answer = verifier.verify(request, std::slice::from_ref(secret));
    prop_assert!(answer.is_err(), "{what}: {answer:?}\n{request:?}");
    Ok(())
}

/// Flips a bit of the signature.
fn signature_is_checked(
    verifier: &Verifier,
    request: &Envelope,
    right: &Secret,
    (at, bit): (u16, u8),
) -> Result<(), TestCaseError> {
    let scheme = verifier.preset.scheme(&verifier.variant).unwrap();
    if let Some(right_text) = signature(scheme, request) {
        let wrong_text = flipped(scheme.sig.enc, &right_text, at, bit);
        let changed = replaced(request, &right_text, &wrong_text);
        prop_assert_ne!(format!("{changed:?}"), format!("{request:?}"));
        refused(verifier, "a changed signature", &changed, right)?;
    } else {
        prop_assert!(!matches!(scheme.kind, Kind::Hmac | Kind::Hash) || scheme.for_each.is_some());
    }
    Ok(())
}

/// Changes the timestamp to the timestamp of a later request, and verifies the request outside its
/// time window.
fn time_is_checked(
    verifier: &Verifier,
    request: &Envelope,
    later: &Envelope,
    right: &Secret,
) -> Result<(), TestCaseError> {
    let scheme = verifier.preset.scheme(&verifier.variant).unwrap();
    let Some(ts) = &scheme.ts else { return Ok(()) };
    let (now, then) = (signature(scheme, request), signature(scheme, later));
    let forged = replaced(later, &then.unwrap(), &now.unwrap());
    refused(verifier, "a changed time", &forged, right)?;
    if ts.enforce {
        for (shift, reason) in [
            (ts.past + 1, Reason::TimestampTooOld),
            (-ts.future - 1, Reason::TimestampInFuture),
        ] {
            let late = Envelope {
                received_at: UnixMillis(NOW.0 + 1000 * shift),
                ..request.clone()
            };
            let answer = verifier.verify(&late, std::slice::from_ref(right));
            prop_assert_eq!(answer.err(), Some(Rejected(reason)));
        }
    }
    Ok(())
}
