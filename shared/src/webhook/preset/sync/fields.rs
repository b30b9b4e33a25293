//! The fields that a source sets for its list, such as the id of a webhook or an account.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use regex_lite::Regex;
use serde::Deserialize;

use super::request::escaped;
use super::{Auth, Request, Sync};

/// The characters to escape: all except the unreserved characters.
/// <https://www.rfc-editor.org/rfc/rfc3986#section-2.3>
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const PATH: &AsciiSet = &SEGMENT.remove(b'/');

/// A value that the source sets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// A description for the operator who sets the value.
    pub what: String,
    pub default: Option<String>,
    /// The pattern that the value must match.
    #[serde(default, deserialize_with = "crate::webhook::preset::scheme::regex")]
    pub allow: Option<Regex>,
}

impl Sync {
    /// Replaces each `{field:NAME}` with the value of a source.
    pub fn filled(&self, given: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        for name in given.keys() {
            let known: Vec<_> = self.fields.keys().map(String::as_str).collect();
            ensure!(
                self.fields.contains_key(name),
                "unknown field {name:?}; known fields: {}",
                known.join(", ")
            );
        }
        let mut values = BTreeMap::new();
        for (name, field) in &self.fields {
            let Some(value) = given.get(name).or(field.default.as_ref()) else {
                if !self.uses(name) {
                    continue;
                }
                bail!(
                    "field {name} is missing: {}; add fields = {{ {name} = \"…\" }}",
                    field.what
                );
            };
            field
                .check(value)
                .with_context(|| format!("field {name} = {value:?}"))?;
            values.insert(name.as_str(), value.as_str());
        }
        let mut sync = self.clone();
        let put = |text: &mut String| *text = fill(text, &values, str::to_owned);
        sync.headers.values_mut().for_each(put);
        if let Auth::Basic { user, password } = &mut sync.auth {
            put(user);
            put(password);
        }
        if let Auth::GithubApp { issuer } = &mut sync.auth {
            put(issuer);
        }
        if let Auth::Exchange { url, user, form } = &mut sync.auth {
            *url = fill(url, &values, segment);
            user.iter_mut().chain(form.values_mut()).for_each(put);
        }
        let begin = sync.mark.as_mut().and_then(|mark| mark.begin.as_mut());
        let others = [Some(&mut sync.request), begin];
        let more = [sync.fetch.as_mut(), sync.redeliver.as_mut()];
        for request in others.into_iter().chain(more).flatten() {
            request.fill(&values);
        }
        Ok(sync)
    }
}

impl Request {
    fn fill(&mut self, values: &BTreeMap<&str, &str>) {
        let paths = values.iter().fold(self.url.clone(), |url, (name, value)| {
            let encoded = utf8_percent_encode(value, PATH).to_string();
            url.replace(&format!("{{field:{name}|path}}"), &encoded)
        });
        self.url = fill(&paths, values, segment);
        for text in self.query.values_mut() {
            *text = fill(text, values, str::to_owned);
        }
        if let Some(body) = &mut self.body {
            *body = fill(body, values, escaped);
        }
    }
}

impl Field {
    fn check(&self, value: &str) -> anyhow::Result<()> {
        ensure!(
            (1..=300).contains(&value.len()) && !value.chars().any(char::is_control),
            "the value must have 1 to 300 characters on one line: {}",
            self.what
        );
        ensure!(
            !value.split('/').any(|part| matches!(part, "." | ".." | "")),
            "the value would change the path of the request: {}",
            self.what
        );
        if let Some(allow) = &self.allow {
            ensure!(
                allow.is_match(value),
                "the value does not match {}: {}",
                allow.as_str(),
                self.what
            );
        }
        Ok(())
    }
}

fn segment(value: &str) -> String {
    utf8_percent_encode(value, SEGMENT).to_string()
}

fn fill(text: &str, values: &BTreeMap<&str, &str>, write: impl Fn(&str) -> String) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{field:{name}}}"), &write(value))
    })
}
