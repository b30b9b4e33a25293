//! Builds the JSON document of the result, `webhookctl/verify/v1`.

use serde::Serialize;
use serde_json::Value;
use shared::webhook::event::Sha;
use shared::webhook::preset::Location;
use shared::webhook::verify::{Arrival, Compared, Message, Time, Tried};

use super::{Answer, mask, wording};

#[derive(Serialize)]
pub(super) struct Document {
    valid: bool,
    pub(super) preset: String,
    variant: String,
    source: String,
    /// What a signature of the preset covers.
    proves: Option<&'static str>,
    handshake: Option<Handshake>,
    /// The header of the signature. If the signature is not in a header, only `place` is set.
    header: Option<String>,
    place: Option<String>,
    signatures_in_header: usize,
    /// The signatures. They are masked without `--reveal`. Credentials are never shown.
    signatures: Vec<String>,
    item: Option<Item>,
    signed_string: Option<SignedString>,
    body: Body,
    timestamp: Option<Timestamp>,
    matched_secret: Option<String>,
    secrets_tried: Vec<SecretTried>,
    near_misses: Vec<String>,
    near_miss: Option<Near>,
    reason: Option<&'static str>,
    verdict: String,
}

#[derive(Serialize)]
struct Handshake {
    status: u16,
    content_type: String,
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

#[derive(Serialize)]
struct Item {
    number: usize,
    of: usize,
}

#[derive(Serialize)]
struct SignedString {
    template: String,
    bytes: usize,
    /// The signed text. Placeholders replace the hidden parts.
    shown: String,
}

#[derive(Serialize)]
struct Body {
    bytes: usize,
    sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(Serialize)]
struct Timestamp {
    /// Returns a number, or the original text if it is not a number.
    value: Value,
    age_s: Option<i64>,
    tolerance_s: i64,
    ok: bool,
}

#[derive(Serialize)]
struct SecretTried {
    name: String,
    fingerprint: String,
    /// Whether the secret can be decoded to a key of the scheme.
    usable: bool,
    gives: Option<String>,
    matches: bool,
}

#[derive(Serialize)]
struct Near {
    cause: &'static str,
    text: String,
    secret: Option<String>,
}

pub(super) fn document(answer: &Answer) -> Document {
    let (verifier, envelope) = (&answer.question.verifier, &answer.question.envelope);
    let steps = &answer.explained.steps;
    let scheme = verifier.preset.scheme(&verifier.variant);
    let found = steps.found.as_deref().unwrap_or_default();
    let signatures = found.iter().filter(|_| !steps.is_credential);
    let message = steps.message.as_ref().and_then(|m| m.as_ref().ok());
    let near = answer.near.as_ref();
    Document {
        valid: answer.is_good(),
        preset: verifier.preset.id.clone(),
        variant: verifier.variant.clone(),
        source: verifier.source.clone(),
        proves: scheme.map(|scheme| scheme.proves.as_str()),
        handshake: handshake(answer),
        header: steps.place.as_ref().and_then(header),
        place: steps.place.as_ref().map(ToString::to_string),
        signatures_in_header: found.len(),
        signatures: signatures
            .map(|text| mask::signature(text, answer.reveal))
            .collect(),
        item: steps.item.map(|(number, of)| Item { number, of }),
        signed_string: message.map(|message| signed(message, answer.reveal)),
        body: Body {
            bytes: envelope.body.len(),
            sha256: Sha::of(&envelope.body).hex(),
            text: answer
                .reveal
                .then(|| String::from_utf8_lossy(&envelope.body).into_owned()),
        },
        timestamp: steps.time.as_ref().map(timestamp),
        matched_secret: steps.matched().map(str::to_owned),
        secrets_tried: steps
            .tried
            .iter()
            .map(|tried| secret(tried, answer.reveal))
            .collect(),
        near_misses: near.map(text_of).into_iter().collect(),
        near_miss: near.map(|near| Near {
            cause: near.cause,
            text: near.text.clone(),
            secret: near.secret.clone(),
        }),
        reason: answer.reason().map(shared::webhook::verify::Reason::as_str),
        verdict: wording::verdict(answer),
    }
}

/// Describes a near miss, and names the matching secret.
pub(super) fn text_of(near: &shared::webhook::verify::NearMiss) -> String {
    match &near.secret {
        Some(secret) => format!("{} (secret {secret})", near.text),
        None => near.text.clone(),
    }
}

/// Returns the name of the header that a preset reads, in the provider's spelling.
pub(super) fn header(place: &Location) -> Option<String> {
    match place {
        Location::Header(names) => names.first().map(|name| mask::header(name)),
        Location::HeaderNumbered(prefix) => Some(format!("{}1", mask::header(prefix))),
        _ => None,
    }
}

fn handshake(answer: &Answer) -> Option<Handshake> {
    let Ok(Arrival::Handshake(reply)) = &answer.explained.verdict else {
        return None;
    };
    answer.explained.handshake.then(|| Handshake {
        status: reply.status,
        content_type: reply.content_type.clone(),
        bytes: reply.body.len(),
        body: answer.reveal.then(|| reply.body.clone()),
    })
}

fn signed(message: &Message, reveal: bool) -> SignedString {
    SignedString {
        template: message.template.clone(),
        bytes: message.bytes(),
        shown: mask::message(message, reveal),
    }
}

fn timestamp(time: &Time) -> Timestamp {
    let text = time.text.as_deref().unwrap_or_default();
    let number = text.parse::<i64>().map(Value::from);
    let ahead = time.age.is_some_and(|age| age < 0);
    Timestamp {
        value: match text {
            "" => Value::Null,
            text => number.unwrap_or_else(|_| text.into()),
        },
        age_s: time.age,
        tolerance_s: if ahead { time.window.1 } else { time.window.0 },
        ok: time.verdict.is_ok(),
    }
}

fn secret(tried: &Tried, reveal: bool) -> SecretTried {
    let gives = match &tried.compared {
        Compared::Equals(gives, _) | Compared::Differs(gives) => gives.as_ref(),
        Compared::Unusable | Compared::Untried => None,
    };
    SecretTried {
        name: tried.secret.label().to_owned(),
        fingerprint: tried.secret.fingerprint(),
        usable: !matches!(tried.compared, Compared::Unusable),
        gives: gives.map(|text| mask::signature(text, reveal)),
        matches: tried.is_equal(),
    }
}
