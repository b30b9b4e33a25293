//! Signs as a provider signs: for test webhooks and for what we send on ourselves.

mod app;
mod code;
mod key_pair;
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

/// What it takes to sign as a scheme wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The secret that the receiver has too: see [`signed`].
    Secret,
    /// A private key: see [`signed_by`].
    KeyPair(Algorithm),
    /// Nothing is signed.
    Nothing,
    /// It cannot be signed here, and why.
    No(&'static str),
}

/// What a request is signed with.
#[derive(Clone, Copy)]
enum With<'k> {
    /// The key that a secret stands for.
    Secret(&'k [u8]),
    Pair(&'k KeyPair),
}

/// What it takes to sign so.
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
            None => Means::No("it accepts no token"),
        },
        Kind::None => Means::Nothing,
        Kind::FetchBack => Means::No(
            "what it names is fetched from the provider's API, so that only a notice about a real \
             object becomes an event",
        ),
        Kind::Code(Code::PayPal) => {
            Means::No("PayPal signs with a certificate of its own, whose key nobody else has")
        }
        Kind::Code(Code::Sns) => {
            Means::No("Amazon SNS signs with a certificate of its own, whose key nobody else has")
        }
        Kind::Code(Code::Ebay) => {
            Means::No("eBay signs with keys of its own, which are fetched from eBay by their name")
        }
        Kind::Code(Code::Keygen(kind)) => Means::KeyPair(match **kind {
            Kind::Ed25519 => Algorithm::Ed25519,
            Kind::RsaSha256 => Algorithm::RsaSha256,
            _ => Algorithm::EcdsaP256,
        }),
        Kind::Code(Code::Missing(_)) => Means::No("its signature is code that is not written yet"),
    }
}

/// The headers that prove a request: the signature, and the time where one is signed. The
/// message may name other headers; those must be in the envelope already.
///
/// A provider that puts its signature into the body or the URL has none: see [`signed`].
pub fn sign(
    scheme: &Scheme,
    secret: &Secret,
    envelope: &Envelope,
    at: UnixMillis,
) -> anyhow::Result<Vec<(String, String)>> {
    let signed = signed(scheme, secret, envelope.clone(), at)?;
    ensure!(
        signed.body == envelope.body && signed.url == envelope.url,
        "its signature is not in headers alone"
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

/// The request with all that proves it, wherever it has to stand. Public keys cannot sign: see
/// [`signed_by`].
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
        kind => bail!("{kind:?} cannot be signed with a secret"),
    }
}

/// The same, signed with a private key, where the provider publishes the public one.
pub fn signed_by(
    scheme: &Scheme,
    pair: &KeyPair,
    mut envelope: Envelope,
    at: UnixMillis,
) -> anyhow::Result<Envelope> {
    ensure!(
        means(scheme) == Means::KeyPair(pair.algorithm()),
        "it is not signed with a key of {}",
        pair.algorithm()
    );
    require_headers(scheme, &mut envelope);
    match &scheme.kind {
        Kind::Jwt => with_token(scheme, With::Pair(pair), envelope, at),
        Kind::Code(Code::Keygen(kind)) => code::keygen(kind, pair, envelope, at),
        _ => with_signature(scheme, With::Pair(pair), envelope, at),
    }
}

/// Whether [`signed`] can sign so.
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
    let jwt = scheme.jwt.as_ref().context("it has a jwt")?;
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
            .map_err(|Rejected(reason)| anyhow!("the message lacks what is signed: {reason}"))?;
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
        .map_err(|_| anyhow!("it is not JSON"))?;
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

/// What stands beside the signature.
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

/// The text of a signature where it stands, with its tag and the fields beside it.
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
