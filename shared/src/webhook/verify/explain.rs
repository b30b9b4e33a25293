//! Explains step by step why a request was accepted or rejected.
//!
//! The verdict is the result of [`Verifier::verify`]. The steps call the same functions in the same
//! order. The steps do not change the verdict. A test checks that the steps agree with the verdict.

mod absent;
mod message;
mod near;
mod signature;

use super::key::key;
use super::prove::Key;
use super::{Arrival, Reason, Rejected, Verifier, jwt, token};
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Kind, Location, Scheme};
use crate::webhook::secret::Secret;

pub use message::{Message, Piece, Show};
pub use near::{NearMiss, Of, Other};

/// A verdict and its explanation. This type does not implement `Debug`, because it contains the
/// correct signature.
pub struct Explained {
    /// The result of [`Verifier::verify`].
    pub verdict: Result<Arrival, Rejected>,
    /// Whether the request is a handshake.
    pub handshake: bool,
    pub steps: Steps,
}

/// The steps of a verification. If verification did not reach a step, the step is empty.
pub struct Steps {
    /// The location of the signature, or of the credential.
    pub place: Option<Location>,
    /// The values at this location in the format of the preset, or the reason why they cannot be
    /// read.
    pub found: Result<Vec<String>, Reason>,
    /// Whether these values can contain the secret or an equivalent. The CLI must never show such
    /// values.
    pub is_credential: bool,
    /// The number of the explained item, starting at 1, and the number of items. It is set if each
    /// item has its own signature. The steps explain the first rejected item. If no item is
    /// rejected, they explain the first item.
    pub item: Option<(usize, usize)>,
    pub time: Option<Time>,
    pub message: Option<Result<Message, Reason>>,
    /// The secrets, in the order in which verification tries them.
    pub tried: Vec<Tried>,
}

/// The signed timestamp, and its verdict.
pub struct Time {
    /// The text as received, or the reason why it cannot be read.
    pub text: Result<String, Reason>,
    /// The timestamp in whole seconds since the Unix epoch.
    pub seconds: Option<i64>,
    /// The seconds between the timestamp and the receipt. Negative for a timestamp in the future.
    pub age: Option<i64>,
    /// The maximum age and the maximum time in the future, in seconds.
    pub window: (i64, i64),
    pub enforced: bool,
    pub verdict: Result<(), Reason>,
}

/// A secret, and the result of its comparison.
pub struct Tried {
    pub secret: Secret,
    pub compared: Compared,
}

pub enum Compared {
    /// The secret cannot be decoded to a key of this scheme.
    Unusable,
    /// The request has no signature or credential to compare with.
    Untried,
    /// The secret does not prove the request. Contains the signature that the secret produces, if
    /// any.
    Differs(Option<String>),
    /// The secret proves the request. Contains the signature that the secret produces, if any, and
    /// the number of the matching signature, starting at 1.
    Equals(Option<String>, usize),
}

impl Steps {
    /// The label of the secret that proves the request.
    pub fn matched(&self) -> Option<&str> {
        let mut equal = self.tried.iter().filter(|tried| tried.is_equal());
        equal.next().map(|tried| tried.secret.label())
    }

    fn nothing(secrets: &[Secret]) -> Self {
        Self {
            place: None,
            found: Ok(Vec::new()),
            is_credential: false,
            item: None,
            time: None,
            message: None,
            tried: secrets.iter().map(Tried::not).collect(),
        }
    }
}

impl Tried {
    pub fn is_equal(&self) -> bool {
        matches!(self.compared, Compared::Equals(..))
    }

    fn new(secret: &Secret, compared: Compared) -> Self {
        Self {
            secret: secret.clone(),
            compared,
        }
    }

    fn not(secret: &Secret) -> Self {
        Self::new(secret, Compared::Untried)
    }
}

impl Verifier {
    /// Verifies a request and explains the result.
    pub fn explain(&self, envelope: &Envelope, secrets: &[Secret]) -> Explained {
        let mut steps = Steps::nothing(&[]);
        if let Some(scheme) = self.preset.scheme(&self.variant) {
            steps = self.steps(scheme, envelope, secrets);
            // Verification rejects an ambiguous message, even if the signature is valid.
            let joined = super::joined::check_all(scheme, envelope)
                .and_then(|()| super::joined::event_fields(&self.preset.event, envelope));
            if let (Some(Ok(_)), Err(Rejected(reason))) = (&steps.message, joined) {
                steps.message = Some(Err(reason));
            }
        }
        Explained {
            verdict: self.verify(envelope, secrets),
            handshake: self.is_handshake(envelope),
            steps,
        }
    }

    fn steps(&self, scheme: &Scheme, envelope: &Envelope, secrets: &[Secret]) -> Steps {
        let unproven = |handshake: &crate::webhook::preset::Handshake| !handshake.require_signature;
        if self.handshake(envelope).is_some_and(unproven) {
            return Steps::nothing(&[]);
        }
        match &scheme.kind {
            // The keys of a published set are not secrets of the source.
            _ if scheme.key_set.is_some() => Steps {
                place: Some(scheme.sig.from.clone()),
                ..Steps::nothing(&[])
            },
            Kind::Hmac | Kind::Hash | Kind::Ed25519 | Kind::EcdsaP256 | Kind::RsaSha256 => {
                signature::steps(scheme, envelope, secrets)
            }
            Kind::Token => {
                let proves = |key: &Key<'_>| {
                    token::token(scheme, envelope, std::slice::from_ref(key)).is_ok()
                };
                shown(scheme, scheme.sig.from.clone(), envelope, secrets, proves)
            }
            Kind::Basic => {
                let proves =
                    |key: &Key<'_>| token::basic(envelope, std::slice::from_ref(key)).is_ok();
                let place = Location::Header(vec!["authorization".to_owned()]);
                shown(scheme, place, envelope, secrets, proves)
            }
            Kind::Jwt => {
                let Some(jwt) = &scheme.jwt else {
                    return Steps::nothing(secrets);
                };
                // All other results mean that this key signed the token, even if the claims are
                // wrong.
                let proves = |key: &Key<'_>| {
                    let key = std::slice::from_ref(key);
                    let proof = jwt::token(scheme, &self.trust, envelope, key);
                    !matches!(
                        proof,
                        Err(Rejected(
                            Reason::BadSignature
                                | Reason::MalformedSignature
                                | Reason::AlgNotAllowed
                        ))
                    )
                };
                let by_secret = jwt.key.is_stored();
                let secrets = if by_secret { secrets } else { &[] };
                shown(scheme, jwt.from.clone(), envelope, secrets, proves)
            }
            Kind::Code(_) => Steps {
                place: Some(scheme.sig.from.clone()),
                ..Steps::nothing(secrets)
            },
            Kind::FetchBack | Kind::None => Steps::nothing(&[]),
        }
    }
}

/// Returns the steps for a sender that sends a secret or a token. `proves` returns whether a key
/// proves the request.
fn shown(
    scheme: &Scheme,
    place: Location,
    envelope: &Envelope,
    secrets: &[Secret],
    proves: impl Fn(&Key<'_>) -> bool,
) -> Steps {
    let values = place.find_all(envelope).map_err(|error| {
        let Rejected(reason) = super::unreadable(error);
        reason
    });
    let found = values.and_then(|values| {
        let full: Vec<String> = values
            .into_iter()
            .flatten()
            .filter(|v| !v.is_empty())
            .collect();
        match place {
            _ if !full.is_empty() => Ok(full),
            Location::Header(_) => Err(Reason::MissingHeader),
            _ => Err(Reason::MissingField),
        }
    });
    let compared = |secret: &Secret| {
        let Some(key) = key(scheme.key, secret.expose()) else {
            return Compared::Unusable;
        };
        if found.is_err() {
            return Compared::Untried;
        }
        if proves(&(secret, key)) {
            Compared::Equals(None, 1)
        } else {
            Compared::Differs(None)
        }
    };
    let tried = secrets
        .iter()
        .map(|secret| Tried::new(secret, compared(secret)))
        .collect();
    Steps {
        place: Some(place),
        found,
        is_credential: true,
        tried,
        ..Steps::nothing(&[])
    }
}
