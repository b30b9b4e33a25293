//! Requests and responses of the HTTP API (payload format 2.0).
//! <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html>
//!
//! These types replace the conversion of `lambda_http`. That conversion panics if a body is marked
//! as base64 but is not valid base64. It also rejects a whole request because of one invalid header
//! value. With these types, the catcher rejects only the invalid body, and accepts the request with
//! the invalid header value.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shared::aws::RouteReply;
use shared::base::clock::UnixMillis;
use shared::inbox::fetch_back::Network;
use shared::webhook::envelope::{Envelope, Headers};

/// A request of the HTTP API.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    raw_path: String,
    #[serde(default)]
    raw_query_string: String,
    /// The headers: names in lower case, repeated headers joined by commas.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The cookies, which the HTTP API removes from the headers.
    #[serde(default)]
    pub(crate) cookies: Vec<String>,
    #[serde(rename = "requestContext")]
    context: RequestContext,
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext {
    #[serde(default)]
    domain_name: String,
    http: Http,
}

#[derive(Clone, Debug, Deserialize)]
struct Http {
    method: String,
    /// The address of the sender, or of the proxy in front of the API.
    #[serde(default, rename = "sourceIp")]
    source_ip: String,
}

/// The body was marked as base64, but is not valid base64.
#[derive(Debug)]
pub struct BadBase64;

impl Request {
    /// Returns the source in the path: `/in/{source}`, or `/in/{source}/{path}`.
    pub fn source(&self) -> Option<&str> {
        let (_, rest) = self.raw_path.split_once("/in/")?;
        let source = rest.split('/').next()?;
        (!source.is_empty()).then_some(source)
    }

    /// Whether the path continues behind the source.
    pub(crate) fn has_tail(&self) -> bool {
        self.tail().is_some()
    }

    /// Returns the rest of the path after the source. It begins with a slash.
    pub(crate) fn tail(&self) -> Option<&str> {
        let (_, rest) = self.raw_path.split_once("/in/")?;
        rest.find('/').map(|at| &rest[at..])
    }

    pub(crate) fn method(&self) -> &str {
        &self.context.http.method
    }

    /// Returns the network of the sender.
    pub(crate) fn network(&self) -> Network {
        Network::of(&self.context.http.source_ip)
    }

    /// Returns the size of the body in bytes, without decoding it. The result can be up to two
    /// bytes too large.
    pub fn body_len(&self) -> usize {
        let len = self.body.as_ref().map_or(0, String::len);
        if self.is_base64_encoded {
            len.div_ceil(4) * 3
        } else {
            len
        }
    }

    /// Returns the request as the provider sent it. Only the flag of the gateway decides whether
    /// the body is base64; the content type does not.
    pub fn into_envelope(self, received_at: UnixMillis) -> Result<Envelope, BadBase64> {
        let body = self.body.unwrap_or_default();
        let body = if self.is_base64_encoded {
            Bytes::from(STANDARD.decode(body).map_err(|_| BadBase64)?)
        } else {
            Bytes::from(body)
        };
        let mut url = format!("https://{}{}", self.context.domain_name, self.raw_path);
        if !self.raw_query_string.is_empty() {
            url.push('?');
            url.push_str(&self.raw_query_string);
        }
        Ok(Envelope {
            method: self.context.http.method.to_ascii_uppercase(),
            url,
            headers: self.headers.into_iter().collect::<Headers>(),
            body,
            received_at,
        })
    }
}

/// A response to the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    pub status_code: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
    is_base64_encoded: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cookies: Vec<String>,
}

impl Response {
    pub(crate) fn new(status_code: u16, content_type: &str, body: impl Into<String>) -> Self {
        let headers = BTreeMap::from([
            ("cache-control".to_owned(), "no-store".to_owned()),
            ("content-type".to_owned(), content_type.to_owned()),
            // A response can contain a sender's text, which a browser must not show as a page.
            ("x-content-type-options".to_owned(), "nosniff".to_owned()),
        ]);
        Self {
            status_code,
            headers,
            body: body.into(),
            is_base64_encoded: false,
            cookies: Vec::new(),
        }
    }

    /// Returns a response with a status only.
    pub(crate) fn empty(status_code: u16) -> Self {
        Self {
            status_code,
            headers: BTreeMap::new(),
            body: String::new(),
            is_base64_encoded: false,
            cookies: Vec::new(),
        }
    }

    /// Returns the answer of a route, unchanged. A response of a function joins repeated headers by
    /// commas, and has its cookies in a separate list.
    pub(crate) fn of_route(reply: RouteReply) -> Self {
        let mut response = Self::empty(reply.status);
        for (name, value) in reply.headers {
            if name == "set-cookie" {
                response.cookies.push(value);
                continue;
            }
            let known = response.headers.entry(name);
            known
                .and_modify(|known| {
                    known.push_str(", ");
                    known.push_str(&value);
                })
                .or_insert(value);
        }
        let text = std::str::from_utf8(&reply.body).ok();
        if let Some(text) = text.filter(|text| is_short_in_json(text)) {
            text.clone_into(&mut response.body);
        } else {
            response.body = STANDARD.encode(&reply.body);
            response.is_base64_encoded = true;
        }
        response
    }

    pub(crate) fn with(mut self, header: &str, value: &str) -> Self {
        self.headers.insert(header.to_owned(), value.to_owned());
        self
    }
}

/// Returns whether a text in JSON is at most as long as in Base64. Lambda limits the size of a
/// response, and JSON needs six bytes for a control character.
fn is_short_in_json(text: &str) -> bool {
    let added = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        0..0x20 => 5,
        _ => 0,
    });
    added.sum::<usize>() <= text.len() / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_never_longer_than_in_base64() {
        let bodies = [
            "{\"a\":1}".repeat(1_000),
            "\u{1}".repeat(1_000),
            "\"".repeat(1_000),
            "\u{7f}ä".repeat(1_000),
        ];
        for (body, is_text) in bodies.into_iter().zip([true, false, false, true]) {
            let len = body.len();
            let response = Response::of_route(RouteReply {
                status: 200,
                headers: Vec::new(),
                body: body.into(),
            });
            assert_eq!(response.is_base64_encoded, !is_text);
            let sent = serde_json::to_string(&response.body).unwrap();
            assert!(
                sent.len() <= len.div_ceil(3) * 4 + 2,
                "{} of {len}",
                sent.len()
            );
        }
    }
}
