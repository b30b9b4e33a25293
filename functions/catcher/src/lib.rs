//! The catcher verifies a webhook, stores it, and answers.
//!
//! The catcher answers 2xx if and only if the event is durable: in the ledger, or in the spill
//! queue, from which the drain moves it to the ledger. Every failure has a status. No failure is an
//! error of the function, so a sender gets a response within the budget, whatever the stores do.
//!
//! A request takes five steps:
//!
//! 1. [`Catcher::answer`] sets the deadline of the request.
//! 2. `config_for` finds the source, and `receive` reads the bytes.
//! 3. `verify_with_fresh_secrets` verifies the sender.
//! 4. `store_event` makes the event durable through [`EventStore`].
//! 5. `answer` sends the key of the event to the work queue.
//!
//! For a source that has a trial, `trial` answers instead.

mod breaker;
mod durable;
mod event_store;
mod failed;
mod handshake;
mod http;
mod log_throttle;
mod missing;
mod notice;
mod rejected;
mod replies;
mod sources;
mod trial;
mod verify;

use std::time::Duration;

use shared::base::clock::{Clock, UnixMillis};
use shared::base::timing::{KEEP_BUDGET, LEDGER_BUDGET};
use shared::inbox::queue::{QueueName, WorkMessage};
use shared::monitoring::missing_paths::{MissingPaths, Noted};
use shared::services::Services;
use shared::sources::{Config, Source};
use shared::webhook::envelope::Envelope;
use shared::webhook::event::Event;
use shared::webhook::verify::{Arrival, Rejected};
use tokio::time::{Instant, timeout_at};

use durable::Durable;
use event_store::{Deadlines, EventStore};
use log_throttle::LogThrottle;
use rejected::RejectedRequest;
use replies::acknowledged;
use sources::source_of;
use trial::TrialState;

pub use http::{BadBase64, Request, Response};

/// The time between the deadline of the stores and the deadline of the response, so that the
/// catcher can still log the reason.
const MARGIN: Duration = Duration::from_millis(50);

/// The services that the catcher needs, created once per process.
pub struct Catcher {
    services: Services,
    store: EventStore,
    throttle: LogThrottle,
    trial: TrialState,
    missing: MissingPaths,
    clock: Clock,
}

/// The response to the sender, and the step before it.
struct Answer<'c> {
    response: Response,
    then: Followup<'c>,
}

enum Followup<'c> {
    Nothing,
    /// The event is durable, and its key goes to the work queue.
    Send {
        messages: Vec<WorkMessage>,
        /// What the event lacks, to store.
        missing: Vec<Noted>,
    },
    StoreRejected(RejectedRequest<'c>),
}

impl Catcher {
    pub fn new(services: Services, clock: Clock) -> Self {
        let store = EventStore::new(services.inbox.clone(), services.spill.clone());
        Self {
            services,
            store,
            throttle: LogThrottle::default(),
            trial: TrialState::default(),
            missing: MissingPaths::default(),
            clock,
        }
    }

    /// Answers a request. If the last read of the sources is more than a minute ago, reads their
    /// version beside the answer.
    pub async fn answer(&self, request: Request) -> Response {
        let now = (self.clock)();
        let work = Box::pin(self.answer_within_budget(request, now));
        self.beside_refresh(work, now).await
    }

    /// Answers a request within [`KEEP_BUDGET`]. The message to the work queue has a separate
    /// budget: if an event became durable at the last moment, the catcher acknowledges it whether
    /// or not the message was sent. The catcher stores a rejected request in the rest of the first
    /// budget; the response does not depend on it.
    async fn answer_within_budget(&self, request: Request, now: UnixMillis) -> Response {
        let began = Instant::now();
        let by = Deadlines {
            ledger: began + LEDGER_BUDGET,
            all: began + KEEP_BUDGET - MARGIN,
        };
        let config = match self.config_for(&request, now).await {
            Ok(config) => config,
            Err(response) => return response,
        };
        if let Some(source) = source_of(&config, &request)
            && let Some(trial) = &source.trial
        {
            return Box::pin(self.answer_in_trial(source, trial, request, now, began)).await;
        }
        let receiving = Box::pin(self.receive(&config, request, now, by));
        let Ok(answer) = timeout_at(began + KEEP_BUDGET, receiving).await else {
            return self.timed_out(now);
        };
        match &answer.then {
            Followup::Nothing => {}
            Followup::Send { messages, missing } => {
                let inbox = &self.services.inbox;
                inbox.announce(QueueName::Main, messages.iter()).await;
                self.store_missing(missing, now, began + KEEP_BUDGET).await;
            }
            Followup::StoreRejected(rejected) => {
                let left = KEEP_BUDGET.saturating_sub(began.elapsed());
                self.store_rejected(rejected, now, left).await;
            }
        }
        answer.response
    }

    /// Reads the bytes. The fastest checks come first.
    async fn receive<'c>(
        &'c self,
        config: &'c Config,
        request: Request,
        now: UnixMillis,
        by: Deadlines,
    ) -> Answer<'c> {
        let Some(source) = source_of(config, &request) else {
            return replies::unknown_source().into();
        };
        if !matches!(request.method(), "POST" | "GET" | "HEAD") {
            return replies::method_not_allowed().into();
        }
        // `body_len` can be two bytes too large. The envelope has the exact length.
        if request.body_len() > source.max_body + 2 {
            return self.too_large(source, now).into();
        }
        let network = request.network();
        let Ok(envelope) = request.into_envelope(now) else {
            return replies::bad_base64().into();
        };
        if envelope.body.len() > source.max_body {
            return self.too_large(source, now).into();
        }
        let envelope = source.verifier.at_public_url(envelope);
        if let Some(reply) = source.verifier.answer_open_handshake(&envelope) {
            return self.handshake(source, reply, now).into();
        }
        if envelope.method != "POST" && !source.verifier.is_handshake(&envelope) {
            return replies::method_not_allowed().into();
        }
        match source.verifier.notice(&envelope) {
            Some(Ok(object)) => self.notice(source, &object, network, now).await.into(),
            Some(Err(rejected)) => self.invalid_notice(source, rejected, now).into(),
            None => self.accept_or_reject(source, envelope, now, by).await,
        }
    }

    /// Verifies a request, and stores or rejects it.
    async fn accept_or_reject<'c>(
        &'c self,
        source: &'c Source,
        envelope: Envelope,
        now: UnixMillis,
        by: Deadlines,
    ) -> Answer<'c> {
        match self.verify_with_fresh_secrets(source, &envelope, now).await {
            Ok(Ok(Arrival::Event(event))) => self.store_event(source, &event, now, by).await,
            Ok(Ok(Arrival::Handshake(reply))) => {
                self.store_handshake_secret(source, reply, now).await.into()
            }
            Ok(Err(Rejected(reason))) => self.reject(source, envelope, reason, now),
            Err(error) => self.could_not_verify(source, &error, now).into(),
        }
    }

    /// Makes the event durable, or each event of a batch. The response is 2xx only if all of them
    /// are durable.
    async fn store_event(
        &self,
        source: &Source,
        event: &Event,
        now: UnixMillis,
        by: Deadlines,
    ) -> Answer<'_> {
        let durable = match self.store.store(event, now, by).await {
            Ok(durable) => durable,
            Err(error) => return self.could_not_store(source, event, &error, now).into(),
        };
        for one in &durable {
            one.log(source);
        }
        let work_messages = durable.into_iter().filter_map(Durable::into_work_message);
        Answer {
            response: acknowledged(source),
            then: Followup::Send {
                messages: work_messages.collect(),
                missing: self.missing_of(source, event, now),
            },
        }
    }
}

impl From<Response> for Answer<'_> {
    fn from(response: Response) -> Self {
        Self {
            response,
            then: Followup::Nothing,
        }
    }
}
