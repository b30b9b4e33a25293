//! Signs as a provider signs: for test webhooks and for what we send on ourselves.

mod place;

use anyhow::{Context as _, anyhow, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::clock::Millis;
use crate::envelope::Envelope;
use crate::preset::{Alg, Format, Hash, Jwt, Kind, Location, Part, Place, Scheme};
use crate::secrets::Secret;
use crate::verify::{Context, Group, Rejected, digest, encode, key, mac_sign, message, written};

/// The headers that prove a request: the signature, and the time where one is signed. The
/// message may name other headers; those must be in the envelope already.
///
/// A provider that puts its signature into the body or the URL has none: see [`signed`].
pub fn sign(
    scheme: &Scheme,
    secret: &Secret,
    envelope: &Envelope,
    at: Millis,
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

/// The request with all that proves it, wherever it has to stand. Public keys cannot sign.
pub fn signed(
    scheme: &Scheme,
    secret: &Secret,
    mut envelope: Envelope,
    at: Millis,
) -> anyhow::Result<Envelope> {
    let key =
        key(scheme.key, secret.expose()).context("the secret is empty or cannot be decoded")?;
    for (name, value) in &scheme.require_header {
        if envelope.headers.all(name).next().is_none() {
            envelope.headers.set(name, value);
        }
    }
    match &scheme.kind {
        Kind::Hmac | Kind::Hash => hashed(scheme, &key, envelope, at),
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
        Kind::Jwt => {
            let jwt = scheme.jwt.as_ref().context("it has a jwt")?;
            let token = token(jwt, &key, &envelope, at)?;
            place::set(&mut envelope, &jwt.from, &token)?;
            Ok(envelope)
        }
        kind => bail!("{kind:?} cannot be signed with a secret"),
    }
}

/// Whether [`signed`] can sign so.
pub fn can_sign(scheme: &Scheme) -> bool {
    match &scheme.kind {
        Kind::Hmac | Kind::Hash | Kind::Token | Kind::Basic => true,
        Kind::Jwt => scheme
            .jwt
            .as_ref()
            .is_some_and(|jwt| jwt.algs.contains(&Alg::HS256)),
        _ => false,
    }
}

fn hashed(
    scheme: &Scheme,
    key: &[u8],
    mut envelope: Envelope,
    at: Millis,
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
            secret: key,
            ..Context::new(place).beside(&group)
        };
        let message = message(scheme, &context)
            .map_err(|Rejected(reason)| anyhow!("the message lacks what is signed: {reason}"))?;
        let bytes = match scheme.kind {
            Kind::Hash => digest(scheme.hash, &message),
            _ => mac_sign(scheme.hash, key, &message),
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

fn token(jwt: &Jwt, key: &[u8], envelope: &Envelope, at: Millis) -> anyhow::Result<String> {
    ensure!(
        jwt.algs.contains(&Alg::HS256),
        "its tokens are not signed with a secret"
    );
    let mut claims = json!({ "iat": at.secs(), "nbf": at.secs(), "exp": at.secs() + 60 });
    if let Some(iss) = &jwt.iss {
        claims["iss"] = json!(iss);
    }
    if let Some(aud) = &jwt.aud {
        claims["aud"] = json!(aud.replace("{public_url}", envelope.public_url()));
    }
    if let Some(email) = &jwt.email {
        claims["email"] = json!(email);
        claims["email_verified"] = json!(true);
    }
    let hashes = [
        (&jwt.body_sha256_claim, &envelope.body[..]),
        (&jwt.url_sha256_claim, envelope.url.as_bytes()),
    ];
    for (name, of) in hashes {
        if let Some(name) = name {
            claims[name] = json!(hex::encode(Sha256::digest(of)));
        }
    }
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let mac = mac_sign(Hash::Sha256, key, &[signed.as_bytes().into()]);
    Ok(format!(
        "{}{signed}.{}",
        jwt.prefix,
        URL_SAFE_NO_PAD.encode(mac)
    ))
}
