//! How to fetch the object that an unsigned notice names.

use anyhow::{Context as _, bail, ensure};
use regex_lite::Regex;
use serde::Deserialize;
use serde_json::Value;

use super::scheme::needed_regex;
use super::{EventAt, Location, Part, Template};
use crate::base::json_path::JsonPath;
use crate::webhook::event::Sha;

/// The maximum length of an object's id, in bytes.
const LONGEST_NAME: usize = 128;

/// The maximum length of an event's type, in bytes.
const LONGEST_KIND: usize = 128;

/// The `fetch` table of a scheme whose requests prove nothing. Mitt creates the event from the
/// response of the provider's API, never from the notice.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// The URL of the object, such as `https://api.acme.test/v1/payments/{form:id}`. Scheme and
    /// host are fixed. Exactly one placeholder contains the object's id from the notice.
    pub url: Template,
    pub auth: FetchAuth,
    /// The pattern that the id of an object must match, from `^` to `$`.
    #[serde(deserialize_with = "needed_regex")]
    pub allow: Regex,
    /// The location of the object's id in the response. This id must be the requested one.
    pub id: Location,
    /// The template of the event's type, with values of the response, such as
    /// `payment.{json:status}`.
    #[serde(rename = "type")]
    pub kind: Template,
    /// Values of the response that can differ although the object has the same state. All other
    /// bytes identify the version of the object. Each version is one event.
    #[serde(default)]
    pub varies: Vec<JsonPath>,
}

/// How a request sends the API key of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FetchAuth {
    /// `Authorization: Bearer`
    Bearer,
}

/// The current state of an object, from the provider's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The id of the event: `{object}/{version}`. The same state always has the same id.
    pub id: String,
    pub kind: String,
    /// The hash of everything except the varying values.
    pub content: Sha,
}

impl Fetch {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.check_url().context("fetch.url")?;
        let pattern = self.allow.as_str();
        ensure!(
            pattern.starts_with('^') && pattern.ends_with('$'),
            "fetch.allow: the pattern must cover the whole name, from ^ to $"
        );
        for wrong in [
            "", ".", "..", "a/b", "../a", "a?b", "a#b", "a%2fb", "a b", "a@b",
        ] {
            ensure!(
                !self.allow.is_match(wrong),
                "fetch.allow: the pattern allows {wrong:?}, which would change the URL"
            );
        }
        ensure!(
            matches!(&self.id, Location::Json(path) if !path.is_many()),
            "fetch.id must be a json: location with a single value of the response"
        );
        let of_answer = |part: &Part| match part {
            Part::Literal(_) => true,
            Part::At(Location::Json(path)) => !path.is_many(),
            _ => false,
        };
        ensure!(
            self.kind.0.iter().all(of_answer),
            "fetch.type can contain only text and json: locations of the response"
        );
        Ok(())
    }

    /// Checks that a notice cannot change the host or the beginning of the path.
    fn check_url(&self) -> anyhow::Result<()> {
        let mut places = 0;
        for part in &self.url.0 {
            match part {
                Part::Literal(_) => {}
                Part::At(Location::Json(path)) if !path.is_many() => places += 1,
                Part::At(Location::Form(_) | Location::Query(_)) => places += 1,
                _ => bail!("the URL can contain only json:, form: and query: locations"),
            }
        }
        ensure!(
            places == 1,
            "the URL must contain exactly one location, which names the object"
        );
        let Some(Part::Literal(first)) = self.url.0.first() else {
            bail!("the URL must begin with https:// and a host");
        };
        let host = first
            .strip_prefix("https://")
            .and_then(|rest| rest.split_once('/'));
        let of_host = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b);
        ensure!(
            host.is_some_and(|(host, _)| !host.is_empty() && host.bytes().all(of_host)),
            "the URL must begin with https://, a host and a path"
        );
        Ok(())
    }

    /// The location of the object's id in a notice.
    pub(crate) fn place(&self) -> Option<&Location> {
        self.url.0.iter().find_map(|part| match part {
            Part::At(location) => Some(location),
            _ => None,
        })
    }

    /// Returns whether this is a valid object id. With every preset, an id must be one segment of a
    /// URL path.
    pub(crate) fn allows(&self, name: &str) -> bool {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        let dots = name.bytes().all(|b| b == b'.');
        name.len() <= LONGEST_NAME && !dots && name.bytes().all(plain) && self.allow.is_match(name)
    }

    /// The URL of an object.
    pub fn url_of(&self, object: &str) -> String {
        let text = |part: &Part| match part {
            Part::Literal(text) => text.clone(),
            _ => object.to_owned(),
        };
        self.url.0.iter().map(text).collect()
    }

    /// Parses the response of the API. Fails if the response is about another object or lacks a
    /// value that the event needs. The error does not contain text of the response.
    pub fn read(&self, object: &str, answer: &[u8]) -> anyhow::Result<State> {
        // The whole response is parsed, because a truncated document must not become an event.
        let whole = serde_json::from_slice::<Value>(answer);
        ensure!(
            whole.is_ok_and(|it| it.is_object()),
            "the response is not a JSON object"
        );
        let id = value(&self.id, answer);
        ensure!(
            id.as_deref() == Some(object),
            "the response is not about the requested object"
        );
        let mut kind = String::new();
        for part in &self.kind.0 {
            match part {
                Part::Literal(text) => kind.push_str(text),
                Part::At(at) => {
                    kind +=
                        &value(at, answer).with_context(|| format!("the response has no {at}"))?;
                }
                _ => {}
            }
        }
        ensure!(
            kind.len() <= LONGEST_KIND,
            "the type of the event is too long"
        );
        let at = EventAt {
            varies: self.varies.clone(),
            ..EventAt::default()
        };
        let content = at.content(answer, || Sha::of(answer));
        Ok(State {
            id: format!("{object}/{}", &content.hex()[..16]),
            kind,
            content,
        })
    }
}

fn value(at: &Location, answer: &[u8]) -> Option<String> {
    match at {
        Location::Json(path) => path.scalar(answer).ok().flatten(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::preset::Preset;

    const GOOD: &str = r#"schema = 1
id = "acme"
name = "Acme"
docs = "https://acme.test"
checked = "2026-11"
[[verify]]
kind = "fetch-back"
proves = "origin"
[verify.fetch]
url = "https://api.acme.test/v1/things/{form:id}?embed=parts"
auth = "bearer"
allow = '^th_[a-z0-9]+$'
id = "json:id"
type = "thing.{json:status}"
varies = ["links"]
[event]
"#;

    fn fetch(text: &str) -> anyhow::Result<Fetch> {
        let preset = Preset::parse(text, &std::collections::BTreeMap::new())?;
        let scheme = preset.scheme("default").context("it has one")?;
        scheme.fetch.clone().context("it has a fetch")
    }

    #[test]
    fn a_fetch_without_all_that_it_needs_is_refused() {
        fetch(GOOD).unwrap();
        for (from, to, said) in [
            ("id = \"json:id\"\n", "", "missing field `id`"),
            (
                "type = \"thing.{json:status}\"\n",
                "",
                "missing field `type`",
            ),
            ("auth = \"bearer\"\n", "", "missing field `auth`"),
            ("\"bearer\"", "\"basic\"", "`bearer`"),
            ("varies", "varys", "`varies`"),
            (
                "https://api.acme.test/v1/things/{form:id}",
                "https://api.acme.test/v1",
                "exactly one",
            ),
            ("things/{form:id}", "{query:a}/{form:id}", "exactly one"),
            (
                "things/{form:id}",
                "things/{header:x-id}",
                "json:, form: and query:",
            ),
            (
                "https://api.acme.test/v1/things/",
                "https://",
                "a host and a path",
            ),
            ("https://api", "http://api", "begin with https://"),
            (
                "https://api.acme.test/v1/things/{form:id}",
                "https://api{form:id}/",
                "a host and a path",
            ),
            ("'^th_[a-z0-9]+$'", "'th_[a-z0-9]+'", "from ^ to $"),
            ("'^th_[a-z0-9]+$'", "'^.+$'", "would change the URL"),
            ("'^th_[a-z0-9]+$'", "'^[a-z/]*$'", "would change the URL"),
            ("\"json:id\"", "\"form:id\"", "a json: location"),
            (
                "{json:status}",
                "{form:status}",
                "json: locations of the response",
            ),
            (
                "proves = \"origin\"",
                "proves = \"nothing\"",
                "proves = \"origin\"",
            ),
            (
                "kind = \"fetch-back\"",
                "kind = \"none\"",
                "needs kind = \"fetch-back\"",
            ),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = format!("{:#}", fetch(&GOOD.replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(said), "{to}: {error}");
        }
    }

    #[test]
    fn a_scheme_that_fetches_needs_the_fetch() {
        let (head, tail) = GOOD.split_once("[verify.fetch]").unwrap();
        let none = format!("{head}[event]{}", tail.split_once("[event]").unwrap().1);
        let error = format!("{:#}", fetch(&none).unwrap_err());
        assert!(error.contains("needs the table fetch"), "{error}");
    }

    #[test]
    fn a_name_stays_one_segment_of_the_path() {
        let fetch = fetch(GOOD).unwrap();
        assert!(fetch.allows("th_5b8c"));
        for wrong in [
            "",
            "th_",
            "tr_5b8c",
            "th_5b8c/x",
            "th_5b8c\n",
            "th_ä",
            &"th_a".repeat(99),
        ] {
            assert!(!fetch.allows(wrong), "{wrong:?}");
        }
        assert_eq!(
            fetch.url_of("th_5b8c"),
            "https://api.acme.test/v1/things/th_5b8c?embed=parts"
        );
    }

    #[test]
    fn the_same_state_is_one_event_and_a_new_state_another() {
        let fetch = fetch(GOOD).unwrap();
        let read = |answer: &str| fetch.read("th_1", answer.as_bytes());
        let paid = read(r#"{"id":"th_1","status":"paid","refunded":"0","links":{"a":1}}"#).unwrap();
        assert_eq!(paid.kind, "thing.paid");
        assert!(
            paid.id.starts_with("th_1/") && paid.id.len() == 21,
            "{}",
            paid.id
        );
        let again = read(r#"{"id":"th_1","status":"paid","refunded":"0","links":{"b":22}}"#);
        assert_eq!(again.unwrap(), paid);
        let partly = read(r#"{"id":"th_1","status":"paid","refunded":"5","links":{"a":1}}"#);
        let partly = partly.unwrap();
        assert_eq!(partly.kind, paid.kind);
        assert_ne!((partly.id, partly.content), (paid.id, paid.content));
    }

    #[test]
    fn an_answer_about_something_else_makes_no_event() {
        let fetch = fetch(GOOD).unwrap();
        for (answer, said) in [
            (
                r#"{"id":"th_2","status":"paid"}"#,
                "not about the requested object",
            ),
            (r#"{"status":"paid"}"#, "not about the requested object"),
            (r#"{"id":"th_1"}"#, "has no json:status"),
            (r#"{"id":"th_1","status":{}}"#, "has no json:status"),
            (r#"{"id":"th_1","status":"paid""#, "not a JSON object"),
            (r#"["th_1"]"#, "not a JSON object"),
            ("<html>", "not a JSON object"),
            ("", "not a JSON object"),
        ] {
            let error = fetch
                .read("th_1", answer.as_bytes())
                .unwrap_err()
                .to_string();
            assert!(error.contains(said), "{answer}: {error}");
        }
    }
}
