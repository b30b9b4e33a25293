//! What a source stores of its requests: its part of `sources show`.

use serde::Serialize;
use shared::sources::Source;
use shared::webhook::context::Keep;
use shared::webhook::preset::Preset;

use crate::output::table::Facts;

/// The account of the events, and the stored parts of their requests.
#[derive(Serialize)]
pub(super) struct Requests {
    /// The locations of the account. The first one with a value counts.
    account: Vec<String>,
    accept_path: bool,
    context: Stored,
}

#[derive(Serialize)]
struct Stored {
    keep: &'static str,
    also: Vec<String>,
    never: Vec<String>,
    query: bool,
}

impl Requests {
    pub(super) fn of(source: &Source) -> Self {
        let preset = &source.verifier.preset;
        let policy = &preset.settings.context;
        Self {
            account: locations(preset),
            accept_path: source.accept_path,
            context: Stored {
                keep: match policy.keep {
                    Keep::Provider => "provider",
                    Keep::Named => "named",
                    Keep::None => "none",
                },
                also: policy.also.clone(),
                never: policy.never.iter().map(ToString::to_string).collect(),
                query: policy.keep != Keep::None && !policy.without_query,
            },
        }
    }

    pub(super) fn add_to(&self, facts: &mut Facts, path: &str) {
        facts.maybe(
            "account",
            (!self.account.is_empty()).then(|| self.account.join(", ")),
        );
        facts.maybe(
            "path",
            self.accept_path
                .then(|| format!("{path}/… is also accepted")),
        );
        facts.add("request", self.context.text());
    }
}

impl Stored {
    fn text(&self) -> String {
        let headers = match self.keep {
            "none" => return "not stored".to_owned(),
            "named" => "stored with the headers that the preset names",
            _ => "stored without credentials",
        };
        let mut parts = vec![headers.to_owned()];
        parts.extend((!self.also.is_empty()).then(|| format!("with {}", self.also.join(", "))));
        parts
            .extend((!self.never.is_empty()).then(|| format!("without {}", self.never.join(", "))));
        parts.extend((!self.query).then(|| "without the query".to_owned()));
        parts.join("; ")
    }
}

fn locations(preset: &Preset) -> Vec<String> {
    let of_source = &preset.settings.account;
    if of_source.is_empty() {
        return preset
            .event
            .account
            .0
            .iter()
            .map(ToString::to_string)
            .collect();
    }
    of_source.iter().map(ToString::to_string).collect()
}
