//! Counts the events that a sync run has seen: those that arrived by webhook, and those that only
//! the sync found.
//!
//! The counts are only informative, so an error in them is logged and does not stop the sync.

use std::collections::BTreeMap;

use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Cursor, Ledger, Listed, Lost, ResumePoint, Seen, State};
use shared::monitoring::coverage::{Comparison, DayCount};
use shared::monitoring::coverage::{Counts, Piece, Sighting, Tally, Window};
use shared::sources::SourceSync;
use shared::webhook::event::{EventKey, Via};
use shared::webhook::preset::{Location, Sync, SyncKind};

use crate::BackupSync;

/// The maximum number of events in a window that are compared with the list. A window with more
/// events is not compared.
const MOST_COMPARED: usize = 20_000;

/// The maximum number of events that are missing in the list and are checked one by one.
const MOST_JUDGED: usize = 200;

const HOUR_MS: i64 = 3_600_000;

/// The counts of one run.
pub(crate) struct Counting {
    source: String,
    /// Whether this is the first run. The first run counts nothing, because events from before the
    /// inbox existed were not missed.
    is_first: bool,
    started: UnixMillis,
    /// The earliest time for which the list was requested.
    asked_from: UnixMillis,
    tally: Tally,
    /// The position at which the run continues if it stops now, and the counts up to this position.
    place: Option<(String, BTreeMap<Day, Counts>)>,
}

impl Counting {
    /// Records an event of the list. `happened` is the time that the provider states for the event.
    pub(crate) fn saw(
        &mut self,
        key: &EventKey,
        kind: &str,
        happened: Option<UnixMillis>,
        seen: &Seen,
    ) {
        self.tally.saw(Sighting {
            id: key.id().to_owned(),
            kind: kind.to_owned(),
            // An event without a time happened when it was received, or earlier.
            happened: happened.unwrap_or(seen.received_at),
            webhook: seen.by_webhook(),
            kept: seen.received_at,
        });
    }
}

impl BackupSync {
    /// Starts to count, or continues where an earlier invocation of the run stopped.
    ///
    /// Returns `None` if the earlier counts are lost, or if the list cannot be counted. A list of
    /// changes has no event ids. A list with a position names each event only once, and the webhook
    /// of the event can still arrive later. A list of failed deliveries does not name the delivered
    /// events.
    pub(crate) async fn counting(
        &self,
        source: &str,
        settings: &SourceSync,
        cursor: &Cursor,
        (asked_from, started): (UnixMillis, UnixMillis),
    ) -> Option<Counting> {
        let list = &settings.list;
        let of_changes = list.kind == SyncKind::ChangeCursor;
        if of_changes || list.mark.is_some() || settings.failed_only {
            return None;
        }
        let window = Window::closed(asked_from, started, settings.overlap);
        let is_first = cursor.at.is_none();
        let (tally, place) = match &cursor.page {
            Some(page) if !is_first => {
                let carried = self.carried(source, page).await?;
                let place = (page.token.clone(), carried.clone());
                (Tally::resumed(window, carried), Some(place))
            }
            Some(_) | None => (Tally::new(window), None),
        };
        Some(Counting {
            source: source.to_owned(),
            is_first,
            started,
            asked_from,
            tally,
            place,
        })
    }

    /// Records the time span that the provider's list no longer covers.
    pub(crate) async fn note_lost(
        &self,
        source: &str,
        cursor: &Cursor,
        (asked_from, now): (UnixMillis, UnixMillis),
    ) {
        let Some(from) = cursor.at else {
            return;
        };
        let lost = Lost {
            from,
            to: asked_from,
            noted: now,
        };
        let ledger = &self.services.inbox.ledger;
        if let Err(error) = ledger.sync().note_lost(source, lost).await {
            trouble(source, &error);
        }
    }

    async fn carried(&self, source: &str, page: &ResumePoint) -> Option<BTreeMap<Day, Counts>> {
        let ledger = &self.services.inbox.ledger;
        match ledger
            .statistics()
            .kept_tally(source, page.started, &page.token)
            .await
        {
            Ok(carried) => carried,
            Err(error) => {
                trouble(source, &error);
                None
            }
        }
    }

    /// Stores the counts. The caller does this before it records a page, because another invocation
    /// can continue the run after that page.
    pub(crate) async fn keep_counting(&self, counting: &mut Option<Counting>, next: &str) {
        let Some(now) = counting.as_mut().filter(|counting| !counting.is_first) else {
            return;
        };
        let here = (next.to_owned(), now.tally.carried().clone());
        let was = now.place.replace(here);
        let places = [now.place.as_ref(), was.as_ref()];
        let ledger = &self.services.inbox.ledger;
        if let Err(error) = ledger
            .statistics()
            .keep_tally(&now.source, now.started, places)
            .await
        {
            trouble(&now.source, &error);
            *counting = None;
        }
    }

    /// Adds the counts to the days. The caller does this after the whole list was read and before
    /// the cursor moves. If the run crashes in between, the next run repeats it and does not count
    /// the same time twice.
    pub(crate) async fn count(&self, counting: Option<Counting>, settings: &SourceSync) {
        let Some(counting) = counting else { return };
        let counted = if counting.is_first {
            self.begin_to_count(&counting).await
        } else {
            self.count_days(&counting, settings).await
        };
        if let Err(error) = counted {
            trouble(&counting.source, &error);
        }
    }

    /// Excludes the time before the first complete run from the counts of the days.
    async fn begin_to_count(&self, counting: &Counting) -> anyhow::Result<()> {
        let today = Day::of(counting.started);
        for day in [today.before(1), today] {
            let begins = day.ends().min(counting.started);
            let nothing = Piece {
                day,
                from: begins,
                to: begins,
                counts: Counts::default(),
            };
            let ledger = &self.services.inbox.ledger;
            ledger
                .statistics()
                .count_day(&counting.source, day, async |counted| {
                    let begun = (nothing.clone(), Comparison { done: false });
                    counted.is_none().then_some(begun)
                })
                .await?;
        }
        Ok(())
    }

    async fn count_days(&self, counting: &Counting, settings: &SourceSync) -> anyhow::Result<()> {
        let ledger = &self.services.inbox.ledger;
        for day in counting.tally.days() {
            let won = ledger
                .statistics()
                .count_day(&counting.source, day, async |counted| {
                    let mut piece = counting.tally.piece(day, counted)?;
                    let only = self.only_by_webhook(counting, &piece, settings).await;
                    let only = only.unwrap_or_else(|error| {
                        trouble(&counting.source, &error);
                        None
                    });
                    let done = only.is_some();
                    piece.counts.merge(only.unwrap_or_default());
                    Some((piece, Comparison { done }))
                })
                .await?;
            if let Some((piece, day)) = won {
                self.say_missed(&counting.source, &piece, &day).await;
            }
        }
        Ok(())
    }

    /// Returns the counts of the events in this time span that arrived by webhook and are not in
    /// the list. Returns `None` if they cannot be counted.
    async fn only_by_webhook(
        &self,
        counting: &Counting,
        piece: &Piece,
        settings: &SourceSync,
    ) -> anyhow::Result<Option<Counts>> {
        if !counting.tally.is_whole() {
            return Ok(None);
        }
        let ledger = &self.services.inbox.ledger;
        let Some(came) = received(ledger, &counting.source, piece.from, piece.to).await? else {
            return Ok(None);
        };
        // The ids of quarantined events contain `~`.
        let unlisted =
            |one: &Listed| !counting.tally.has(one.key.id()) && !one.key.is_conflicting();
        let unlisted: Vec<Listed> = came.into_iter().filter(unlisted).collect();
        if unlisted.len() > MOST_JUDGED {
            return Ok(None);
        }
        let mut counts = Counts::default();
        for one in unlisted {
            let Some(row) = ledger.event(&one.key).await? else {
                continue;
            };
            if row.via != Via::Webhook || row.state == State::Quarantined {
                continue;
            }
            let happened = self.happened(&one.key, &settings.list).await;
            // An earlier list covered this event, and an earlier run counted it.
            if happened.is_some_and(|at| at < counting.asked_from) {
                continue;
            }
            counts.webhook += 1;
            let late = row.received_at.since(happened.unwrap_or(row.received_at));
            counts.by_webhook.add(late);
        }
        Ok(Some(counts))
    }

    /// Returns when an event that arrived by webhook happened, if its body contains the time in the
    /// same form as the list.
    async fn happened(&self, key: &EventKey, list: &Sync) -> Option<UnixMillis> {
        let body = self
            .services
            .inbox
            .ledger
            .event_body(key)
            .await
            .ok()??
            .ok()?;
        happened(list, &body.0)
    }

    /// Logs one line for operators, from which the template creates metrics. Leaves out counts that
    /// an earlier run has logged.
    async fn say_missed(&self, source: &str, piece: &Piece, day: &DayCount) {
        let missed = piece.counts.sync;
        if missed == 0 {
            return;
        }
        let before = day.day.before(1);
        let before = self
            .services
            .inbox
            .ledger
            .statistics()
            .day_count(source, before)
            .await;
        let mut lately = day.counts.clone();
        lately.merge(before.map(|day| day.counts).unwrap_or_default());
        let rate = lately.miss_rate().unwrap_or_default();
        let rate = (rate * 100.0).round() / 100.0;
        tracing::warn!(
            source,
            missed_events = missed,
            miss_rate_percent = rate,
            "{missed} events of {source} never arrived by webhook, {rate} % of the events since yesterday: {}",
            lately.all(),
        );
    }
}

/// Returns the events received in a time span, or `None` if they are too many to compare.
async fn received(
    ledger: &Ledger,
    source: &str,
    from: UnixMillis,
    to: UnixMillis,
) -> anyhow::Result<Option<Vec<Listed>>> {
    let mut found = Vec::new();
    let mut at = from;
    while at < to {
        let end = UnixMillis((at.0.div_euclid(HOUR_MS) + 1) * HOUR_MS).min(to);
        let last = UnixMillis(end.0 - 1);
        found.extend(
            ledger
                .received_in_hour(source, at, last, MOST_COMPARED + 1)
                .await?,
        );
        if found.len() > MOST_COMPARED {
            return Ok(None);
        }
        at = end;
    }
    Ok(Some(found))
}

/// Returns when the event of a webhook happened, if its body has the form of a list item.
fn happened(list: &Sync, body: &[u8]) -> Option<UnixMillis> {
    if list.body.is_some() {
        return None;
    }
    let time = list.time.as_ref()?;
    time.at.0.iter().find_map(|at| {
        let Location::Item(path) = at else {
            return None;
        };
        time.unit.read(&path.scalar(body).ok()??)
    })
}

fn trouble(source: &str, error: &anyhow::Error) {
    tracing::warn!(
        source,
        error = format!("{error:#}"),
        "could not count the events of the sync of {source}"
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use shared::webhook::preset::Preset;

    use super::*;

    fn at(preset: &str, body: &str) -> Option<UnixMillis> {
        let preset = Preset::embedded(preset, &BTreeMap::new()).unwrap();
        happened(preset.sync("default").unwrap(), body.as_bytes())
    }

    #[test]
    fn a_webhook_says_when_it_happened_where_it_is_what_the_list_has() {
        let time = Some(UnixMillis(1_795_169_681_000));
        assert_eq!(at("stripe", r#"{"id":"evt_1","created":1795169681}"#), time);
        for body in ["", "{}", r#"{"created":null}"#, r#"{"created":"soon"}"#] {
            assert_eq!(at("stripe", body), None, "{body}");
        }
        // GitHub lists deliveries. The body of its webhooks has another form.
        let delivered = r#"{"delivered_at":"2026-11-20T10:14:41Z"}"#;
        assert_eq!(at("github", delivered), None);
    }
}
