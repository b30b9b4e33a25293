//! Says step by step how a verdict came about, for people who wonder why a request is refused.
//!
//! The verdict is that of [`Verifier::verify`] itself. The steps are taken by its own functions
//! and in its order; they decide nothing, and a test holds them to the verdict.

mod absent;
mod message;
mod near;
mod signature;

use super::key::key;
use super::prove::Key;
use super::{Arrival, Reason, Rejected, Verifier, jwt, token};
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{KeySource, Kind, Location, Scheme};
use crate::webhook::secret::Secret;

pub use message::{Message, Piece, Show};
pub use near::{NearMiss, Of, Other};

/// A verdict and the way to it. It has no `Debug`: the right signature is in it.
pub struct Explained {
    /// What [`Verifier::verify`] says of the request.
    pub verdict: Result<Arrival, Rejected>,
    /// Whether the request only asks for an answer.
    pub handshake: bool,
    pub steps: Steps,
}

/// What was looked at on the way. A step that was not taken is empty.
pub struct Steps {
    /// Where the signature, or the credential, has to stand.
    pub place: Option<Location>,
    /// What stands there in the form of the preset, or why nothing can be read there.
    pub found: Result<Vec<String>, Reason>,
    /// What stands there may be the secret itself, or as good as it: it is never to be shown.
    pub is_credential: bool,
    /// Where each item is signed by itself: the one that is explained, from one on, and how many
    /// there are. It is the first that is refused, if any is.
    pub item: Option<(usize, usize)>,
    pub time: Option<Time>,
    pub message: Option<Result<Message, Reason>>,
    /// Each secret, in the order of trying.
    pub tried: Vec<Tried>,
}

/// The signed time, and its verdict.
pub struct Time {
    /// As it was sent, or why it cannot be read.
    pub text: Result<String, Reason>,
    /// Whole seconds since the Unix epoch.
    pub seconds: Option<i64>,
    /// Seconds that it is older than the receipt; negative when it is ahead.
    pub age: Option<i64>,
    /// Seconds that it may be older, and ahead.
    pub window: (i64, i64),
    pub enforced: bool,
    pub verdict: Result<(), Reason>,
}

/// A secret, and how it compares.
pub struct Tried {
    pub secret: Secret,
    pub compared: Compared,
}

pub enum Compared {
    /// It cannot be read as a key of this scheme.
    Unusable,
    /// There was nothing to compare it with.
    Untried,
    /// It does not prove the request; what it gives in place of the signature, where it gives one.
    Differs(Option<String>),
    /// It proves the request, by this signature, from one on.
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
    /// Verifies a request and says how the verdict came about.
    pub fn explain(&self, envelope: &Envelope, secrets: &[Secret]) -> Explained {
        let mut steps = Steps::nothing(&[]);
        if let Some(scheme) = self.preset.scheme(&self.variant) {
            steps = self.steps(scheme, envelope, secrets);
            // A message that could be read in two ways is none, however it is signed.
            if let (Some(Ok(_)), Err(Rejected(reason))) =
                (&steps.message, super::joined::check_all(scheme, envelope))
            {
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
                // Whatever is wrong with the claims, they are signed with this one.
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
                let by_secret = jwt.key == KeySource::Secret;
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

/// The steps where the sender shows what it has. `proves` says whether a key alone is the right one.
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
