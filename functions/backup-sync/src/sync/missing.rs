//! Handles listed events that never arrived.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Seen;
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

/// How far in the future the time of an event can be. A later time means that a clock is wrong.
const FUTURE: Duration = Duration::from_secs(24 * 3600);

/// The maximum number of redelivery requests for one event.
const MOST_ASKED: u64 = 3;

/// The maximum number of missing events that a dry run names.
const MOST_NAMED: usize = 100;

/// The result of a request for one event.
enum One {
    Has(Bytes),
    /// The provider lists the event, but no longer has its body.
    Gone,
    /// The body is larger than the limit.
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
    /// Handles an item whose id is too long for a key. The item must not be skipped, so the run
    /// ends with an error and the cursor stays. If the list is read from a position, the run ends
    /// at once.
    fn found_too_long(&mut self, item: &Item) -> anyhow::Result<()> {
        if self.sync.mark.is_some() {
            let error = anyhow!("the event id has {} bytes", item.id.len());
            return Err(error.context(Fault::TooLong));
        }
        self.fault = Some(Fault::TooLong);
        Ok(())
    }

    /// Records an event that a run without `dry_run` would add.
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

    /// Counts an item whose event is in the ledger.
    fn saw(&mut self, key: &EventKey, item: &Item, seen: &Seen) {
        if let Some(counting) = &mut self.counting {
            counting.saw(key, &item.kind, item.at, seen);
        }
    }

    /// Counts an item that did not arrive by webhook. `kept` is when it was stored or requested.
    fn missed(&mut self, key: &EventKey, item: &Item, kept: UnixMillis) {
        let seen = Seen {
            via: Via::BackupSync,
            received_at: kept,
            also: Vec::new(),
        };
        self.saw(key, item, &seen);
    }

    /// Returns whether this run handles an item.
    pub(super) fn wants(&self, item: &Item, span: TimeWindow) -> bool {
        let older = !self.sync.filters() && item.at.is_some_and(|at| at < span.from);
        !(older || self.settings.failed_only && item.delivered)
    }
}

impl BackupSync {
    /// Stores one listed event, or requests its redelivery, unless the ledger has it. Returns
    /// `false` if no time is left.
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
        // This read only avoids the writes of a rejected put. The put itself decides.
        if let Some(seen) = self.services.inbox.ledger.seen(&key).await? {
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
        match self.body_of(run, item, &key).await? {
            One::Has(body) => self.store_found(run, item, &key, body).await?,
            One::Gone => {
                run.report.gone += 1;
                run.missed(&key, item, (self.clock)());
                tracing::error!(event.key = %key, source = run.source.name, kind = item.kind, "event {key} never arrived, and the provider no longer has the event");
            }
            One::TooLarge => {
                run.report.gone += 1;
                run.missed(&key, item, (self.clock)());
                tracing::error!(event.key = %key, source = run.source.name, kind = item.kind, limit = LARGEST_BODY, "event {key} never arrived and is not stored, because its body is larger than {LARGEST_BODY} bytes");
            }
            One::OutOfTime => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the body of a listed event, from the list or from a request for the event.
    async fn body_of(&self, run: &mut Run<'_>, item: &Item, key: &EventKey) -> anyhow::Result<One> {
        let sync = run.sync;
        match &sync.fetch {
            _ if item.bare => Ok(One::Gone),
            None => {
                let body = item.body(sync, None);
                Ok(body.with_context(|| format!("event {key}"))?.into())
            }
            Some(request) => {
                let read = |fetched: &Bytes, _: Option<&str>| item.body(sync, Some(fetched));
                self.one(run, item, request, read).await
            }
        }
    }

    /// Stores an event that never arrived, unless another process has stored it in the meantime.
    async fn store_found(
        &self,
        run: &mut Run<'_>,
        item: &Item,
        key: &EventKey,
        body: Bytes,
    ) -> anyhow::Result<()> {
        let preset = &run.source.verifier.preset;
        let account = match &run.settings.account {
            Some(account) => account.of(&body),
            None => preset.account_of_fetched(&body),
        };
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
            config: &run.source.verifier.config,
        });
        let event = event.of_account(account);
        let kept = self.services.inbox.accept(&event, (self.clock)()).await?;
        if kept.iter().any(|kept| kept.received.is_new()) {
            run.missed(key, item, event.received_at());
            run.report.found += 1;
            tracing::warn!(event.id = %event.id(), event.key = %key, source = run.source.name, kind = item.kind, "found event {key}, which never arrived");
        } else if let Some(seen) = self.services.inbox.ledger.seen(key).await? {
            run.saw(key, item, &seen);
        }
        Ok(())
    }

    /// Returns whether the redelivery of an event may be requested. After the limit, the sync
    /// fetches the event from the API, as for a source without redelivery.
    async fn may_request_redelivery(&self, run: &Run<'_>, key: &EventKey) -> anyhow::Result<bool> {
        if run.asked.contains(key) {
            return Ok(true);
        }
        let ledger = &self.services.inbox.ledger;
        let may = ledger
            .sync()
            .count_redelivery_request(key, MOST_ASKED, (self.clock)())
            .await?;
        if !may {
            tracing::warn!(event.key = %key, source = run.source.name, "event {key} did not arrive after {MOST_ASKED} redelivery requests; Mitt fetches the event from the API");
        }
        Ok(may)
    }

    /// Requests the redelivery of an event, which then arrives by webhook. A run requests it once,
    /// and the next run requests it again if the event has not arrived.
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
                tracing::error!(event.key = %key, source = run.source.name, kind = item.kind, "event {key} never arrived, and the provider does not deliver the event again");
            }
            // The provider has accepted the request, whatever the response contains.
            One::Has(_) | One::TooLarge => {
                run.report.asked += 1;
                tracing::warn!(event.key = %key, source = run.source.name, kind = item.kind, "event {key} never arrived; Mitt requested its redelivery");
            }
        }
        run.missed(key, item, (self.clock)());
        run.asked.insert(key.clone());
        Ok(true)
    }

    /// Sends a request about one item.
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
            Err(refused) => Err(refused.error().context(format!("request {}", item.id))),
        }
    }
}
