//! Signs a request with AWS Signature Version 4.
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>

use std::fmt;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use http::header::{HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

use crate::base::calendar::Day;
use crate::base::clock::UnixMillis;

pub(super) const DATE: HeaderName = HeaderName::from_static("x-amz-date");
pub(super) const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Signs requests to one service in one Region. It keeps the signing key, which is the same for a day.
pub(super) struct Signer {
    region: String,
    service: &'static str,
    key: Mutex<Option<Key>>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({}, {})", self.region, self.service)
    }
}

struct Key {
    day: Day,
    secret: String,
    bytes: Vec<u8>,
}

/// The time of a signature.
pub(super) struct Stamp {
    day: Day,
    /// The header `x-amz-date`: `yyyymmddThhmmssZ`.
    text: String,
}

impl Stamp {
    pub(super) fn of(now: UnixMillis) -> Self {
        let day = Day::of(now);
        let seconds = (now.0 - day.begins().0) / 1000;
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let text = format!("{}T{hours:02}{minutes:02}{seconds:02}Z", day.name());
        Self { day, text }
    }

    pub(super) fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.text).unwrap_or(HeaderValue::from_static(""))
    }

    /// The day as `yyyymmdd`.
    fn date(&self) -> &str {
        self.text.split('T').next().unwrap_or_default()
    }
}

impl Signer {
    pub(super) fn new(region: &str, service: &'static str) -> Self {
        Self {
            region: region.to_owned(),
            service,
            key: Mutex::default(),
        }
    }

    /// Returns the header `authorization` of a POST request with the path `/` and without a query. The
    /// headers must be in the order of their names, and contain no spaces at their ends.
    pub(super) fn sign(
        &self,
        headers: &[(HeaderName, HeaderValue)],
        body: &[u8],
        credentials: &Credentials,
        stamp: &Stamp,
    ) -> Option<HeaderValue> {
        let mut canonical = String::with_capacity(2048);
        canonical.push_str("POST\n/\n\n");
        let mut names = String::with_capacity(80);
        for (name, value) in headers {
            for part in [name.as_str(), ":", value.to_str().ok()?, "\n"] {
                canonical.push_str(part);
            }
            if !names.is_empty() {
                names.push(';');
            }
            names.push_str(name.as_str());
        }
        let body = hex::encode(Sha256::digest(body));
        write!(canonical, "\n{names}\n{body}").ok()?;
        let (date, region, service) = (stamp.date(), &self.region, self.service);
        let scope = format!("{date}/{region}/{service}/aws4_request");
        let text = format!(
            "AWS4-HMAC-SHA256\n{}\n{scope}\n{}",
            stamp.text,
            hex::encode(Sha256::digest(canonical))
        );
        let signature = self.with_key(credentials, stamp.day, |key| {
            calculate_signature(key, text.as_bytes())
        });
        let access_key = credentials.access_key_id();
        let value = format!(
            "AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, \
             Signature={signature}"
        );
        let mut value = HeaderValue::try_from(value).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Calls `sign` with the signing key of the day, and derives this key if it is not known.
    fn with_key<T>(&self, credentials: &Credentials, day: Day, sign: impl Fn(&[u8]) -> T) -> T {
        let mut known = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        let secret = credentials.secret_access_key();
        if let Some(key) = known.as_ref().filter(|key| key.is_of(day, secret)) {
            return sign(&key.bytes);
        }
        let begins = Duration::from_millis(u64::try_from(day.begins().0).unwrap_or_default());
        let key = generate_signing_key(secret, UNIX_EPOCH + begins, &self.region, self.service);
        let key = known.insert(Key {
            day,
            secret: secret.to_owned(),
            bytes: key.as_ref().to_vec(),
        });
        sign(&key.bytes)
    }
}

impl Key {
    fn is_of(&self, day: Day, secret: &str) -> bool {
        self.day == day && self.secret == secret
    }
}

#[cfg(test)]
mod tests {
    use aws_credential_types::Credentials;
    use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
    use aws_sigv4::sign::v4::SigningParams;
    use http::header::{CONTENT_TYPE, HOST};

    use super::super::TARGET;
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_795_169_681_118);

    const BODY: &[u8] = b"{\"a\":1}";

    fn headers(token: Option<&'static str>, now: UnixMillis) -> Vec<(HeaderName, HeaderValue)> {
        let text = HeaderValue::from_static;
        let mut headers = vec![
            (CONTENT_TYPE, text("application/x-amz-json-1.0")),
            (HOST, text("sqs.eu-central-1.amazonaws.com")),
            (DATE, Stamp::of(now).header()),
        ];
        headers.extend(token.map(|token| (TOKEN, text(token))));
        headers.push((TARGET, text("AmazonSQS.SendMessage")));
        headers
    }

    /// The `authorization` header of the same request, signed by the crate that the SDK uses.
    fn of_sdk(
        headers: &[(HeaderName, HeaderValue)],
        credentials: &Credentials,
        now: UnixMillis,
    ) -> String {
        let identity = credentials.clone().into();
        let millis = u64::try_from(now.0).unwrap();
        let params = SigningParams::builder()
            .identity(&identity)
            .region("eu-central-1")
            .name("sqs")
            .time(UNIX_EPOCH + Duration::from_millis(millis))
            .settings(SigningSettings::default())
            .build()
            .unwrap();
        let headers = headers.iter();
        let headers = headers.filter(|(name, _)| *name != DATE && *name != TOKEN);
        let headers = headers.map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
        let url = "https://sqs.eu-central-1.amazonaws.com/";
        let body = SignableBody::Bytes(BODY);
        let signable = SignableRequest::new("POST", url, headers, body);
        let signed = sign(signable.unwrap(), &params.into()).unwrap();
        let (added, _) = signed.into_parts().0.into_parts();
        let value = added.iter().find(|header| header.name() == "authorization");
        value.unwrap().value().to_owned()
    }

    #[test]
    fn a_signature_is_the_one_of_the_sdk() {
        let signer = Signer::new("eu-central-1", "sqs");
        let day = 24 * 3_600_000;
        for (secret, token, now) in [
            ("secret", None, NOW),
            ("secret", None, NOW),
            ("other", Some("a/token+=="), NOW),
            ("other", None, UnixMillis(NOW.0 + day)),
            ("other", None, UnixMillis(NOW.0 - day)),
        ] {
            let credentials = Credentials::new("AKID", secret, token.map(Into::into), None, "test");
            let headers = headers(token, now);
            let ours = signer
                .sign(&headers, BODY, &credentials, &Stamp::of(now))
                .unwrap();
            assert!(ours.is_sensitive());
            let sdk = of_sdk(&headers, &credentials, now);
            assert_eq!(ours.to_str().unwrap(), sdk, "{secret} {token:?} {now:?}");
        }
    }

    #[test]
    fn a_time_is_written_as_in_a_signature() {
        assert_eq!(Stamp::of(NOW).header(), "20261120T101441Z");
        assert_eq!(Stamp::of(NOW).date(), "20261120");
        assert_eq!(Stamp::of(UnixMillis(0)).header(), "19700101T000000Z");
    }
}
