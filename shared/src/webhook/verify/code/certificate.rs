//! Verifies signatures with a certificate whose URL is in the request.

use std::time::Duration;

use ring::signature::{RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, UnparsedPublicKey};
use rustls_pki_types::{
    AlgorithmIdentifier, InvalidSignature, ServerName, SignatureVerificationAlgorithm, UnixTime,
    alg_id,
};
use webpki::{EndEntityCert, KeyUsage, ring as algs};

use crate::base::clock::UnixMillis;
use crate::webhook::verify::{Reason, Rejected, Trust};

/// The signature algorithms that are allowed in a certificate chain.
static CHAIN: &[&dyn SignatureVerificationAlgorithm] = &[
    algs::RSA_PKCS1_2048_8192_SHA256,
    algs::RSA_PKCS1_2048_8192_SHA384,
    algs::RSA_PKCS1_2048_8192_SHA512,
    algs::ECDSA_P256_SHA256,
    algs::ECDSA_P256_SHA384,
    algs::ECDSA_P384_SHA256,
    algs::ECDSA_P384_SHA384,
];

/// RSA with SHA-256. PayPal and version 2 of Amazon SNS use this algorithm.
pub(super) use algs::RSA_PKCS1_2048_8192_SHA256 as RSA_SHA256;

/// RSA with SHA-1. Version 1 of Amazon SNS uses this algorithm. Do not use it for other providers.
pub(super) static RSA_SHA1: &dyn SignatureVerificationAlgorithm = &RsaSha1;

/// The maximum length of a certificate's URL, in bytes. The limit is necessary because Mitt stores
/// the URL. The URLs of providers have about 100 bytes.
const LONGEST_URL: usize = 256;

/// The inputs for verifying a signed request.
pub(super) struct Signed<'s> {
    /// The URL of the certificate. The caller has checked that it is allowed.
    pub(super) url: &'s str,
    /// The allowed names. The certificate must have one of them.
    pub(super) names: &'s [&'s str],
    pub(super) alg: &'static dyn SignatureVerificationAlgorithm,
    pub(super) signature: &'s [u8],
    pub(super) now: UnixMillis,
}

/// Returns the index of the message that was signed with the certificate. The certificate must have
/// a trusted root and an allowed name, and must be valid at the time of receipt.
pub(super) fn signed(
    trust: &Trust,
    signed: &Signed<'_>,
    messages: &[Vec<u8>],
) -> Result<usize, Rejected> {
    let undecided = Rejected(Reason::NotFetched);
    let chain = trust.chain(signed.url).ok_or(undecided)?;
    let [leaf, between @ ..] = &*chain else {
        return Err(undecided);
    };
    let roots = trust.roots();
    if roots.is_empty() {
        return Err(undecided);
    }
    let untrusted = Rejected(Reason::UntrustedCert);
    let certificate = EndEntityCert::try_from(leaf).map_err(|_| untrusted)?;
    let now = u64::try_from(signed.now.secs()).map_err(|_| untrusted)?;
    certificate
        .verify_for_usage(
            CHAIN,
            &roots,
            between,
            UnixTime::since_unix_epoch(Duration::from_secs(now)),
            KeyUsage::server_auth(),
            None,
            None,
        )
        .map_err(|_| untrusted)?;
    let named = signed.names.iter().any(|name| {
        let name = ServerName::try_from(*name);
        name.is_ok_and(|name| certificate.verify_is_valid_for_subject_name(&name).is_ok())
    });
    if !named {
        return Err(untrusted);
    }
    let good = |message: &Vec<u8>| {
        let verified = certificate.verify_signature(signed.alg, message, signed.signature);
        verified.is_ok()
    };
    let index = messages.iter().position(good);
    index.ok_or(Rejected(Reason::BadSignature))
}

/// Splits an https URL that consists only of a host and a plain path. Rejects a user, port, query
/// or escape, because these can hide another host. Rejects empty segments, `.` and `..`, because
/// with them, one document could have any number of URLs.
pub(super) fn host_and_path(url: &str) -> Option<(&str, &str)> {
    let after = url.strip_prefix("https://")?;
    if url.len() > LONGEST_URL {
        return None;
    }
    let (host, path) = after.split_at(after.find('/')?);
    let in_host = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b);
    let in_path = |b: u8| b.is_ascii_alphanumeric() || b"/._-".contains(&b);
    let plain = |segment: &str| !matches!(segment, "" | "." | "..");
    let plain = path.split('/').skip(1).all(plain);
    (host.bytes().all(in_host) && path.bytes().all(in_path) && plain).then_some((host, path))
}

#[derive(Debug)]
struct RsaSha1;

impl SignatureVerificationAlgorithm for RsaSha1 {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, public_key)
            .verify(message, signature)
            .map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    /// The object identifier of sha1WithRSAEncryption: 1.2.840.113549.1.1.5.
    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        AlgorithmIdentifier::from_slice(&[
            0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05, 0x05, 0x00,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_host_and_path_and_not_long() {
        let of_length = |length: usize| {
            let start = "https://api.paypal.com/";
            format!("{start}{}", "a".repeat(length - start.len()))
        };
        assert!(host_and_path(&of_length(LONGEST_URL)).is_some());
        assert_eq!(host_and_path(&of_length(LONGEST_URL + 1)), None);
        for bad in [
            "http://a/b",
            "https://a",
            "https://u@a/b",
            "https://a:1/b",
            "https://a/b?c",
            "https://a/b//c",
            "https://a/b/./c",
            "https://a/b/../c",
        ] {
            assert_eq!(host_and_path(bad), None, "{bad}");
        }
    }
}
