//! What operators did, written before they do it, and read again by its time.

use super::Operations;
use anyhow::Context as _;

use super::{Item, item};
use crate::base::clock::UnixMillis;

/// Entries that one reading looks at, whoever they are of.
const MOST: usize = 10_000;

/// Months that one reading looks into: each is a read of its own.
const MOST_MONTHS: usize = 120;

/// One thing that an operator is about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditAction {
    /// A word or two, such as `erase` or `reconcile.repair`.
    pub what: &'static str,
    /// The identity of AWS that does it.
    pub who: String,
    pub why: String,
    /// What was selected, in the words of the command.
    pub selection: String,
    /// How many events it is about.
    pub count: usize,
}

/// A deed as it was written down, perhaps by other code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Names the entry.
    pub id: String,
    pub at: UnixMillis,
    pub what: String,
    pub who: String,
    pub why: String,
    pub selection: String,
    pub count: u64,
}

/// What a reading of the log found, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditLog {
    pub found: Vec<AuditEntry>,
    /// Whether there is more than was asked for, or than one reading looks at.
    pub more: bool,
}

impl Operations<'_> {
    /// Writes it down. It stays for as long as the table.
    pub async fn log(self, deed: &AuditAction, now: UnixMillis) -> anyhow::Result<()> {
        let mut random = [0; 4];
        crate::base::random::fill(&mut random)?;
        let entry = Item::from([
            ("pk".to_owned(), item::s(partition(&month(now)))),
            (
                "sk".to_owned(),
                item::s(format!("{:013}#{}", now.0, hex::encode(random))),
            ),
            ("what".to_owned(), item::s(deed.what)),
            ("who".to_owned(), item::s(&deed.who)),
            ("why".to_owned(), item::s(&deed.why)),
            ("sel".to_owned(), item::s(&deed.selection)),
            ("n".to_owned(), item::n(deed.count)),
            ("at".to_owned(), item::ms(now)),
        ]);
        self.put("write down what is done", entry, None).await?;
        Ok(())
    }

    /// What was written down from `from` to `to`, both inclusive, the newest first: at most
    /// `limit` of those that are `wanted`.
    pub async fn audit_log(
        self,
        from: UnixMillis,
        to: UnixMillis,
        limit: usize,
        wanted: impl Fn(&AuditEntry) -> bool,
    ) -> anyhow::Result<AuditLog> {
        let mut deeds = AuditLog::default();
        let mut looked = 0;
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
                    .context("read what was written down")?;
                looked += answer.items().len();
                for entry in answer.items().iter().filter_map(read).filter(&wanted) {
                    if deeds.found.len() == limit {
                        deeds.more = true;
                        return Ok(deeds);
                    }
                    deeds.found.push(entry);
                }
                place = answer.last_evaluated_key;
                if place.is_none() {
                    break;
                }
                if looked >= MOST {
                    deeds.more = true;
                    return Ok(deeds);
                }
            }
        }
        Ok(deeds)
    }
}

fn partition(month: &str) -> String {
    format!("LOG#{month}")
}

/// `yyyymm` in UTC.
fn month(at: UnixMillis) -> String {
    at.hour()[..6].to_owned()
}

/// The months from one time to another, the last one first.
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

/// One that cannot be read is no reason to show none of the others.
fn read(entry: &Item) -> Option<AuditEntry> {
    let (time, random) = item::text(entry, "sk")?.split_once('#')?;
    let text = |name| item::text(entry, name).unwrap_or_default().to_owned();
    Some(AuditEntry {
        id: format!("{time}-{random}"),
        at: UnixMillis(time.parse().ok()?),
        what: text("what"),
        who: text("who"),
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
