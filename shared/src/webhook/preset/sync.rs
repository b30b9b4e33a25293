//! How what happened at a provider is listed, to find what never arrived.

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

/// A `[[sync]]` table: one list of a provider that can be asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sync {
    /// The name that a source selects it by; one is `default`.
    #[serde(default = "default_variant")]
    pub variant: String,
    pub kind: SyncKind,
    /// Where the provider documents it.
    pub docs: String,
    /// When the facts were last compared with `docs`, as `yyyy-mm`.
    pub checked: String,
    /// What a reader should know of it, in a sentence.
    pub note: Option<String>,
    /// What a source has to say beside the secret; it stands as `{field:NAME}` in the requests.
    #[serde(default)]
    pub fields: BTreeMap<String, Field>,
    pub auth: Auth,
    /// Sent with every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    pub request: Request,
    #[serde(default)]
    pub page: Page,
    /// Where the next run goes on, for lists that are read from a place and not from a time.
    pub mark: Option<Mark>,
    #[serde(default)]
    pub sorted: Sorted,
    /// The list in an answer; without it the answer is the list.
    pub items: Option<JsonPath>,
    /// What names the event, as `[event]` has it: the first location that is there.
    #[serde(default)]
    pub id: Locations,
    /// Parts that name it together, where no single value does.
    #[serde(default)]
    pub composite: Vec<Location>,
    #[serde(default, rename = "type")]
    pub event_type: Locations,
    pub time: Option<TimeAt>,
    #[serde(default)]
    pub since: Since,
    /// How many days the provider keeps what it lists; without it, for good.
    pub retention_days: Option<u32>,
    /// How far behind its cursor a run has to begin, where that is more than the usual 15 minutes.
    pub overlap: Option<String>,
    /// How many requests a minute we make at the most. It is our choice, below what the provider
    /// documents where it does: others of the account use the same allowance.
    pub rate: Option<u32>,
    /// The status that our endpoint answered to a delivery: from 200 to 299, it has arrived.
    pub delivered: Option<Location>,
    /// The event's body inside the item (`item:PATH`) or what was fetched for it (`json:PATH`);
    /// without it, all of that. A string is the text of the body.
    pub body: Option<Location>,
    /// `true` there says that the provider has not kept the body.
    pub no_body: Option<Location>,
    /// The body as the webhook has it, where the list has less: `{item}` is the body found so far,
    /// `{item:PATH}` a value of the item.
    pub wrap: Option<String>,
    /// Asked for each missing event, where the list does not hold its body.
    pub fetch: Option<Request>,
    /// Has the provider deliver again, to our webhook.
    pub redeliver: Option<Request>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncKind {
    /// The provider lists the events themselves, under the ids of the webhooks.
    EventLog,
    /// It lists its attempts to deliver them; an event may stand there many times.
    DeliveryLog,
    /// It tells what has changed, and not which events that made. A change is an event of a kind
    /// of its own and never takes the place of a webhook's.
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

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sorted {
    /// Unknown, or oldest first: a run reads to the end of the list.
    #[default]
    No,
    /// What is older than the span ends the run.
    NewestFirst,
}

impl Sync {
    /// Whether the provider itself leaves out what is older than we ask for.
    pub fn filters(&self) -> bool {
        self.request.mentions("{since}")
    }
}

fn default_variant() -> String {
    "default".to_owned()
}
