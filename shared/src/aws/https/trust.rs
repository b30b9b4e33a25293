//! The root certificates that the AWS clients trust.

use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Amazon Root CA 1 to 4 and the Starfield Services Root Certificate Authority G2. The certificate
/// chains of AWS's endpoints end in these root certificates.
/// <https://www.amazontrust.com/repository/>
const AMAZON: &[u8] = include_bytes!("roots.pem");

/// Returns a TLS configuration that uses *ring*, like all TLS in this crate.
pub(super) fn config() -> ClientConfig {
    let provider = Arc::new(ring::default_provider());
    let verifier = AmazonFirst {
        amazon: verifier(&amazon(), &provider),
        system: OnceLock::new(),
        read: || rustls_native_certs::load_native_certs().certs,
        provider: provider.clone(),
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has cipher suites for TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

/// Verifies a server certificate with Amazon's root certificates. If this fails, it uses the root
/// certificates of the operating system. The second step supports AWS partitions with other root
/// certificates, proxies with their own root certificate, and `SSL_CERT_FILE`. All other
/// connections need only five root certificates instead of 150.
#[derive(Debug)]
struct AmazonFirst {
    amazon: Option<Arc<WebPkiServerVerifier>>,
    system: OnceLock<Option<Arc<WebPkiServerVerifier>>>,
    read: fn() -> Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AmazonFirst {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judge = |roots: &Arc<WebPkiServerVerifier>| {
            roots.verify_server_cert(end_entity, intermediates, server_name, ocsp, now)
        };
        let first = self.amazon.as_ref().map(judge);
        if let Some(Ok(verified)) = first {
            return Ok(verified);
        }
        let system = self
            .system
            .get_or_init(|| verifier(&(self.read)(), &self.provider));
        let second = system.as_ref().map(judge);
        second.or(first).unwrap_or_else(|| {
            let text = "this system has no root certificates; install them or set SSL_CERT_FILE";
            Err(rustls::Error::General(text.to_owned()))
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

fn amazon() -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(AMAZON).flatten().collect()
}

/// Returns `None` if no root certificate can be parsed.
fn verifier(
    roots: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
) -> Option<Arc<WebPkiServerVerifier>> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots.iter().cloned());
    WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone())
        .build()
        .ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sha2::{Digest as _, Sha256};

    use super::*;

    /// The fingerprints that Amazon publishes. <https://www.amazontrust.com/repository/>
    const FINGERPRINTS: [&str; 5] = [
        "8ecde6884f3d87b1125ba31ac3fcb13d7016de7f57cc904fe1cb97c6ae98196e",
        "1ba5b2aa8c65401a82960118f80bec4f62304d83cec4713a19c39c011ea46db4",
        "18ce6cfe7bf14e60b2e347b8dfe868cb31d02ebb3ada271569f50343b46db3a4",
        "e35d28419ed02025cfa69038cd623962458da5c695fbdea3c22b0bfb25897092",
        "568d6905a2c88708a4b3025190edcfedb1974a606a13c6e5290fcb2ae63edab5",
    ];

    #[test]
    fn the_roots_are_amazons_and_can_all_be_read() {
        let roots = amazon();
        let found: Vec<_> = roots
            .iter()
            .map(|root| hex::encode(Sha256::digest(root)))
            .collect();
        assert_eq!(found, FINGERPRINTS);
        let mut store = RootCertStore::empty();
        assert_eq!(store.add_parsable_certificates(roots), (5, 0));
    }

    /// Returns a certificate of `endpoint.test` and its root certificate. Both certificates were
    /// created for this test, and are valid for a hundred years.
    fn made_up() -> [CertificateDer<'static>; 2] {
        let pem = include_bytes!("made-up.pem");
        let both: Vec<_> = CertificateDer::pem_slice_iter(pem).flatten().collect();
        both.try_into().unwrap()
    }

    fn judged(
        amazon: &[CertificateDer<'static>],
        read: fn() -> Vec<CertificateDer<'static>>,
        name: &str,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let verifier = AmazonFirst {
            amazon: verifier(amazon, &provider),
            system: OnceLock::new(),
            read,
            provider,
        };
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
        verifier.verify_server_cert(&made_up()[0], &[], &name, &[], now)
    }

    #[test]
    fn the_systems_roots_are_not_read_where_amazons_will_do() {
        let [_, root] = made_up();
        let never = || panic!("the system's root certificates were read");
        assert!(judged(&[root], never, "endpoint.test").is_ok());
    }

    #[test]
    fn an_endpoint_under_another_root_of_the_system_is_believed() {
        let system = || vec![made_up()[1].clone()];
        assert!(judged(&amazon(), system, "endpoint.test").is_ok());
        let other = judged(&amazon(), system, "other.test");
        assert!(other.is_err(), "{other:?}");
    }

    #[test]
    fn an_endpoint_under_nobodys_root_is_not_believed() {
        for system in [Vec::new as fn() -> Vec<_>, amazon] {
            let unknown = judged(&amazon(), system, "endpoint.test").unwrap_err();
            assert_eq!(
                unknown,
                rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)
            );
        }
        assert!(judged(&[], Vec::new, "endpoint.test").is_err());
    }
}
