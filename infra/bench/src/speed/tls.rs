//! The certificates of the emulated services. They exist only for one run of the benchmark.

use std::sync::Arc;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyUsagePurpose, PublicKeyData, SignatureAlgorithm, SigningKey,
};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls_pki_types::PrivatePkcs8KeyDer;

pub(crate) struct Tls {
    /// The root certificate as PEM.
    pub(crate) root: String,
    /// The configuration of a server at `127.0.0.1`.
    pub(crate) server: Arc<ServerConfig>,
}

impl Tls {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let mut authority = CertificateParams::default();
        authority.serial_number = Some(1.into());
        authority.distinguished_name = named("root of the benchmark");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        authority.key_identifier_method =
            KeyIdMethod::PreSpecified(b"the root of the bench".into());
        let root_key = Key::new()?;
        let root = authority.self_signed(&root_key)?;

        let mut server = CertificateParams::new(["127.0.0.1".to_owned()])?;
        server.serial_number = Some(2.into());
        server.distinguished_name = named("services of the benchmark");
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Python 3.13 and later reject a certificate without this extension.
        server.use_authority_key_identifier_extension = true;
        let key = Key::new()?;
        let certificate = server.signed_by(&key, &Issuer::new(authority, root_key))?;

        let key = PrivatePkcs8KeyDer::from(key.pkcs8);
        let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.into()], key.into())?;
        Ok(Self {
            root: pem(root.der()),
            server: Arc::new(server),
        })
    }
}

/// Returns the name of a certificate. OpenSSL takes a certificate with the name of its issuer for
/// self-signed.
fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// A key on the curve P-256.
struct Key {
    pkcs8: Vec<u8>,
    pair: EcdsaKeyPair,
}

impl Key {
    fn new() -> anyhow::Result<Self> {
        let (curve, random) = (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(curve, &random).ok();
        let pkcs8 = pkcs8.context("generate a key")?.as_ref().to_vec();
        let pair = EcdsaKeyPair::from_pkcs8(curve, &pkcs8, &random).ok();
        let pair = pair.context("read the generated key")?;
        Ok(Self { pkcs8, pair })
    }
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

impl SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signature = self.pair.sign(&SystemRandom::new(), message);
        let signature = signature.map_err(|_| rcgen::Error::RemoteKeyError)?;
        Ok(signature.as_ref().to_vec())
    }
}

/// Returns a certificate as PEM.
pub(crate) fn pem(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: Vec<_> = lines.collect();
    let body = lines.join("\n");
    format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
}
