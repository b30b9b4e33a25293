//! How to list a provider's past events, to find missed events.

mod check;
mod fields;
mod page;
mod request;
mod time;

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Location, Locations};
use crate::base::json_path::JsonPath;

pub use fields::Field;
pub use page::{Mark, Next, Page, Put};
pub use request::{Auth, Method, Request, fill_item, fill_text};
pub use time::{Since, TimeAt, TimeUnit};

/// A `[[sync]]` table: one list of a provider's API.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sync {
    /// The name by which a source selects the list. One list has the name `default`.
    #[serde(default = "default_variant")]
    pub variant: String,
    pub kind: SyncKind,
    /// The provider's documentation of the list.
    pub docs: String,
    /// The month of the last comparison of the table with `docs`, as `yyyy-mm`.
    pub checked: String,
    /// A sentence with a limitation or another fact about the list.
    pub note: Option<String>,
    /// Settings of a source in addition to the secret. The requests refer to a setting as
    /// `{field:NAME}`.
    #[serde(default)]
    pub fields: BTreeMap<String, Field>,
    pub auth: Auth,
    /// Headers that Mitt sends with every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    pub request: Request,
    #[serde(default)]
    pub page: Page,
    /// The position at which the next run continues. It is set for a list that Mitt reads by
    /// position instead of by time.
    pub mark: Option<Mark>,
    #[serde(default)]
    pub sorted: Sorted,
    /// The path of the list in a response. `None` if the whole response is the list.
    pub items: Option<JsonPath>,
    /// The locations of the event's id, as in `[event]`. Mitt uses the first location with a value.
    #[serde(default)]
    pub id: Locations,
    /// The parts that together identify the event, if no single value does.
    #[serde(default)]
    pub composite: Vec<Location>,
    #[serde(default, rename = "type")]
    pub event_type: Locations,
    pub time: Option<TimeAt>,
    #[serde(default)]
    pub since: Since,
    /// For how many days the provider keeps the listed events. `None` means that there is no limit.
    pub retention_days: Option<u32>,
    /// How long before its cursor a run begins. It is set if the list needs more than the default
    /// of 15 minutes.
    pub overlap: Option<String>,
    /// The maximum number of requests per minute. It must be below the limit that the provider
    /// documents, because other clients of the account share that limit.
    pub rate: Option<u32>,
    /// The location of the status with which this endpoint responded to a delivery. If the status
    /// is from 200 to 299, the event has arrived.
    pub delivered: Option<Location>,
    /// The location of the event's body in the item (`item:PATH`) or in the fetched document
    /// (`json:PATH`). `None` if the body is the whole item or document. If the value is a string,
    /// its text is the body.
    pub body: Option<Location>,
    /// The location of a flag. The value `true` means that the provider has not kept the body.
    pub no_body: Option<Location>,
    /// The template of a body in the form of the webhook, for a list that contains only a part of
    /// the body. `{item}` is the body that Mitt read. `{item:PATH}` is a value of the item.
    pub wrap: Option<String>,
    /// The request for each missing event, if the list does not contain its body.
    pub fetch: Option<Request>,
    /// The request that makes the provider deliver the event to this endpoint again.
    pub redeliver: Option<Request>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncKind {
    /// The provider lists the events themselves, with the same ids as the webhooks.
    EventLog,
    /// The provider lists its delivery attempts. An event can occur several times.
    DeliveryLog,
    /// The provider lists changes of objects, but not the events. Mitt stores a change as a
    /// separate event, which never replaces a webhook.
    ChangeCursor,
}

impl SyncKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EventLog => "event log",
            Self::DeliveryLog => "delivery log",
            Self::ChangeCursor => "change cursor",
        }
    }
}

/// The sort order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sorted {
    /// The order is unknown, or the oldest item is first. A run reads to the end of the list.
    #[default]
    No,
    /// The newest item is first. A run ends at the first item that is older than its time span.
    NewestFirst,
}

impl Sync {
    /// Returns whether the provider omits items before the requested start time.
    pub fn filters(&self) -> bool {
        self.request.mentions("{since}")
    }
}

fn default_variant() -> String {
    "default".to_owned()
}
