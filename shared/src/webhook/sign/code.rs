//! Signs requests for schemes that a preset cannot describe. Mitt can sign for these schemes
//! because the operator has the key.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::KeyPair;
use crate::base::clock::UnixMillis;
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Hash, Kind};
use crate::webhook::verify::code::{keygen, plivo};
use crate::webhook::verify::mac_sign;

/// Plivo signs the URL, the form and a nonce.
pub(super) fn plivo(key: &[u8], mut envelope: Envelope) -> anyhow::Result<Envelope> {
    let mut random = [0; 12];
    crate::base::random::fill(&mut random)?;
    let nonce = hex::encode(random);
    let message = [plivo::message(&envelope, &nonce).into()];
    let signature = STANDARD.encode(mac_sign(Hash::Sha256, key, &message));
    envelope.headers.set("x-plivo-signature-v3", &signature);
    envelope.headers.set("x-plivo-signature-v3-nonce", &nonce);
    Ok(envelope)
}

/// Keygen signs the request line, host, date and a digest of the body.
pub(super) fn keygen(
    kind: &Kind,
    pair: &KeyPair,
    mut envelope: Envelope,
    at: UnixMillis,
) -> anyhow::Result<Envelope> {
    let date = jiff::Timestamp::from_millisecond(at.0).context("the time is out of range")?;
    let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let digest = keygen::digest(&envelope);
    let message = keygen::message(&envelope, &date, &digest);
    let signature = STANDARD.encode(pair.sign(message.as_bytes())?);
    let (algorithm, signed) = (keygen::algorithm(kind), keygen::SIGNED);
    let header = format!(
        r#"keyid="test",algorithm="{algorithm}",signature="{signature}",headers="{signed}""#
    );
    envelope.headers.set("date", &date);
    envelope.headers.set("digest", &digest);
    envelope.headers.set("keygen-signature", &header);
    Ok(envelope)
}
