//! What was asked for, in words and as a document. The values of `--where` are in neither: they may
//! be what somebody wants to be forgotten.

use serde_json::{Map, Value, json};

use super::Selection;
use crate::output::time::{rfc3339, short};

/// So many ids are named one by one.
const FEW_IDS: usize = 20;

impl Selection {
    /// Such as `github-org failed,dead_letter since 09:10`; `everything` if nothing was said.
    pub fn words(&self) -> String {
        let statuses: Vec<&str> = self.statuses.iter().map(|status| status.as_str()).collect();
        let via: Vec<&str> = self.via.iter().map(|via| via.as_str()).collect();
        let mut words = vec![
            self.asked_sources.join(","),
            self.kinds.join(","),
            statuses.join(","),
        ];
        words.extend(
            self.since
                .map(|since| format!("since {}", short(since, self.now))),
        );
        words.extend(
            self.until
                .map(|until| format!("until {}", short(until, self.now))),
        );
        words.extend(self.error.as_ref().map(|error| format!("error {error}")));
        words.extend((!via.is_empty()).then(|| format!("via {}", via.join(","))));
        words.extend(self.attempts.map(|least| format!("{least}+ attempts")));
        words.extend(match self.ids.as_slice() {
            [] => None,
            few if few.len() <= FEW_IDS => Some(format!("id {}", few.join(" "))),
            ids => Some(format!("{} ids", ids.len())),
        });
        words
            .extend((!self.fields.is_empty()).then(|| format!("where {}", self.paths().join(","))));
        words.retain(|word| !word.is_empty());
        if words.is_empty() {
            return "everything".to_owned();
        }
        words.join(" ")
    }

    /// The same for records: only what was said, times in full.
    pub fn document(&self) -> Value {
        let statuses: Vec<&str> = self.statuses.iter().map(|status| status.as_str()).collect();
        let via: Vec<&str> = self.via.iter().map(|via| via.as_str()).collect();
        let all = [
            ("source", json!(self.asked_sources)),
            ("type", json!(self.kinds)),
            ("status", json!(statuses)),
            ("since", json!(self.since.map(rfc3339))),
            ("until", json!(self.until.map(rfc3339))),
            ("error", json!(self.error)),
            ("via", json!(via)),
            ("attempts", json!(self.attempts)),
            ("id", json!(self.ids)),
            ("where", json!(self.paths())),
        ];
        let said = all.into_iter().filter(|(_, value)| {
            !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
        });
        let said = said.map(|(name, value)| (name.to_owned(), value));
        Value::Object(said.collect::<Map<_, _>>())
    }

    /// For a list without an event: `source=any, status=received, since=24h`.
    pub fn asked(&self) -> String {
        let any = |words: Vec<String>| match words.as_slice() {
            [] => "any".to_owned(),
            words => words.join(","),
        };
        let mut asked = vec![format!("source={}", any(self.asked_sources.clone()))];
        if !self.kinds.is_empty() {
            asked.push(format!("type={}", self.kinds.join(",")));
        }
        let statuses = self.statuses.iter().map(ToString::to_string);
        asked.push(format!("status={}", any(statuses.collect())));
        asked.push(match self.since {
            Some(since) => format!("since={}", short(since, self.now)),
            None if self.span().0 == 0 => "since=any".to_owned(),
            None => "since=24h".to_owned(),
        });
        asked.extend(
            self.until
                .map(|until| format!("until={}", short(until, self.now))),
        );
        asked.extend(self.error.as_ref().map(|error| format!("error={error}")));
        asked.extend(self.via.iter().map(|via| format!("via={via}")));
        asked.extend(self.attempts.map(|least| format!("attempts={least}")));
        asked.extend((!self.ids.is_empty()).then(|| format!("{} ids", self.ids.len())));
        asked
            .extend((!self.fields.is_empty()).then(|| format!("where={}", self.paths().join(","))));
        asked.join(", ")
    }

    /// From when on, for people: `since 09:10`; empty where there is no such time.
    pub fn since_words(&self) -> String {
        match self.span().0 {
            0 => String::new(),
            since => format!("since {}", short(since, self.now)),
        }
    }

    fn paths(&self) -> Vec<&str> {
        self.fields
            .iter()
            .map(|field| field.name.as_str())
            .collect()
    }
}
