//! A provider that a file describes: the requests that its documentation asks for, the documented
//! responses, and the webhook of the same event.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::webhook::preset::Preset;
use shared::webhook::sign::{Algorithm, KeyPair};

use super::play::{Answer, Asked, Happened, KEY, Page, Play, Request, Skip, Webhook};
use super::plays::{form, is_basic};
use super::template::{Values, fill};

/// One file in `scripts/`. Strings in its templates contain values of an event, such as `{id}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    /// The documentation of the response.
    docs: String,
    preset: String,
    /// The lines of `[source.sync]`.
    #[serde(default)]
    settings: String,
    #[serde(default)]
    newest_first: bool,
    /// The number of items of a page, if the preset expects it.
    #[serde(default = "three")]
    size: usize,
    /// The number of events in a test. The default fills two pages and begins a third.
    count: Option<usize>,
    token: Option<Token>,
    list: List,
    item: Value,
    /// The response, as long as there are further pages.
    page: Value,
    /// The response with the last page.
    last: Value,
    /// The response to the request for one event.
    one: Option<One>,
    webhook: Option<Sent>,
    #[serde(default = "changed")]
    kind: String,
    #[serde(skip)]
    pair: Option<KeyPair>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default = "get")]
    method: String,
    path: String,
    /// The headers and parameters without which the provider rejects the request. `basic a:b` means
    /// Basic authentication.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    query: BTreeMap<String, String>,
    since: Option<Since>,
    at: At,
}

/// Where a request has the start time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    #[serde(rename = "in")]
    place: String,
    unit: String,
    #[serde(default)]
    exclusive: bool,
}

/// Where a request has the position in the list, and what the position means.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct At {
    #[serde(rename = "in")]
    place: String,
    means: Means,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Means {
    /// The id of the last item.
    Id,
    /// The time of the last item, in milliseconds.
    Time,
    /// The number of items before the page. Any other text means the first page.
    Count,
    /// The number of the page, from 1.
    Page,
    /// There are no further pages.
    Nothing,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    path: String,
    #[serde(default)]
    basic: Option<String>,
    form: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    path: String,
    answer: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    /// Without a secret, the provider signs with a key pair.
    secret: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Value,
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/providers/scripts");

/// Returns the names of all files.
pub(crate) fn names() -> Vec<String> {
    let files = std::fs::read_dir(FOLDER).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// Returns the provider of a file.
pub(crate) fn play(name: &str) -> Play {
    let text = std::fs::read_to_string(format!("{FOLDER}/{name}.json")).unwrap();
    let mut script: Script =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}.json: {error}"));
    assert!(script.docs.starts_with("https://"), "{name}.json: docs");
    if let Some(sent) = &mut script.webhook
        && sent.secret.is_none()
    {
        let preset = Preset::embedded(&script.preset, &BTreeMap::new()).unwrap();
        let pair = KeyPair::generate(Algorithm::Ed25519).unwrap();
        let form = preset.scheme("default").unwrap().key;
        sent.secret = Some(pair.public(form).unwrap());
        script.pair = Some(pair);
    }
    Play {
        settings: script.settings.clone(),
        size: script.size,
        newest_first: script.newest_first,
        ..Play::of(Box::leak(script.preset.clone().into_boxed_str()))
    }
    .scripted(script)
}

impl Script {
    pub(crate) fn asked(&self, request: &Request) -> Result<Asked, u16> {
        let list = &self.list;
        if !request.is(&list.method, &list.path) {
            return Err(404);
        }
        for (name, value) in &list.headers {
            let good = match value.strip_prefix("basic ") {
                Some(pair) => {
                    let pair = pair.replace("{key}", KEY);
                    let (user, password) = pair.split_once(':').unwrap();
                    is_basic(request, user, password)
                }
                None => request.header(name) == value.replace("{key}", KEY),
            };
            if !good {
                return Err(401);
            }
        }
        for (name, value) in &list.query {
            if request.query(name) != Some(value.replace("{key}", KEY).as_str()) {
                return Err(400);
            }
        }
        let since = list.since.as_ref().map(|since| since.of(request));
        let at = place(request, &list.at.place);
        let skip = match (list.at.means, at) {
            (Means::Nothing, _) | (_, None) => Skip::Nothing,
            (Means::Id, Some(id)) => Skip::After(id),
            (Means::Time, Some(time)) => Skip::Before(UnixMillis(number(&time)?)),
            (Means::Count, Some(count)) => count.parse().map_or(Skip::Nothing, Skip::Count),
            (Means::Page, Some(page)) => {
                let page = usize::try_from(number(&page)?).map_err(|_| 400_u16)?;
                Skip::Count((page - 1) * self.size)
            }
        };
        Ok(Asked {
            since: since.transpose()?,
            skip,
        })
    }

    pub(crate) fn item(&self, event: &Happened) -> Value {
        fill(&self.item, &self.values(event))
    }

    pub(crate) fn page(&self, page: Page<'_>) -> Answer {
        let shape = if page.more { &self.page } else { &self.last };
        let since = self.list.since.as_ref();
        let since = since.and_then(|since| place(page.request, &since.place));
        let values = Values::from([
            ("since", since.into()),
            ("items", page.items.into()),
            ("end", page.end.to_string().into()),
            ("base", page.request.base.clone().into()),
        ]);
        fill(shape, &values).into()
    }

    /// Answers the request for a token or for one event.
    pub(crate) fn other(&self, request: &Request, events: &[Happened]) -> Option<Answer> {
        if let Some(token) = &self.token
            && request.is("POST", &token.path)
        {
            let basic = token.basic.as_ref();
            let good = basic.is_none_or(|user| is_basic(request, user, KEY))
                && token
                    .form
                    .iter()
                    .all(|(name, value)| form(request, name) == value.replace("{key}", KEY));
            let answer = json!({"access_token": "for-an-hour", "token_type": "Bearer"});
            return Some(if good {
                answer.into()
            } else {
                Answer::status(401)
            });
        }
        let one = self.one.as_ref()?;
        let event = events
            .iter()
            .find(|event| request.is("GET", &one.path.replace("{id}", &event.id)))?;
        Some(fill(&one.answer, &self.values(event)).into())
    }

    pub(crate) fn secret(&self) -> Option<&str> {
        self.webhook.as_ref()?.secret.as_deref()
    }

    pub(crate) fn pair(&self) -> Option<&KeyPair> {
        self.pair.as_ref()
    }

    pub(crate) fn webhook(&self, event: &Happened) -> Option<Webhook> {
        let sent = self.webhook.as_ref()?;
        let values = self.values(event);
        let headers = sent.headers.iter().map(|(name, value)| {
            let value = fill(&value.as_str().into(), &values);
            (name.clone(), value.as_str().unwrap().to_owned())
        });
        Some(Webhook {
            headers: headers.collect(),
            body: fill(&sent.body, &values).to_string().into(),
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.count.unwrap_or(self.size * 2 + 1)
    }

    pub(crate) fn kind(&self) -> String {
        self.kind.clone()
    }

    fn values(&self, event: &Happened) -> Values {
        let mut values = Values::from([
            ("id", event.id.clone().into()),
            ("number", event.number.into()),
            ("s", event.secs().into()),
            ("ms", event.at.0.into()),
            ("rfc3339", event.rfc3339().into()),
        ]);
        if let Some(sent) = &self.webhook {
            let body = fill(&sent.body, &values);
            values.insert("body_text", body.to_string().into());
            values.insert("body", body);
        }
        values
    }
}

impl Since {
    fn of(&self, request: &Request) -> Result<UnixMillis, u16> {
        let text = place(request, &self.place).ok_or(400_u16)?;
        let (at, one) = match self.unit.as_str() {
            "s" => (number(&text)? * 1_000, 1_000),
            "ms" => (number(&text)?, 1),
            unit => {
                let at: jiff::Timestamp = text.parse().map_err(|_| 400_u16)?;
                // Some providers reject fractions of a second.
                let whole = unit == "rfc3339-s";
                if whole && text.contains('.') {
                    return Err(400);
                }
                (at.as_millisecond(), if whole { 1_000 } else { 1 })
            }
        };
        Ok(UnixMillis(if self.exclusive { at + one } else { at }))
    }
}

/// Returns the value of `query:NAME` or of `body:/json/pointer`.
fn place(request: &Request, place: &str) -> Option<String> {
    match place.split_once(':').unwrap() {
        ("query", name) => request.query(name).map(str::to_owned),
        (_, pointer) => {
            let body = request.json();
            body.pointer(pointer)?.as_str().map(str::to_owned)
        }
    }
}

fn number(text: &str) -> Result<i64, u16> {
    text.parse().map_err(|_| 400)
}

fn get() -> String {
    "GET".to_owned()
}

fn three() -> usize {
    3
}

fn changed() -> String {
    "mitt.changed".to_owned()
}
