//! Answers the requests of a source that has a trial.
//!
//! The previous route answers the provider. The catcher sends it each request, also one that the
//! verification rejects, and records the event beside it. No fault of the verification or of the
//! stores changes the answer of the route.

mod forwarded;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use shared::aws::{RouteClient, RouteFailure, RouteReply};
use shared::base::clock::UnixMillis;
use shared::base::timing::{KEEP_BUDGET, LEDGER_BUDGET};
use shared::inbox::fetch_back::Network;
use shared::inbox::ledger::{Received, RouteAnswer, RouteOutcome, TrialRecord};
use shared::sources::{Source, Trial};
use shared::webhook::event::{Event, EventKey};
use shared::webhook::preset::Reply;
use shared::webhook::verify::{Arrival, Reason, Rejected};
use tokio::time::{Instant, timeout, timeout_at};

use crate::durable::Durable;
use crate::event_store::Deadlines;
use crate::http::{Request, Response};
use crate::log_throttle::Kind;
use crate::{Catcher, Followup, MARGIN, replies};
use forwarded::Forwarded;

/// How long the request waits for the verification. It usually takes less than a millisecond; the
/// first request of a process reads the secrets. After this time, the route gets the request
/// unverified.
const VERIFY: Duration = Duration::from_millis(1_000);

/// How long the response waits for the record of the route's answer.
const RECORD: Duration = Duration::from_millis(700);

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
    Handshake(Reply),
    /// The request only names an object, which backup-sync fetches.
    Notice(String),
    Rejected(Reason),
    /// The request cannot be an event, for this reason.
    Unverified(&'static str),
    /// Whether the request is genuine is unknown, for this reason.
    Undecided(&'static str),
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
    /// Sends the request to the route, records its event, and returns the answer of the route.
    pub(crate) async fn answer_in_trial(
        &self,
        source: &Source,
        trial: &Trial,
        request: Request,
        now: UnixMillis,
    ) -> Response {
        let began = Instant::now();
        let network = request.network();
        let Ok(forwarded) = Forwarded::new(source, request, now) else {
            return replies::bad_base64();
        };
        let verifying = Box::pin(self.verified(source, &forwarded, now));
        let verified = timeout_at(began + VERIFY, verifying).await;
        let verified = verified.unwrap_or(Verified::Undecided("no_time"));
        let (asked, recorded) = tokio::join!(
            Box::pin(self.ask_route(source, trial, &forwarded, &verified, began)),
            Box::pin(self.record_event(source, &verified, network, now, began)),
        );
        let (outcome, is_event) = (asked.outcome(), verified.event().is_some());
        let recording = Box::pin(self.record_outcome(source, &asked, outcome, &recorded));
        if timeout(RECORD, recording).await.is_err() {
            self.not_recorded(source, "DynamoDB did not answer in time");
        }
        Box::pin(self.follow_up(source, forwarded, verified, outcome, now)).await;
        let hop = began.elapsed().saturating_sub(asked.took);
        let hop_ms = u64::try_from(hop.as_millis()).unwrap_or(NONE);
        self.trial.hop_ms.store(hop_ms, Ordering::Relaxed);
        self.log_answer(source, &asked, outcome, hop_ms, is_event);
        asked.into_response()
    }

    /// Verifies the request. A failure only means that its event is not recorded.
    async fn verified(&self, source: &Source, forwarded: &Forwarded, now: UnixMillis) -> Verified {
        let envelope = &forwarded.verified;
        let verifier = &source.verifier;
        if envelope.body.len() > source.max_body {
            return Verified::Unverified("too_large");
        }
        if let Some(reply) = verifier.answer_open_handshake(envelope) {
            return Verified::Handshake(reply);
        }
        if envelope.method != "POST" && !verifier.is_handshake(envelope) {
            return Verified::Unverified("method");
        }
        match verifier.notice(envelope) {
            Some(Ok(object)) => return Verified::Notice(object),
            Some(Err(Rejected(reason))) => return Verified::Rejected(reason),
            None => {}
        }
        match self.verify_with_fresh_secrets(source, envelope, now).await {
            Ok(Ok(Arrival::Event(event))) => Verified::Event(event),
            Ok(Ok(Arrival::Handshake(reply))) => Verified::Handshake(reply),
            Ok(Err(Rejected(reason))) => Verified::Rejected(reason),
            Err(error) => {
                self.could_not_verify(source, &error, now);
                Verified::Undecided("failed")
            }
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
        let event = verified.event();
        let reserved = self.services.answer_timeout.saturating_sub(RESERVED);
        let limit = trial.timeout.min(reserved);
        let asking = async {
            // The route would reject the original signature with a status after which the provider
            // may not try again.
            if trial.signing.is_some() && verified.is_undecided() {
                let error = "the request could not be verified, so it cannot be signed";
                return Err(RouteFailure::Unreachable(error.to_owned()));
            }
            let request = self.route_request(source, trial, forwarded, event).await;
            let request =
                request.map_err(|error| RouteFailure::Unreachable(format!("{error:#}")))?;
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
        verified: &Verified,
        network: Network,
        now: UnixMillis,
        began: Instant,
    ) -> Recorded {
        let by = Deadlines {
            ledger: began + LEDGER_BUDGET,
            all: began + KEEP_BUDGET - MARGIN,
        };
        let mut rows = Vec::new();
        match verified {
            Verified::Event(event) => match self.store.store(event, now, by).await {
                Ok(durable) => {
                    rows.extend(durable.iter().filter_map(row_of_trial));
                    for one in durable {
                        one.log(source);
                    }
                }
                Err(error) => self.not_recorded(source, &format!("{error:#}")),
            },
            Verified::Notice(object) => {
                self.notice(source, object, network, now).await;
            }
            Verified::Handshake(_)
            | Verified::Rejected(_)
            | Verified::Unverified(_)
            | Verified::Undecided(_) => {}
        }
        Recorded {
            rows,
            own: began.elapsed(),
        }
    }

    /// Adds the answer of the route to the rows of the events.
    async fn record_outcome(
        &self,
        source: &Source,
        asked: &Asked,
        outcome: RouteOutcome,
        recorded: &Recorded,
    ) {
        let body = asked.reply.as_ref().ok().map(|reply| reply.body.as_ref());
        let at = (self.clock)();
        let hop_ms = self.trial.hop_ms.load(Ordering::Relaxed);
        let record = async |(key, verdict): &(EventKey, &'static str)| {
            let mut answer =
                RouteAnswer::new(at, outcome, asked.took, body, verdict).with_own(recorded.own);
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
        outcome: RouteOutcome,
        now: UnixMillis,
    ) {
        match verified {
            Verified::Rejected(reason) => {
                let answer = self.reject(source, forwarded.verified, reason, now);
                if let Followup::StoreRejected(rejected) = answer.then {
                    let rejected = rejected.answered_by_route(outcome);
                    self.store_rejected(&rejected, now, RECORD).await;
                }
            }
            Verified::Handshake(reply) if outcome.is_accepted() && reply.secret.is_some() => {
                let storing = self.store_handshake_secret(source, reply, now);
                if timeout(RECORD, storing).await.is_err() {
                    self.not_recorded(source, "the secret of a handshake could not be stored");
                }
            }
            Verified::Unverified(reason) | Verified::Undecided(reason) => {
                if let Some(count) = self.throttle.permit(Kind::Undecided, &source.name, now) {
                    tracing::warn!(
                        source = source.name,
                        reason,
                        not_recorded = count,
                        "a request to {} is not recorded: {reason}",
                        source.name
                    );
                }
            }
            Verified::Event(_) | Verified::Handshake(_) | Verified::Notice(_) => {}
        }
    }

    /// Logs how the route answered. Anyone can send requests that are no events, so the log has only
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
        | Received::Open { .. }
        | Received::Settled
        | Received::Conflict(_)
        | Received::Repeated(_) => return None,
    };
    Some((stored.key.clone(), verdict))
}

impl Verified {
    fn event(&self) -> Option<&Event> {
        match self {
            Self::Event(event) => Some(event),
            Self::Handshake(_)
            | Self::Notice(_)
            | Self::Rejected(_)
            | Self::Unverified(_)
            | Self::Undecided(_) => None,
        }
    }

    /// Returns whether a later try may find that the request is genuine.
    fn is_undecided(&self) -> bool {
        match self {
            Self::Undecided(_) => true,
            Self::Rejected(reason) => reason.is_undecided() || *reason == Reason::NotFetched,
            Self::Event(_) | Self::Handshake(_) | Self::Notice(_) | Self::Unverified(_) => false,
        }
    }
}

impl Asked {
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
