//! A request as the provider sent it, before verification.

use bytes::Bytes;

use crate::base::clock::UnixMillis;

/// An unverified request.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The HTTP method, in upper case.
    pub method: String,
    /// The public URL that the provider called, with the query as received. A provider that signs
    /// the URL signs the public URL. The URL that the function receives can be different.
    pub url: String,
    pub headers: Headers,
    /// The exact bytes that the provider sent. Mitt does not re-encode them before verification.
    pub body: Bytes,
    pub received_at: UnixMillis,
}

impl Envelope {
    /// The public URL without its query.
    pub fn public_url(&self) -> &str {
        self.url.split(['?', '#']).next().unwrap_or_default()
    }

    /// The path with the query, as received.
    pub fn path(&self) -> &str {
        let after = self.url.split_once("://").map_or("", |(_, after)| after);
        after.find('/').map_or("/", |at| &after[at..])
    }

    /// The first value of a query parameter, decoded.
    pub fn query(&self, name: &str) -> Option<String> {
        let (_, query) = self.url.split_once('?')?;
        let mut pairs = query.split('&').filter(|pair| !pair.is_empty());
        pairs.find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (form_decode(key) == name).then(|| form_decode(value))
        })
    }
}

/// The decoded fields of a URL-encoded body, in order. A field without a value has an empty value.
pub(crate) fn form_fields(body: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let decode = |text: &[u8]| {
        let spaced: Vec<u8> = text
            .iter()
            .map(|b| if *b == b'+' { b' ' } else { *b })
            .collect();
        percent_encoding::percent_decode(&spaced).collect()
    };
    body.split(|b| *b == b'&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let at = pair.iter().position(|b| *b == b'=');
            let (key, value) = at.map_or((pair, &pair[..0]), |at| (&pair[..at], &pair[at + 1..]));
            (decode(key), decode(value))
        })
        .collect()
}

pub(crate) fn form_decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_encoding::percent_decode_str(&spaced)
        .decode_utf8_lossy()
        .into_owned()
}

/// Header names in lower case, with their values in the order received.
///
/// API Gateway joins repeated headers with commas (payload format 2.0). Other servers pass each
/// header separately. Verification must give the same result in both cases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// The value of a header that must occur at most once, without surrounding white space.
    pub fn one(&self, name: &str) -> Result<Option<&str>, Repeated> {
        let mut values = self.all(name);
        let first = values.next();
        let again = values.next().is_some();
        if again { Err(Repeated) } else { Ok(first) }
    }

    /// Every value of a header, in the order received.
    pub fn all<'h, 'n>(&'h self, name: &'n str) -> impl Iterator<Item = &'h str> + use<'h, 'n> {
        self.0
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.trim())
    }

    /// Replaces all headers with this name. The name must be in lower case.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// Removes all headers of this name, which must be in lower case.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The error for a repeated header that must occur at most once.
#[derive(Debug, PartialEq, Eq)]
pub struct Repeated;

impl<N: AsRef<str>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        Self(
            headers
                .into_iter()
                .map(|(name, value)| (name.as_ref().to_ascii_lowercase(), value.into()))
                .collect(),
        )
    }
}

/// Mitt treats a header as a credential if its name contains one of these words.
const CREDENTIALS: [&str; 8] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "password",
    "credential",
    "api-key",
    "apikey",
];

/// Returns whether a header with this name contains a credential. The CLI prints the value of such
/// a header only on request, even if the source verifies the header. A credential that is wrong for
/// this source can be valid for another system.
pub fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIALS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_and_values_trimmed() {
        let headers: Headers = [("X-One", " a "), ("x-two", "b"), ("X-TWO", "c")]
            .into_iter()
            .collect();
        assert_eq!(headers.one("x-one"), Ok(Some("a")));
        assert_eq!(headers.one("x-two"), Err(Repeated));
        assert_eq!(headers.all("x-two").collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(headers.one("x-three"), Ok(None));
    }

    #[test]
    fn query_values_are_decoded() {
        let envelope = Envelope {
            method: "GET".into(),
            url: "https://x.test/in/a?b=1&challenge=a%20b+c&&empty".into(),
            headers: Headers::default(),
            body: Bytes::new(),
            received_at: UnixMillis(0),
        };
        assert_eq!(envelope.query("challenge").as_deref(), Some("a b c"));
        assert_eq!(envelope.query("empty").as_deref(), Some(""));
        for absent in ["none", ""] {
            assert_eq!(envelope.query(absent), None, "{absent:?}");
        }
    }
}
