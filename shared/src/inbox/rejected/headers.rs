//! Selects the headers of a rejected request that are stored. These are all headers that can affect
//! a second verification.

use super::NewRejection;
use crate::webhook::envelope::{Envelope, Headers, is_credential};
use crate::webhook::verify::{Arrival, Rejected};

/// The maximum number of credentials in a request that are tested. Each test costs one
/// verification. If a request has more credentials, none of them is stored.
const MOST_CREDENTIALS: usize = 8;

/// Returns every header except the credentials that the source's scheme does not read.
pub(super) fn kept(refused: &NewRejection<'_>) -> Vec<(String, String)> {
    let mut dropped: Vec<&str> = Vec::new();
    for (name, _) in refused.envelope.headers.iter() {
        let known = dropped.contains(&name);
        if !known && is_credential(name) && !is_read(refused, name) {
            dropped.push(name);
        }
    }
    let headers = refused.envelope.headers.iter();
    let headers = headers.filter(|(name, _)| !dropped.contains(name));
    headers
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Returns whether the verification gives a different result without this header. This function
/// runs the verification, because the second verification later uses the same code. It does not use
/// a rule of the preset.
fn is_read(refused: &NewRejection<'_>, name: &str) -> bool {
    let all = &refused.envelope.headers;
    let credentials = all.iter().filter(|(name, _)| is_credential(name)).count();
    if credentials > MOST_CREDENTIALS {
        return false;
    }
    let without: Headers = all.iter().filter(|(other, _)| *other != name).collect();
    let without = Envelope {
        headers: without,
        ..refused.envelope.clone()
    };
    let verdict = |envelope: &Envelope| {
        let verdict = refused.source.verifier.verify(envelope, refused.secrets);
        match verdict {
            Err(Rejected(reason)) => Some(reason),
            Ok(Arrival::Event(_) | Arrival::Handshake(_)) => None,
        }
    };
    verdict(&without) != verdict(refused.envelope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::secrets::Secret;
    use crate::base::clock::UnixMillis;
    use crate::sources::Config;
    use crate::webhook::verify::Reason;

    fn names(params: &str, headers: &[(&str, &str)]) -> Vec<String> {
        let file = format!(
            "schema = 1\n[[source]]\nname = \"s\"\npreset = \"generic-hmac\"\nparams = {{ {params} }}\naction = [{{ kind = \"keep\" }}]"
        );
        let config = Config::parse(&file).unwrap();
        let envelope = Envelope {
            method: "POST".into(),
            url: "https://hooks.example.test/in/s".into(),
            headers: headers.iter().copied().collect(),
            body: "{}".into(),
            received_at: UnixMillis(1_795_169_681_000),
        };
        let refused = NewRejection {
            source: config.source("s").unwrap(),
            envelope: &envelope,
            reason: Reason::BadSignature,
            route: None,
            secrets: &[Secret::new("current.1", "a secret of ours")],
        };
        let kept = kept(&refused);
        kept.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn credentials_are_kept_only_where_the_scheme_reads_them() {
        let zeros = "0".repeat(64);
        let sent = [
            ("x-signature", zeros.as_str()),
            ("authorization", zeros.as_str()),
            ("cookie", "session=1"),
            ("x-api-key", "k"),
            ("user-agent", "curl"),
            ("user-agent", "again"),
        ];
        assert_eq!(
            names("header = \"x-signature\"", &sent),
            ["x-signature", "user-agent", "user-agent"]
        );
        assert_eq!(
            names("header = \"authorization\"", &sent),
            ["x-signature", "authorization", "user-agent", "user-agent"]
        );
    }

    #[test]
    fn more_credentials_than_anybody_needs_are_not_asked_about() {
        let many: Vec<String> = (0..9).map(|n| format!("x-token-{n}")).collect();
        let sent: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "x")).collect();
        assert!(names("header = \"x-token-1\"", &sent).is_empty());
    }
}
