//! Handshakes: requests by which a provider checks the URL before it sends events.

use shared::base::clock::UnixMillis;
use shared::sources::Source;
use shared::webhook::preset::Reply;

use crate::Catcher;
use crate::http::Response;
use crate::log_throttle::Kind;
use crate::replies::{not_verified, try_again_later};

impl Catcher {
    /// Stores the secret that a handshake sets, and then answers, because the response tells the
    /// provider that the secret is stored. Only the first handshake can set the secret.
    pub(crate) async fn store_handshake_secret(
        &self,
        source: &Source,
        reply: Reply,
        now: UnixMillis,
    ) -> Response {
        if let Some(secret) = &reply.secret {
            match self
                .services
                .secrets
                .set_first(&source.secret, secret)
                .await
            {
                Ok(true) => tracing::warn!(
                    source = source.name,
                    "a handshake has set the secret of {}",
                    source.name
                ),
                Ok(false) => {
                    if let Some(count) = self.throttle.permit(Kind::Armed, &source.name, now) {
                        tracing::warn!(
                            source = source.name,
                            count,
                            "rejected a handshake, because {} already has a secret",
                            source.name
                        );
                    }
                    return not_verified(source);
                }
                Err(error) => {
                    if let Some(count) = self.throttle.permit(Kind::NotArmed, &source.name, now) {
                        tracing::error!(
                            source = source.name,
                            count,
                            error = format!("{error:#}"),
                            "could not store the secret that a handshake of {} sets; check that the stack \
                             parameter AllowArming permits this write",
                            source.name
                        );
                    }
                    return try_again_later();
                }
            }
        }
        self.handshake(source, reply, now)
    }

    /// Answers a handshake.
    pub(crate) fn handshake(&self, source: &Source, reply: Reply, now: UnixMillis) -> Response {
        if let Some(count) = self.throttle.permit(Kind::Handshake, &source.name, now) {
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
}
