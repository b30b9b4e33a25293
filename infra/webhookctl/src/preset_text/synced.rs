//! Describes how a provider lists past events.

use serde::Serialize;
use shared::webhook::preset::{Auth, Sync};

/// A list of past events of a provider.
#[derive(Serialize)]
pub(super) struct Synced {
    pub(super) variant: String,
    /// The kind of the list: `event log`, `delivery log` or `change cursor`.
    pub(super) kind: &'static str,
    pub(super) url: String,
    pub(super) auth: String,
    pub(super) kept_days: Option<u32>,
    /// Whether the provider can send an event again on request.
    pub(super) redelivers: bool,
    /// The required and the optional settings of the source.
    pub(super) fields: Vec<String>,
    pub(super) note: Option<String>,
    pub(super) docs: String,
    pub(super) checked: String,
}

impl Synced {
    pub(super) fn new(sync: &Sync) -> Self {
        let fields = sync.fields.iter();
        let fields = fields.map(|(name, field)| match &field.default {
            None => format!("{name}: {}", field.what),
            Some(default) => format!("{name} = {default:?}: {}", field.what),
        });
        Self {
            variant: sync.variant.clone(),
            kind: sync.kind.as_str(),
            url: sync.request.url.clone(),
            auth: match &sync.auth {
                Auth::Bearer {} => "bearer token".to_owned(),
                Auth::Basic { user, password } => {
                    format!("user {user:?} and password {password:?}")
                }
                Auth::Header { name, prefix } => format!("header {name}: {prefix}{{secret}}"),
                Auth::Query { name } => format!("query parameter {name}"),
                Auth::Exchange { url, .. } => {
                    format!("token from {url} in exchange for the secret")
                }
                Auth::GithubApp { .. } => "token signed with the app's private key".to_owned(),
            },
            kept_days: sync.retention_days,
            redelivers: sync.redeliver.is_some(),
            fields: fields.collect(),
            note: sync.note.clone(),
            docs: sync.docs.clone(),
            checked: sync.checked.clone(),
        }
    }

    /// Returns all facts except the settings of the source, on one line.
    pub(super) fn line(&self) -> String {
        let mut facts = vec![format!("{} at {}", self.kind, self.url), self.auth.clone()];
        if let Some(days) = self.kept_days {
            facts.push(format!("kept {days} days"));
        }
        if self.redelivers {
            facts.push("supports redelivery".to_owned());
        }
        facts.extend(self.note.clone());
        let facts = facts.join("; ");
        if self.variant == "default" {
            facts
        } else {
            format!("{}: {facts}", self.variant)
        }
    }
}
