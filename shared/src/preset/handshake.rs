//! Requests that ask whether we are there, and what they are answered.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Location, Part, Template};
use crate::envelope::Envelope;
use crate::json_path::JsonPath;

/// The longest value of a request that an answer repeats.
const LONGEST_ECHO: usize = 4096;

/// A `[[handshake]]` table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handshake {
    when: When,
    /// Answer only when the signature holds: an answer that repeats the sender's text must not be
    /// had by anybody.
    #[serde(default)]
    pub require_signature: bool,
    reply: ReplyAt,
}

/// All that is named must be there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    method: String,
    #[serde(default)]
    json: BTreeMap<String, String>,
    #[serde(default)]
    query: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyAt {
    #[serde(default = "ok")]
    status: u16,
    #[serde(default = "plain")]
    content_type: String,
    body: Option<Template>,
}

/// The answer to a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub content_type: String,
    pub body: String,
}

impl Handshake {
    pub fn matches(&self, envelope: &Envelope) -> bool {
        envelope.method == self.when.method
            && self
                .when
                .query
                .iter()
                .all(|name| envelope.query(name).is_some())
            && self.when.json.iter().all(|(path, expected)| {
                JsonPath::parse(path)
                    .and_then(|path| path.scalar(&envelope.body).ok().flatten())
                    .is_some_and(|value| value == *expected)
            })
    }

    /// The reply; `None` when the request lacks what it would repeat.
    pub fn reply(&self, envelope: &Envelope) -> Option<Reply> {
        let mut body = String::new();
        for part in self.reply.body.iter().flat_map(|template| &template.0) {
            match part {
                Part::Literal(text) => body.push_str(text),
                Part::At(at @ (Location::Json(_) | Location::Query(_) | Location::Header(_))) => {
                    body.push_str(&at.find(envelope).ok().flatten()?);
                }
                _ => return None,
            }
        }
        (body.len() <= LONGEST_ECHO).then(|| Reply {
            status: self.reply.status,
            content_type: self.reply.content_type.clone(),
            body,
        })
    }
}

fn ok() -> u16 {
    200
}

fn plain() -> String {
    "text/plain".to_owned()
}
