//! PayPal signs a message that contains the CRC-32 of the body. A header contains the URL of the
//! certificate. <https://developer.paypal.com/api/rest/webhooks/rest/>
//!
//! An attacker can create another body with the same CRC-32, so the signature proves only the
//! origin.

use super::certificate::{self, RSA_SHA256, Signed, host_and_path};
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Place, Scheme};
use crate::webhook::verify::decode::decode;
use crate::webhook::verify::message::{Context, message};
use crate::webhook::verify::prove::{Key, Owner};
use crate::webhook::verify::{Reason, Rejected, Trust, Wanted, unreadable};

/// The names of PayPal's certificates, live and sandbox.
const NAMES: [&str; 2] = [
    "messageverificationcerts.paypal.com",
    "messageverificationcerts.sandbox.paypal.com",
];

/// Finds the webhook whose id is in the signed message. The source stores the webhook ids as its
/// secrets.
pub(in crate::webhook::verify) fn prove<'s>(
    scheme: &Scheme,
    trust: &Trust,
    envelope: &Envelope,
    keys: &[Key<'s>],
) -> Result<Owner<'s>, Rejected> {
    let signature = scheme.sig.from.find(envelope).map_err(unreadable)?;
    let signature = signature.filter(|signature| !signature.is_empty());
    let signature = signature.ok_or(Rejected(Reason::MissingHeader))?;
    let signature = decode(scheme.sig.enc, &signature);
    let signature = signature.ok_or(Rejected(Reason::MalformedSignature))?;
    let url = cert_url(envelope)?;
    if !may_be_fetched(url) {
        return Err(Rejected(Reason::UntrustedCertUrl));
    }
    let mut messages = Vec::new();
    for (_, key) in keys {
        let context = Context {
            secret: key,
            ..Context::new(Place::from(envelope))
        };
        messages.push(message(scheme, &context)?.concat());
    }
    let signed = Signed {
        url,
        names: &NAMES,
        alg: RSA_SHA256,
        signature: &signature,
        now: envelope.received_at,
    };
    let index = certificate::signed(trust, &signed, &messages)?;
    let signed = keys.get(index).zip(messages.into_iter().nth(index));
    let (key, message) = signed.ok_or(Rejected(Reason::BadSignature))?;
    Ok(Owner::new(scheme, key, &[message.into()]))
}

/// The certificate to fetch.
pub(in crate::webhook::verify) fn wanted(envelope: &Envelope) -> Option<Wanted> {
    let url = cert_url(envelope).ok()?;
    may_be_fetched(url).then(|| Wanted::Certificate(url.to_owned()))
}

fn cert_url(envelope: &Envelope) -> Result<&str, Rejected> {
    let url = envelope.headers.one("paypal-cert-url");
    let url = url.map_err(|_| Rejected(Reason::DuplicateHeader))?;
    url.ok_or(Rejected(Reason::MissingHeader))
}

fn may_be_fetched(url: &str) -> bool {
    host_and_path(url).is_some_and(|(host, path)| {
        matches!(host, "api.paypal.com" | "api.sandbox.paypal.com")
            && path.starts_with("/v1/notifications/certs/")
    })
}
