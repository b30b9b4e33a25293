//! Replaces `{account}`, `{path}` and `{type}` in the path or the query of an action's URL.

use std::fmt;

use anyhow::{bail, ensure};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// The characters that need no encoding in a segment of a path or in a value of a query.
/// <https://www.rfc-editor.org/rfc/rfc3986#section-2.3>
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The longest URL that Mitt calls, in bytes.
const LONGEST: usize = 8_192;

/// The values of an event. The sender chooses them.
#[derive(Clone, Copy, Debug, Default)]
pub struct UrlValues<'e> {
    pub account: Option<&'e str>,
    /// The rest of the path after the address of the source, percent-encoded as received.
    pub path: Option<&'e str>,
    pub kind: Option<&'e str>,
}

/// The reason why the values of an event make no valid URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// The event has no value for this placeholder.
    Missing(&'static str),
    /// The value of this placeholder would make an empty segment, `.` or `..`.
    Segment(&'static str),
    TooLong,
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "the event has no value for {{{name}}} of the url"),
            Self::Segment(name) => write!(
                f,
                "the value for {{{name}}} of the url would make an empty segment, \".\" or \"..\""
            ),
            Self::TooLong => write!(f, "the url would have more than {LONGEST} bytes"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Placeholder {
    Account,
    Path,
    Kind,
}

impl Placeholder {
    const ALL: [Self; 3] = [Self::Account, Self::Path, Self::Kind];

    fn name(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Path => "path",
            Self::Kind => "type",
        }
    }

    fn value<'e>(self, values: &UrlValues<'e>) -> Option<&'e str> {
        let value = match self {
            Self::Account => values.account,
            Self::Path => values
                .path
                .map(|path| path.strip_prefix('/').unwrap_or(path)),
            Self::Kind => values.kind,
        };
        value.filter(|value| !value.is_empty())
    }
}

/// Checks the placeholders of a URL. They cannot be in the host, because no event may choose the
/// host.
pub(super) fn check(url: &str) -> anyhow::Result<()> {
    let (before, path, query) = split(url);
    ensure!(
        !before.contains(['{', '}']),
        "url: {{account}}, {{path}} and {{type}} are allowed in the path and the query only, not \
         in the host"
    );
    ensure!(
        !(path.contains('{') || query.contains('{')) || !url.contains('#'),
        "url: a fragment is not sent; remove # and the text after it"
    );
    for text in [path, query] {
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => ensure!(
                    !text.contains(['{', '}']),
                    "url: a brace does not belong to a placeholder; for a literal brace, write %7B or %7D"
                ),
                Piece::Named(_) => {}
                Piece::Unknown(name) => bail!(
                    "url: unknown placeholder {{{name}}}; use {{account}}, {{path}} or {{type}}"
                ),
            }
        }
    }
    Ok(())
}

/// Returns the URL with the query of a provider's request added to it.
pub fn with_query(url: &str, query: Option<&str>) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let query = query.and_then(|query| query.split('#').next());
    match query.filter(|query| !query.is_empty()) {
        Some(query) if url.contains('?') => format!("{url}&{query}"),
        Some(query) => format!("{url}?{query}"),
        None => url.to_owned(),
    }
}

/// Returns whether a URL has placeholders.
pub fn is_template(url: &str) -> bool {
    url.contains('{')
}

/// Returns the URL of an event. Each value is percent-encoded, `{path}` segment by segment, so that
/// a value cannot change another part of the URL.
pub fn fill(url: &str, values: &UrlValues<'_>) -> Result<String, BadPath> {
    let (before, path, query) = split(url);
    let mut filled = before.to_owned();
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            filled.push('/');
        }
        filled.push_str(&filled_segment(segment, values)?);
    }
    for piece in pieces(query) {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Unknown(_) => {}
            Piece::Named(name) => {
                let value = name.value(values).unwrap_or_default();
                let value: Vec<u8> = match name {
                    Placeholder::Path => percent_decode_str(value).collect(),
                    _ => value.as_bytes().to_vec(),
                };
                filled.push_str(&encoded(&value));
            }
        }
    }
    if filled.len() > LONGEST {
        return Err(BadPath::TooLong);
    }
    Ok(filled)
}

/// Returns a segment of the template with its values. `{path}` can make several segments of it.
fn filled_segment(segment: &str, values: &UrlValues<'_>) -> Result<String, BadPath> {
    let mut filled = String::new();
    let mut named = None;
    for piece in pieces(segment) {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Unknown(_) => {}
            Piece::Named(name) => {
                named = Some(name.name());
                let value = name.value(values).ok_or(BadPath::Missing(name.name()))?;
                if name == Placeholder::Path {
                    let parts = value.split('/').map(|part| {
                        let decoded: Vec<u8> = percent_decode_str(part).collect();
                        encoded(&decoded)
                    });
                    filled.push_str(&parts.collect::<Vec<_>>().join("/"));
                } else {
                    filled.push_str(&encoded(value.as_bytes()));
                }
            }
        }
    }
    let Some(name) = named else {
        return Ok(filled);
    };
    // Parsers of URLs also treat `%2e` as a dot.
    let is_bad = |part: &str| {
        let dots = part.to_ascii_lowercase().replace("%2e", ".");
        matches!(dots.as_str(), "" | "." | "..")
    };
    if filled.split('/').any(is_bad) {
        return Err(BadPath::Segment(name));
    }
    Ok(filled)
}

fn encoded(value: &[u8]) -> String {
    percent_encode(value, ENCODED).to_string()
}

/// Splits a URL into the scheme with the host, the path, and the query with its question mark.
fn split(url: &str) -> (&str, &str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url[host..]
        .find(['/', '?'])
        .map_or(url.len(), |at| host + at);
    let query = url[path..].find('?').map_or(url.len(), |at| path + at);
    (&url[..path], &url[path..query], &url[query..])
}

enum Piece<'t> {
    Text(&'t str),
    Named(Placeholder),
    Unknown(&'t str),
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        pieces.push(Piece::Text(before));
        let known = Placeholder::ALL
            .into_iter()
            .find(|known| known.name() == name);
        pieces.push(known.map_or(Piece::Unknown(name), Piece::Named));
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://app.example.com/hooks/{account}";

    fn fill_one(url: &str, account: &str, path: &str, kind: &str) -> Result<String, BadPath> {
        fill(
            url,
            &UrlValues {
                account: Some(account),
                path: Some(path),
                kind: Some(kind),
            },
        )
    }

    #[test]
    fn values_are_encoded_where_they_stand() {
        for (url, filled) in [
            ("https://a.test/h/{account}", "https://a.test/h/a%2Fb%3F"),
            (
                "https://a.test/h-{account}-x/",
                "https://a.test/h-a%2Fb%3F-x/",
            ),
            ("https://a.test/{path}", "https://a.test/one/t%20wo%3F"),
            ("https://a.test/{type}", "https://a.test/invoice.paid"),
            (
                "https://a.test?t={type}&p={path}",
                "https://a.test?t=invoice.paid&p=one%2Ft%20wo%3F",
            ),
            ("https://a.test//x", "https://a.test//x"),
        ] {
            let found = fill_one(url, "a/b?", "/one/t%20wo%3f", "invoice.paid");
            assert_eq!(found.as_deref(), Ok(filled), "{url}");
        }
    }

    #[test]
    fn no_value_leaves_its_segment() {
        let hostile = [
            "..",
            ".",
            "",
            "%2e%2e",
            "a/../..",
            "..\\..",
            "a\r\nhost: evil",
            "@evil.test",
            "//evil.test",
            "?x",
            "#x",
            "\u{0}",
            "a;b",
            "é",
        ];
        for value in hostile {
            for url in [URL, "https://app.example.com/hooks/{account}/x?y=1"] {
                let Ok(filled) = fill_one(url, value, "", "") else {
                    assert!(matches!(value, ".." | "." | ""), "{value:?}");
                    continue;
                };
                let parsed = reqwest::Url::parse(&filled).unwrap();
                assert_eq!(parsed.host_str(), Some("app.example.com"), "{value:?}");
                let plain = reqwest::Url::parse(&url.replace("{account}", "x")).unwrap();
                let count = |url: &reqwest::Url| url.path().split('/').count();
                assert_eq!(count(&parsed), count(&plain), "{value:?} {parsed}");
                assert_eq!(parsed.query(), plain.query(), "{value:?}");
                assert_eq!(parsed.fragment(), None);
                assert!(parsed.path().starts_with("/hooks/"), "{parsed}");
            }
        }
    }

    #[test]
    fn a_path_with_dots_or_gaps_is_bad() {
        let at = |path: &str| fill_one("https://a.test/hooks/{path}", "", path, "");
        for bad in [
            "..", "//a", "a/..", "a/./b", "%2e%2E/x", ".%2e", "a//b", "a/", "%2e",
        ] {
            assert_eq!(at(bad), Err(BadPath::Segment("path")), "{bad}");
        }
        assert_eq!(at(""), Err(BadPath::Missing("path")));
        assert_eq!(at("/"), Err(BadPath::Missing("path")));
        assert_eq!(at("a%2f..%2fb").unwrap(), "https://a.test/hooks/a%2F..%2Fb");
        assert_eq!(at("%ff%00").unwrap(), "https://a.test/hooks/%FF%00");
        assert_eq!(at(&"x".repeat(9_000)), Err(BadPath::TooLong));
        let dotted = fill_one("https://a.test/.{account}", ".", "", "");
        assert_eq!(dotted, Err(BadPath::Segment("account")));
        assert_eq!(
            fill(URL, &UrlValues::default()),
            Err(BadPath::Missing("account"))
        );
    }

    #[test]
    fn a_placeholder_stands_in_the_path_or_the_query() {
        for good in [URL, "https://a.test/x", "https://a.test?x={type}"] {
            check(good).unwrap();
        }
        for (bad, said) in [
            ("https://{account}.example.com/x", "not in the host"),
            ("https://a.test{path}/x", "not in the host"),
            ("https://a.test:{type}/x", "not in the host"),
            ("https://a.test/{acount}", "unknown placeholder {acount}"),
            ("https://a.test/{account", "a brace does not belong"),
            ("https://a.test/account}", "a brace does not belong"),
            ("https://a.test/{account}#x", "a fragment is not sent"),
        ] {
            let error = check(bad).unwrap_err().to_string();
            assert!(error.contains(said), "{bad}: {error}");
        }
    }
}
