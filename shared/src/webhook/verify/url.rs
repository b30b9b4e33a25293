//! The forms in which a provider may have signed the URL.

use crate::webhook::preset::{Part, Scheme, UrlForm};

/// Returns the forms to try, without duplicates. Returns one form if the URL is not signed.
pub(super) fn forms(scheme: &Scheme, url: &str) -> Vec<String> {
    let mut forms = Vec::new();
    if !scheme.message.any(&|part| *part == Part::Url) {
        return vec![url.to_owned()];
    }
    for form in &scheme.url_forms {
        let form = match form {
            UrlForm::AsIs => url.to_owned(),
            UrlForm::StripPort => with_port(url, |_, _| None),
            UrlForm::AddDefaultPort => with_port(url, |scheme, port| {
                let default = if scheme == "http" { "80" } else { "443" };
                Some(port.unwrap_or(default).to_owned())
            }),
            UrlForm::DecodeSafe => decoded(url),
        };
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

/// Replaces or removes the port of a URL. Keeps user and password.
fn with_port(url: &str, port: impl Fn(&str, Option<&str>) -> Option<String>) -> String {
    let Some((scheme, after)) = url.split_once("://") else {
        return url.to_owned();
    };
    let end = after.find(['/', '?', '#']).unwrap_or(after.len());
    let (authority, rest) = after.split_at(end);
    let digits = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let (host, old) = match authority.rsplit_once(':') {
        Some((host, port)) if digits(port) => (host, Some(port)),
        _ => (authority, None),
    };
    let port = port(scheme, old).map_or(String::new(), |port| format!(":{port}"));
    format!("{scheme}://{host}{port}{rest}")
}

/// Decodes the escapes that HubSpot decodes before it signs the URL, according to its
/// documentation.
fn decoded(url: &str) -> String {
    const ESCAPES: [(&str, &str); 12] = [
        ("%3A", ":"),
        ("%2F", "/"),
        ("%3F", "?"),
        ("%40", "@"),
        ("%21", "!"),
        ("%24", "$"),
        ("%27", "'"),
        ("%28", "("),
        ("%29", ")"),
        ("%2A", "*"),
        ("%2C", ","),
        ("%3B", ";"),
    ];
    let mut url = url.to_owned();
    for (escape, plain) in ESCAPES {
        url = url.replace(escape, plain);
        url = url.replace(&escape.to_ascii_lowercase(), plain);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_come_and_go_and_users_stay() {
        let strip = |url: &str| with_port(url, |_, _| None);
        assert_eq!(strip("https://u:p@a.b:1234/c?d"), "https://u:p@a.b/c?d");
        assert_eq!(strip("https://u:p@a.b/c:9"), "https://u:p@a.b/c:9");
        assert_eq!(strip("https://[::1]:8/"), "https://[::1]/");
        assert_eq!(strip("nothing"), "nothing");
        assert_eq!(decoded("https://a/?x=%3a%2F%26"), "https://a/?x=:/%26");
    }
}
