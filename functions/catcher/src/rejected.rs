//! Answers, logs and stores rejected requests.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::RouteAnswer;
use shared::inbox::rejected::{NewRejection, StoreResult};
use shared::sources::Source;
use shared::webhook::envelope::Envelope;
use shared::webhook::verify::Reason;

use crate::http::Response;
use crate::log_throttle::Kind;
use crate::replies::{self, not_verified, try_again_later};
use crate::{Answer, Catcher, Followup};

/// A rejected request with everything that is stored of it.
pub(crate) struct RejectedRequest<'c> {
    source: &'c Source,
    envelope: Envelope,
    reason: Reason,
    /// How the route of a trial answered the request.
    route: Option<Box<RouteAnswer>>,
}

impl RejectedRequest<'_> {
    pub(crate) fn answered_by_route(self, answer: RouteAnswer) -> Self {
        Self {
            route: Some(Box::new(answer)),
            ..self
        }
    }
}

impl Catcher {
    /// Answers a request that the verification did not accept.
    pub(crate) fn reject<'c>(
        &self,
        source: &'c Source,
        envelope: Envelope,
        reason: Reason,
        now: UnixMillis,
    ) -> Answer<'c> {
        let response = match reason {
            // backup-sync fetches the key. The stored request names it.
            Reason::NotFetched => {
                if let Some(count) = self.throttle.permit(Kind::Waits, &source.name, now) {
                    tracing::warn!(
                        source = source.name,
                        reason = %reason,
                        count,
                        "a request to {} waits for a key that backup-sync must fetch",
                        source.name
                    );
                }
                try_again_later()
            }
            // The configuration is wrong. A response of 401 would make providers disable the
            // endpoint.
            reason if reason.is_undecided() => {
                self.log_undecided(source, reason, now);
                return try_again_later().into();
            }
            reason => {
                if let Some(refused) = self.throttle.permit(Kind::NotVerified, &source.name, now) {
                    tracing::warn!(source = source.name, verification = "refused", reason = %reason, refused, "rejected a request to {}: {reason}", source.name);
                }
                not_verified(source)
            }
        };
        Answer {
            response,
            then: Followup::StoreRejected(RejectedRequest {
                source,
                envelope,
                reason,
                route: None,
            }),
        }
    }

    /// Logs that the source has no secret to verify with.
    fn log_undecided(&self, source: &Source, reason: Reason, now: UnixMillis) {
        if let Some(count) = self.throttle.permit(Kind::Undecided, &source.name, now) {
            // A source that gets its secret from a handshake has no secret yet, and anyone can post
            // to it. So this is not a server error.
            let server_errors = (!source.verifier.is_armed_by_handshake()).then_some(count);
            tracing::error!(
                source = source.name,
                secret = source.secret,
                reason = %reason,
                count,
                server_errors,
                "could not verify a request to {}: {reason}",
                source.name
            );
        }
    }

    pub(crate) fn too_large(&self, source: &Source, now: UnixMillis) -> Response {
        if let Some(count) = self.throttle.permit(Kind::TooLarge, &source.name, now) {
            tracing::warn!(
                source = source.name,
                limit = source.max_body,
                count,
                "rejected a body that is too large for {}",
                source.name
            );
        }
        replies::too_large(source)
    }

    /// Stores a rejected request for some days, in case the configuration is wrong. The response
    /// does not depend on whether it is stored.
    pub(crate) async fn store_rejected(
        &self,
        rejected: &RejectedRequest<'_>,
        now: UnixMillis,
        left: Duration,
    ) {
        let source = rejected.source;
        // The verification has read the secrets, so these come from the cache.
        let Ok(secrets) = self.services.secrets.live(&source.secret, now).await else {
            return;
        };
        let rejection = NewRejection {
            source,
            envelope: &rejected.envelope,
            reason: rejected.reason,
            route: rejected.route.as_deref(),
            secrets: &secrets,
        };
        match self.services.quarantine.store(&rejection, now, left).await {
            Ok(StoreResult::Stored(id)) => {
                tracing::info!(quarantine.id = %id, source = source.name, "stored the rejected request as {id}");
            }
            Ok(StoreResult::QuotaSpent) => {
                if let Some(count) = self.throttle.permit(Kind::Full, &source.name, now) {
                    tracing::warn!(
                        source = source.name,
                        count,
                        "the daily limit of rejected requests of {} is reached",
                        source.name
                    );
                }
            }
            Ok(StoreResult::TooManyDocuments) => {
                if let Some(count) = self.throttle.permit(Kind::Crowded, &source.name, now) {
                    tracing::warn!(
                        source = source.name,
                        count,
                        "did not record the document that a request to {} names, because requests named too many documents in this hour",
                        source.name
                    );
                }
            }
            Ok(StoreResult::TooLarge | StoreResult::OnlyNoted | StoreResult::Skipped) => {}
            Err(error) => {
                if let Some(count) = self.throttle.permit(Kind::NotKept, &source.name, now) {
                    tracing::warn!(
                        source = source.name,
                        count,
                        error = format!("{error:#}"),
                        "could not store a rejected request to {}",
                        source.name
                    );
                }
            }
        }
    }
}
