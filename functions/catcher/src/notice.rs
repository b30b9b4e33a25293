//! Handles unsigned notices. These requests only name an object, which backup-sync then fetches.

use shared::base::clock::UnixMillis;
use shared::inbox::fetch_back::{Network, Noticed};
use shared::sources::Source;
use shared::webhook::verify::Rejected;

use crate::Catcher;
use crate::http::Response;
use crate::log_throttle::Kind;
use crate::replies::{acknowledged, not_verified, try_again_later};

impl Catcher {
    /// Stores the name of the object in an unsigned notice. The catcher acknowledges the notice
    /// only if the object is known to exist and will be fetched again. Otherwise the sender has to
    /// retry.
    pub(crate) async fn notice(
        &self,
        source: &Source,
        object: &str,
        from: Network,
        now: UnixMillis,
    ) -> Response {
        let name = &source.name;
        let noticed = self
            .services
            .fetch_back
            .notice(name, object, from, now)
            .await;
        match noticed {
            Ok(Noticed::Kept) => {
                tracing::info!(source = name, object, "backup-sync fetches {object} again");
                return acknowledged(source);
            }
            Ok(noticed @ (Noticed::Waits | Noticed::Full)) => {
                if let Some(count) = self.throttle.permit(Kind::Waits, name, now) {
                    let full = noticed == Noticed::Full;
                    tracing::warn!(
                        source = name,
                        full,
                        count,
                        "a notice to {name} names an object that backup-sync must fetch first"
                    );
                }
            }
            Err(error) => {
                if let Some(count) = self.throttle.permit(Kind::Undecided, name, now) {
                    tracing::error!(
                        source = name,
                        count,
                        error = format!("{error:#}"),
                        "could not store the object that a notice to {name} names"
                    );
                }
            }
        }
        try_again_later()
    }

    /// Rejects a notice that does not name an object that can be fetched. Nothing of the notice is
    /// stored.
    pub(crate) fn invalid_notice(
        &self,
        source: &Source,
        rejected: Rejected,
        now: UnixMillis,
    ) -> Response {
        if let Some(refused) = self.throttle.permit(Kind::NotVerified, &source.name, now) {
            let reason = rejected.0;
            tracing::warn!(source = source.name, verification = "refused", reason = %reason, refused, "rejected a request to {}: {reason}", source.name);
        }
        not_verified(source)
    }
}
