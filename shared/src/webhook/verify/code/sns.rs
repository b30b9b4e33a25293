//! Amazon SNS signs fixed fields of the body, in a fixed order. The body contains the URL of the
//! certificate. <https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html>
//!
//! AWS signs the messages of all topics, including the topics of other customers. Therefore the
//! source stores the allowed topics as its secrets.

use serde::Deserialize;

use super::certificate::{self, RSA_SHA1, RSA_SHA256, Signed, host_and_path};
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Encoding, Scheme};
use crate::webhook::verify::decode::decode;
use crate::webhook::verify::mac::same;
use crate::webhook::verify::prove::{Key, Owner};
use crate::webhook::verify::{Reason, Rejected, Trust, Wanted};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Notice {
    #[serde(rename = "Type")]
    kind: Option<String>,
    message_id: Option<String>,
    topic_arn: Option<String>,
    subject: Option<String>,
    message: Option<String>,
    timestamp: Option<String>,
    token: Option<String>,
    #[serde(rename = "SubscribeURL")]
    subscribe_url: Option<String>,
    signature_version: Option<String>,
    signature: Option<String>,
    #[serde(rename = "SigningCertURL")]
    signing_cert_url: Option<String>,
}

/// Finds the topic that sent the request.
pub(in crate::webhook::verify) fn prove<'s>(
    scheme: &Scheme,
    trust: &Trust,
    envelope: &Envelope,
    topics: &[Key<'s>],
) -> Result<Owner<'s>, Rejected> {
    let notice = read(&envelope.body)?;
    let there = |field: &Option<String>| field.clone().ok_or(Rejected(Reason::MissingField));
    let signature = decode(Encoding::Base64, &there(&notice.signature)?);
    let signature = signature.ok_or(Rejected(Reason::MalformedSignature))?;
    let alg = match there(&notice.signature_version)?.as_str() {
        "1" => RSA_SHA1,
        "2" => RSA_SHA256,
        _ => return Err(Rejected(Reason::UnknownVersion)),
    };
    let url = there(&notice.signing_cert_url)?;
    let host = cert_host(&url).ok_or(Rejected(Reason::UntrustedCertUrl))?;
    let text = text(&notice)?.into_bytes();
    let signed = Signed {
        url: &url,
        names: &["sns.amazonaws.com", host],
        alg,
        signature: &signature,
        now: envelope.received_at,
    };
    let verdict = certificate::signed(trust, &signed, std::slice::from_ref(&text));
    let topic = there(&notice.topic_arn)?;
    let mut allowed = topics.iter().filter(|(_, key)| same(key, topic.as_bytes()));
    match (verdict, allowed.next()) {
        (Ok(_), Some(topic)) => Ok(Owner::new(scheme, topic, &[text.into()])),
        // Mitt does not fetch a certificate for a topic that is not allowed.
        (Ok(_) | Err(Rejected(Reason::NotFetched)), None) => Err(Rejected(Reason::TopicNotAllowed)),
        (Err(rejected), _) => Err(rejected),
    }
}

/// The certificate to fetch.
pub(in crate::webhook::verify) fn wanted(envelope: &Envelope) -> Option<Wanted> {
    let url = read(&envelope.body).ok()?.signing_cert_url?;
    cert_host(&url)
        .is_some()
        .then_some(Wanted::Certificate(url))
}

/// Returns the URL that confirms a subscription. The notice must be verified.
pub(in crate::webhook::verify) fn confirmation(body: &[u8]) -> Option<String> {
    let notice = read(body).ok()?;
    let url = notice.subscribe_url?;
    let after = url.strip_prefix("https://")?;
    let (host, _) = after.split_at(after.find(['/', '?', '#'])?);
    let confirms = notice.kind.as_deref() == Some("SubscriptionConfirmation");
    (confirms && is_sns(host)).then_some(url)
}

fn read(body: &[u8]) -> Result<Notice, Rejected> {
    serde_json::from_slice(body).map_err(|_| Rejected(Reason::MalformedBody))
}

/// Returns the signed text. Each field name and each value is on a separate line.
fn text(notice: &Notice) -> Result<String, Rejected> {
    let kind = notice.kind.as_deref().unwrap_or_default();
    let subject = ("Subject", &notice.subject);
    let fields: &[(&str, &Option<String>)] = match kind {
        "Notification" => &[
            ("Message", &notice.message),
            ("MessageId", &notice.message_id),
            subject,
            ("Timestamp", &notice.timestamp),
            ("TopicArn", &notice.topic_arn),
            ("Type", &notice.kind),
        ],
        "SubscriptionConfirmation" | "UnsubscribeConfirmation" => &[
            ("Message", &notice.message),
            ("MessageId", &notice.message_id),
            ("SubscribeURL", &notice.subscribe_url),
            ("Timestamp", &notice.timestamp),
            ("Token", &notice.token),
            ("TopicArn", &notice.topic_arn),
            ("Type", &notice.kind),
        ],
        _ => return Err(Rejected(Reason::MissingField)),
    };
    let mut text = String::new();
    for (name, value) in fields {
        // Only the message may contain a line break. A line break in another field would make one
        // field look like two fields.
        let line = value.as_deref().unwrap_or_default();
        let named = *name == "MessageId" && kind == "Notification" && value.is_some();
        if *name != "Message" && line.contains('\n') || named && !is_uuid(line) {
            return Err(Rejected(Reason::MalformedBody));
        }
        match value {
            Some(value) => text.extend([*name, "\n", value.as_str(), "\n"]),
            None if *name == "Subject" => {}
            None => return Err(Rejected(Reason::MissingField)),
        }
    }
    Ok(text)
}

/// Returns whether the text has the format of an SNS message id.
fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

fn cert_host(url: &str) -> Option<&str> {
    let (host, path) = host_and_path(url)?;
    let pem = std::path::Path::new(path).extension()? == "pem";
    (pem && is_sns(host)).then_some(host)
}

/// Returns whether the host has the form `sns.<region>.amazonaws.com`. The host of an S3 bucket
/// named "sns" does not have this form.
fn is_sns(host: &str) -> bool {
    let host = host.strip_suffix(".cn").unwrap_or(host);
    let region = host
        .strip_prefix("sns.")
        .and_then(|rest| rest.strip_suffix(".amazonaws.com"));
    let Some((area, number)) = region.and_then(|region| region.rsplit_once('-')) else {
        return false;
    };
    let word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    digits && area.split('-').count() >= 2 && area.split('-').all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_of_sns_have_certificates() {
        for good in ["us-east-1", "ap-southeast-12", "us-gov-west-1"] {
            assert!(is_sns(&format!("sns.{good}.amazonaws.com")), "{good}");
        }
        assert!(is_sns("sns.cn-north-1.amazonaws.com.cn"));
        for bad in [
            "sns.s3-us-west-2.amazonaws.com",
            "sns.amazonaws.com",
            "sns..amazonaws.com",
            "sns.us-east-1.amazonaws.com.evil.example",
            "x.sns.us-east-1.amazonaws.com",
        ] {
            assert!(!is_sns(bad), "{bad}");
        }
    }
}
