//! Reads and describes the paths that events lack.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::monitoring::missing_paths::MissingRecord;
use shared::sources::Source;

use crate::output::count::plural;
use crate::output::time::age;
use crate::target::Deployment;

/// How far back a missing path is shown.
const SHOWN: Duration = Duration::from_secs(24 * 3600);

/// Returns the paths that events of the last day lacked, of all sources.
pub(in crate::verbs) async fn missing_paths(
    inbox: &Deployment,
    now: UnixMillis,
) -> anyhow::Result<Vec<MissingRecord>> {
    let statistics = inbox.ledger.statistics();
    let mut records = statistics.missing_paths(now - SHOWN).await?;
    records.retain(|record| now.since(record.last) < SHOWN);
    Ok(records)
}

/// Returns a sentence with the location, and with the documentation to compare the preset with.
pub(in crate::verbs) fn text_of(source: &Source, record: &MissingRecord) -> String {
    let preset = &source.verifier.preset;
    let kind = match record.kind.as_str() {
        "" => "an event without a type",
        kind => kind,
    };
    format!(
        "{} has no {} at {}; compare preset {} (checked {}) with {}",
        kind, record.missing.used_for, record.missing.path, preset.id, preset.checked, preset.docs
    )
}

/// Returns a short note for a list of sources, such as `2 paths missing, last 3m ago`.
pub(in crate::verbs) fn note(
    records: &[MissingRecord],
    source: &str,
    now: UnixMillis,
) -> Option<String> {
    let of_source = records.iter().filter(|record| record.source == source);
    let last = of_source.clone().map(|record| record.last).max()?;
    let paths = plural(of_source.count(), "path");
    let ago = age(last.0, now.0);
    Some(format!("{paths} missing, last {ago} ago: see `status`"))
}
