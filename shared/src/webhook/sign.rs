//! Signs requests as a provider does. Mitt signs test webhooks and the events that it forwards.

mod app;
mod code;
mod key_pair;
mod outgoing;
mod place;
mod token;

use anyhow::{Context as _, anyhow, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::base::clock::UnixMillis;
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Alg, Code, Format, Kind, Location, Part, Place, Scheme};
use crate::webhook::secret::Secret;
use crate::webhook::verify::{
    Context, Group, Rejected, digest, encode, key, mac_sign, message, written,
};
pub use app::app_token;
pub use key_pair::{Algorithm, KeyPair};
pub use outgoing::{Original, Receiver, SignedRequest, SigningKey, not_kept, outgoing, unsignable};

/// The kind of key that signs requests of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The secret that the receiver also has. See [`signed`].
    Secret,
    /// A private key. See [`signed_by`].
    KeyPair(Algorithm),
    /// The scheme has no signature.
    Nothing,
    /// Mitt cannot sign for this scheme. The text is the reason.
    No(&'static str),
}

/// The key for one signature.
#[derive(Clone, Copy)]
enum With<'k> {
    /// The key bytes decoded from a secret.
    Secret(&'k [u8]),
    Pair(&'k KeyPair),
}

/// Returns the kind of key that signs requests of this scheme.
pub fn means(scheme: &Scheme) -> Means {
    match &scheme.kind {
        Kind::Hmac | Kind::Hash | Kind::Token | Kind::Basic | Kind::Code(Code::Plivo) => {
            Means::Secret
        }
        Kind::Ed25519 => Means::KeyPair(Algorithm::Ed25519),
        Kind::EcdsaP256 => Means::KeyPair(Algorithm::EcdsaP256),
        Kind::RsaSha256 => Means::KeyPair(Algorithm::RsaSha256),
        Kind::Jwt => match scheme.jwt.as_ref().and_then(|jwt| jwt.algs.first()) {
            Some(Alg::HS256) => Means::Secret,
            Some(Alg::ES256) => Means::KeyPair(Algorithm::EcdsaP256),
            Some(Alg::RS256) => Means::KeyPair(Algorithm::RsaSha256),
            None => Means::No("the scheme accepts no token algorithm"),
        },
        Kind::None => Means::Nothing,
        Kind::FetchBack => Means::No(
            "the event is fetched from the provider's API, so only a notice about a real object \
             becomes an event",
        ),
        Kind::Code(Code::Adobe) => {
            Means::No("Adobe signs with its own keys, and only their public keys can be fetched")
        }
        Kind::Code(Code::PayPal) => {
            Means::No("PayPal signs with its own certificate, and only PayPal has the private key")
        }
        Kind::Code(Code::Sns) => {
            Means::No("Amazon SNS signs with its own certificate, and only AWS has the private key")
        }
        Kind::Code(Code::Ebay) => {
            Means::No("eBay signs with its own keys, and only their public keys can be fetched")
        }
        Kind::Code(Code::Keygen(kind)) => Means::KeyPair(match **kind {
            Kind::Ed25519 => Algorithm::Ed25519,
            Kind::RsaSha256 => Algorithm::RsaSha256,
            _ => Algorithm::EcdsaP256,
        }),
        Kind::Code(Code::Missing(_)) => {
            Means::No("the signature of this provider is not implemented")
        }
    }
}

/// Returns the headers that prove a request: the signature, and the timestamp if it is signed. If
/// the signed message contains other headers, the envelope must already contain them.
///
/// Fails if the signature is in the body or the URL. For such a scheme, use [`signed`].
pub fn sign(
    scheme: &Scheme,
    secret: &Secret,
    envelope: &Envelope,
    at: UnixMillis,
) -> anyhow::Result<Vec<(String, String)>> {
    let signed = signed(scheme, secret, envelope.clone(), at)?;
    ensure!(
        signed.body == envelope.body && signed.url == envelope.url,
        "the signature of this scheme is in the body or the URL, not only in headers"
    );
    let known: Vec<(&str, &str)> = envelope.headers.iter().collect();
    let new = signed
        .headers
        .iter()
        .filter(|header| !known.contains(header));
    Ok(new
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

/// Returns the request with its signature, which can be in the headers, the body or the URL. For a
/// scheme with public keys, use [`signed_by`].
pub fn signed(
    scheme: &Scheme,
    secret: &Secret,
    mut envelope: Envelope,
    at: UnixMillis,
) -> anyhow::Result<Envelope> {
    let key =
        key(scheme.key, secret.expose()).context("the secret is empty or cannot be decoded")?;
    require_headers(scheme, &mut envelope);
    match &scheme.kind {
        Kind::Hmac | Kind::Hash => with_signature(scheme, With::Secret(&key), envelope, at),
        Kind::Token => {
            let token = format!("{}{}", scheme.sig.prefix, String::from_utf8_lossy(&key));
            place::set(&mut envelope, &scheme.sig.from, &token)?;
            Ok(envelope)
        }
        Kind::Basic => {
            let value = format!("Basic {}", STANDARD.encode(&key));
            envelope.headers.set("authorization", &value);
            Ok(envelope)
        }
        Kind::Jwt => with_token(scheme, With::Secret(&key), envelope, at),
        Kind::Code(Code::Plivo) => code::plivo(&key, envelope),
        kind => bail!("{kind:?} requests cannot be signed with a secret"),
    }
}

/// Like [`signed`], but with a private key, for providers that publish a public key.
pub fn signed_by(
    scheme: &Scheme,
    pair: &KeyPair,
    mut envelope: Envelope,
    at: UnixMillis,
) -> anyhow::Result<Envelope> {
    ensure!(
        means(scheme) == Means::KeyPair(pair.algorithm()),
        "the scheme does not use {} keys",
        pair.algorithm()
    );
    require_headers(scheme, &mut envelope);
    match &scheme.kind {
        Kind::Jwt => with_token(scheme, With::Pair(pair), envelope, at),
        Kind::Code(Code::Keygen(kind)) => code::keygen(kind, pair, envelope, at),
        _ => with_signature(scheme, With::Pair(pair), envelope, at),
    }
}

/// Returns whether [`signed`] supports the scheme.
pub fn can_sign(scheme: &Scheme) -> bool {
    means(scheme) == Means::Secret
}

fn require_headers(scheme: &Scheme, envelope: &mut Envelope) {
    for (name, value) in &scheme.require_header {
        if envelope.headers.all(name).next().is_none() {
            envelope.headers.set(name, value);
        }
    }
}

fn with_token(
    scheme: &Scheme,
    with: With<'_>,
    mut envelope: Envelope,
    at: UnixMillis,
) -> anyhow::Result<Envelope> {
    let jwt = scheme.jwt.as_ref().context("the scheme has no jwt table")?;
    let token = token::token(jwt, with, &envelope, at)?;
    place::set(&mut envelope, &jwt.from, &token)?;
    Ok(envelope)
}

fn with_signature(
    scheme: &Scheme,
    with: With<'_>,
    mut envelope: Envelope,
    at: UnixMillis,
) -> anyhow::Result<Envelope> {
    let ts = scheme.ts.as_ref();
    let time = ts.map_or(String::new(), |ts| written(ts.unit, at));
    if let Some(from) = ts.map(|ts| &ts.from)
        && !matches!(from, Location::Sig(_))
    {
        place::set(&mut envelope, from, &time)?;
    }
    if let (Some(kid), With::Pair(pair)) = (
        scheme.key_set.as_ref().and_then(|set| set.kid.as_ref()),
        with,
    ) {
        place::set(&mut envelope, kid, &pair.kid())?;
    }
    let named = scheme.require_signed.join(",");
    for part in &scheme.message.0 {
        if let Part::SignedHeadersKv(header) = part {
            envelope.headers.set(header, &named);
        }
    }
    if let Some(hash) = &scheme.body_hash {
        let text = encode(hash.enc, &Sha256::digest(&envelope.body));
        place::set(&mut envelope, &hash.from, &text)?;
    }
    let group = Group::new(fields(scheme, &time));
    let signature = |place: Place<'_>| {
        let context = Context {
            ts: Some(&time),
            secret: match with {
                With::Secret(key) => key,
                With::Pair(_) => &[],
            },
            ..Context::new(place).beside(&group)
        };
        let message = message(scheme, &context)
            .map_err(|Rejected(reason)| anyhow!("cannot build the message to sign: {reason}"))?;
        let bytes = match (with, &scheme.kind) {
            (With::Pair(pair), _) => pair.sign(&message.concat())?,
            (With::Secret(_), Kind::Hash) => digest(scheme.hash, &message),
            (With::Secret(key), _) => mac_sign(scheme.hash, key, &message),
        };
        Ok::<_, anyhow::Error>(encode(scheme.sig.enc, &bytes))
    };
    let Some(path) = &scheme.for_each else {
        let text = with_fields(scheme, &time, &signature(Place::from(&envelope))?);
        place::set(&mut envelope, &scheme.sig.from, &text)?;
        return Ok(envelope);
    };
    let items = path
        .all(&envelope.body)
        .map_err(|_| anyhow!("the body is not JSON"))?;
    let signatures = items.into_iter().map(|item| {
        signature(Place {
            item,
            ..Place::from(&envelope)
        })
    });
    let signatures: Vec<String> = signatures.collect::<anyhow::Result<_>>()?;
    place::set_each(&mut envelope, path, &scheme.sig.from, &signatures)?;
    Ok(envelope)
}

/// The fields that the signature header contains besides the signature.
fn fields(scheme: &Scheme, time: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    if let Some(Location::Sig(key)) = scheme.ts.as_ref().map(|ts| &ts.from) {
        fields.push((key.clone(), time.to_owned()));
    }
    for part in &scheme.message.0 {
        if let Part::SignedHeaders(key) = part {
            fields.push((key.clone(), scheme.require_signed.join(" ")));
        }
    }
    fields
}

/// Returns the value of the signature header: the signature with its tag and the other fields.
fn with_fields(scheme: &Scheme, time: &str, signature: &str) -> String {
    let sig = &scheme.sig;
    let tag = sig.take.first().map_or("", String::as_str);
    match sig.format {
        Format::Plain => format!("{}{signature}", sig.prefix),
        Format::TaggedList => format!("{tag}{}{signature}", sig.tag_sep),
        Format::Pairs => format!("{tag}{}{signature}", sig.kv),
        Format::Positional if sig.ts_index == 0 => format!("{time}{}{signature}", sig.entry),
        Format::Positional => format!("{signature}{}{time}", sig.entry),
        Format::KvList | Format::KvGroups => {
            let fields = fields(scheme, time).into_iter();
            let fields = fields.map(|(key, value)| format!("{key}={value}{}", sig.entry));
            format!("{}{tag}={signature}", fields.collect::<String>())
        }
    }
}
