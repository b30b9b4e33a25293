//! The near miss: the one change that makes a refused request hold.
//!
//! Each guess is a changed request, secret or scheme that the verification itself is run on. The
//! usual causes come first, and the first that holds is the answer: no two of them hold by chance.

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

/// A secret that is not in use for the source, and whose it is.
#[derive(Clone, Debug)]
pub struct Other {
    pub of: Of,
    pub secret: Secret,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// The source itself: an older or a newer one, or the one of a test mode.
    Itself,
    /// Another source, by its name.
    Source(String),
    /// No source: the name that it is stored under.
    Nobody(String),
}

/// What would have made the request hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The cause in one word, for scripts.
    pub cause: &'static str,
    /// What it means and what to do, in a sentence.
    pub text: String,
    /// The label of the secret that fits.
    pub secret: Option<String>,
}

impl Verifier {
    /// The first change that makes a refused request hold; `None` when none of the usual ones
    /// does, or nothing was refused.
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
            // What holds already can only be made to hold wholly.
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

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    /// The signature holds, whatever else does not.
    Signature,
    Wholly,
}

/// What would be further than this verdict; nothing is further than an accepted request.
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
        // These are found out after the signature.
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

/// A refused request, and how far a change has to bring it.
struct Search<'s> {
    verifier: &'s Verifier,
    scheme: &'s Scheme,
    envelope: &'s Envelope,
    secrets: &'s [Secret],
    needed: Held,
}

/// That a change makes the request hold, and the label of the secret that fits then.
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
