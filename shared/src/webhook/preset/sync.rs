//! How to list a provider's past events, to find missed ones.

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
    /// The name by which a source selects the list; one is `default`.
    #[serde(default = "default_variant")]
    pub variant: String,
    pub kind: SyncKind,
    /// The provider's documentation of the list.
    pub docs: String,
    /// When the table was last compared with `docs`, as `yyyy-mm`.
    pub checked: String,
    /// A sentence with a limitation or another fact about the list.
    pub note: Option<String>,
    /// Settings of a source in addition to the secret. The requests refer to them as
    /// `{field:NAME}`.
    #[serde(default)]
    pub fields: BTreeMap<String, Field>,
    pub auth: Auth,
    /// Sent with every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    pub request: Request,
    #[serde(default)]
    pub page: Page,
    /// The position at which the next run continues, for lists that are read by position and not by
    /// time.
    pub mark: Option<Mark>,
    #[serde(default)]
    pub sorted: Sorted,
    /// Where the list is in a response. Without it, the response is the list.
    pub items: Option<JsonPath>,
    /// The event's id, as in `[event]`: the first location with a value.
    #[serde(default)]
    pub id: Locations,
    /// Parts that together identify the event, if no single value does.
    #[serde(default)]
    pub composite: Vec<Location>,
    #[serde(default, rename = "type")]
    pub event_type: Locations,
    pub time: Option<TimeAt>,
    #[serde(default)]
    pub since: Since,
    /// How many days the provider keeps the listed events; `None` means no limit.
    pub retention_days: Option<u32>,
    /// How far before its cursor a run must begin, if this is more than the usual 15 minutes.
    pub overlap: Option<String>,
    /// The maximum number of requests per minute. It is below the limit that the provider
    /// documents, if any, because other clients of the account share that limit.
    pub rate: Option<u32>,
    /// The status of this endpoint's response to a delivery. From 200 to 299, the event has
    /// arrived.
    pub delivered: Option<Location>,
    /// The event's body inside the item (`item:PATH`) or inside the fetched document (`json:PATH`).
    /// Without it, the whole item or document. A string contains the text of the body.
    pub body: Option<Location>,
    /// `true` at this location means that the provider has not kept the body.
    pub no_body: Option<Location>,
    /// The body in the form of the webhook, if the list has less: `{item}` is the body found so
    /// far, `{item:PATH}` a value of the item.
    pub wrap: Option<String>,
    /// The request for each missing event, if the list does not contain its body.
    pub fetch: Option<Request>,
    /// The request that makes the provider deliver again, to this endpoint.
    pub redeliver: Option<Request>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncKind {
    /// The provider lists the events themselves, with the same ids as the webhooks.
    EventLog,
    /// The provider lists its delivery attempts. An event can occur several times.
    DeliveryLog,
    /// The provider lists changes, but not the events for them. A change is an event of its own
    /// kind and never replaces a webhook.
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
    /// Unknown, or oldest first: a run reads to the end of the list.
    #[default]
    No,
    /// A run ends at the first item that is older than its time span.
    NewestFirst,
}

impl Sync {
    /// Whether the provider itself omits items before the requested start time.
    pub fn filters(&self) -> bool {
        self.request.mentions("{since}")
    }
}

fn default_variant() -> String {
    "default".to_owned()
}
