//! The catcher: proves a webhook, keeps it, answers.
//!
//! An answer is 2xx if and only if the event is durable: in the ledger, or in the spill queue that
//! is drained into it. Every failure has a status and none is
//! an error of the function: a sender that waits is answered within the budget, whatever the
//! stores do.

mod breaker;
mod event_store;
mod http;
mod log_throttle;

use std::time::Duration;

use shared::aws::secrets::Live;
use shared::base::clock::{Clock, UnixMillis};
use shared::base::timing::{KEEP_BUDGET, LEDGER_BUDGET};
use shared::inbox::fetch_back::{Network, Noticed};
use shared::inbox::ledger::{Received, TooManyConflicts};
use shared::inbox::queue::{QueueName, WorkMessage};
use shared::inbox::rejected::{NewRejection, StoreResult};
use shared::services::Services;
use shared::sources::Source;
use shared::webhook::envelope::Envelope;
use shared::webhook::event::Event;
use shared::webhook::preset::Reply;
use shared::webhook::verify::{Arrival, Reason, Rejected};
use tokio::time::Instant;

use event_store::{Deadlines, Durable, EventStore};
use log_throttle::{Kind, LogThrottle};

pub use http::{BadBase64, Request, Response};

/// The stores give up this long before the whole answer does, so that it says why.
const MARGIN: Duration = Duration::from_millis(50);

/// Everything that an answer needs, made once per process.
pub struct Catcher {
    parts: Services,
    keeper: EventStore,
    refusals: LogThrottle,
    clock: Clock,
}

impl Catcher {
    pub fn new(parts: Services, clock: Clock) -> Self {
        let keeper = EventStore::new(parts.inbox.clone(), parts.spill.clone());
        Self {
            parts,
            keeper,
            refusals: LogThrottle::default(),
            clock,
        }
    }

    /// Answers a request in time. The message has a share of its own: an event
    /// that became durable at the last moment is acknowledged, heard or not. What is refused is
    /// kept in what is left of the first share, and stays refused, kept or not.
    pub async fn answer(&self, request: Request) -> Response {
        let now = (self.clock)();
        let began = Instant::now();
        let by = Deadlines {
            ledger: began + LEDGER_BUDGET,
            all: began + KEEP_BUDGET - MARGIN,
        };
        let receiving = Box::pin(self.receive(request, now, by));
        let Ok(answer) = tokio::time::timeout(KEEP_BUDGET, receiving).await else {
            if let Some(count) = self.refusals.permit(Kind::Failed, "", now) {
                tracing::error!(server_errors = count, "the stores took too long");
            }
            return try_again_later();
        };
        match &answer.then {
            Followup::Nothing => {}
            Followup::Send(work_messages) => {
                self.parts
                    .inbox
                    .announce(QueueName::Main, work_messages.iter())
                    .await;
            }
            Followup::StoreRejected(refused) => {
                let left = KEEP_BUDGET.saturating_sub(began.elapsed());
                self.put_aside(refused, now, left).await;
            }
        }
        answer.response
    }

    /// The cheapest refusals come first.
    async fn receive(&self, request: Request, now: UnixMillis, by: Deadlines) -> Answer<'_> {
        let Some(source) = request
            .source()
            .and_then(|name| self.parts.config.source(name))
        else {
            let body = r#"{"error":"there is no such source"}"#;
            return Response::new(404, "application/json", body).into();
        };
        if !matches!(request.method(), "POST" | "GET" | "HEAD") {
            return method_not_allowed().into();
        }
        // The estimate is up to two bytes high; the envelope knows.
        if request.body_len() > source.max_body + 2 {
            return self.too_large(source, now).into();
        }
        let network = request.network();
        let Ok(envelope) = request.into_envelope(now) else {
            return Response::new(
                400,
                "application/json",
                r#"{"error":"the body is not base64, as the gateway says it is"}"#,
            )
            .into();
        };
        if envelope.body.len() > source.max_body {
            return self.too_large(source, now).into();
        }
        let envelope = source.verifier.at_public_url(envelope);
        if let Some(reply) = source.verifier.answer_open_handshake(&envelope) {
            return self.handshake(source, reply, now).into();
        }
        if envelope.method != "POST" && !source.verifier.is_handshake(&envelope) {
            return method_not_allowed().into();
        }
        if let Some(notice) = source.verifier.notice(&envelope) {
            return match notice {
                Ok(object) => self.notice(source, &object, network, now).await.into(),
                Err(rejected) => self.not_a_notice(source, rejected, now).into(),
            };
        }
        match self.verify_with_fresh_secrets(source, &envelope, now).await {
            Ok(Ok(Arrival::Event(event))) => self.keep(source, &event, now, by).await,
            Ok(Ok(Arrival::Handshake(reply))) => {
                self.store_handshake_secret(source, reply, now).await.into()
            }
            // It waits for a document that backup-sync fetches: what is put aside says which one.
            Ok(Err(Rejected(reason @ Reason::NotFetched))) => {
                if let Some(count) = self.refusals.permit(Kind::Waits, &source.name, now) {
                    tracing::warn!(
                        source = source.name,
                        reason = %reason,
                        count,
                        "a request to {} waits for a key that has to be fetched",
                        source.name
                    );
                }
                Answer {
                    response: try_again_later(),
                    then: Followup::StoreRejected(RejectedRequest {
                        source,
                        envelope,
                        reason,
                    }),
                }
            }
            // Our own fault. A 401 would make providers switch the endpoint off.
            Ok(Err(Rejected(reason))) if reason.is_undecided() => {
                self.say_undecided(source, reason, now);
                try_again_later().into()
            }
            Ok(Err(Rejected(reason))) => {
                if let Some(refused) = self.refusals.permit(Kind::NotVerified, &source.name, now) {
                    tracing::warn!(source = source.name, verification = "refused", reason = %reason, refused, "refused a request to {}: {reason}", source.name);
                }
                Answer {
                    response: not_verified(source),
                    then: Followup::StoreRejected(RejectedRequest {
                        source,
                        envelope,
                        reason,
                    }),
                }
            }
            Err(error) => {
                if let Some(count) = self.refusals.permit(Kind::Failed, &source.name, now) {
                    tracing::error!(
                        source = source.name,
                        server_errors = count,
                        error = format!("{error:#}"),
                        "could not decide about a request to {}",
                        source.name
                    );
                }
                try_again_later().into()
            }
        }
    }

    /// Logs that there is no secret to decide with.
    fn say_undecided(&self, source: &Source, reason: Reason, now: UnixMillis) {
        if let Some(count) = self.refusals.permit(Kind::Undecided, &source.name, now) {
            // A source that a handshake is to arm has no secret yet, and anyone may post to it: that
            // is no error of ours.
            let server_errors = (!source.verifier.is_armed_by_handshake()).then_some(count);
            tracing::error!(
                source = source.name,
                secret = source.secret,
                reason = %reason,
                count,
                server_errors,
                "could not decide about a request to {}: {reason}",
                source.name
            );
        }
    }

    /// Verifies; on a failed match once more with the secrets as they are now.
    async fn verify_with_fresh_secrets(
        &self,
        source: &Source,
        envelope: &Envelope,
        now: UnixMillis,
    ) -> anyhow::Result<Result<Arrival, Rejected>> {
        let live = self.parts.secrets.live(&source.secret, now).await?;
        if let Err(error) = self.parts.keyring.load_keys(&source.verifier, now).await {
            tracing::warn!(
                source = source.name,
                error = format!("{error:#}"),
                "using the keys read before"
            );
        }
        let first = source.verifier.verify(envelope, &live);
        if matches!(first, Err(Rejected(Reason::NotFetched)))
            && self
                .parts
                .keyring
                .reload_keys(&source.verifier, now)
                .await?
        {
            return Ok(source.verifier.verify(envelope, &live));
        }
        if !matches!(first, Err(Rejected(reason)) if reason.depends_on_secrets()) {
            return Ok(first);
        }
        let again = self.parts.secrets.live_again(&source.secret, now).await?;
        if labels(&again) == labels(&live) {
            return Ok(first);
        }
        Ok(source.verifier.verify(envelope, &again))
    }

    /// A notice that proves nothing. It is acknowledged once its object is known to be real and will
    /// be fetched again; before that the sender has to come again.
    async fn notice(
        &self,
        source: &Source,
        object: &str,
        from: Network,
        now: UnixMillis,
    ) -> Response {
        let name = &source.name;
        let noticed = self.parts.fetch_back.notice(name, object, from, now).await;
        match noticed {
            Ok(Noticed::Kept) => {
                tracing::info!(source = name, object, "{object} is fetched again");
                let ack = &source.verifier.preset.ack;
                return Response::new(ack.ok, &ack.content_type, ack.body.as_str());
            }
            Ok(noticed @ (Noticed::Waits | Noticed::Full)) => {
                if let Some(count) = self.refusals.permit(Kind::Waits, name, now) {
                    let full = noticed == Noticed::Full;
                    tracing::warn!(
                        source = name,
                        full,
                        count,
                        "a notice to {name} names an object that has to be fetched first"
                    );
                }
            }
            Err(error) => {
                if let Some(count) = self.refusals.permit(Kind::Undecided, name, now) {
                    tracing::error!(
                        source = name,
                        count,
                        error = format!("{error:#}"),
                        "could not store what a notice to {name} names"
                    );
                }
            }
        }
        try_again_later()
    }

    /// It names nothing that could be fetched, so there is nothing to keep of it.
    fn not_a_notice(&self, source: &Source, rejected: Rejected, now: UnixMillis) -> Response {
        if let Some(refused) = self.refusals.permit(Kind::NotVerified, &source.name, now) {
            let reason = rejected.0;
            tracing::warn!(source = source.name, verification = "refused", reason = %reason, refused, "refused a request to {}: {reason}", source.name);
        }
        not_verified(source)
    }

    async fn keep(
        &self,
        source: &Source,
        event: &Event,
        now: UnixMillis,
        by: Deadlines,
    ) -> Answer<'_> {
        let durable = match self.keeper.store(event, now, by).await {
            Ok(durable) => durable,
            // Senders can cause it, and it is not acknowledged: they are asked to try again.
            Err(error) if error.is::<TooManyConflicts>() => {
                if let Some(count) = self.refusals.permit(Kind::Crowded, &source.name, now) {
                    tracing::warn!(
                        source = source.name,
                        error = format!("{error:#}"),
                        count,
                        "did not quarantine an event of {}: {error:#}",
                        source.name
                    );
                }
                return try_again_later().into();
            }
            Err(error) => {
                tracing::error!(event.id = %event.id(), source = source.name, server_errors = 1, error = format!("{error:#}"), "could not keep event {}", event.id());
                return try_again_later().into();
            }
        };
        for one in &durable {
            log(source, one);
        }
        let ack = &source.verifier.preset.ack;
        // What is in the spill queue is rung for when it is drained.
        let work_messages = durable.into_iter().filter_map(|one| match one {
            Durable::Stored(kept) => kept.work_message,
            Durable::Spilled(_) => None,
        });
        Answer {
            response: Response::new(ack.ok, &ack.content_type, ack.body.as_str()),
            then: Followup::Send(work_messages.collect()),
        }
    }

    /// Answers a handshake. To answer one that sets a secret is to say that we have it, so it is
    /// stored first; one that comes second is a stranger's.
    async fn store_handshake_secret(
        &self,
        source: &Source,
        reply: Reply,
        now: UnixMillis,
    ) -> Response {
        if let Some(secret) = &reply.secret {
            match self.parts.secrets.set_first(&source.secret, secret).await {
                Ok(true) => tracing::warn!(
                    source = source.name,
                    "a handshake has set the secret of {}",
                    source.name
                ),
                Ok(false) => {
                    if let Some(count) = self.refusals.permit(Kind::Armed, &source.name, now) {
                        tracing::warn!(
                            source = source.name,
                            count,
                            "refused a handshake: {} has its secret",
                            source.name
                        );
                    }
                    return not_verified(source);
                }
                Err(error) => {
                    if let Some(count) = self.refusals.permit(Kind::NotArmed, &source.name, now) {
                        tracing::error!(
                            source = source.name,
                            count,
                            error = format!("{error:#}"),
                            "could not store the secret that a handshake of {} sets; the parameter \
                             AllowArming of the stack permits it",
                            source.name
                        );
                    }
                    return try_again_later();
                }
            }
        }
        self.handshake(source, reply, now)
    }

    fn handshake(&self, source: &Source, reply: Reply, now: UnixMillis) -> Response {
        if let Some(count) = self.refusals.permit(Kind::Handshake, &source.name, now) {
            tracing::info!(
                source = source.name,
                status = reply.status,
                count,
                "answered a handshake of {}",
                source.name
            );
        }
        let response = Response::new(reply.status, &reply.content_type, reply.body);
        let headers = reply.headers.iter();
        headers.fold(response, |response, (name, value)| {
            response.with(name, value)
        })
    }

    fn too_large(&self, source: &Source, now: UnixMillis) -> Response {
        if let Some(count) = self.refusals.permit(Kind::TooLarge, &source.name, now) {
            tracing::warn!(
                source = source.name,
                limit = source.max_body,
                count,
                "refused a body that is too large for {}",
                source.name
            );
        }
        let body = format!(
            r#"{{"error":"the body is larger than {} bytes"}}"#,
            source.max_body
        );
        Response::new(413, "application/json", body)
    }

    /// Keeps what was refused, in case that the fault is ours. Nothing depends on it.
    async fn put_aside(&self, aside: &RejectedRequest<'_>, now: UnixMillis, left: Duration) {
        let source = aside.source;
        // They were read for the verdict, so nobody is asked.
        let Ok(secrets) = self.parts.secrets.live(&source.secret, now).await else {
            return;
        };
        let refused = NewRejection {
            source,
            envelope: &aside.envelope,
            reason: aside.reason,
            secrets: &secrets,
        };
        match self.parts.quarantine.store(&refused, now, left).await {
            Ok(StoreResult::Stored(id)) => {
                tracing::info!(quarantine.id = %id, source = source.name, "kept the refused request as {id}");
            }
            Ok(StoreResult::QuotaSpent) => {
                if let Some(count) = self.refusals.permit(Kind::Full, &source.name, now) {
                    tracing::warn!(
                        source = source.name,
                        count,
                        "the quarantine of {} is full for today",
                        source.name
                    );
                }
            }
            Ok(StoreResult::TooManyDocuments) => {
                if let Some(count) = self.refusals.permit(Kind::Crowded, &source.name, now) {
                    tracing::warn!(
                        source = source.name,
                        count,
                        "a request to {} names a document that is not noted: too many were named in \
                         this hour",
                        source.name
                    );
                }
            }
            Ok(StoreResult::TooLarge | StoreResult::OnlyNoted | StoreResult::Skipped) => {}
            Err(error) => {
                if let Some(count) = self.refusals.permit(Kind::NotKept, &source.name, now) {
                    tracing::warn!(
                        source = source.name,
                        count,
                        error = format!("{error:#}"),
                        "could not keep a refused request to {}",
                        source.name
                    );
                }
            }
        }
    }
}

/// What the sender is told, and what we do before.
struct Answer<'c> {
    response: Response,
    then: Followup<'c>,
}

enum Followup<'c> {
    Nothing,
    /// What came is durable, and somebody has to be told.
    Send(Vec<WorkMessage>),
    StoreRejected(RejectedRequest<'c>),
}

/// A request that was refused, whole.
struct RejectedRequest<'c> {
    source: &'c Source,
    envelope: Envelope,
    reason: Reason,
}

impl From<Response> for Answer<'_> {
    fn from(response: Response) -> Self {
        Self {
            response,
            then: Followup::Nothing,
        }
    }
}

fn log(source: &Source, durable: &Durable) {
    let (id, key, kind, secret, word) = match durable {
        Durable::Stored(kept) => {
            let word = match &kept.received {
                Received::New => "new",
                Received::Open { .. } | Received::Settled => "duplicate",
                Received::Conflict(_) => "kept_apart",
                // A stranger can send a captured request any number of times: that is no alarm.
                Received::Repeated(_) => "repeated_conflict",
            };
            let secret = kept.secret.as_deref();
            (kept.id.clone(), &kept.key, kept.kind.as_str(), secret, word)
        }
        Durable::Spilled(event) => {
            let secret = event.secret();
            (event.id(), event.key(), event.kind(), secret, "spilled")
        }
    };
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                event.id = %id,
                event.key = %key,
                source = source.name,
                kind,
                verification = "ok",
                secret = secret.unwrap_or_default(),
                received = word,
                "kept as {word}",
            )
        };
    }
    // A metric is made of these, which must not depend on the level of the log.
    if word == "kept_apart" {
        line!(warn);
    } else {
        line!(info);
    }
}

fn labels(live: &Live) -> Vec<&str> {
    live.iter()
        .map(shared::aws::secrets::Secret::label)
        .collect()
}

/// One answer for every cause. A few providers want another status than 401.
fn not_verified(source: &Source) -> Response {
    let status = source.verifier.preset.ack.bad_signature;
    Response::new(status, "application/json", r#"{"error":"not verified"}"#)
}

fn method_not_allowed() -> Response {
    Response::new(
        405,
        "application/json",
        r#"{"error":"webhooks are posted"}"#,
    )
    .with("allow", "POST")
}

/// Nothing was decided and nothing is promised: the sender should try again.
fn try_again_later() -> Response {
    Response::new(503, "application/json", r#"{"error":"try again"}"#).with("retry-after", "30")
}
