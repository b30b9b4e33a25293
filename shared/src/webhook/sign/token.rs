//! Creates a signed token with the claims that a preset requires.

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::With;
use crate::base::clock::UnixMillis;
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Alg, Hash, Jwt, Location};
use crate::webhook::verify::{canonical, encode, mac_sign};

/// How long a token is valid, in seconds.
const LIFE: i64 = 60;

pub(super) fn token(
    jwt: &Jwt,
    with: With<'_>,
    envelope: &Envelope,
    at: UnixMillis,
) -> anyhow::Result<String> {
    let (alg, kid) = match with {
        With::Secret(_) => (Alg::HS256, None),
        With::Pair(pair) => (pair.alg()?, Some(pair.kid())),
    };
    ensure!(
        jwt.algs.contains(&alg),
        "the scheme does not accept tokens signed with {alg:?}"
    );
    let mut header = json!({ "alg": format!("{alg:?}"), "typ": "JWT" });
    if let Some(kid) = kid {
        header["kid"] = json!(kid);
    }
    let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let signed = format!(
        "{}.{}",
        encoded(&header),
        encoded(&claims(jwt, envelope, at)?)
    );
    let signature = match with {
        With::Secret(key) => mac_sign(Hash::Sha256, key, &[signed.as_bytes().into()]),
        With::Pair(pair) => pair.sign_token(signed.as_bytes())?,
    };
    let signature = URL_SAFE_NO_PAD.encode(signature);
    Ok(format!("{}{signed}.{signature}", jwt.prefix))
}

fn claims(jwt: &Jwt, envelope: &Envelope, at: UnixMillis) -> anyhow::Result<Value> {
    let now = at.secs();
    let mut claims = match jwt.from {
        Location::Body => event(jwt, envelope, now)?,
        _ => json!({ "iat": now, "nbf": now, "exp": now + LIFE }),
    };
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
    if let Some(name) = &jwt.body_sha256_claim {
        claims[name] = json!(encode(jwt.body_sha256_enc, &Sha256::digest(&envelope.body)));
    }
    if let Some(name) = &jwt.url_sha256_claim {
        claims[name] = json!(hex::encode(Sha256::digest(&envelope.url)));
    }
    if let Some(name) = &jwt.qsh_claim {
        let request = canonical(envelope, &jwt.base_path);
        let request = request.context("the path is not below the base path")?;
        claims[name] = json!(hex::encode(Sha256::digest(request)));
    }
    Ok(claims)
}

/// Returns the claims of a body that is a token. Before it is signed for the first time, the body is
/// the JSON of the claims.
fn event(jwt: &Jwt, envelope: &Envelope, now: i64) -> anyhow::Result<Value> {
    let body = &envelope.body;
    let mut parts = body.split(|b| *b == b'.');
    let decoded = match (parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(claims), Some(_)) => URL_SAFE_NO_PAD.decode(claims).ok(),
        _ => None,
    };
    let claims = serde_json::from_slice(body)
        .or_else(|_| serde_json::from_slice(&decoded.unwrap_or_default()));
    let claims: Value = claims.context("the body contains no claims")?;
    ensure!(
        claims.is_object(),
        "the claims in the body are not an object"
    );
    let mut claims = claims;
    for (name, is_required, value) in [
        ("iat", jwt.iat_max_age.is_some(), now),
        ("nbf", jwt.nbf, now),
        ("exp", jwt.exp, now + LIFE),
    ] {
        if is_required || claims.get(name).is_some() {
            claims[name] = json!(value);
        }
    }
    Ok(claims)
}
