//! Signs as a provider signs: for test webhooks and for what we send on ourselves.

use anyhow::{Context as _, anyhow, bail, ensure};
use base64::Engine as _;

use crate::clock::Millis;
use crate::envelope::Envelope;
use crate::preset::{Encoding, Format, Location, Scheme};
use crate::secrets::Secret;
use crate::verify::{Rejected, key, mac_sign, message};

/// The headers that prove a request: the signature, and the time where one is signed. The
/// message may name other headers; those must be in the envelope already.
pub fn sign(
    scheme: &Scheme,
    secret: &Secret,
    envelope: &Envelope,
    at: Millis,
) -> anyhow::Result<Vec<(String, String)>> {
    let key =
        key(scheme.key, secret.expose()).context("the secret is empty or cannot be decoded")?;
    let ts = at.secs().to_string();
    let message = message(scheme, envelope, Some(&ts))
        .map_err(|Rejected(reason)| anyhow!("the message lacks what is signed: {reason}"))?;

    let signature = mac_sign(scheme.hash, &key, &message);
    let signature = match scheme.sig.enc {
        Encoding::Hex => hex::encode(signature),
        Encoding::Base64 => base64::engine::general_purpose::STANDARD.encode(signature),
    };
    let Location::Header(names) = &scheme.sig.from else {
        bail!("signatures stand in headers")
    };
    let name = names.first().context("a header has a name")?.clone();
    let mut headers = Vec::new();
    let tag = scheme.sig.take.first().map_or("", String::as_str);
    let value = match scheme.sig.format {
        Format::Plain => format!("{}{signature}", scheme.sig.prefix),
        Format::TaggedList => format!("{tag}{}{signature}", scheme.sig.tag_sep),
        Format::KvList => match scheme.ts.as_ref().map(|ts| &ts.from) {
            Some(Location::Sig(key)) => format!("{key}={ts}{}{tag}={signature}", scheme.sig.entry),
            _ => format!("{tag}={signature}"),
        },
    };
    headers.push((name, value));
    if let Some(Location::Header(names)) = scheme.ts.as_ref().map(|ts| &ts.from) {
        ensure!(!names.is_empty(), "a header has a name");
        headers.push((names[0].clone(), ts));
    }
    Ok(headers)
}
