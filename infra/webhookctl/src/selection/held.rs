//! The events that wait for an approval. They have their own partitions of the `work` index, one for
//! each source.

use futures::future::try_join_all;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Hold, Ledger, Row};
use shared::sources::Config;
use shared::webhook::event::EventKey;

/// A time after the end of each hold.
const FAR: UnixMillis = UnixMillis(i64::MAX / 2);

/// Returns the sources that have rules. Other sources have held events only if their rules were
/// removed meanwhile; `webhookctl hold list` shows these events as well.
pub(crate) fn with_rules(config: &Config, wanted: impl Fn(&str) -> bool) -> Vec<&str> {
    let sources = config.sources().filter(|source| !source.policy.is_empty());
    let names = sources.map(|source| source.name.as_str());
    names.filter(|name| wanted(name)).collect()
}

/// Returns the keys of the held events of sources, at most `limit` of each, and whether there are
/// more.
pub(crate) async fn held_keys(
    ledger: &Ledger,
    sources: &[&str],
    limit: i32,
) -> anyhow::Result<(Vec<EventKey>, bool)> {
    let whole = (UnixMillis(0), FAR);
    let pages = sources
        .iter()
        .map(|source| ledger.held(source, whole, limit));
    let (mut keys, mut more) = (Vec::new(), false);
    for (found, or_more) in try_join_all(pages).await? {
        keys.extend(found);
        more |= or_more;
    }
    Ok((keys, more))
}

/// Returns the rows of the held events of sources, first the one that expires first, and whether
/// there are more. The index is behind the table by a moment, so an event whose hold has just ended
/// is left out.
pub(crate) async fn held_rows(
    ledger: &Ledger,
    sources: &[&str],
    limit: i32,
) -> anyhow::Result<(Vec<(Row, Hold)>, bool)> {
    let (keys, more) = held_keys(ledger, sources, limit).await?;
    let (stored, _) = ledger.rows(&keys).await?;
    let rows = stored.into_iter().map(|stored| stored.row);
    let mut rows: Vec<(Row, Hold)> = rows
        .filter_map(|row| {
            let hold = row.hold.clone()?;
            Some((row, *hold))
        })
        .collect();
    rows.sort_by_key(|(_, hold)| hold.expires);
    Ok((rows, more))
}
