//! Warns about signatures that do not protect a receiver, or that a receiver may refuse.

use shared::sources::{Action, Signing};
use shared::webhook::verify::Verifier;

/// The endings of names of hosts that are not on the internet.
const INTERNAL: [&str; 6] = [
    ".internal",
    ".local",
    ".lan",
    ".corp",
    ".private",
    ".localhost",
];

/// Returns a warning about the signature of an action. Returns `None` if there is nothing to warn of.
pub(super) fn warning(action: &Action, verifier: &Verifier) -> Option<String> {
    let (url, signing) = action.kind.http()?;
    match signing {
        Signing::Unsigned if !is_internal(url) => Some(
            "sign = \"none\": the receiver cannot know who sent a request; anyone who knows its URL \
             can send events to it"
                .to_owned(),
        ),
        Signing::Provider { .. } => {
            let scheme = signing.scheme(verifier)?;
            scheme.signs_in_body().then(|| {
                "sign = \"provider\": the signature is in the body, so the body differs from the \
                 received one in the signature, and in the time that belongs to it"
                    .to_owned()
            })
        }
        Signing::AsReceived { .. } => {
            let scheme = signing.scheme(verifier)?;
            let window = verifier.preset.receiver_window(scheme)?;
            Some(format!(
                "sign = \"as-received\": a receiver accepts the provider's signature for {} s, so \
                 later attempts and replays end as dead letters or are refused; sign = \"provider\" \
                 signs each attempt anew",
                window.as_secs()
            ))
        }
        _ => None,
    }
}

fn is_internal(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', ':']).next().unwrap_or_default();
    let is_address = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let is_name = !host.contains('.') || INTERNAL.iter().any(|end| host.ends_with(end));
    host == "127.0.0.1" || !is_address && is_name
}

#[cfg(test)]
mod tests {
    use shared::sources::Config;

    use super::*;

    fn said(preset: &str, url: &str, sign: &str) -> Option<String> {
        let text = format!(
            "schema = 1\n[forward]\nallow_loopback = true\n\
             allow_hosts = [\"hooks.example.com\", \"orders.internal\", \"orders\"]\n\
             [[source]]\nname = \"a\"\npreset = \"{preset}\"\n[[source.action]]\nkind = \"http\"\n\
             url = \"{url}\"\n{sign}\n"
        );
        let config = Config::parse(&text).unwrap();
        let source = config.source("a").unwrap();
        warning(&source.actions[0], &source.verifier)
    }

    #[test]
    fn an_unsigned_request_to_the_internet_has_a_warning() {
        let none = "sign = \"none\"";
        let warned = said("stripe", "https://hooks.example.com/x", none).unwrap();
        assert!(warned.contains("sign = \"none\""), "{warned}");
        for internal in [
            "https://orders.internal/x",
            "https://orders/x",
            "http://127.0.0.1:3000/x",
            "http://localhost:3000/x",
        ] {
            assert_eq!(said("stripe", internal, none), None, "{internal}");
        }
    }

    #[test]
    fn a_signature_in_the_body_or_with_a_window_has_a_warning() {
        let url = "https://hooks.example.com/x";
        let provider = "sign = \"provider\"\nsecret = \"x\"";
        let in_body = said("mailgun", url, provider).unwrap();
        assert!(
            in_body.contains("the signature is in the body"),
            "{in_body}"
        );
        assert_eq!(said("stripe", url, provider), None);
        let window = said("stripe", url, "sign = \"as-received\"").unwrap();
        assert!(window.contains("300 s"), "{window}");
        assert_eq!(said("github", url, "sign = \"as-received\""), None);
        assert_eq!(said("github", url, "secret = \"x\""), None);
    }
}
