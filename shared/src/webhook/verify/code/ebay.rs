//! eBay signs the SHA-1 of the body with ECDSA on P-256. A header contains the key id and the
//! signature as base64 JSON.
//! <https://developer.ebay.com/api-docs/commerce/notification/overview.html>
//!
//! SHA-1 is eBay's choice. An attacker who has two bodies with the same hash still needs eBay's
//! signature for one of these bodies.

use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use p256::ecdsa::{Signature, VerifyingKey};
use serde::Deserialize;
use sha1::{Digest as _, Sha1};

use crate::webhook::envelope::Envelope;
use crate::webhook::preset::Encoding;
use crate::webhook::verify::decode::decode;
use crate::webhook::verify::jwt::is_kid;
use crate::webhook::verify::prove::Proof;
use crate::webhook::verify::{Reason, Rejected, Trust, Wanted};

/// The longest accepted header, in bytes.
const LONGEST: usize = 4096;

/// The `SubjectPublicKeyInfo` of a P-256 key up to its uncompressed point.
/// <https://www.rfc-editor.org/rfc/rfc5480>
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

#[derive(Deserialize)]
struct Named {
    alg: Option<String>,
    kid: String,
    signature: String,
    digest: Option<String>,
}

/// Verifies the request. The proof contains the key id instead of a secret's label.
pub(in crate::webhook::verify) fn prove(
    trust: &Trust,
    envelope: &Envelope,
) -> Result<Proof, Rejected> {
    let named = named(envelope)?;
    let is = |text: &Option<String>, expected: &str| {
        let text = text.as_deref();
        text.is_none_or(|text| text.eq_ignore_ascii_case(expected))
    };
    if !(is(&named.alg, "ecdsa") && is(&named.digest, "sha1")) {
        return Err(Rejected(Reason::AlgNotAllowed));
    }
    let malformed = Rejected(Reason::MalformedSignature);
    let signature = decode(Encoding::Base64Der, &named.signature);
    let signature = signature.and_then(|der| of_der(&der)).ok_or(malformed)?;
    let key = trust.key(&named.kid);
    let key = key.ok_or(Rejected(Reason::NotFetched))?;
    let point = key.strip_prefix(&P256);
    let key = point.and_then(|point| VerifyingKey::from_sec1_bytes(point).ok());
    let key = key.ok_or(Rejected(Reason::UnknownKey))?;
    if key
        .verify_prehash(&Sha1::digest(&envelope.body), &signature)
        .is_err()
    {
        return Err(Rejected(Reason::BadSignature));
    }
    Ok(Proof {
        secret: Some(named.kid),
        ..Proof::default()
    })
}

/// The public key to fetch.
pub(in crate::webhook::verify) fn wanted(envelope: &Envelope) -> Option<Wanted> {
    named(envelope).ok().map(|named| Wanted::Key(named.kid))
}

fn named(envelope: &Envelope) -> Result<Named, Rejected> {
    let header = envelope.headers.one("x-ebay-signature");
    let header = header.map_err(|_| Rejected(Reason::DuplicateHeader))?;
    let header = header.filter(|header| !header.is_empty());
    let header = header.ok_or(Rejected(Reason::MissingHeader))?;
    let json = (header.len() <= LONGEST)
        .then(|| decode(Encoding::Base64, header))
        .flatten();
    let named: Option<Named> = json.and_then(|json| serde_json::from_slice(&json).ok());
    let named = named.filter(|named| is_kid(&named.kid));
    named.ok_or(Rejected(Reason::MalformedSignature))
}

/// Parses the DER form of a signature: two numbers of at most 32 bytes each. The DER parser of the
/// `p256` crate needs a feature that Mitt does not enable.
fn of_der(der: &[u8]) -> Option<Signature> {
    let [0x30, len, rest @ ..] = der else {
        return None;
    };
    if usize::from(*len) != rest.len() {
        return None;
    }
    let (r, rest) = number(rest)?;
    let (s, rest) = number(rest)?;
    let good = rest.is_empty();
    good.then(|| Signature::from_scalars(r, s).ok()).flatten()
}

fn number(der: &[u8]) -> Option<([u8; 32], &[u8])> {
    let [0x02, len, rest @ ..] = der else {
        return None;
    };
    let (digits, rest) = rest.split_at_checked(usize::from(*len))?;
    let digits = match digits {
        // A leading zero is valid only if the number would be negative without it.
        [0, first, ..] if *first >= 0x80 => digits.get(1..)?,
        [first, ..] if *first == 0 || *first >= 0x80 => return None,
        digits => digits,
    };
    let mut number = [0; 32];
    let from = number.len().checked_sub(digits.len())?;
    number.get_mut(from..)?.copy_from_slice(digits);
    Some((number, rest))
}
