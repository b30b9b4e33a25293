//! Keygen signs the request line, the host, the date and a digest of the body.
//! <https://keygen.sh/docs/api/signatures/>

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::fmt::rfc2822::DateTimeParser;
use sha2::{Digest as _, Sha256};

use crate::base::clock::UnixMillis;
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Encoding, Kind};
use crate::webhook::secret::Secret;
use crate::webhook::verify::decode::decode;
use crate::webhook::verify::key::signed_by;
use crate::webhook::verify::prove::Key;
use crate::webhook::verify::{Reason, Rejected};

/// The signed parts, in this order. A request that signs fewer parts is rejected.
pub(crate) const SIGNED: &str = "(request-target) host date digest";

/// The accepted difference between the date and the current time, in seconds.
const WINDOW: u64 = 300;

/// The longest accepted date, in bytes.
const LONGEST_DATE: usize = 40;

/// Finds the public key that verifies the signature of the request.
pub(in crate::webhook::verify) fn prove<'s>(
    kind: &Kind,
    envelope: &Envelope,
    keys: &[Key<'s>],
) -> Result<&'s Secret, Rejected> {
    let malformed = Rejected(Reason::MalformedSignature);
    let header = header(envelope, "keygen-signature")?;
    let named = |name: &str| parameter(header, name).map_err(|()| malformed);
    if named("algorithm")? != Some(algorithm(kind)) {
        return Err(Rejected(Reason::AlgNotAllowed));
    }
    if named("headers")? != Some(SIGNED) {
        return Err(malformed);
    }
    let signature = named("signature")?.and_then(|text| decode(Encoding::Base64, text));
    let signature = signature.ok_or(malformed)?;
    let date = self::header(envelope, "date")?;
    let at = time(date).ok_or(Rejected(Reason::MalformedTimestamp))?;
    let digest = digest(envelope);
    if self::header(envelope, "digest")? != digest {
        return Err(Rejected(Reason::BadBodyHash));
    }
    let message = message(envelope, date, &digest);
    let good = |(_, key): &&Key<'_>| signed_by(kind, key, message.as_bytes(), &signature);
    let mut owners = keys.iter().filter(good);
    let (secret, _) = owners.next().ok_or(Rejected(Reason::BadSignature))?;
    in_time(at, envelope.received_at)?;
    Ok(secret)
}

/// Keygen's name for this kind of key.
pub(crate) fn algorithm(kind: &Kind) -> &'static str {
    match kind {
        Kind::Ed25519 => "ed25519",
        Kind::RsaSha256 => "rsa-sha256",
        _ => "ecdsa-p256",
    }
}

/// The value of the `digest` header of a request.
pub(crate) fn digest(envelope: &Envelope) -> String {
    let digest = STANDARD.encode(Sha256::digest(&envelope.body));
    format!("sha-256={digest}")
}

/// The signed message.
pub(crate) fn message(envelope: &Envelope, date: &str, digest: &str) -> String {
    format!(
        "(request-target): {} {}\nhost: {}\ndate: {date}\ndigest: {digest}",
        envelope.method.to_ascii_lowercase(),
        envelope.path(),
        host(&envelope.url)
    )
}

fn header<'e>(envelope: &'e Envelope, name: &str) -> Result<&'e str, Rejected> {
    let value = envelope.headers.one(name);
    let value = value.map_err(|_| Rejected(Reason::DuplicateHeader))?;
    let value = value.filter(|value| !value.is_empty());
    value.ok_or(Rejected(Reason::MissingHeader))
}

/// Returns a parameter of the signature header, without quotes. Fails if the parameter is repeated.
fn parameter<'h>(header: &'h str, name: &str) -> Result<Option<&'h str>, ()> {
    let pairs = header.split(',').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(key, _)| key.trim() == name);
    let first = values.next();
    if values.next().is_some() {
        return Err(());
    }
    Ok(first.map(|(_, value)| value.trim().trim_matches('"')))
}

/// The host without its port. It comes from the public URL, not from a header of the request.
fn host(url: &str) -> &str {
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    let authority = after.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => host,
    }
}

fn time(date: &str) -> Option<i64> {
    if date.len() > LONGEST_DATE {
        return None;
    }
    let time = DateTimeParser::new().parse_timestamp(date).ok()?;
    Some(time.as_second())
}

/// Checks that the date is in the window. Both limits are inclusive.
fn in_time(at: i64, now: UnixMillis) -> Result<(), Rejected> {
    if at.abs_diff(now.secs()) <= WINDOW {
        Ok(())
    } else if at < now.secs() {
        Err(Rejected(Reason::TimestampTooOld))
    } else {
        Err(Rejected(Reason::TimestampInFuture))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_hosts_are_read() {
        let header = r#"keyid="1", algorithm="ed25519", signature="a=b==", headers="x y""#;
        assert_eq!(parameter(header, "signature"), Ok(Some("a=b==")));
        assert_eq!(parameter(header, "headers"), Ok(Some("x y")));
        assert_eq!(parameter(header, "none"), Ok(None));
        assert_eq!(parameter("a=1,a=2", "a"), Err(()));
        for url in [
            "https://a.test",
            "https://u:p@a.test:8443/x",
            "https://a.test?x@y",
        ] {
            assert_eq!(host(url), "a.test");
        }
    }

    #[test]
    fn a_date_is_that_of_http() {
        assert_eq!(time("Wed, 15 Jun 2022 18:52:14 GMT"), Some(1_655_319_134));
        for bad in ["", "1655319134", "2022-06-15T18:52:14Z", &"x".repeat(41)] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }
}
