//! Answers the requests of a source that has a trial.
//!
//! The previous route answers the provider. The catcher sends it each request, also one that the
//! verification rejects, and records the event beside it. No fault of the verification or of the
//! stores changes the answer of the route.
//!
//! After the answer of the route, nothing takes longer than the provider waits.

mod forwarded;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use shared::aws::{RouteClient, RouteFailure, RouteReply};
use shared::base::clock::UnixMillis;
use shared::base::timing::{KEEP_BUDGET, LEDGER_BUDGET};
use shared::inbox::ledger::{Received, RouteAnswer, RouteOutcome, TrialRecord};
use shared::sources::{Source, Trial};
use shared::webhook::event::{Event, EventKey};
use shared::webhook::preset::Reply;
use shared::webhook::verify::{Arrival, Reason, Rejected};
use tokio::time::{Instant, timeout_at};

use crate::durable::Durable;
use crate::event_store::Deadlines;
use crate::http::{Request, Response};
use crate::log_throttle::Kind;
use crate::{Catcher, Followup, MARGIN, replies};
use forwarded::Forwarded;

/// How long the request waits for the verification, at most a third of the provider's limit. It
/// usually takes less than a millisecond; the first request of a process reads the secrets. After
/// this time, the route gets the request unverified.
const VERIFY: Duration = Duration::from_millis(1_000);

/// How long the response waits for the record of the route's answer, if the provider's limit allows
/// it.
const RECORD: Duration = Duration::from_millis(700);

/// How long the response waits for this record even at the provider's limit.
const RECORD_AT_LEAST: Duration = Duration::from_millis(100);

/// The part of the function's time limit that is not for the route.
const RESERVED: Duration = Duration::from_secs(3);

/// The number of rows of a batch that are written in parallel.
const AT_ONCE: usize = 16;

/// The value of [`TrialState::hop_ms`] before the first answer.
const NONE: u64 = u64::MAX;

/// What the requests of a process share.
#[derive(Debug)]
pub(crate) struct TrialState {
    route: OnceLock<RouteClient>,
    /// The time that the catcher added to the previous request, in milliseconds. The time of a
    /// request is known only after its answer is recorded, so the next answer contains it.
    hop_ms: AtomicU64,
}

/// What the verification found.
enum Verified {
    Event(Box<Event>),
    /// The request is genuine, but Mitt refuses such requests, for this reason.
    Refused(Box<Event>, &'static str),
    Handshake(Reply),
    Rejected(Reason),
    /// Mitt refuses such requests without a verification, for this reason.
    Unverified(&'static str),
    /// Whether the request is genuine is unknown, for this reason.
    Undecided(String),
}

/// How the route answered, and how long it took.
struct Asked {
    reply: Result<RouteReply, RouteFailure>,
    took: Duration,
}

/// The events of a request that the inbox has, and the time that the catcher needed for them.
struct Recorded {
    /// The keys whose rows get the answer of the route, and what Mitt would have done.
    rows: Vec<(EventKey, &'static str)>,
    own: Duration,
}

impl Default for TrialState {
    fn default() -> Self {
        Self {
            route: OnceLock::new(),
            hop_ms: AtomicU64::new(NONE),
        }
    }
}

impl Catcher {
    /// Sends the request to the route, records its event, and returns the answer of the route. The
    /// request arrived at `began`.
    pub(crate) async fn answer_in_trial(
        &self,
        source: &Source,
        trial: &Trial,
        request: Request,
        now: UnixMillis,
        began: Instant,
    ) -> Response {
        let Ok(forwarded) = Forwarded::new(source, request, now) else {
            return replies::bad_base64();
        };
        let verifying = Box::pin(self.verified(source, trial, &forwarded, now));
        let verified = timeout_at(began + VERIFY.min(trial.limit / 3), verifying).await;
        let verified =
            verified.unwrap_or_else(|_| Verified::Undecided("no answer in time".to_owned()));
        let (asked, recorded) = tokio::join!(
            Box::pin(self.ask_route(source, trial, &forwarded, &verified, began)),
            Box::pin(self.record_event(source, trial, &verified, now, began)),
        );
        let (outcome, is_event) = (asked.outcome(), verified.event().is_some());
        let answered = Instant::now();
        let until = (answered + RECORD).min(began + trial.limit);
        let until = until.max(answered + RECORD_AT_LEAST);
        let recording = Box::pin(self.record_outcome(source, &asked, &recorded));
        if timeout_at(until, recording).await.is_err() {
            self.not_recorded(source, "DynamoDB did not answer in time");
        }
        Box::pin(self.follow_up(source, forwarded, verified, &asked, now, until)).await;
        let hop = began.elapsed().saturating_sub(asked.took);
        let hop_ms = u64::try_from(hop.as_millis()).unwrap_or(NONE);
        self.trial.hop_ms.store(hop_ms, Ordering::Relaxed);
        self.log_answer(source, &asked, outcome, hop_ms, is_event);
        asked.into_response()
    }

    /// Verifies the request. A failure only means that its event is not recorded, unless the route
    /// needs a new signature, which only a genuine request gets.
    async fn verified(
        &self,
        source: &Source,
        trial: &Trial,
        forwarded: &Forwarded,
        now: UnixMillis,
    ) -> Verified {
        let envelope = &forwarded.verified;
        let verifier = &source.verifier;
        let is_too_large = envelope.body.len() > source.max_body;
        if !is_too_large && let Some(reply) = verifier.answer_open_handshake(envelope) {
            return Verified::Handshake(reply);
        }
        let refused = if is_too_large {
            Some("too_large")
        } else if envelope.method != "POST" && !verifier.is_handshake(envelope) {
            Some("method")
        } else {
            None
        };
        if let Some(reason) = refused
            && trial.signing.is_none()
        {
            return Verified::Unverified(reason);
        }
        let verified = self.verify_with_fresh_secrets(source, envelope, now).await;
        match (verified, refused) {
            (Ok(Ok(Arrival::Event(event))), None) => {
                Verified::Event(Box::new(event.delivered_by_route()))
            }
            (Ok(Ok(Arrival::Event(event))), Some(reason)) => Verified::Refused(event, reason),
            (Ok(Ok(Arrival::Handshake(reply))), _) => Verified::Handshake(reply),
            (Ok(Err(Rejected(reason))), _) if reason.is_undecided() => {
                Verified::Undecided(reason.to_string())
            }
            (Ok(Err(Rejected(reason))), None) => Verified::Rejected(reason),
            (Ok(Err(_)), Some(reason)) => Verified::Unverified(reason),
            (Err(error), _) => Verified::Undecided(format!("{error:#}")),
        }
    }

    /// Sends the request to the route. The time limit begins with the request of the provider.
    async fn ask_route(
        &self,
        source: &Source,
        trial: &Trial,
        forwarded: &Forwarded,
        verified: &Verified,
        began: Instant,
    ) -> Asked {
        let reserved = self.services.answer_timeout.saturating_sub(RESERVED);
        let limit = trial.timeout.min(reserved);
        let asking = async {
            let request = self.route_request(source, trial, forwarded, verified).await;
            let request = match request {
                Ok(request) => request,
                Err(error) => return Err(self.could_not_forward(source, &error)),
            };
            let allow_loopback = || self.services.sources.config().forward.allow_loopback;
            let route = &self.trial.route;
            let route = route.get_or_init(|| RouteClient::new(allow_loopback()));
            route.send(request, limit).await
        };
        let sent = Instant::now();
        let reply = timeout_at(began + limit, asking).await;
        Asked {
            reply: reply.unwrap_or(Err(RouteFailure::Timeout)),
            took: sent.elapsed(),
        }
    }

    /// Stores the events of a verified request. An error only means that they are not recorded.
    async fn record_event(
        &self,
        source: &Source,
        trial: &Trial,
        verified: &Verified,
        now: UnixMillis,
        began: Instant,
    ) -> Recorded {
        let by = Deadlines {
            ledger: began + LEDGER_BUDGET.min(trial.limit / 2),
            all: began + KEEP_BUDGET.min(trial.limit).saturating_sub(MARGIN),
        };
        let mut rows = Vec::new();
        if let Some(event) = verified.event() {
            match self.store.store(event, now, by).await {
                Ok(durable) => {
                    rows.extend(durable.iter().filter_map(row_of_trial));
                    for one in durable {
                        if matches!(one, Durable::Spilled(_)) {
                            let why = "the event is in the spill queue, without the answer";
                            self.not_recorded(source, why);
                        }
                        one.log(source);
                    }
                }
                Err(error) => self.not_recorded(source, &format!("{error:#}")),
            }
        }
        Recorded {
            rows,
            own: began.elapsed(),
        }
    }

    /// Adds the answer of the route to the rows of the events.
    async fn record_outcome(&self, source: &Source, asked: &Asked, recorded: &Recorded) {
        let at = (self.clock)();
        let hop_ms = self.trial.hop_ms.load(Ordering::Relaxed);
        let record = async |(key, verdict): &(EventKey, &'static str)| {
            let mut answer = asked.answer(at, verdict).with_own(recorded.own);
            if hop_ms != NONE {
                answer = answer.with_hop(Duration::from_millis(hop_ms));
            }
            let ledger = &self.services.inbox.ledger;
            match ledger.record_route_answer(key, &answer).await {
                // The row is older than the trial, or was adopted by a newer configuration.
                Ok(true | false) => {}
                Err(error) => self.not_recorded(source, &format!("{error:#}")),
            }
        };
        stream::iter(&recorded.rows)
            .map(|row| Box::pin(record(row)))
            .buffer_unordered(AT_ONCE)
            .collect::<()>()
            .await;
    }

    /// Stores a request that Mitt would have rejected, and the secret of a handshake that the route
    /// accepted.
    async fn follow_up(
        &self,
        source: &Source,
        forwarded: Forwarded,
        verified: Verified,
        asked: &Asked,
        now: UnixMillis,
        until: Instant,
    ) {
        match verified {
            Verified::Rejected(reason) => {
                let answer = self.reject(source, forwarded.verified, reason, now);
                if let Followup::StoreRejected(rejected) = answer.then {
                    let answer = asked.answer((self.clock)(), "rejected");
                    let rejected = rejected.answered_by_route(answer);
                    let left = until.saturating_duration_since(Instant::now());
                    self.store_rejected(&rejected, now, left).await;
                }
            }
            Verified::Handshake(reply)
                if asked.outcome().is_accepted() && reply.secret.is_some() =>
            {
                let storing = self.store_handshake_secret(source, reply, now);
                if timeout_at(until, storing).await.is_err() {
                    self.not_recorded(source, "the secret of a handshake could not be stored");
                }
            }
            Verified::Undecided(reason) => self.not_recorded(source, &reason),
            Verified::Unverified(reason) | Verified::Refused(_, reason) => {
                if let Some(count) = self.throttle.permit(Kind::Refused, &source.name, now) {
                    let accepted = asked.outcome().is_accepted();
                    tracing::warn!(
                        source = source.name,
                        reason,
                        accepted,
                        count,
                        "Mitt would refuse a request to {}: {reason}",
                        source.name
                    );
                }
            }
            Verified::Event(event) => {
                let missing = self.missing_of(source, &event, now);
                self.store_missing(&missing, now, until).await;
            }
            Verified::Handshake(_) => {}
        }
    }

    /// Logs how the route answered. Anyone can send requests that are not events, so the log has only
    /// some of them.
    fn log_answer(
        &self,
        source: &Source,
        asked: &Asked,
        outcome: RouteOutcome,
        hop_ms: u64,
        is_event: bool,
    ) {
        let count = if is_event {
            Some(1)
        } else {
            let now = (self.clock)();
            self.throttle.permit(Kind::Route, &source.name, now)
        };
        let (Some(count), took_ms) = (count, asked.took.as_millis()) else {
            return;
        };
        let name = &source.name;
        match &asked.reply {
            Err(RouteFailure::Unreachable(error)) => {
                tracing::warn!(source = name, route = %outcome, took_ms, hop_ms, count, error, "could not call the route of {name}: {error}");
            }
            Err(RouteFailure::TooLarge) => {
                tracing::warn!(source = name, route = %outcome, took_ms, hop_ms, count, "the answer of the route of {name} is too large for a function");
            }
            Ok(_) | Err(RouteFailure::Timeout) => {
                tracing::info!(source = name, route = %outcome, took_ms, hop_ms, count, "the route of {name} answered {outcome}");
            }
        }
    }

    /// Logs that the route gets no request. It would reject the original signature with a status
    /// after which the provider may not try again.
    fn could_not_forward(&self, source: &Source, error: &anyhow::Error) -> RouteFailure {
        let error = format!("{error:#}");
        let now = (self.clock)();
        if let Some(count) = self.throttle.permit(Kind::Failed, &source.name, now) {
            tracing::error!(
                source = source.name,
                server_errors = count,
                error,
                "could not forward a request to the route of {}: {error}",
                source.name
            );
        }
        RouteFailure::Unreachable(error)
    }

    fn not_recorded(&self, source: &Source, error: &str) {
        if let Some(count) = self
            .throttle
            .permit(Kind::NotRecorded, &source.name, (self.clock)())
        {
            tracing::warn!(
                source = source.name,
                not_recorded = count,
                error,
                "could not record a request of the trial of {}: {error}",
                source.name
            );
        }
    }
}

/// Returns the key of an event whose row belongs to the trial, and what Mitt would have done. A
/// spilled event has no row yet.
fn row_of_trial(durable: &Durable) -> Option<(EventKey, &'static str)> {
    let Durable::Stored(stored) = durable else {
        return None;
    };
    let verdict = match stored.received {
        Received::Recorded(TrialRecord::New) => "new",
        Received::Recorded(TrialRecord::Known) => "duplicate",
        Received::Recorded(TrialRecord::Conflict)
        | Received::New
        | Received::Parked
        | Received::Open { .. }
        | Received::Settled
        | Received::Conflict(_)
        | Received::Repeated(_) => return None,
    };
    Some((stored.key.clone(), verdict))
}

impl Verified {
    /// Returns the event to record.
    fn event(&self) -> Option<&Event> {
        match self {
            Self::Event(event) => Some(event),
            Self::Refused(..)
            | Self::Handshake(_)
            | Self::Rejected(_)
            | Self::Unverified(_)
            | Self::Undecided(_) => None,
        }
    }

    /// Returns the event of a genuine request, also if it is not recorded.
    fn genuine(&self) -> Option<&Event> {
        match self {
            Self::Event(event) | Self::Refused(event, _) => Some(event),
            Self::Handshake(_) | Self::Rejected(_) | Self::Unverified(_) | Self::Undecided(_) => {
                None
            }
        }
    }

    /// Returns why a later try may find that the request is genuine.
    fn undecided(&self) -> Option<&str> {
        match self {
            Self::Undecided(why) => Some(why),
            Self::Rejected(reason) if *reason == Reason::NotFetched => Some(reason.as_str()),
            Self::Event(_)
            | Self::Refused(..)
            | Self::Handshake(_)
            | Self::Rejected(_)
            | Self::Unverified(_) => None,
        }
    }
}

impl Asked {
    /// Returns the answer to record. `verdict` is what Mitt would have done.
    fn answer(&self, at: UnixMillis, verdict: &str) -> RouteAnswer {
        let body = self.reply.as_ref().ok().map(|reply| reply.body.as_ref());
        RouteAnswer::new(at, self.outcome(), self.took, body, verdict)
    }

    fn outcome(&self) -> RouteOutcome {
        match &self.reply {
            Ok(reply) => RouteOutcome::Status(reply.status),
            Err(RouteFailure::Timeout) => RouteOutcome::Timeout,
            Err(RouteFailure::Unreachable(_) | RouteFailure::TooLarge) => RouteOutcome::Unreachable,
        }
    }

    /// Returns the response to the provider. A gateway in front of the route would answer 502 or
    /// 504 without an answer of the route.
    fn into_response(self) -> Response {
        match self.reply {
            Ok(reply) => Response::of_route(reply),
            Err(RouteFailure::Timeout) => Response::empty(504),
            Err(RouteFailure::Unreachable(_) | RouteFailure::TooLarge) => Response::empty(502),
        }
    }
}
