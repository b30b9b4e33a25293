//! Computes how long the certificate of a URL is valid.

use reqwest::Response;
use reqwest::tls::TlsInfo;
use shared::base::clock::UnixMillis;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

const DAY_SECONDS: i64 = 24 * 3600;

/// Describes the certificate, such as `certificate valid for 61 days`. A response exists only
/// if the client has accepted the certificate.
pub(super) fn words(response: &Response, now: UnixMillis) -> String {
    let info = response.extensions().get::<TlsInfo>();
    let days = info
        .and_then(TlsInfo::peer_certificate)
        .and_then(|certificate| days_left(certificate, now));
    match days {
        Some(1) => "certificate valid for 1 day".to_owned(),
        Some(days) => format!("certificate valid for {days} days"),
        None => "certificate accepted".to_owned(),
    }
}

/// Returns the whole days until a DER certificate expires. The client has already verified the
/// certificate.
fn days_left(certificate: &[u8], now: UnixMillis) -> Option<i64> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let end = certificate.tbs_certificate().validity().not_after;
    let end = i64::try_from(end.to_unix_duration().as_secs()).ok()?;
    let left = end.checked_sub(now.secs())?;
    (left >= 0).then_some(left / DAY_SECONDS)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// A self-signed test certificate, valid until 2027-01-22T10:45:14Z. This command created it:
    /// `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=hooks.example.com
    /// -days 61`
    const CERTIFICATE: &str = "\
        MIIBjTCCATOgAwIBAgIUTS6l4pzN7G1FGaVrIWNYxIP46PkwCgYIKoZIzj0EAwIwHDEaMBgGA1UEAwwRaG9va3Mu\
        ZXhhbXBsZS5jb20wHhcNMjYxMTIyMTA0NTE0WhcNMjcwMTIyMTA0NTE0WjAcMRowGAYDVQQDDBFob29rcy5leGFt\
        cGxlLmNvbTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABMkyf7naiC/mPuHA6iIw6yywlA2sFKgmJxGTI2+YvzNm\
        lLZszpFpqVnYb0EH8k/YmT8fKTdbldqxpedNqIa8xUajUzBRMB0GA1UdDgQWBBRcqK9WTKRW+s3h44ZIbOzHr44I\
        ODAfBgNVHSMEGDAWgBRcqK9WTKRW+s3h44ZIbOzHr44IODAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gA\
        MEUCIEOwIhvHVY4i/vXeeIYCU1S1e7hDW8U1ETZoB7R8J0uzAiEApNAA0alK9OHKfQDj0WX/xQc0n6IFh/wNMYjs\
        Uzp8OE4=";

    #[test]
    fn the_days_that_are_left_are_read_from_the_certificate() {
        let certificate = STANDARD.decode(CERTIFICATE).unwrap();
        let end = 1_800_614_714_000;
        let days = 24 * 3600 * 1000;
        for (now, expected) in [
            (end - 61 * days, Some(61)),
            (end - 61 * days + 1000, Some(60)),
            (end - days, Some(1)),
            (end, Some(0)),
            (end + 1000, None),
        ] {
            assert_eq!(days_left(&certificate, UnixMillis(now)), expected);
        }
        for cut in 0..certificate.len() {
            assert_eq!(days_left(&certificate[..cut], UnixMillis(0)), None, "{cut}");
        }
        assert_eq!(days_left(b"no certificate", UnixMillis(0)), None);
    }
}
