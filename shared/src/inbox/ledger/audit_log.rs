//! The audit log of operators' actions. The entry of an action is written before the action.

use super::Operations;
use anyhow::Context as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Item, item};
use crate::base::clock::UnixMillis;
use crate::base::string_enum::string_enum;

/// The maximum number of entries that one read scans, including entries that the caller rejects.
const MOST: usize = 10_000;

/// The maximum number of months that one read scans. Each month is a separate query.
const MOST_MONTHS: usize = 120;

string_enum! {
    /// What an operator used to act.
    Through {
        Cli = "cli",
        /// The console in a browser.
        Console = "console",
        /// An agent proposed the action, over the Model Context Protocol.
        Mcp = "mcp",
        /// A role called the API of the stack.
        Api = "api",
        /// A scheduled run acted, as the configuration allows.
        Schedule = "schedule",
    }
}

impl Default for Through {
    /// Records without this field were made by the command line.
    fn default() -> Self {
        Self::Cli
    }
}

impl Serialize for Through {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Through {
    /// An unknown word, from a newer version, reads as the command line.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        Ok(Self::parse(&word).unwrap_or_default())
    }
}

/// An action that an operator is about to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditAction {
    /// The action, in one or two words, such as `erase` or `reconcile.repair`.
    pub what: &'static str,
    /// The AWS identity of the operator.
    pub who: String,
    pub through: Through,
    pub why: String,
    /// The selected events, as given to the command.
    pub selection: String,
    /// The number of events.
    pub count: usize,
}

/// A stored entry. Older or newer code may have written it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// The unique id of the entry.
    pub id: String,
    pub at: UnixMillis,
    pub what: String,
    pub who: String,
    pub through: Through,
    pub why: String,
    pub selection: String,
    pub count: u64,
}

/// The result of a read of the log, newest entry first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditLog {
    pub found: Vec<AuditEntry>,
    /// Whether more entries may exist, because the limit of the request or of one read was reached.
    pub more: bool,
}

impl Operations<'_> {
    /// Adds an entry to the log. Entries never expire.
    pub async fn log(self, action: &AuditAction, now: UnixMillis) -> anyhow::Result<()> {
        let entry = entry(action, now)?;
        self.put("write the audit log", entry, None).await?;
        Ok(())
    }

    /// Returns the entries from `from` to `to`, both inclusive, newest first. Returns only entries
    /// that `wanted` accepts, and at most `limit` of them.
    pub async fn audit_log(
        self,
        from: UnixMillis,
        to: UnixMillis,
        limit: usize,
        wanted: impl Fn(&AuditEntry) -> bool,
    ) -> anyhow::Result<AuditLog> {
        let mut log = AuditLog::default();
        let mut scanned = 0;
        for month in months(from, to) {
            let mut place: Option<Item> = None;
            loop {
                let answer = self
                    .table
                    .query()
                    .key_condition_expression("pk = :month AND sk BETWEEN :from AND :to")
                    .expression_attribute_values(":month", item::s(partition(&month)))
                    .expression_attribute_values(":from", item::s(format!("{:013}", from.0.max(0))))
                    .expression_attribute_values(":to", item::s(format!("{:013}#~", to.0.max(0))))
                    .scan_index_forward(false)
                    .set_exclusive_start_key(place)
                    .send()
                    .await
                    .context("read the audit log")?;
                scanned += answer.items().len();
                for entry in answer.items().iter().filter_map(read).filter(&wanted) {
                    if log.found.len() == limit {
                        log.more = true;
                        return Ok(log);
                    }
                    log.found.push(entry);
                }
                place = answer.last_evaluated_key;
                if place.is_none() {
                    break;
                }
                if scanned >= MOST {
                    log.more = true;
                    return Ok(log);
                }
            }
        }
        Ok(log)
    }
}

/// Returns the item of a new entry.
pub(crate) fn entry(action: &AuditAction, now: UnixMillis) -> anyhow::Result<Item> {
    let mut random = [0; 4];
    crate::base::random::fill(&mut random)?;
    let sk = format!("{:013}#{}", now.0, hex::encode(random));
    Ok(Item::from([
        ("pk".to_owned(), item::s(partition(&month(now)))),
        ("sk".to_owned(), item::s(sk)),
        ("what".to_owned(), item::s(action.what)),
        ("who".to_owned(), item::s(&action.who)),
        ("via".to_owned(), item::s(action.through.as_str())),
        ("why".to_owned(), item::s(&action.why)),
        ("sel".to_owned(), item::s(&action.selection)),
        ("n".to_owned(), item::n(action.count)),
        ("at".to_owned(), item::ms(now)),
    ]))
}

fn partition(month: &str) -> String {
    format!("LOG#{month}")
}

/// Returns the month of a time, as `yyyymm` in UTC.
fn month(at: UnixMillis) -> String {
    at.hour()[..6].to_owned()
}

/// Returns the months from one time to another, newest first.
fn months(from: UnixMillis, to: UnixMillis) -> Vec<String> {
    let number = |at: UnixMillis| {
        let month = month(at);
        let part = |text: Option<&str>| text.and_then(|t| t.parse::<u32>().ok()).unwrap_or(0);
        (part(month.get(..4)) * 12 + part(month.get(4..))).saturating_sub(1)
    };
    let months = (number(from)..=number(to)).rev().take(MOST_MONTHS);
    months
        .map(|month| format!("{:04}{:02}", month / 12, month % 12 + 1))
        .collect()
}

/// Returns `None` for an unreadable entry, so that the readable entries are still shown.
fn read(entry: &Item) -> Option<AuditEntry> {
    let (time, random) = item::text(entry, "sk")?.split_once('#')?;
    let text = |name| item::text(entry, name).unwrap_or_default().to_owned();
    Some(AuditEntry {
        id: format!("{time}-{random}"),
        at: UnixMillis(time.parse().ok()?),
        what: text("what"),
        who: text("who"),
        through: Through::parse(&text("via")).unwrap_or_default(),
        why: text("why"),
        selection: text("sel"),
        count: item::number(entry, "n").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_months_between_two_times_are_read_backwards() {
        // 2025-12-31T23:59:59.999Z and 2026-02-01T00:00:00Z
        let (from, to) = (UnixMillis(1_767_225_599_999), UnixMillis(1_769_904_000_000));
        assert_eq!(months(from, to), ["202602", "202601", "202512"]);
        assert_eq!(months(to, to), ["202602"]);
        assert!(months(to, from).is_empty());
        assert_eq!(months(UnixMillis(0), to).len(), MOST_MONTHS);
    }
}
