//! The behaviour of a provider, as its documentation describes it.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use shared::base::clock::UnixMillis;
use shared::webhook::sign::KeyPair;

use super::script::Script;

/// The API key that every server requires.
pub(crate) const KEY: &str = "key-of-the-provider";

/// An event at a provider.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(crate) id: String,
    pub(crate) number: usize,
    pub(crate) at: UnixMillis,
    /// The status with which the inbox answered the webhook, as far as the provider knows it.
    pub(crate) status: u16,
}

impl Happened {
    pub(crate) fn secs(&self) -> i64 {
        self.at.secs()
    }

    pub(crate) fn rfc3339(&self) -> String {
        self.at.rfc3339()
    }
}

/// A request to the provider's API.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    /// The scheme, host and port of the request.
    pub(crate) base: String,
}

impl Request {
    pub(crate) fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && self.path == path
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub(crate) fn is_bearer(&self, key: &str) -> bool {
        self.header("authorization") == format!("Bearer {key}")
    }
}

/// The requested part of the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) since: Option<UnixMillis>,
    pub(crate) skip: Skip,
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Skip {
    #[default]
    Nothing,
    /// The part of the list after this event.
    After(String),
    /// The part of the list with this many events.
    Count(usize),
    /// The part of the list, newest first, with events from this time or later.
    Before(UnixMillis),
}

impl Skip {
    pub(crate) fn after(id: Option<&str>) -> Self {
        id.map_or(Self::Nothing, |id| Self::After(id.to_owned()))
    }

    pub(crate) fn count(number: Option<&str>) -> Self {
        number.map_or(Self::Nothing, |number| Self::Count(number.parse().unwrap()))
    }
}

/// A page to return.
pub(crate) struct Page<'p> {
    pub(crate) items: Vec<Value>,
    /// The position up to which the list has been read after this page.
    pub(crate) end: usize,
    pub(crate) last: Option<String>,
    pub(crate) more: bool,
    pub(crate) request: &'p Request,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: "{}".to_owned(),
        }
    }
}

impl From<Value> for Answer {
    fn from(json: Value) -> Self {
        Self {
            body: json.to_string(),
            ..Self::status(200)
        }
    }
}

/// A webhook before it is signed.
#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl Webhook {
    pub(crate) fn json(headers: &[(&str, &str)], body: &Value) -> Self {
        let owned = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self {
            headers: owned.collect(),
            body: body.to_string().into(),
        }
    }
}

/// A function that makes the webhook of an event.
type Sent = fn(&Happened) -> Webhook;

/// One provider.
pub(crate) struct Play {
    pub(crate) preset: &'static str,
    /// Parameters of the preset. `BASE` stands for the URL of the server.
    pub(crate) params: &'static str,
    /// Additional lines for `[source.sync]`.
    pub(crate) settings: String,
    /// The value in Parameter Store, [`KEY`] by default.
    pub(crate) key: &'static str,
    /// The number of items of a page.
    pub(crate) size: usize,
    pub(crate) newest_first: bool,
    /// Whether a first run requests events from before its start.
    pub(crate) looks_back: bool,
    /// Whether the list leaves out events from before the first run.
    pub(crate) from_now_on: bool,
    /// Returns the part of the list that a request asks for, or the status with which the provider
    /// rejects the request.
    pub(crate) asked: fn(&Request) -> Result<Asked, u16>,
    pub(crate) item: fn(&Happened) -> Value,
    pub(crate) page: fn(Page<'_>) -> Answer,
    /// Answers any other request, for example for a token or for one event.
    pub(crate) other: fn(&Request, &[Happened]) -> Option<Answer>,
    /// The secret of the webhooks, and the function that makes one. `None` if only the provider can
    /// sign.
    pub(crate) webhook: Option<(&'static str, Sent)>,
    /// Returns the type under which Mitt stores an event.
    pub(crate) kind: fn(&Happened) -> String,
    /// The file that replaces the functions above.
    pub(crate) script: Option<Script>,
}

impl Play {
    /// Returns a provider with a list of events, with the defaults that most providers share.
    pub(crate) fn of(preset: &'static str) -> Self {
        Self {
            preset,
            params: "api = \"BASE\"",
            settings: String::new(),
            key: KEY,
            size: 3,
            newest_first: false,
            looks_back: true,
            from_now_on: false,
            asked: |_| Err(404),
            item: |_| Value::Null,
            page: |_| Answer::status(404),
            other: |_, _| None,
            webhook: None,
            kind: |_| "mitt.changed".to_owned(),
            script: None,
        }
    }

    pub(crate) fn scripted(self, script: Script) -> Self {
        Self {
            script: Some(script),
            ..self
        }
    }

    /// Returns the number of events that a test adds. They fill two pages and begin a third.
    pub(crate) fn count(&self) -> usize {
        match &self.script {
            Some(script) => script.count(),
            None => self.size * 2 + 1,
        }
    }

    pub(crate) fn is_scripted(&self) -> bool {
        self.script.is_some()
    }

    pub(crate) fn ask(&self, request: &Request) -> Result<Asked, u16> {
        match &self.script {
            Some(script) => script.asked(request),
            None => (self.asked)(request),
        }
    }

    pub(crate) fn item_of(&self, event: &Happened) -> Value {
        match &self.script {
            Some(script) => script.item(event),
            None => (self.item)(event),
        }
    }

    pub(crate) fn page_of(&self, page: Page<'_>) -> Answer {
        match &self.script {
            Some(script) => script.page(page),
            None => (self.page)(page),
        }
    }

    pub(crate) fn other_answer(&self, request: &Request, events: &[Happened]) -> Option<Answer> {
        match &self.script {
            Some(script) => script.other(request, events),
            None => (self.other)(request, events),
        }
    }

    /// Returns the secret of the webhooks that the catcher has.
    pub(crate) fn secret(&self) -> Option<&str> {
        match &self.script {
            Some(script) => script.secret(),
            None => self.webhook.map(|(secret, _)| secret),
        }
    }

    /// Returns the key pair with which the provider signs, if it has one.
    pub(crate) fn pair(&self) -> Option<&KeyPair> {
        self.script.as_ref()?.pair()
    }

    pub(crate) fn webhook_of(&self, event: &Happened) -> Option<Webhook> {
        match &self.script {
            Some(script) => script.webhook(event),
            None => self.webhook.map(|(_, webhook)| webhook(event)),
        }
    }

    pub(crate) fn kind_of(&self, event: &Happened) -> String {
        match &self.script {
            Some(script) => script.kind(),
            None => (self.kind)(event),
        }
    }
}

/// Parses the time of a query, in seconds.
pub(crate) fn secs(text: Option<&str>) -> Option<UnixMillis> {
    text.map(|text| UnixMillis::from_secs(text.parse().unwrap()))
}

/// Parses a time parameter of a query, in RFC 3339 format.
pub(crate) fn time(text: Option<&str>) -> Option<UnixMillis> {
    let time = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    text.map(|text| UnixMillis(time(text)))
}
