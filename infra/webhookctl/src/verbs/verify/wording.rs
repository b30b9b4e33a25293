//! The verdict in a sentence, and what to do next.

use shared::webhook::envelope::Envelope;
use shared::webhook::event::Proven;
use shared::webhook::verify::{Arrival, Reason, Steps};

use super::{Answer, mask};
use crate::output::time::duration;

/// The last line.
pub(super) fn verdict(answer: &Answer) -> String {
    let explained = &answer.explained;
    match &explained.verdict {
        Ok(Arrival::Event(event)) if event.proven() == Proven::Nothing => {
            "taken without a proof: this preset proves nothing".to_owned()
        }
        Ok(Arrival::Event(event)) => match event.secret() {
            Some(secret) => format!("verified with secret {secret}"),
            None => "verified".to_owned(),
        },
        Ok(Arrival::Handshake(reply)) if explained.handshake => match reply.status {
            ..300 => format!(
                "a handshake: it is answered with {}, and nothing is kept",
                reply.status
            ),
            status => format!("a handshake, refused with {status}"),
        },
        Ok(Arrival::Handshake(reply)) => format!(
            "not verified: webhooks are posted, and this is {}; it is answered with {}",
            answer.question.envelope.method, reply.status
        ),
        Err(_) => {
            let reason = answer.reason().map(|reason| why(reason, answer));
            format!("not verified: {}", reason.unwrap_or_default())
        }
    }
}

/// What people run next.
pub(super) fn tip(answer: &Answer) -> Option<String> {
    match answer.reason()? {
        Reason::TimestampTooOld => Some(
            "a slow proxy, or a real replay? `webhookctl quarantine reverify` judges by the time of \
             receipt; here --at sets it"
                .to_owned(),
        ),
        Reason::TimestampInFuture => {
            Some("compare both clocks; --at sets the time of receipt here".to_owned())
        }
        Reason::NoSecret => Some("webhookctl quarantine reverify, once the secret is there".to_owned()),
        _ => None,
    }
}

fn why(reason: Reason, answer: &Answer) -> String {
    let steps = &answer.explained.steps;
    let envelope = &answer.question.envelope;
    match reason {
        Reason::BadSignature if answer.near.is_some() => {
            let step = answer.near_step();
            format!("no secret matches the request as it is, but one does with a change ({step})")
        }
        Reason::BadSignature => "no secret gives that signature".to_owned(),
        Reason::BadCredentials if answer.near.is_some() => {
            let step = answer.near_step();
            format!("what the sender shows is none of the secrets, but is with a change ({step})")
        }
        Reason::BadCredentials => "what the sender shows is none of the secrets".to_owned(),
        Reason::MissingHeader => missing(answer, envelope),
        Reason::TimestampTooOld | Reason::TimestampInFuture => late(reason, steps),
        _ => plain(reason).to_owned(),
    }
}

fn missing(answer: &Answer, envelope: &Envelope) -> String {
    let absent = answer.question.verifier.absent_headers(envelope);
    let Some(name) = absent.first() else {
        return "a header that the scheme needs is missing".to_owned();
    };
    let missing = format!("header {} is missing", mask::header(name));
    let old = |(_, value): &(&str, &str)| value.trim().starts_with("sha1=");
    match envelope.headers.iter().find(old) {
        Some((old, _)) => format!("{missing}; only {} (SHA-1) was sent", mask::header(old)),
        None => missing,
    }
}

fn late(reason: Reason, steps: &Steps) -> String {
    let time = steps.time.as_ref();
    let beyond = time.and_then(|time| {
        let age = time.age?;
        Some(match reason {
            Reason::TimestampTooOld => age - time.window.0,
            _ => -age - time.window.1,
        })
    });
    match (beyond, reason) {
        (Some(beyond), Reason::TimestampTooOld) => format!(
            "the signature is right, the timestamp is {} too old",
            duration(beyond)
        ),
        (Some(beyond), _) => format!(
            "the signature is right, the timestamp is {} too far in the future",
            duration(beyond)
        ),
        (None, Reason::TimestampTooOld) => "it is right, but has expired".to_owned(),
        (None, _) => "it is right, but not valid yet".to_owned(),
    }
}

/// A reason in words.
fn plain(reason: Reason) -> &'static str {
    match reason {
        Reason::MissingHeader => "a header that the scheme needs is missing",
        Reason::MissingField => "a field that the scheme needs is missing from body or URL",
        Reason::MalformedSignature => "the signature is not written as the scheme writes it",
        Reason::MalformedTimestamp => "the signed time is no time",
        Reason::MalformedBody => "the body cannot be read, or is one that is never accepted",
        Reason::UnknownVersion => "no signature is of a version that counts",
        Reason::NoMatchingKey => "no signature is by the key that counts",
        Reason::BadSignature => "no secret gives that signature",
        Reason::BadCredentials => "what the sender shows is none of the secrets",
        Reason::BadBodyHash => {
            "the signature is right, the hash of the body is that of another one"
        }
        Reason::BadUrlHash => "the signature is right, the hash of the URL is that of another one",
        Reason::TimestampTooOld => "it is right, but too old",
        Reason::TimestampInFuture => "it is right, but in the future",
        Reason::DuplicateHeader => "a header that may stand once stands there twice",
        Reason::AlgNotAllowed => "it names an algorithm that the scheme does not allow",
        Reason::ClaimMismatch => {
            "the token is right, but was issued for somebody or something else"
        }
        Reason::UnknownKey => "the token names a key that the source does not have",
        Reason::UntrustedCertUrl => "the certificate is at a place that is not the provider's",
        Reason::UntrustedCert => "the certificate is not one that is trusted",
        Reason::TopicNotAllowed => "the signature is right, the topic is none that may send",
        Reason::NoSecret => "there is no secret to compare with, or none that can be read as a key",
        Reason::NotFetched => {
            "nothing is decided: the certificate, the keys or the object that it needs are not here"
        }
    }
}
