//! Verifies the sender of a request, or returns the reason for the rejection.
//!
//! A preset cannot change the rules of this module. The operator's configuration selects the
//! scheme. A request never selects it. Verification tries all live secrets, newest first. It
//! compares decoded bytes in constant time. A numeric timestamp consists of digits only.
//! Verification compares the timestamp with the time of receipt. It parses the body only if the
//! preset names a field of the body. Verification never fetches a document. It reads certificates
//! and key sets from [`Trust`].

mod candidates;
pub(crate) mod code;
mod context;
mod decode;
mod event;
mod explain;
mod joined;
mod jwks;
mod jwt;
mod key;
mod mac;
mod message;
mod missing;
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
pub use context::{reads_secret_in, reads_secret_in_query};
pub use explain::{
    Compared, Explained, Message, NearMiss, Of, Other, Piece, Show, Steps, Time, Tried,
};
pub use jwks::Jwks;
pub use trust::{Certificates, Keys, Trust, Wanted};

/// The settings of a source that verification needs.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// The name of the source.
    pub source: String,
    pub preset: Preset,
    /// The scheme that the operator selected.
    pub variant: String,
    /// The trusted keys and certificates, in addition to the secrets.
    pub trust: Trust,
    /// The hash of the current configuration. Mitt stores the hash with each event.
    pub config: String,
}

/// A verified request, or a handshake with its reply.
#[derive(Debug)]
pub enum Arrival {
    Event(Box<Event>),
    /// The sender expects only a reply. Mitt does not store an event.
    Handshake(Reply),
}

/// A request that failed verification, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected(pub Reason);

string_enum! {
    /// The reason why Mitt rejects a request. Operators can see the reason. Senders cannot.
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
        /// Mitt has no secret to compare with. This is not an error of the sender, so the sender
        /// should retry.
        NoSecret = "no_secret",
        /// Mitt cannot decide yet, because it has not fetched the certificate, key or object that
        /// the request names. [`Verifier::wanted`] and [`Verifier::notice`] return the document or
        /// object to fetch.
        NotFetched = "not_fetched",
    }
}

impl Reason {
    /// Returns whether verification could not decide. In this case, the sender should retry.
    pub fn is_undecided(self) -> bool {
        matches!(self, Self::NoSecret | Self::NotFetched)
    }

    /// Returns whether other secrets could change the result.
    pub fn depends_on_secrets(self) -> bool {
        matches!(
            self,
            Self::BadSignature | Self::BadCredentials | Self::NoSecret | Self::TopicNotAllowed
        )
    }
}

impl Verifier {
    /// Returns the reply if the request is a handshake that needs neither a signature nor a secret.
    /// The catcher can send such a reply while the secret store is unavailable.
    pub fn answer_open_handshake(&self, envelope: &Envelope) -> Option<Reply> {
        let handshake = self.handshake(envelope)?;
        if !handshake.is_open() || self.is_decided_by_signature(handshake, envelope) {
            return None;
        }
        self.reply(handshake, envelope, &[]).ok()
    }

    /// Returns whether a request that matches a handshake can be an event, because it has a
    /// signature.
    fn is_decided_by_signature(&self, handshake: &Handshake, envelope: &Envelope) -> bool {
        let Some(scheme) = self.preset.scheme(&self.variant) else {
            return false;
        };
        !(handshake.require_signature || handshake.ignores_signature)
            && is_event_method(scheme, envelope)
            && carries_signature(scheme, envelope)
    }

    /// Returns whether the request is a handshake. A handshake can have any HTTP method.
    pub fn is_handshake(&self, envelope: &Envelope) -> bool {
        self.handshake(envelope).is_some()
    }

    /// Returns whether the sender can set the secret with a handshake.
    pub fn is_armed_by_handshake(&self) -> bool {
        let handshakes = &self.preset.handshakes;
        handshakes.iter().any(|handshake| handshake.arming_only)
    }

    /// Verifies a request. This is the only way to make an [`Event`] from an [`Envelope`].
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

    /// Replaces the URL of a request with the public URL that the provider called. Keeps the query
    /// and the path after the URL of the source as received. Behind a proxy, the catcher sees another
    /// host than the provider.
    #[must_use]
    pub fn at_public_url(&self, mut envelope: Envelope) -> Envelope {
        if let Some(public) = &self.trust.public_url {
            let query = envelope.url.find('?').map_or("", |at| &envelope.url[at..]);
            let tail = self.tail(&envelope);
            let public = if tail.is_empty() {
                public
            } else {
                public.trim_end_matches('/')
            };
            envelope.url = format!("{public}{tail}{query}");
        }
        envelope
    }

    /// Returns whether verification needs documents that Mitt fetches. If so, a request may have to
    /// wait for a document.
    pub fn fetches(&self) -> bool {
        self.preset
            .scheme(&self.variant)
            .is_some_and(|scheme| self.trust.fetches(scheme))
    }

    /// Returns the id of the object that a request names, if the scheme is `fetch-back`. Such a
    /// request is a notice, and only the fetched object becomes an event. Returns `None` for a
    /// scheme that verifies the request itself.
    pub fn notice(&self, envelope: &Envelope) -> Option<Result<String, Rejected>> {
        let scheme = self.preset.scheme(&self.variant)?;
        (scheme.kind == Kind::FetchBack).then(|| prove::object(scheme, envelope))
    }

    /// Returns how to fetch the object that a notice names, if the scheme is `fetch-back`.
    pub fn fetch(&self) -> Option<&Fetch> {
        let scheme = self.preset.scheme(&self.variant)?;
        scheme
            .fetch
            .as_ref()
            .filter(|_| scheme.kind == Kind::FetchBack)
    }

    /// Returns the document that the verification of this request needs, if the preset needs
    /// documents. Returns `None` if the request contains the URL of a document that does not belong
    /// to the provider.
    pub fn wanted(&self, envelope: &Envelope) -> Option<Wanted> {
        let scheme = self.preset.scheme(&self.variant)?;
        match &scheme.kind {
            Kind::Code(Code::PayPal) => code::paypal::wanted(envelope),
            Kind::Code(Code::Sns) => code::sns::wanted(envelope),
            Kind::Code(Code::Ebay) => code::ebay::wanted(envelope),
            Kind::Code(Code::Adobe) => code::adobe::wanted(&self.trust, envelope),
            Kind::Jwt => jwt::wanted(scheme.jwt.as_ref()?, &self.trust, envelope),
            _ => self.wanted_always(),
        }
    }

    /// Returns the document that the verification of every request needs.
    pub fn wanted_always(&self) -> Option<Wanted> {
        let scheme = self.preset.scheme(&self.variant)?;
        match &scheme.key_set {
            Some(set) => (!self.trust.has_jwks()).then(|| Wanted::KeySet(set.url.clone())),
            None => jwt::wanted_always(scheme.jwt.as_ref()?, &self.trust),
        }
    }

    /// Returns whether an event can be a request to confirm a subscription.
    pub fn confirms_subscriptions(&self) -> bool {
        let scheme = self.preset.scheme(&self.variant);
        scheme.is_some_and(|scheme| matches!(scheme.kind, Kind::Code(Code::Sns)))
    }

    /// Returns the URL that confirms the request in a verified body, such as an Amazon SNS
    /// subscription. Fetch the URL only after the event is stored.
    pub fn confirmation(&self, body: &[u8]) -> Option<String> {
        let confirms = self.confirms_subscriptions();
        confirms.then(|| code::sns::confirmation(body)).flatten()
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

/// Returns whether a request with this method can be an event. Webhooks use POST. Mitt accepts
/// another method only if the method is part of the signed message.
fn is_event_method(scheme: &Scheme, envelope: &Envelope) -> bool {
    let method = |part: &Part| *part == Part::Method;
    envelope.method == "POST" || scheme.message.any(&method)
}

/// Returns whether the location of the scheme's signature, or of its credential, has a value.
fn carries_signature(scheme: &Scheme, envelope: &Envelope) -> bool {
    scheme.proof().any(|place| match place {
        Location::Header(names) => names.iter().any(|name| {
            let mut values = envelope.headers.all(name);
            values.any(|value| !value.is_empty())
        }),
        Location::HeaderNumbered(prefix) => {
            let mut headers = envelope.headers.iter();
            headers.any(|(name, value)| name.starts_with(&prefix) && !value.is_empty())
        }
        place => match place.find_all(envelope) {
            Ok(values) => values.into_iter().flatten().any(|value| !value.is_empty()),
            // A body that is not JSON has no value at this location. Any other error means that the
            // location has a value.
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

/// Returns whether a secret can be decoded to a key of the scheme. Verification skips other
/// secrets.
pub fn is_key(scheme: &Scheme, secret: &Secret) -> bool {
    key(scheme.key, secret.expose()).is_some()
}
