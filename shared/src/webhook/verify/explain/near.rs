//! Searches for the near miss, which is one change that would make a rejected request valid.
//!
//! Each guess changes the request, the secret or the scheme, and runs the real verification. The
//! guesses for the most frequent causes run first. The first match is the result, because a
//! signature cannot match by chance.

mod body;
mod json;
mod scheme;
mod secret;
mod url;

use super::Verifier;
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::Scheme;
use crate::webhook::secret::Secret;
use crate::webhook::verify::{Arrival, Reason, Rejected};

/// A secret that the source does not use, and its owner.
#[derive(Clone, Debug)]
pub struct Other {
    pub of: Of,
    pub secret: Secret,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// The source itself. The secret is older or newer, or belongs to a test mode.
    Itself,
    /// Another source, by name.
    Source(String),
    /// No source. Contains the name under which the secret is stored.
    Unused(String),
}

/// The change that would make the request valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The cause as one word, for scripts.
    pub cause: &'static str,
    /// A sentence with the cause and the fix.
    pub text: String,
    /// The label of the secret that matches.
    pub secret: Option<String>,
}

impl Verifier {
    /// Returns the first change that makes a rejected request valid. Returns `None` if no guess
    /// succeeds, or if the request was not rejected.
    pub fn near_miss(
        &self,
        envelope: &Envelope,
        secrets: &[Secret],
        others: &[Other],
    ) -> Option<NearMiss> {
        let scheme = self.preset.scheme(&self.variant)?;
        let verdict = self.verify(envelope, secrets);
        let search = Search {
            verifier: self,
            scheme,
            envelope,
            secrets,
            // If the signature is already valid, the change must make the whole request valid.
            needed: held(&verdict)?,
        };
        if let Err(Rejected(Reason::TimestampTooOld | Reason::TimestampInFuture)) = verdict {
            return scheme::unit(&search);
        }
        secret::others(&search, others)
            .or_else(|| secret::spaces(&search))
            .or_else(|| secret::forms(&search))
            .or_else(|| body::ends(&search))
            .or_else(|| body::json(&search))
            .or_else(|| scheme::body_alone(&search))
            .or_else(|| scheme::unit(&search))
            .or_else(|| scheme::sha1(&search))
            .or_else(|| scheme::encoding(&search))
            .or_else(|| url::url(&search))
            .or_else(|| scheme::variant(&search))
    }
}

/// The level to which a request is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    /// The signature is valid, but another check fails.
    Signature,
    Wholly,
}

/// Returns the level that a change must reach after this verdict. Returns `None` for an accepted
/// request.
fn held(verdict: &Result<Arrival, Rejected>) -> Option<Held> {
    match reached(verdict) {
        None => Some(Held::Signature),
        Some(Held::Signature) => Some(Held::Wholly),
        Some(Held::Wholly) => None,
    }
}

fn reached(verdict: &Result<Arrival, Rejected>) -> Option<Held> {
    match verdict {
        Ok(Arrival::Event(_)) => Some(Held::Wholly),
        Ok(Arrival::Handshake(reply)) => (reply.status < 300).then_some(Held::Wholly),
        // Verification finds these errors only after the signature was valid.
        Err(Rejected(
            Reason::TimestampTooOld
            | Reason::TimestampInFuture
            | Reason::BadBodyHash
            | Reason::BadUrlHash
            | Reason::ClaimMismatch
            | Reason::TopicNotAllowed,
        )) => Some(Held::Signature),
        Err(_) => None,
    }
}

/// A rejected request, and the level that a change must reach.
struct Search<'s> {
    verifier: &'s Verifier,
    scheme: &'s Scheme,
    envelope: &'s Envelope,
    secrets: &'s [Secret],
    needed: Held,
}

/// A successful change, with the label of the secret that matches.
struct Hit(Option<String>);

impl Search<'_> {
    fn with_secrets(&self, secrets: &[Secret]) -> Option<Hit> {
        self.run(self.verifier, self.envelope, secrets)
    }

    fn with_envelope(&self, envelope: &Envelope) -> Option<Hit> {
        self.run(self.verifier, envelope, self.secrets)
    }

    fn with_body(&self, body: impl Into<bytes::Bytes>) -> Option<Hit> {
        let body = body.into();
        let envelope = Envelope {
            body,
            ..self.envelope.clone()
        };
        self.with_envelope(&envelope)
    }

    fn with_scheme(&self, scheme: Scheme) -> Option<Hit> {
        self.with_scheme_and_secrets(scheme, self.secrets)
    }

    fn with_scheme_and_secrets(&self, scheme: Scheme, secrets: &[Secret]) -> Option<Hit> {
        let mut verifier = self.verifier.clone();
        verifier.preset.schemes = vec![scheme];
        self.run(&verifier, self.envelope, secrets)
    }

    fn run(&self, verifier: &Verifier, envelope: &Envelope, secrets: &[Secret]) -> Option<Hit> {
        let verdict = verifier.verify(envelope, secrets);
        if reached(&verdict)? < self.needed {
            return None;
        }
        if let Ok(Arrival::Event(event)) = verdict {
            return Some(Hit(event.secret().map(str::to_owned)));
        }
        let scheme = verifier.preset.scheme(&verifier.variant)?;
        let steps = verifier.steps(scheme, envelope, secrets);
        Some(Hit(steps.matched().map(str::to_owned)))
    }
}

impl Hit {
    fn means(self, cause: &'static str, text: impl Into<String>) -> NearMiss {
        NearMiss {
            cause,
            text: text.into(),
            secret: self.0,
        }
    }
}
