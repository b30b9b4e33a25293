//! Finds the events of a selection.
//!
//! The `work` index has the open events and dead letters of any age, except the newest events. The
//! search finds all other events through the `time` index, in the order of receipt.

use futures::{StreamExt as _, TryStreamExt as _};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Cost, Listed, RecentEvents, State, Stored, Waiting};
use shared::webhook::event::EventKey;

use super::time_scan::Walk;
use super::{DAY_MS, Found, Position, Selection, Want};
use crate::cli::Status;
use crate::output::CliError;
use crate::output::aws::{SoFar, is_throttled};
use crate::output::count::thousands;
use crate::output::time::HOUR_MS;
use crate::target::Deployment;

/// The number of rows that one request reads.
pub(super) const A_BATCH: usize = 100;

/// The number of such requests that run in parallel.
pub(super) const AT_ONCE: usize = 8;

/// The maximum number of hours that a list covers. Each hour of each source needs its own read.
const MOST_HOURS: i64 = 31 * 24;

/// The maximum number of waiting events that are read one by one. If there are more, the search
/// uses the `time` index.
const MOST_WAITING: usize = 50_000;

/// How far the clock of a function may be ahead of the clock of this machine.
const CLOCKS_APART_MS: i64 = 60_000;

impl Selection {
    /// Returns the matching events, up to the limit.
    pub(crate) async fn find(&self, inbox: &Deployment, want: Want) -> anyhow::Result<Found> {
        self.find_saying(inbox, want, &mut |_| ()).await
    }

    /// Returns the matching events, up to the limit. Calls `say` with a message before it reads
    /// bodies.
    pub(crate) async fn find_saying(
        &self,
        inbox: &Deployment,
        want: Want,
        say: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Found> {
        let mut cost = Cost::default();
        let keys = if self.by_id() {
            Some(self.named(inbox, &mut cost).await?)
        } else if self.waits() {
            self.waiting(inbox, &mut cost).await?
        } else {
            None
        };
        match keys {
            Some(keys) => self.of_these(inbox, keys, &want, cost, say).await,
            None => self.by_time(inbox, &want, cost, say).await,
        }
    }

    /// Returns the keys of all waiting events. Returns `None` if there are too many to read one by
    /// one.
    async fn waiting(
        &self,
        inbox: &Deployment,
        cost: &mut Cost,
    ) -> anyhow::Result<Option<Vec<EventKey>>> {
        let of_dead = Status::Of(State::DeadLetter);
        let dead = self.statuses.contains(&of_dead);
        let mut statuses = self.statuses.iter();
        let open = statuses.any(|status| *status != of_dead && *status != Status::Held);
        let whats = [(open, Waiting::Open), (dead, Waiting::Dead)];
        let parts = whats.into_iter().filter(|(wanted, _)| *wanted);
        let parts =
            parts.flat_map(|(_, what)| (0..Waiting::SHARDS).map(move |shard| (what, shard)));
        let read = parts.map(|(what, shard)| self.waiting_in(inbox, what, shard));
        let read: Vec<_> = futures::stream::iter(read)
            .buffer_unordered(2 * usize::from(Waiting::SHARDS))
            .try_collect()
            .await?;
        let mut keys = Vec::new();
        for (found, used) in read {
            *cost += used;
            keys.extend(found);
        }
        let mut or_more = false;
        if open {
            let fresh = self.fresh(inbox).await?;
            *cost += fresh.cost;
            or_more = fresh.or_more;
            keys.extend(fresh.open);
            let (pulled, more) = self.pulled(inbox, cost).await?;
            or_more |= more;
            keys.extend(pulled);
        }
        if self.statuses.contains(&Status::Held) {
            let sources: Vec<&str> = self.sources.iter().map(String::as_str).collect();
            let most = i32::try_from(MOST_WAITING)?;
            let (held, more) = super::held_keys(&inbox.ledger, &sources, most).await?;
            or_more |= more;
            keys.extend(held);
        }
        // The index can get an event between two reads, and the event then appears twice.
        keys.sort_unstable();
        keys.dedup();
        if (keys.len() <= MOST_WAITING && !or_more) || self.thorough {
            return Ok(Some(keys));
        }
        if self.since.is_none() {
            let message = format!("more than {} events are waiting", thousands(MOST_WAITING));
            return Err(CliError::usage("inbox.too_many", message)
                .tip("narrow the selection with --since 1h")
                .into());
        }
        Ok(None)
    }

    async fn fresh(&self, inbox: &Deployment) -> anyhow::Result<RecentEvents> {
        let sources: Vec<&str> = self.sources.iter().map(String::as_str).collect();
        let most = if self.thorough {
            usize::MAX
        } else {
            MOST_WAITING
        };
        inbox
            .ledger
            .sweep()
            .recent_events(&sources, UnixMillis(self.now), most)
            .await
    }

    /// Returns the events in the queues of workers, and whether there are more.
    async fn pulled(
        &self,
        inbox: &Deployment,
        cost: &mut Cost,
    ) -> anyhow::Result<(Vec<EventKey>, bool)> {
        let mut sources = inbox.pulled_sources();
        sources.retain(|source| self.has_source(source));
        let since = UnixMillis(self.span().0);
        let most = i32::try_from(MOST_WAITING).unwrap_or(i32::MAX);
        let (keys, more, used) = inbox.ledger.pulled(&sources, since, most).await?;
        *cost += used;
        Ok((keys, more))
    }

    async fn waiting_in(
        &self,
        inbox: &Deployment,
        what: Waiting,
        shard: u8,
    ) -> anyhow::Result<(Vec<EventKey>, Cost)> {
        let (mut keys, mut cost, mut start) = (Vec::new(), Cost::default(), None);
        let since = UnixMillis(self.span().0);
        loop {
            let page = inbox
                .ledger
                .waiting_page(what, shard, since, None, start)
                .await?;
            cost += page.cost;
            keys.extend(
                page.found
                    .into_iter()
                    .filter(|key| self.has_source(key.source())),
            );
            start = page.next;
            if start.is_none() || (keys.len() > MOST_WAITING && !self.thorough) {
                return Ok((keys, cost));
            }
        }
    }

    /// Selects the matching events from a list of keys, which can be in any order.
    async fn of_these(
        &self,
        inbox: &Deployment,
        keys: Vec<EventKey>,
        want: &Want,
        mut cost: Cost,
        say: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Found> {
        let mut rows = self.rows(inbox, &keys, &mut cost).await?;
        rows.retain(|stored| want.is_ahead(&Position::of(&stored.row)));
        rows.sort_by_cached_key(|stored| Position::of(&stored.row));
        if !want.reverse {
            rows.reverse();
        }
        if self.needs_bodies() {
            say(&self.will_read(rows.len())?);
        }
        let mut rest = rows.into_iter();
        let mut kept = Vec::new();
        while kept.len() <= want.limit {
            let some: Vec<Stored> = rest.by_ref().take(A_BATCH).collect();
            if some.is_empty() {
                break;
            }
            kept.extend(self.with_fields(inbox, some, &mut cost).await?);
        }
        Ok(want.found(kept, cost))
    }

    /// Selects events in the order of receipt.
    async fn by_time(
        &self,
        inbox: &Deployment,
        want: &Want,
        cost: Cost,
        say: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Found> {
        let span = self.reading_span(want)?;
        let filters = self.needs_rows() || self.needs_bodies() || !self.kinds.is_empty();
        let page = if filters {
            1000
        } else {
            want.limit.saturating_add(1)
        };
        let mut walk = Walk::new(
            &inbox.ledger,
            self.sources.clone(),
            span,
            want.reverse,
            page,
        );
        walk.cost = cost;
        if self.needs_bodies() {
            let (most, mut keys) = (self.most_bodies(), Vec::new());
            while keys.len() <= most {
                let listed = walk.next(1000, say).await?;
                if listed.is_empty() {
                    break;
                }
                keys.extend(self.candidates(listed, want));
            }
            say(&self.will_read(keys.len())?);
            let cost = walk.cost;
            return self.of_these(inbox, keys, want, cost, &mut |_| ()).await;
        }
        let mut kept = Vec::new();
        let mut seen = Seen::default();
        while kept.len() <= want.limit {
            let missing = want.limit.saturating_add(1) - kept.len();
            let chunk = if filters { A_BATCH * AT_ONCE } else { missing };
            let listed = walk.next(chunk.min(A_BATCH * AT_ONCE), say).await;
            let listed = listed.map_err(|error| seen.told(error, kept.len()))?;
            if listed.is_empty() {
                break;
            }
            let with_these = seen.and(&listed);
            let keys = self.candidates(listed, want);
            let rows = self.rows(inbox, &keys, &mut walk.cost).await;
            let mut rows = rows.map_err(|error| seen.told(error, kept.len()))?;
            seen = with_these;
            rows.sort_by_cached_key(|stored| Position::of(&stored.row));
            if !want.reverse {
                rows.reverse();
            }
            kept.extend(rows);
        }
        Ok(want.found(kept, walk.cost))
    }

    /// Returns the part of the time range after the position of an earlier list. Returns an error
    /// if the time range is too long.
    pub(super) fn reading_span(&self, want: &Want) -> Result<(i64, i64), CliError> {
        let (mut from, mut to) = self.span();
        to = to.min(self.now.saturating_add(CLOCKS_APART_MS));
        if let Some(after) = &want.after {
            if want.reverse {
                from = from.max(after.at);
            } else {
                to = to.min(after.at);
            }
        }
        if !self.thorough && to.saturating_sub(from) / HOUR_MS > MOST_HOURS {
            return Err(
                CliError::usage("inbox.span", "a list spans at most 31 days")
                    .tip("narrow the selection with --since and --until"),
            );
        }
        Ok((from, to))
    }

    fn candidates(&self, listed: Vec<Listed>, want: &Want) -> Vec<EventKey> {
        let fits = |event: &Listed| {
            want.is_ahead(&Position::new(event.received_at.0, event.id.as_str()))
                && self.has_kind(&event.kind)
        };
        let fitting = listed.into_iter().filter(fits);
        fitting.map(|event| event.key).collect()
    }

    /// Returns the rows of these keys that match, in any order. Ignores the conditions on the body.
    pub(super) async fn rows(
        &self,
        inbox: &Deployment,
        keys: &[EventKey],
        cost: &mut Cost,
    ) -> anyhow::Result<Vec<Stored>> {
        let mut rows = read_rows(inbox, keys, cost).await?;
        rows.retain(|stored| self.has_row(&stored.row, inbox));
        Ok(rows)
    }
}

/// Returns the rows of these keys, in any order.
pub(super) async fn read_rows(
    inbox: &Deployment,
    keys: &[EventKey],
    cost: &mut Cost,
) -> anyhow::Result<Vec<Stored>> {
    let read = keys.chunks(A_BATCH).map(|keys| inbox.ledger.rows(keys));
    let read: Vec<_> = futures::stream::iter(read)
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let mut rows = Vec::new();
    for (found, used) in read {
        *cost += used;
        rows.extend(found);
    }
    Ok(rows)
}

/// The progress of a search.
#[derive(Default)]
struct Seen {
    events: usize,
    last: Option<Position>,
}

impl Seen {
    fn and(&self, more: &[Listed]) -> Self {
        let last = more.last();
        Self {
            events: self.events + more.len(),
            last: last.map(|event| Position::new(event.received_at.0, event.id.as_str())),
        }
    }

    /// Adds the progress of the search to a throttling error.
    fn told(&self, error: anyhow::Error, fit: usize) -> anyhow::Error {
        if self.events == 0 || !is_throttled(&error) {
            return error;
        }
        error.context(SoFar {
            looked_at: self.events,
            fit,
            after: self.last.as_ref().filter(|_| fit == 0).map(Position::text),
            takes_after: false,
        })
    }
}

/// Returns the newest event of the last 24 hours.
pub(crate) async fn newest(inbox: &Deployment, now: UnixMillis) -> anyhow::Result<Option<Listed>> {
    let sources = inbox.sources().into_iter().map(str::to_owned).collect();
    let span = (now.0 - DAY_MS, now.0 + CLOCKS_APART_MS);
    let mut walk = Walk::new(&inbox.ledger, sources, span, false, 1);
    Ok(walk.next(1, &mut |_| ()).await?.into_iter().next())
}

impl Want {
    /// Returns whether the position is after the position where the earlier list stopped.
    fn is_ahead(&self, position: &Position) -> bool {
        let after = self.after.as_ref();
        after.is_none_or(|after| position.is_behind(after, self.reverse))
    }

    fn found(&self, mut kept: Vec<Stored>, cost: Cost) -> Found {
        let more = kept.len() > self.limit;
        kept.truncate(self.limit);
        Found {
            rows: kept.into_iter().map(|stored| stored.row).collect(),
            more,
            cost,
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_types::error::metadata::ErrorMetadata;

    use super::*;

    fn answered(code: &str) -> anyhow::Error {
        ErrorMetadata::builder().code(code).build().into()
    }

    #[test]
    fn a_throttled_search_can_be_gone_on_with_unless_something_was_found() {
        let seen = Seen {
            events: 800,
            last: Some(Position::new(1795, "evt_1")),
        };
        let so_far = |seen: &Seen, code, fit| {
            let error = seen.told(answered(code), fit);
            error.downcast_ref::<SoFar>().cloned()
        };
        let none = so_far(&seen, "ThrottlingException", 0).unwrap();
        assert_eq!((none.looked_at, none.fit), (800, 0));
        assert_eq!(none.after.as_deref(), Some("1795.evt_1"));
        let some = so_far(&seen, "ThrottlingException", 3).unwrap();
        assert_eq!((some.fit, some.after), (3, None));
        assert_eq!(so_far(&seen, "AccessDeniedException", 0), None);
        let nothing = Seen::default();
        assert_eq!(so_far(&nothing, "ThrottlingException", 0), None);
    }
}
