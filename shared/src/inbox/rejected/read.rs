//! Lists rejected requests by source and period, or by the prefix of an id.

use std::time::Duration;

use anyhow::Context as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::request::{RejectedRequest, SHARDS, partition};
use super::{KEEP, RejectedRequests, day};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, item};
use crate::webhook::event::EventId;

const DAY_MS: i64 = 24 * 3_600_000;

/// The number of partitions of a source that are read in parallel.
const AT_ONCE: usize = 8;

impl RejectedRequests {
    /// Returns the rejected requests of a source that were received from `from` to `to`, both
    /// inclusive, newest first. Requests are kept for a week, so this function does not read older
    /// days. It also reads no day without requests.
    pub async fn held(
        &self,
        source: &str,
        from: UnixMillis,
        to: UnixMillis,
        now: UnixMillis,
    ) -> anyhow::Result<Vec<RejectedRequest>> {
        // DynamoDB deletes expired items late, so this function reads one more day.
        let mut at = from.max(now - KEEP - Duration::from_millis(DAY_MS.unsigned_abs()));
        let to = to.min(UnixMillis(now.0 + DAY_MS));
        let mut days = Vec::new();
        while at <= to {
            let end = UnixMillis((at.0.div_euclid(DAY_MS) + 1) * DAY_MS - 1).min(to);
            days.push((at, end));
            at = UnixMillis(end.0 + 1);
        }
        let begins: Vec<UnixMillis> = days.iter().map(|(at, _)| *at).collect();
        let counted = self.days_with_requests(source, &begins, now).await?;
        days.retain(|(at, _)| counted.contains(&day(*at)));
        let parts = days
            .into_iter()
            .flat_map(|span| (0..SHARDS).map(move |shard| (span, shard)));
        let read = stream::iter(parts).map(|((at, end), shard)| {
            let pk = partition(source, at, shard);
            async move { self.part(&pk, at, end).await }
        });
        let read: Vec<Vec<RejectedRequest>> = read.buffer_unordered(AT_ONCE).try_collect().await?;
        let mut held: Vec<RejectedRequest> = read.into_iter().flatten().collect();
        held.sort_by(|a, b| b.id.cmp(&a.id));
        Ok(held)
    }

    /// Returns the requests of the given sources whose id begins with `prefix`, newest first for
    /// each source. A short prefix needs many reads, so the prefix should determine at least the
    /// hour.
    pub async fn with_id_prefix(
        &self,
        sources: &[&str],
        prefix: &str,
        now: UnixMillis,
    ) -> anyhow::Result<Vec<RejectedRequest>> {
        let Some((from, to)) = EventId::times(prefix) else {
            return Ok(Vec::new());
        };
        let text = prefix.strip_prefix("evt_").unwrap_or(prefix);
        let text = text.to_ascii_uppercase();
        let mut found = Vec::new();
        for source in sources {
            let held = self.held(source, from, to, now).await?;
            let named = held
                .into_iter()
                .filter(|held| held.id.as_str()[4..].starts_with(&text));
            found.extend(named);
        }
        Ok(found)
    }

    async fn part(
        &self,
        pk: &str,
        from: UnixMillis,
        to: UnixMillis,
    ) -> anyhow::Result<Vec<RejectedRequest>> {
        let (mut held, mut start): (_, Option<Item>) = (Vec::new(), None);
        loop {
            let answer = self
                .table
                .query()
                .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
                .expression_attribute_values(":pk", item::s(pk))
                .expression_attribute_values(":from", item::s(format!("{:013}", from.0.max(0))))
                .expression_attribute_values(":to", item::s(format!("{:013}#~", to.0.max(0))))
                .consistent_read(true)
                .set_exclusive_start_key(start)
                .send()
                .await
                .context("list the rejected requests")?;
            held.extend(answer.items().iter().filter_map(RejectedRequest::read));
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(held);
            }
        }
    }
}
