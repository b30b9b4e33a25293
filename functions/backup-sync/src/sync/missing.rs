//! What is done about a listed event that never arrived.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Received, Seen};
use shared::sources::Missing;
use shared::webhook::event::LARGEST_BODY;
use shared::webhook::event::{Event, EventKey, Fetched, Via};
use shared::webhook::preset::Request;

use super::fault::Fault;
use super::item::Item;
use super::time_window::{TimeWindow, about};
use super::{Named, Run};
use crate::BackupSync;
use crate::retry::Refused;

/// What is said to happen later than this from now is the work of a wrong clock.
const FUTURE: Duration = Duration::from_secs(24 * 3600);

/// Redeliveries of one event that are asked for.
const MOST_ASKED: u64 = 3;

/// Missing events that a run which only looks names.
const MOST_NAMED: usize = 100;

/// What came of asking for one event.
enum One {
    Has(Bytes),
    /// The provider lists it, and does not have it any more.
    Gone,
    /// It is larger than what is kept of an event.
    TooLarge,
    OutOfTime,
}

impl From<Option<Bytes>> for One {
    fn from(found: Option<Bytes>) -> Self {
        match found {
            None => Self::Gone,
            Some(body) if body.len() > LARGEST_BODY => Self::TooLarge,
            Some(body) => Self::Has(body),
        }
    }
}

impl Run<'_> {
    /// Nothing can name it, and it must not be passed over: the run ends with an error, and the
    /// cursor stays. Where a list is read from a place, that has to be now.
    fn found_too_long(&mut self, item: &Item) -> anyhow::Result<()> {
        if self.sync.mark.is_some() {
            let error = anyhow!("an id of {} bytes", item.id.len());
            return Err(error.context(Fault::TooLong));
        }
        self.fault = Some(Fault::TooLong);
        Ok(())
    }

    /// Notes what a run that was to add would have added.
    fn would_find(&mut self, item: &Item) {
        self.report.found += 1;
        if self.report.missing.len() < MOST_NAMED {
            self.report.missing.push(Named {
                id: item.id.clone(),
                kind: item.kind.clone(),
                at: item.at.map(UnixMillis::rfc3339),
            });
        }
    }

    /// Counts an item that we have.
    fn saw(&mut self, key: &EventKey, item: &Item, seen: &Seen) {
        if let Some(counting) = &mut self.counting {
            counting.saw(key, &item.kind, item.at, seen);
        }
    }

    /// Counts an item that did not come by webhook; we have had it, or looked for it, since then.
    fn missed(&mut self, key: &EventKey, item: &Item, kept: UnixMillis) {
        let seen = Seen {
            via: Via::BackupSync,
            received_at: kept,
            also: Vec::new(),
        };
        self.saw(key, item, &seen);
    }

    /// Whether an item is one that this run is about.
    pub(super) fn wants(&self, item: &Item, span: TimeWindow) -> bool {
        let older = !self.sync.filters() && item.at.is_some_and(|at| at < span.from);
        !(older || self.settings.failed_only && item.delivered)
    }
}

impl BackupSync {
    /// Puts one listed event through the door, or has it delivered again, unless the ledger has
    /// it. `false` when time ran out.
    pub(super) async fn take(&self, run: &mut Run<'_>, item: &Item) -> anyhow::Result<bool> {
        run.report.listed += 1;
        if item.is_too_long() {
            run.found_too_long(item)?;
            return Ok(true);
        }
        if item.at.is_some_and(|at| at > (self.clock)() + FUTURE) {
            run.fault.get_or_insert(Fault::Future);
        }
        let key = EventKey::new(&run.source.name, &item.id);
        // Only to save the writes of a refused put; the put itself decides.
        if let Some(seen) = self.parts.inbox.ledger.seen(&key).await? {
            run.saw(&key, item, &seen);
            return Ok(true);
        }
        if run.only_looks {
            run.would_find(item);
            return Ok(true);
        }
        let sync = run.sync;
        if let (Missing::Redeliver, Some(request)) = (run.settings.missing, &sync.redeliver)
            && self.may_request_redelivery(run, &key).await?
        {
            return self.request_redelivery(run, item, &key, request).await;
        }
        let body = match &sync.fetch {
            _ if item.bare => One::Gone,
            None => item
                .body(sync, None)
                .with_context(|| format!("event {key}"))?
                .into(),
            Some(request) => {
                let read = |fetched: &Bytes, _: Option<&str>| item.body(sync, Some(fetched));
                self.one(run, item, request, read).await?
            }
        };
        let body = match body {
            One::Has(body) => body,
            One::Gone => {
                run.report.gone += 1;
                run.missed(&key, item, (self.clock)());
                tracing::error!(event.key = %key, source = run.source.name, kind = item.kind, "event {key} never arrived, and its provider does not have it any more");
                return Ok(true);
            }
            One::TooLarge => {
                run.report.gone += 1;
                run.missed(&key, item, (self.clock)());
                tracing::error!(event.key = %key, source = run.source.name, kind = item.kind, limit = LARGEST_BODY, "event {key} never arrived, and is not kept: its body is larger than {LARGEST_BODY} bytes");
                return Ok(true);
            }
            One::OutOfTime => return Ok(false),
        };
        let preset = &run.source.verifier.preset;
        let event = Event::fetched(Fetched {
            source: &run.source.name,
            provider: if preset.generic {
                &run.source.name
            } else {
                &preset.id
            },
            preset: &preset.id,
            id: &item.id,
            kind: &item.kind,
            body,
            now: (self.clock)(),
            via: Via::BackupSync,
            config: self.parts.config.hash(),
        });
        let kept = self.parts.inbox.accept(&event, (self.clock)()).await?;
        if kept.iter().any(|kept| kept.received == Received::New) {
            run.missed(&key, item, event.received_at());
            run.report.found += 1;
            tracing::warn!(event.id = %event.id(), event.key = %key, source = run.source.name, kind = item.kind, "found event {key}, which never arrived");
        } else if let Some(seen) = self.parts.inbox.ledger.seen(&key).await? {
            // Somebody came in between.
            run.saw(&key, item, &seen);
        }
        Ok(true)
    }

    /// A redelivery that keeps failing is not asked for for ever: then the event is taken from the
    /// API, as where none is asked for.
    async fn may_request_redelivery(&self, run: &Run<'_>, key: &EventKey) -> anyhow::Result<bool> {
        if run.asked.contains(key) {
            return Ok(true);
        }
        let ledger = &self.parts.inbox.ledger;
        let may = ledger
            .count_redelivery_request(key, MOST_ASKED, (self.clock)())
            .await?;
        if !may {
            tracing::warn!(event.key = %key, source = run.source.name, "event {key} was asked for {MOST_ASKED} times and did not come: taking it from the API");
        }
        Ok(may)
    }

    /// Has the provider deliver it again: it then comes by webhook, as any other. Once in a run,
    /// and again in the next one if it has not come by then.
    async fn request_redelivery(
        &self,
        run: &mut Run<'_>,
        item: &Item,
        key: &EventKey,
        request: &Request,
    ) -> anyhow::Result<bool> {
        if run.asked.contains(key) {
            return Ok(true);
        }
        let read = |answer: &Bytes, _: Option<&str>| Ok(Some(answer.clone()));
        match self.one(run, item, request, read).await? {
            One::OutOfTime => return Ok(false),
            One::Gone => {
                run.report.gone += 1;
                tracing::error!(event.key = %key, source = run.source.name, kind = item.kind, "event {key} never arrived, and its provider does not deliver it again");
            }
            // It was asked for, whatever the answer says.
            One::Has(_) | One::TooLarge => {
                run.report.asked += 1;
                tracing::warn!(event.key = %key, source = run.source.name, kind = item.kind, "event {key} never arrived: asked for it to be delivered again");
            }
        }
        run.missed(key, item, (self.clock)());
        run.asked.insert(key.clone());
        Ok(true)
    }

    /// Asks for something about one item.
    async fn one(
        &self,
        run: &mut Run<'_>,
        item: &Item,
        request: &Request,
        read: impl Fn(&Bytes, Option<&str>) -> anyhow::Result<Option<Bytes>>,
    ) -> anyhow::Result<One> {
        let question = about(request, &item.raw)?;
        match self.ask(run, &question, read).await {
            Ok(Some(answer)) => Ok(answer.into()),
            Ok(None) => Ok(One::OutOfTime),
            Err(Refused::Request(404 | 410 | 422, _)) => Ok(One::Gone),
            Err(Refused::TooLarge(_)) => Ok(One::TooLarge),
            Err(refused) => Err(refused.error().context(format!("ask for {}", item.id))),
        }
    }
}
