//! Verifies a request with the current secrets and keys.

use shared::aws::secrets::{Live, Secret};
use shared::base::clock::UnixMillis;
use shared::sources::Source;
use shared::webhook::envelope::Envelope;
use shared::webhook::verify::{Arrival, Reason, Rejected};

use crate::Catcher;

impl Catcher {
    /// Verifies a request. If a fetched key is missing, reads the keys again. If no secret matches,
    /// reads the secrets again. Verifies the request a second time if the keys or secrets have
    /// changed.
    pub(crate) async fn verify_with_fresh_secrets(
        &self,
        source: &Source,
        envelope: &Envelope,
        now: UnixMillis,
    ) -> anyhow::Result<Result<Arrival, Rejected>> {
        let live = self.services.secrets.live(&source.secret, now).await?;
        if let Err(error) = self.services.keyring.load_keys(&source.verifier, now).await {
            tracing::warn!(
                source = source.name,
                error = format!("{error:#}"),
                "could not read the keys; the catcher uses the keys that it read before"
            );
        }
        let first = source.verifier.verify(envelope, &live);
        if matches!(first, Err(Rejected(Reason::NotFetched)))
            && self
                .services
                .keyring
                .reload_keys(&source.verifier, now)
                .await?
        {
            return Ok(source.verifier.verify(envelope, &live));
        }
        if !matches!(first, Err(Rejected(reason)) if reason.depends_on_secrets()) {
            return Ok(first);
        }
        let again = self
            .services
            .secrets
            .live_again(&source.secret, now)
            .await?;
        if labels(&again) == labels(&live) {
            return Ok(first);
        }
        Ok(source.verifier.verify(envelope, &again))
    }
}

fn labels(live: &Live) -> Vec<&str> {
    live.iter().map(Secret::label).collect()
}
