//! Keeps an inbox open for a command that reads many times, such as `console` and `mcp`.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::{Chosen, Deployment};

/// The interval at which the applied version of the sources is read again. The functions use a new
/// version within a minute.
const EACH: Duration = Duration::from_secs(30);

/// The open inbox, which all clones share. A command that runs once keeps none.
#[derive(Clone, Default)]
pub struct Opened(Option<Arc<Mutex<Option<Kept>>>>);

struct Kept {
    /// The files and the options from which the inbox was opened.
    from: String,
    /// The inbox without the applied sources, with its clients.
    bare: Deployment,
    inbox: Deployment,
    at: Instant,
}

impl Opened {
    /// Returns a place that keeps the inbox after it was first opened.
    pub fn kept() -> Self {
        Self(Some(Arc::default()))
    }

    /// Returns the open inbox. Opens it again when the configuration has changed. Returns `None` if
    /// this command keeps no inbox.
    pub(super) async fn inbox(&self, chosen: &Chosen) -> Option<anyhow::Result<Deployment>> {
        let mut kept = self.0.as_ref()?.lock().await;
        Some(Self::current(&mut kept, chosen).await)
    }

    async fn current(kept: &mut Option<Kept>, chosen: &Chosen) -> anyhow::Result<Deployment> {
        let from = stamp(chosen);
        let bare = match kept.as_ref().filter(|kept| kept.from == from) {
            Some(kept) if kept.at.elapsed() < EACH => return Ok(kept.inbox.clone()),
            Some(kept) => kept.bare.clone(),
            None => Deployment::of(chosen.clone())?,
        };
        let inbox = Box::pin(bare.clone().with_applied_sources()).await;
        *kept = Some(Kept {
            from,
            bare,
            inbox: inbox.clone(),
            at: Instant::now(),
        });
        Ok(inbox)
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "kept" } else { "none" })
    }
}

/// Returns a text that differs if the inbox would be opened differently.
fn stamp(chosen: &Chosen) -> String {
    let (text, sources) = match chosen {
        Chosen::Local(local) => (format!("{local:?}"), Some(local.sources.as_path())),
        Chosen::Deployed(it) => (format!("{it:?}"), it.sources.as_deref()),
    };
    format!("{text} {:?}", sources.and_then(changed))
}

fn changed(file: &Path) -> Option<(std::time::SystemTime, u64)> {
    let facts = std::fs::metadata(file).ok()?;
    Some((facts.modified().ok()?, facts.len()))
}
