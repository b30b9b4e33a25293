//! Logs requests that fail, and answers them with 503, so that the sender tries again.

use anyhow::Error;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::TooManyConflicts;
use shared::sources::Source;
use shared::webhook::event::Event;

use crate::Catcher;
use crate::http::Response;
use crate::log_throttle::Kind;
use crate::replies::try_again_later;

impl Catcher {
    /// Answers a request that could not be verified.
    pub(crate) fn could_not_verify(
        &self,
        source: &Source,
        error: &Error,
        now: UnixMillis,
    ) -> Response {
        if let Some(count) = self.throttle.permit(Kind::Failed, &source.name, now) {
            tracing::error!(
                source = source.name,
                server_errors = count,
                error = format!("{error:#}"),
                "could not verify a request to {}",
                source.name
            );
        }
        try_again_later()
    }

    /// Answers a request whose event may not be durable.
    pub(crate) fn could_not_store(
        &self,
        source: &Source,
        event: &Event,
        error: &Error,
        now: UnixMillis,
    ) -> Response {
        // A sender can cause this error, so it is not a server error.
        if error.is::<TooManyConflicts>() {
            if let Some(count) = self.throttle.permit(Kind::Crowded, &source.name, now) {
                tracing::warn!(
                    source = source.name,
                    error = format!("{error:#}"),
                    count,
                    "could not quarantine an event of {}: {error:#}",
                    source.name
                );
            }
        } else {
            tracing::error!(event.id = %event.id(), source = source.name, server_errors = 1, error = format!("{error:#}"), "could not store event {}", event.id());
        }
        try_again_later()
    }

    /// Answers a request for which the stores took too long.
    pub(crate) fn timed_out(&self, now: UnixMillis) -> Response {
        if let Some(count) = self.throttle.permit(Kind::Failed, "", now) {
            tracing::error!(server_errors = count, "the stores did not answer in time");
        }
        try_again_later()
    }
}
