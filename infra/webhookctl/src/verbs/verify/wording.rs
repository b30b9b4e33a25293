//! Writes the verdict as a sentence, and the next step.

use shared::webhook::envelope::Envelope;
use shared::webhook::event::Proven;
use shared::webhook::verify::{Arrival, Reason, Steps};

use super::{Answer, mask};
use crate::output::time::duration;

/// Returns the last line of the output.
pub(super) fn verdict(answer: &Answer) -> String {
    let explained = &answer.explained;
    match &explained.verdict {
        Ok(Arrival::Event(event)) if event.proven() == Proven::Nothing => {
            "accepted without proof: this preset has no signature".to_owned()
        }
        Ok(Arrival::Event(event)) => match event.secret() {
            Some(secret) => format!("verified with secret {secret}"),
            None => "verified".to_owned(),
        },
        Ok(Arrival::Handshake(reply)) if explained.handshake => match reply.status {
            ..300 => format!(
                "a handshake: answered with {}, nothing is stored",
                reply.status
            ),
            status => format!("a handshake, rejected with {status}"),
        },
        Ok(Arrival::Handshake(reply)) => format!(
            "not verified: a webhook must be a POST, but this is a {}; answered with {}",
            answer.question.envelope.method, reply.status
        ),
        Err(_) => {
            let reason = answer.reason().map(|reason| why(reason, answer));
            format!("not verified: {}", reason.unwrap_or_default())
        }
    }
}

/// Returns the next command for the operator.
pub(super) fn tip(answer: &Answer) -> Option<String> {
    match answer.reason()? {
        Reason::TimestampTooOld => Some(
            "possible causes: a slow proxy, or a replay attack; `webhookctl quarantine reverify` \
             uses the time of receipt, and --at sets this time for `verify`"
                .to_owned(),
        ),
        Reason::TimestampInFuture => Some(
            "compare the clocks of sender and receiver; --at sets the time of receipt for `verify`"
                .to_owned(),
        ),
        Reason::NoSecret => {
            Some("webhookctl quarantine reverify, after you have stored the secret".to_owned())
        }
        _ => None,
    }
}

fn why(reason: Reason, answer: &Answer) -> String {
    let steps = &answer.explained.steps;
    let envelope = &answer.question.envelope;
    match reason {
        Reason::BadSignature if answer.near.is_some() => {
            let step = answer.near_step();
            format!("no secret matches the request, but a secret matches after a change ({step})")
        }
        Reason::BadSignature => "no secret gives that signature".to_owned(),
        Reason::BadCredentials if answer.near.is_some() => {
            let step = answer.near_step();
            format!("the credential equals no secret, but equals a secret after a change ({step})")
        }
        Reason::BadCredentials => "the credential equals no secret".to_owned(),
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
            "the signature is valid, the timestamp is {} too old",
            duration(beyond)
        ),
        (Some(beyond), _) => format!(
            "the signature is valid, the timestamp is {} too far in the future",
            duration(beyond)
        ),
        (None, Reason::TimestampTooOld) => "the signature is valid, but has expired".to_owned(),
        (None, _) => "the signature matches, but is not valid yet".to_owned(),
    }
}

/// Describes a reason.
fn plain(reason: Reason) -> &'static str {
    match reason {
        Reason::MissingHeader => "a header that the scheme needs is missing",
        Reason::MissingField => "a field that the scheme needs is missing from body or URL",
        Reason::MalformedSignature => "the signature does not have the format of the scheme",
        Reason::MalformedTimestamp => "the signed timestamp is invalid",
        Reason::MalformedBody => "the body cannot be parsed, or is never accepted",
        Reason::UnknownVersion => "no signature has a supported version",
        Reason::NoMatchingKey => "no signature is from the expected key",
        Reason::BadSignature => "no secret gives that signature",
        Reason::BadCredentials => "the credential equals no secret",
        Reason::BadBodyHash => {
            "the signature is valid, but the signed hash belongs to another body"
        }
        Reason::BadUrlHash => "the signature is valid, but the signed hash belongs to another URL",
        Reason::TimestampTooOld => "the signature is valid, but the timestamp is too old",
        Reason::TimestampInFuture => "the signature is valid, but the timestamp is in the future",
        Reason::DuplicateHeader => "a header that may occur only once occurs twice",
        Reason::AlgNotAllowed => "the signature names an algorithm that the scheme does not allow",
        Reason::ClaimMismatch => {
            "the token is valid, but was issued for another audience or purpose"
        }
        Reason::UnknownKey => "the token names a key that the source does not have",
        Reason::UntrustedCertUrl => "the URL of the certificate does not belong to the provider",
        Reason::UntrustedCert => "the certificate is not trusted",
        Reason::TopicNotAllowed => "the signature is valid, but the topic is not allowed",
        Reason::NoSecret => "no secret to compare with, or no secret can be decoded to a key",
        Reason::NotFetched => {
            "not decided: the required certificate, keys or object were not fetched yet"
        }
    }
}
