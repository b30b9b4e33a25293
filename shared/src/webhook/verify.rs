//! Proves who sent a request, or says why it cannot be believed.
//!
//! The rules here are not a preset's to change. The operator's configuration chooses the scheme,
//! never the request. All live secrets are tried, newest first. Decoded bytes are compared in
//! constant time. Timestamps are digits only, and the window is judged at the time of receipt.
//! The body is read only where the preset names a field of it. Nothing is fetched here:
//! certificates and key sets are what [`Trust`] holds.

mod candidates;
pub(crate) mod code;
mod decode;
mod event;
mod explain;
mod joined;
mod jwks;
mod jwt;
mod key;
mod mac;
mod message;
mod prove;
mod reply;
mod token;
mod trust;
mod url;
mod window;

use crate::base::string_enum::string_enum;
use crate::webhook::envelope::Envelope;
use crate::webhook::event::Event;
use crate::webhook::preset::{
    Code, Fetch, Handshake, Kind, Location, Part, Preset, Reply, Scheme, Unreadable,
};
use crate::webhook::secret::Secret;
pub use explain::{
    Compared, Explained, Message, NearMiss, Of, Other, Piece, Show, Steps, Time, Tried,
};
pub use jwks::Jwks;
pub use trust::{Certificates, Keys, Trust, Wanted};

/// What a source is to the verification.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// The source's name.
    pub source: String,
    pub preset: Preset,
    /// The scheme that the operator selected.
    pub variant: String,
    /// What is trusted beside the secrets.
    pub trust: Trust,
    /// Hash of the configuration in force, kept with each event.
    pub config: String,
}

/// A request that was proven, or that has an answer of its own.
#[derive(Debug)]
pub enum Arrival {
    Event(Box<Event>),
    /// Only an answer is wanted; nothing is kept.
    Handshake(Reply),
}

/// A request that was not proven, and the one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected(pub Reason);

string_enum! {
    /// Why a request is refused. Operators read these; senders never do.
    Reason {
        MissingHeader = "missing_header",
        MissingField = "missing_field",
        MalformedSignature = "malformed_signature",
        MalformedTimestamp = "malformed_timestamp",
        MalformedBody = "malformed_body",
        UnknownVersion = "unknown_version",
        NoMatchingKey = "no_matching_key",
        BadSignature = "bad_signature",
        BadCredentials = "bad_credentials",
        BadBodyHash = "bad_body_hash",
        BadUrlHash = "bad_url_hash",
        TimestampTooOld = "timestamp_too_old",
        TimestampInFuture = "timestamp_in_future",
        DuplicateHeader = "duplicate_header",
        AlgNotAllowed = "alg_not_allowed",
        ClaimMismatch = "claim_mismatch",
        UnknownKey = "unknown_key",
        UntrustedCertUrl = "untrusted_cert_url",
        UntrustedCert = "untrusted_cert",
        TopicNotAllowed = "topic_not_allowed",
        /// Our own fault: there is no secret to compare with. The sender is not refused for it.
        NoSecret = "no_secret",
        /// Nothing is decided: the certificate, key or object that the sender names is not here yet.
        /// [`Verifier::wanted`] and [`Verifier::notice`] say what is to be fetched.
        NotFetched = "not_fetched",
    }
}

impl Reason {
    /// Whether nothing was decided about the sender, so that it should try again.
    pub fn is_undecided(self) -> bool {
        matches!(self, Self::NoSecret | Self::NotFetched)
    }

    /// Whether other secrets might lead to another verdict.
    pub fn depends_on_secrets(self) -> bool {
        matches!(
            self,
            Self::BadSignature | Self::BadCredentials | Self::NoSecret | Self::TopicNotAllowed
        )
    }
}

impl Verifier {
    /// The answer to a handshake that asks for neither signature nor secret, if the request is
    /// one. It needs no secrets, so that it can be had while their store is down.
    pub fn answer_open_handshake(&self, envelope: &Envelope) -> Option<Reply> {
        let handshake = self.handshake(envelope)?;
        if !handshake.is_open() || self.is_decided_by_signature(handshake, envelope) {
            return None;
        }
        self.reply(handshake, envelope, &[]).ok()
    }

    /// Whether a request that looks like a handshake may be an event: it carries a signature.
    fn is_decided_by_signature(&self, handshake: &Handshake, envelope: &Envelope) -> bool {
        let Some(scheme) = self.preset.scheme(&self.variant) else {
            return false;
        };
        !(handshake.require_signature || handshake.ignores_signature)
            && is_event_method(scheme, envelope)
            && carries_signature(scheme, envelope)
    }

    /// Whether the request is a handshake, whatever its method.
    pub fn is_handshake(&self, envelope: &Envelope) -> bool {
        self.handshake(envelope).is_some()
    }

    /// Whether the sender sets the secret by its first request.
    pub fn is_armed_by_handshake(&self) -> bool {
        let handshakes = &self.preset.handshakes;
        handshakes.iter().any(|handshake| handshake.arming_only)
    }

    /// Proves a request. Nothing else makes an [`Event`] of an [`Envelope`].
    pub fn verify(&self, envelope: &Envelope, secrets: &[Secret]) -> Result<Arrival, Rejected> {
        let scheme = self
            .preset
            .scheme(&self.variant)
            .ok_or(Rejected(Reason::NoSecret))?;
        let handshake = self.handshake(envelope);
        let handshake =
            handshake.filter(|handshake| !self.is_decided_by_signature(handshake, envelope));
        if let Some(handshake) = handshake {
            let armed = self.trust.arming.unwrap_or(secrets.is_empty());
            if handshake.arming_only && !armed {
                return Ok(Arrival::Handshake(Reply::empty(401)));
            }
            if handshake.require_signature {
                prove::prove(scheme, &self.trust, envelope, secrets)?;
            }
            return self
                .reply(handshake, envelope, secrets)
                .map(Arrival::Handshake);
        }
        if !is_event_method(scheme, envelope) {
            return Ok(Arrival::Handshake(Reply::empty(405)));
        }
        let proof = prove::prove(scheme, &self.trust, envelope, secrets)?;
        joined::event_fields(&self.preset.event, envelope)?;
        Ok(Arrival::Event(Box::new(
            self.event(scheme, envelope, &proof),
        )))
    }

    /// The request at the URL that the provider posted to. Behind a proxy the catcher sees
    /// another host; the query is the one that arrived.
    #[must_use]
    pub fn at_public_url(&self, mut envelope: Envelope) -> Envelope {
        if let Some(public) = &self.trust.public_url {
            let query = envelope.url.find('?').map_or("", |at| &envelope.url[at..]);
            envelope.url = format!("{public}{query}");
        }
        envelope
    }

    /// Whether requests are judged by documents that are fetched, so that a request may have to
    /// wait for one.
    pub fn fetches(&self) -> bool {
        self.preset
            .scheme(&self.variant)
            .is_some_and(|scheme| self.trust.fetches(scheme))
    }

    /// The object that a request names, where the scheme is `fetch-back`: such a request is a notice,
    /// and only what is fetched makes an event. `None` where requests prove themselves.
    pub fn notice(&self, envelope: &Envelope) -> Option<Result<String, Rejected>> {
        let scheme = self.preset.scheme(&self.variant)?;
        (scheme.kind == Kind::FetchBack).then(|| prove::object(scheme, envelope))
    }

    /// How what a notice names is fetched, where the scheme is `fetch-back`.
    pub fn fetch(&self) -> Option<&Fetch> {
        let scheme = self.preset.scheme(&self.variant)?;
        scheme
            .fetch
            .as_ref()
            .filter(|_| scheme.kind == Kind::FetchBack)
    }

    /// The document that a request is judged by, if this preset may fetch it. Where the request
    /// names it, it is one of the provider's own.
    pub fn wanted(&self, envelope: &Envelope) -> Option<Wanted> {
        let scheme = self.preset.scheme(&self.variant)?;
        match &scheme.kind {
            Kind::Code(Code::PayPal) => code::paypal::wanted(envelope),
            Kind::Code(Code::Sns) => code::sns::wanted(envelope),
            Kind::Code(Code::Ebay) => code::ebay::wanted(envelope),
            Kind::Jwt => jwt::wanted(scheme.jwt.as_ref()?, &self.trust, envelope),
            _ => None,
        }
    }

    /// The document that every request is judged by, whatever it says.
    pub fn wanted_always(&self) -> Option<Wanted> {
        let scheme = self.preset.scheme(&self.variant)?;
        jwt::wanted_always(scheme.jwt.as_ref()?, &self.trust)
    }

    /// The URL by which the operator's side confirms what a verified body asks to confirm, such
    /// as a subscription of Amazon SNS. It is to be fetched once the event is durable.
    pub fn confirmation(&self, body: &[u8]) -> Option<String> {
        let scheme = self.preset.scheme(&self.variant)?;
        match &scheme.kind {
            Kind::Code(Code::Sns) => code::sns::confirmation(body),
            _ => None,
        }
    }

    fn handshake(&self, envelope: &Envelope) -> Option<&Handshake> {
        let mut handshakes = self.preset.handshakes.iter();
        handshakes.find(|handshake| handshake.matches(envelope))
    }

    fn reply(
        &self,
        handshake: &Handshake,
        envelope: &Envelope,
        secrets: &[Secret],
    ) -> Result<Reply, Rejected> {
        let scheme = self.preset.scheme(&self.variant);
        let scheme: &Scheme = scheme.ok_or(Rejected(Reason::NoSecret))?;
        reply::reply(handshake, scheme, envelope, secrets)
    }
}

/// Webhooks are posted. Another method counts only where it is signed itself.
fn is_event_method(scheme: &Scheme, envelope: &Envelope) -> bool {
    let method = |part: &Part| *part == Part::Method;
    envelope.method == "POST" || scheme.message.any(&method)
}

/// Whether something stands where the scheme has its signature, or what it has in place of one.
fn carries_signature(scheme: &Scheme, envelope: &Envelope) -> bool {
    let header = |name: &str| Location::Header(vec![name.to_owned()]);
    let places = match (&scheme.kind, &scheme.jwt) {
        (Kind::FetchBack | Kind::None, _) => Vec::new(),
        (Kind::Basic, _) => vec![header("authorization")],
        (Kind::Jwt, Some(jwt)) => vec![jwt.from.clone()],
        (Kind::Code(Code::Ebay), _) => vec![header("x-ebay-signature")],
        (Kind::Code(Code::Keygen(_)), _) => vec![header("keygen-signature")],
        _ => {
            let from = std::iter::once(&scheme.sig.from);
            from.chain(&scheme.sig.also).cloned().collect()
        }
    };
    places.iter().any(|place| match place {
        Location::Header(names) => names.iter().any(|name| {
            let mut values = envelope.headers.all(name);
            values.any(|value| !value.is_empty())
        }),
        Location::HeaderNumbered(prefix) => {
            let mut headers = envelope.headers.iter();
            headers.any(|(name, value)| name.starts_with(prefix) && !value.is_empty())
        }
        place => match place.find_all(envelope) {
            Ok(values) => values.into_iter().flatten().any(|value| !value.is_empty()),
            // It is there, and is not what it should be.
            Err(Unreadable::NoJson) => false,
            Err(_) => true,
        },
    })
}

fn unreadable(error: Unreadable) -> Rejected {
    Rejected(match error {
        Unreadable::RepeatedHeader => Reason::DuplicateHeader,
        Unreadable::RepeatedField | Unreadable::NoJson => Reason::MalformedBody,
        Unreadable::NoScalar => Reason::MissingField,
    })
}

pub(crate) use candidates::Group;
pub(crate) use code::qsh::canonical;
pub(crate) use decode::encode;
pub(crate) use key::key;
pub(crate) use mac::{digest, sign as mac_sign};
pub(crate) use message::{Context, message};
pub(crate) use window::written;

/// Whether a secret is one that a scheme can work with: what is not is passed over.
pub fn is_key(scheme: &Scheme, secret: &Secret) -> bool {
    key(scheme.key, secret.expose()).is_some()
}
