//! How the events of a provider are listed, to find those that never arrived.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::json_path::JsonPath;

/// A `[[sync]]` table: the provider keeps a log of events that can be asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sync {
    pub kind: SyncKind,
    pub request: Request,
    pub page: Page,
    /// The list of events in an answer.
    pub items: JsonPath,
    /// The event's id, inside an item.
    pub id: JsonPath,
    #[serde(rename = "type")]
    pub event_type: JsonPath,
    /// The time of the event in seconds, inside an item.
    pub time: JsonPath,
    /// How many days the provider keeps events.
    pub retention_days: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncKind {
    /// The provider lists the events themselves.
    EventLog,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub url: String,
    pub auth: Auth,
    /// `{since_unix}` stands for the first second asked for, inclusive.
    pub query: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// `Authorization: Bearer <secret>`
    Bearer,
}

/// How the next page is asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, tag = "style", rename_all = "kebab-case")]
pub enum Page {
    /// A query parameter takes the id of the last item; a field says whether there is more.
    Cursor { param: String, more: JsonPath },
}
