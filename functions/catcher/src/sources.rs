//! Finds the source of a request, and follows the version of the sources that is in force.

use std::sync::Arc;

use shared::base::clock::UnixMillis;
use shared::base::timing::SOURCES_GRACE;
use shared::inbox::current_sources::Lookup;
use shared::sources::{Config, Source, is_name};

use crate::http::{Request, Response};
use crate::log_throttle::Kind;
use crate::{Catcher, replies};

impl Catcher {
    /// Runs `work`. If the sources have not been read for a minute, reads them beside the work. The
    /// response waits at most [`SOURCES_GRACE`] for the read, and the next request uses its result.
    pub(crate) async fn beside_refresh<T>(
        &self,
        work: impl Future<Output = T>,
        now: UnixMillis,
    ) -> T {
        let sources = &self.services.sources;
        if sources.is_unread() || !sources.is_due(now) {
            return work.await;
        }
        let mut refresh = std::pin::pin!(sources.refresh(now));
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => {
                // If no time is left, the read counts as failed, and another follows in a minute.
                let _ = tokio::time::timeout(SOURCES_GRACE, refresh).await;
                done
            }
            () = &mut refresh => work.await,
        }
    }

    /// Returns the configuration that has the source of a request. The first request of a process
    /// waits for the version in force, so that a new process does not begin with an old one.
    pub(crate) async fn config_for(
        &self,
        request: &Request,
        now: UnixMillis,
    ) -> Result<Arc<Config>, Response> {
        // Only the name of a possible source is worth a read.
        let Some(name) = request.source().filter(|name| is_name(name)) else {
            return Err(replies::unknown_source());
        };
        let sources = &self.services.sources;
        if sources.is_unread() {
            sources.refresh(now).await;
        }
        let has = |config: &Config| source_of(config, request).is_some();
        match sources.find(has, now).await {
            Lookup::Found(config) => Ok(config),
            Lookup::Unknown => Err(replies::unknown_source()),
            Lookup::Unreadable => Err(self.sources_unreadable(name, now)),
        }
    }

    /// Answers a request for a source that may exist. Providers disable an endpoint that answers
    /// 404.
    fn sources_unreadable(&self, name: &str, now: UnixMillis) -> Response {
        if let Some(count) = self.throttle.permit(Kind::Failed, "", now) {
            tracing::error!(
                server_errors = count,
                "the sources that this process knows do not have {name:?}, and the current version could not be loaded"
            );
        }
        replies::try_again_later()
    }
}

/// Returns the source of a request, if the source accepts its path.
pub(crate) fn source_of<'c>(config: &'c Config, request: &Request) -> Option<&'c Source> {
    let source = config.source(request.source()?)?;
    (source.accept_path || !request.has_tail()).then_some(source)
}
