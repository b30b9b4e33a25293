//! Orders the events of an entity. This module reads the entity and the version of an event, and
//! compares versions.
//!
//! Providers do not guarantee an order. Queues do not guarantee that the newest state wins, because
//! retries arrive late. For this reason, a source can configure the following settings:
//!
//! - The *entity* is the object that an event is about.
//! - The *version* is the value that orders the events of an entity.
//! - The *mode* defines what Mitt does with the version.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::base::clock::UnixMillis;
use crate::base::json_path::JsonPath;
use crate::webhook::envelope::Envelope;
use crate::webhook::event::EventKey;
use crate::webhook::preset::{Compare, Locations, OrderAt, Place as Located};

/// The maximum length of a version that is compared as text, in bytes.
const LONGEST_TEXT: usize = 64;

/// How a source orders the events of an entity. By default, a source does not order its events.
#[derive(Clone, Debug)]
pub struct Order {
    pub mode: Mode,
    pub at: OrderAt,
    /// The path of the items, if the provider sends batches. The body of an event has one item.
    pub batch: Option<JsonPath>,
}

/// The stored parts of an event that can name its entity and its version.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'e> {
    pub headers: &'e BTreeMap<String, String>,
    pub content_type: Option<&'e str>,
    pub body: &'e Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// After Mitt has processed an event, older events of the entity become `done` without their
    /// actions.
    LatestWins,
    /// Mitt fetches the current state from the provider, and passes it to the actions.
    Fetch(Current),
    /// Mitt processes the events that have arrived in the order of their versions.
    Strict,
}

/// The API resource with the current state of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// The URL, which contains `{entity}` in its path or query.
    pub url: String,
    /// The name of the bearer token below the secrets path of the processor.
    pub secret: Option<String>,
}

/// The object that an event is about, such as an invoice or a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    source: String,
    /// The provider's name for the object.
    pub name: String,
}

/// A version, and its text form for comparisons. The newer of two versions has the greater text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The version as the provider wrote it.
    pub written: String,
    sorted: String,
}

/// The entity and the version of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub entity: Entity,
    /// The version of the event, or `None` in the mode `Fetch`. A fetched state has its own
    /// version.
    pub version: Option<Version>,
}

impl Order {
    /// Returns the entity and the version of an event. Returns `None` if the event has no value
    /// that the mode needs.
    pub fn place(
        &self,
        source: &str,
        stored: Stored<'_>,
        received_at: UnixMillis,
    ) -> Option<Place> {
        let envelope = stored.envelope();
        let entity = Entity::new(source, self.value(&self.at.entity, &envelope)?);
        let version = match self.mode {
            Mode::Fetch(_) => None,
            Mode::Strict if self.at.version.0.is_empty() => Some(Version::of_time(received_at)),
            Mode::LatestWins | Mode::Strict => Some(self.version(&envelope)?),
        };
        Some(Place { entity, version })
    }

    /// Returns whether the event names its entity. Then it lacks only its version, if it has no
    /// place.
    pub fn has_entity(&self, stored: Stored<'_>) -> bool {
        self.value(&self.at.entity, &stored.envelope()).is_some()
    }

    /// Returns the version of a fetched state.
    pub fn version_of(&self, state: &Bytes) -> Option<Version> {
        let stored = Stored {
            headers: &BTreeMap::new(),
            content_type: None,
            body: state,
        };
        self.version(&stored.envelope())
    }

    fn version(&self, envelope: &Envelope) -> Option<Version> {
        let written = self.value(&self.at.version, envelope)?;
        Version::read(written, self.at.compare)
    }

    fn value(&self, at: &Locations, envelope: &Envelope) -> Option<String> {
        let items = self.batch.as_ref();
        let items = items.and_then(|batch| batch.all(&envelope.body).ok());
        let item = items.and_then(|items| items.into_iter().flatten().next());
        at.first(Located {
            item,
            ..envelope.into()
        })
    }
}

impl Current {
    /// Returns the URL of an entity. The name of the entity is percent-encoded, so it cannot change
    /// the rest of the URL.
    pub fn url(&self, entity: &Entity) -> String {
        let name =
            percent_encoding::utf8_percent_encode(&entity.name, percent_encoding::NON_ALPHANUMERIC);
        self.url.replace("{entity}", &name.to_string())
    }
}

impl Entity {
    pub fn new(source: &str, name: impl Into<String>) -> Self {
        Self {
            source: source.to_owned(),
            name: name.into(),
        }
    }

    /// Returns the partition key of the entity's ordering data. [`EventKey`] hashes unusual names,
    /// so a name cannot produce the key of another entity.
    pub fn pk(&self) -> String {
        let key = EventKey::new(&self.source, &self.name);
        format!("O#{}#{}", self.source, key.id())
    }
}

impl Version {
    /// Parses a version. Returns `None` if the text does not have the format that `compare` needs.
    pub fn read(written: impl Into<String>, compare: Compare) -> Option<Self> {
        let written = written.into();
        let sorted = match compare {
            Compare::Number => number(&written)?,
            Compare::Time => time(&written)?,
            Compare::Text => text(&written)?,
        };
        Some(Self { written, sorted })
    }

    pub fn of_time(at: UnixMillis) -> Self {
        let written = at.0.max(0).to_string();
        let sorted = format!("{written:0>24}.");
        Self { written, sorted }
    }

    /// Returns the text that the ledger compares. The greater text is the newer version.
    pub fn sorted(&self) -> &str {
        &self.sorted
    }
}

/// Returns the text form of a number. The number must not be negative, and can have a fraction.
fn number(text: &str) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 24 {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    (whole.len() <= 24).then(|| format!("{whole:0>24}.{fraction}"))
}

/// Returns the text form of a time in RFC 3339 with any offset.
fn time(text: &str) -> Option<String> {
    let nanoseconds = text.parse::<jiff::Timestamp>().ok()?.as_nanosecond();
    (nanoseconds >= 0).then(|| format!("{nanoseconds:0>21}"))
}

fn text(text: &str) -> Option<String> {
    let plain = text.bytes().all(|b| (b'!'..=b'~').contains(&b));
    (plain && (1..=LONGEST_TEXT).contains(&text.len())).then(|| text.to_owned())
}

impl Stored<'_> {
    /// Returns an envelope for the lookup of locations.
    fn envelope(self) -> Envelope {
        let content_type = self.content_type.map(|value| ("content-type", value));
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.as_str()));
        let headers = headers.filter(|(name, _)| content_type.is_none() || *name != "content-type");
        Envelope {
            method: "POST".to_owned(),
            url: String::new(),
            headers: headers.chain(content_type).collect(),
            body: self.body.clone(),
            received_at: UnixMillis(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(mode: Mode, entity: &str, version: &str) -> Order {
        let locations = |text: &str| {
            let texts = text.split(' ').filter(|text| !text.is_empty());
            Locations(
                texts
                    .map(|text| crate::webhook::preset::Location::parse(text).unwrap())
                    .collect(),
            )
        };
        let at = OrderAt {
            entity: locations(entity),
            version: locations(version),
            compare: Compare::Number,
        };
        Order {
            mode,
            at,
            batch: Some(JsonPath::parse("events[*]").unwrap()),
        }
    }

    #[test]
    fn the_greater_text_is_the_newer_version() {
        let sorted = |compare, texts: &[&str]| {
            let versions = texts.iter().map(|text| {
                let version = Version::read(*text, compare);
                version.unwrap_or_else(|| panic!("{text}")).sorted
            });
            versions.collect::<Vec<_>>()
        };
        for ascending in [
            sorted(
                Compare::Number,
                &[
                    "0",
                    "1",
                    "2",
                    "10",
                    "10.05",
                    "10.111111111111111111111111",
                    "10.5",
                    "1795169681118",
                    "99999999999999999999",
                    "111111111111111111111111",
                ],
            ),
            sorted(
                Compare::Time,
                &[
                    "1970-01-01T00:00:00Z",
                    "2026-11-20T09:14:41+01:00",
                    "2026-11-20T08:14:41.5Z",
                    "2026-11-20T10:14:41.118000001Z",
                    "2026-11-20T09:14:41.9-02:00",
                ],
            ),
            sorted(Compare::Text, &["A", "AA", "B", "a", "a!"]),
        ] {
            assert!(ascending.is_sorted_by(|a, b| a < b), "{ascending:?}");
        }
        let same = |compare, one: &str, two: &str| {
            let read = |text: &str| Version::read(text, compare).unwrap().sorted;
            assert_eq!(read(one), read(two));
        };
        same(Compare::Number, "007", "7.0");
        same(
            Compare::Time,
            "2026-11-20T10:14:41Z",
            "2026-11-20T11:14:41.000+01:00",
        );
        assert_eq!(
            Version::of_time(UnixMillis(1_795_169_681_118)).sorted,
            Version::read("1795169681118", Compare::Number)
                .unwrap()
                .sorted
        );
    }

    #[test]
    fn what_cannot_be_compared_is_no_version() {
        for (compare, text) in [
            (Compare::Number, ""),
            (Compare::Number, "-1"),
            (Compare::Number, "1e9"),
            (Compare::Number, ".5"),
            (Compare::Number, "2026-11-20"),
            (Compare::Number, "1111111111111111111111111"),
            (Compare::Number, "1.5e9"),
            (Compare::Number, "1.1111111111111111111111111"),
            (Compare::Time, "1795169681"),
            (Compare::Time, "yesterday"),
            (Compare::Time, "1969-12-31T23:59:59Z"),
            (Compare::Text, ""),
            (Compare::Text, "a b"),
            (Compare::Text, "ä"),
        ] {
            assert_eq!(Version::read(text, compare), None, "{text:?}");
        }
        assert_eq!(Version::read("x".repeat(65), Compare::Text), None);
    }

    #[test]
    fn an_event_says_where_it_belongs() {
        let headers = BTreeMap::from([("x-at".to_owned(), "7".to_owned())]);
        let body = Bytes::from_static(br#"{"id":"in_1","v":5}"#);
        let at = UnixMillis(1_000);
        let place = |mode, entity, version| {
            let stored = Stored {
                headers: &headers,
                content_type: None,
                body: &body,
            };
            let place = order(mode, entity, version).place("s", stored, at)?;
            let version = place.version.map(|version| version.written);
            Some((place.entity.name, version))
        };
        let found = |version: &str| Some(("in_1".to_owned(), Some(version.to_owned())));
        assert_eq!(place(Mode::LatestWins, "json:id", "json:v"), found("5"));
        assert_eq!(
            place(Mode::LatestWins, "json:x json:id", "header:x-at"),
            found("7")
        );
        assert_eq!(place(Mode::Strict, "json:id", ""), found("1000"));
        let current = Current {
            url: String::new(),
            secret: None,
        };
        let fetch = place(Mode::Fetch(current), "json:id", "json:none");
        assert_eq!(fetch, Some(("in_1".to_owned(), None)));
        assert_eq!(place(Mode::LatestWins, "json:none", "json:v"), None);
        assert_eq!(place(Mode::LatestWins, "json:id", "json:none"), None);
        assert_eq!(place(Mode::Strict, "json:id", "json:id"), None);
    }

    #[test]
    fn an_item_and_a_field_of_a_form_name_the_entity() {
        let named = |entity: &str, content_type: Option<&str>, body: &'static str| {
            let stored = Stored {
                headers: &BTreeMap::new(),
                content_type,
                body: &Bytes::from_static(body.as_bytes()),
            };
            let order = order(Mode::Strict, entity, "");
            let place = order.place("s", stored, UnixMillis(1))?;
            assert!(order.has_entity(stored));
            Some(place.entity.name)
        };
        let batch = r#"{"events":[{"id":{"record":"r1"}}]}"#;
        assert_eq!(named("item:id.record", None, batch), Some("r1".to_owned()));
        assert_eq!(named("item:id.record", None, r#"{"events":[]}"#), None);
        let form = "--b\r\nContent-Disposition: form-data; name=\"json\"\r\n\r\n{\"id\":\"s1\"}\r\n--b--\r\n";
        let multipart = Some("multipart/form-data; boundary=b");
        assert_eq!(
            named("multipart-json:json/id", multipart, form),
            Some("s1".to_owned())
        );
    }

    #[test]
    fn a_fetched_state_says_how_new_it_is() {
        let current = Current {
            url: "https://api.example.com/things/{entity}".into(),
            secret: None,
        };
        let order = order(Mode::Fetch(current), "json:id", "header:x-at json:v");
        let version_of = |state: &'static str| {
            let version = order.version_of(&Bytes::from_static(state.as_bytes()));
            version.map(|version| version.written)
        };
        assert_eq!(version_of(r#"{"v":5}"#), Some("5".to_owned()));
        assert_eq!(version_of(r#"{"id":"in_1"}"#), None);
        assert_eq!(version_of("gone"), None);
    }

    #[test]
    fn a_strange_entity_reaches_neither_another_one_nor_another_host() {
        assert_eq!(Entity::new("s", "in_1").pk(), "O#s#in_1");
        assert!(Entity::new("s", "a#b").pk().starts_with("O#s#h:"));
        let current = Current {
            url: "https://api.example.com/things/{entity}?x={entity}".into(),
            secret: None,
        };
        assert_eq!(
            current.url(&Entity::new("s", "../a?b#@evil.test/ä")),
            "https://api.example.com/things/%2E%2E%2Fa%3Fb%23%40evil%2Etest%2F%C3%A4\
             ?x=%2E%2E%2Fa%3Fb%23%40evil%2Etest%2F%C3%A4"
        );
    }
}
