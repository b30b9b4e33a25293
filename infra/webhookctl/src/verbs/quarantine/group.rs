//! Groups rejected requests by source and reason. Each group is one row of the list.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::rejected::{RejectedRequest, Verdict};
use shared::webhook::verify::Reason;

use super::finding::{Found, added, what};
use crate::output::time::rfc3339;
use crate::output::{Column, safe};

/// The minimum number of requests from one address that count as a scan.
const SCAN: usize = 10;

#[derive(Serialize)]
pub(super) struct Group {
    reason: String,
    /// The number of requests that were not released.
    requests: usize,
    released: usize,
    source: String,
    what: &'static str,
    finding: String,
    /// The number of matching requests for each secret.
    matches: BTreeMap<String, usize>,
    bytes: u64,
    newest_at: String,
    oldest_at: String,
    /// The id of the newest request.
    id: String,
}

impl Group {
    pub(super) fn all(found: &[Found<'_>], now: UnixMillis) -> Vec<Self> {
        let mut groups: BTreeMap<(&str, &str), Vec<&Found<'_>>> = BTreeMap::new();
        for one in found {
            let key = (one.held.source.as_str(), one.held.reason.as_str());
            groups.entry(key).or_default().push(one);
        }
        let groups = groups.into_iter();
        groups
            .filter_map(|((source, reason), of)| Self::new(source, reason, &of, now))
            .collect()
    }

    fn new(source: &str, reason: &str, of: &[&Found<'_>], now: UnixMillis) -> Option<Self> {
        let (newest, oldest) = (of.first()?.held, of.last()?.held);
        let mut matches: BTreeMap<String, usize> = BTreeMap::new();
        for secret in of.iter().filter_map(|one| one.secret()) {
            *matches.entry(secret.to_owned()).or_default() += 1;
        }
        let released = of.iter().filter(|one| one.held.released.is_some()).count();
        let waiting = of.len() - released;
        Some(Self {
            reason: reason.to_owned(),
            requests: waiting,
            released,
            source: source.to_owned(),
            what: what(reason),
            finding: finding(of, &matches, waiting, now),
            matches,
            bytes: of.iter().map(|one| one.held.stored).sum(),
            newest_at: rfc3339(newest.received_at.0),
            oldest_at: rfc3339(oldest.received_at.0),
            id: newest.id.to_string(),
        })
    }

    /// Returns whether some requests of the group match a secret.
    pub(super) fn has_genuine(&self) -> bool {
        !self.matches.is_empty()
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }
}

fn finding(
    of: &[&Found<'_>],
    matches: &BTreeMap<String, usize>,
    waiting: usize,
    now: UnixMillis,
) -> String {
    if waiting == 0 {
        return "all released".to_owned();
    }
    if !matches.is_empty() {
        let matches = matches.iter().map(|(secret, count)| {
            let one = of.iter().find(|one| one.secret() == Some(secret.as_str()));
            let added = added(one.and_then(|one| one.added), now);
            format!("{count} of {waiting} match secret {secret}{added}")
        });
        return matches.collect::<Vec<_>>().join(", ");
    }
    if of.iter().all(|one| one.verdict.is_none()) {
        return "not checked".to_owned();
    }
    let held: Vec<&RejectedRequest> = of.iter().map(|one| one.held).collect();
    let unmatched =
        |one: &&Found<'_>| matches!(one.verdict, Some(Verdict::Refused(Reason::BadSignature)));
    let what = match waiting {
        _ if !of.iter().all(unmatched) => "still rejected",
        1 => "matches no secret",
        _ => "no request matches a secret",
    };
    // A wrong signature can mean that the stored secret is wrong. A group with a wrong signature is
    // therefore never reported as a scan.
    let scan = if is_scan(&held) && !of.iter().any(unmatched) {
        ": looks like a scan"
    } else {
        ""
    };
    format!("{what}; {}{scan}", addresses(&held))
}

/// Returns whether there are many requests, and all are from one address. A provider usually sends
/// from several addresses.
fn is_scan(held: &[&RejectedRequest]) -> bool {
    let first = held.first().and_then(|held| held.address());
    held.len() >= SCAN && first.is_some() && held.iter().all(|held| held.address() == first)
}

/// Describes where the requests came from. Many requests from one address are more often a scan
/// than a provider.
pub(super) fn addresses(held: &[&RejectedRequest]) -> String {
    let seen: BTreeSet<&str> = held.iter().filter_map(|held| held.address()).collect();
    match seen.first() {
        None => "from an unknown address".to_owned(),
        Some(only) if seen.len() == 1 => format!("from {}", safe(only)),
        Some(_) => format!("from {} addresses", seen.len()),
    }
}

pub(super) fn columns(now: i64) -> Vec<Column<'static, Group>> {
    vec![
        Column::whole("REASON", "reason").essential(),
        Column::whole("REQUESTS", "requests").right().essential(),
        Column::whole("SOURCE", "source").essential(),
        Column::age("NEWEST", "newest_at", now).lesser(),
        Column::text("WHAT", "what", 20).lesser(),
        Column::text("FINDING", "finding", 24),
        Column::whole("RELEASED", "released").right().extra(),
        Column::whole("BYTES", "bytes").right().extra(),
        Column::whole("OLDEST", "oldest_at").extra(),
    ]
}
