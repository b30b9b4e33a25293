//! Atlassian's canonical form of a request. Atlassian's tokens contain the hash of this form.
//! <https://developer.atlassian.com/cloud/jira/platform/understanding-jwt-for-connect-apps/>

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::webhook::envelope::{Envelope, form_decode};

/// The characters to escape: all except the unreserved characters, as in OAuth 1.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns method, path and query in the canonical form. Returns `None` if the path is not below
/// the base path.
pub(crate) fn canonical(envelope: &Envelope, base: &str) -> Option<String> {
    let path = envelope.path();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let path = path.strip_prefix(base.trim_end_matches('/'))?;
    if !path.is_empty() && !path.starts_with('/') {
        return None;
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    let path = if path.is_empty() { "/" } else { path };
    let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = form_decode(name);
        // If the query contains the token, the canonical form omits it.
        if name != "jwt" {
            fields
                .entry(escaped(&name))
                .or_default()
                .push(value.to_owned());
        }
    }
    let fields = fields.into_iter().map(|(name, values)| {
        let mut values: Vec<String> = values.iter().map(|v| escaped(&form_decode(v))).collect();
        values.sort_unstable();
        format!("{name}={}", values.join(","))
    });
    let query = fields.collect::<Vec<_>>().join("&");
    let path = path.replace('&', "%26");
    Some(format!("{}&{path}&{query}", envelope.method))
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::UnixMillis;

    fn of(url: &str, base: &str) -> Option<String> {
        let envelope = Envelope {
            method: "POST".into(),
            url: url.into(),
            headers: crate::webhook::envelope::Headers::default(),
            body: bytes::Bytes::new(),
            received_at: UnixMillis(0),
        };
        canonical(&envelope, base)
    }

    #[test]
    fn the_form_is_that_of_the_documentation() {
        let url = "http://localhost:2990/path/to/service?zee_last=param&repeated=parameter%201\
                   &first=param&repeated=parameter+2";
        let form = "POST&/path/to/service&first=param\
                    &repeated=parameter%201,parameter%202&zee_last=param";
        assert_eq!(of(url, "").as_deref(), Some(form));
        assert_eq!(of("https://a.test", "").as_deref(), Some("POST&/&"));
        assert_eq!(
            of("https://a.test/x/?jwt=e.y.J", "").as_deref(),
            Some("POST&/x&")
        );
        let odd = "https://a.test/x&y=1?b=~*'&B=%C3%A9&a=2&a=1&c";
        assert_eq!(
            of(odd, "").as_deref(),
            Some("POST&/x%26y=1&B=%C3%A9&a=1,2&b=~%2A%27&c=")
        );
    }

    #[test]
    fn the_base_is_no_part_of_it() {
        let url = "https://a.test/in/jira?a=1";
        assert_eq!(of(url, "/in").as_deref(), Some("POST&/jira&a=1"));
        assert_eq!(of(url, "/in/jira").as_deref(), Some("POST&/&a=1"));
        assert_eq!(of(url, "/in/ji"), None);
        assert_eq!(of(url, "/other"), None);
    }
}
