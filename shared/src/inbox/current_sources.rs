//! The configuration that a process uses: the built-in file, or the version in the table.
//!
//! With the stack parameter `Sources = table`, a process follows the version that operators apply
//! ([`source_versions`](super::source_versions)):
//!
//! - The first request of a process waits for the read of the version.
//! - Later, the process reads the version again at most once a minute, beside its other work. The
//!   next request uses the result.
//! - If a request names an unknown source, the process reads the version at once, at most every ten
//!   seconds.
//! - If the version cannot be read or used, the process keeps the configuration that it has, and
//!   logs the reason once a minute.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::ledger::{Ledger, SourcesReport};
use super::source_versions::{Consistency, SourceVersions, VersionFacts};
use crate::aws::secrets::Managed;
use crate::base::clock::UnixMillis;
use crate::base::timing::SOURCES_BUDGET;
use crate::sources::{Bounds, Config, SCHEMA};

/// How long a process uses a version before it reads the pointer again.
pub const REREAD: Duration = Duration::from_secs(60);

/// The minimum time between two reads for unknown sources.
pub const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// The minimum time between two log lines about a version that cannot be used.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// The current configuration of a process.
#[derive(Debug)]
pub struct CurrentSources {
    /// `None` if only the built-in file is in force.
    followed: Option<Followed>,
    state: Mutex<State>,
    /// Held during a read, so that a concurrent caller waits for its result.
    reading: futures::lock::Mutex<()>,
}

/// The versions in the table, and the modules that use settings of the configuration.
#[derive(Debug)]
struct Followed {
    versions: SourceVersions,
    bounds: Bounds,
    ledger: Ledger,
    managed: Managed,
}

#[derive(Debug)]
struct State {
    config: Arc<Config>,
    /// The loaded version; `None` for the built-in file.
    version: Option<u64>,
    /// When the last read began.
    read_at: Option<UnixMillis>,
    /// When the last read for an unknown source began.
    looked_at: Option<UnixMillis>,
    /// Whether the last read failed or did not end.
    failed: bool,
    told_at: Option<UnixMillis>,
}

/// The result of a search for a source.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The configuration that has the source.
    Found(Arc<Config>),
    /// The current version does not have the source.
    Unknown,
    /// The current version could not be read or used, so the source may exist.
    Unreadable,
}

impl CurrentSources {
    /// Uses only this configuration.
    pub fn fixed(config: Config) -> Self {
        Self {
            followed: None,
            state: Mutex::new(State {
                config: Arc::new(config),
                version: None,
                read_at: None,
                looked_at: None,
                failed: false,
                told_at: None,
            }),
            reading: futures::lock::Mutex::default(),
        }
    }

    /// Follows the version in the table. Until the first read, and while the table has no version,
    /// the configuration is the built-in one. The ledger and the secrets follow as well.
    #[must_use]
    pub fn following(
        self,
        versions: SourceVersions,
        bounds: Bounds,
        ledger: Ledger,
        managed: Managed,
    ) -> Self {
        Self {
            followed: Some(Followed {
                versions,
                bounds,
                ledger,
                managed,
            }),
            ..self
        }
    }

    /// Returns the current configuration, without a read.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.state().config)
    }

    /// Returns whether the version must be read before the first request.
    pub fn is_unread(&self) -> bool {
        self.followed.is_some() && self.state().read_at.is_none()
    }

    /// Returns whether the last read is more than a minute ago.
    pub fn is_due(&self, now: UnixMillis) -> bool {
        self.followed.is_some() && is_over(self.state().read_at, REREAD, now)
    }

    /// Reads the version if the last read is more than a minute ago.
    pub async fn refresh(&self, now: UnixMillis) {
        let Some(followed) = &self.followed else {
            return;
        };
        let _turn = self.reading.lock().await;
        if self.is_due(now) {
            self.read(followed, Consistency::Eventual, now).await;
        }
    }

    /// Returns a configuration that `has` the source. If the current one does not have it, reads
    /// the version at once, unless the last such read was less than ten seconds ago.
    pub async fn find(&self, has: impl Fn(&Config) -> bool, now: UnixMillis) -> Lookup {
        let config = self.config();
        if has(&config) {
            return Lookup::Found(config);
        }
        let Some(followed) = &self.followed else {
            return Lookup::Unknown;
        };
        let _turn = self.reading.lock().await;
        if self.may_look(now) {
            // An operator may have added the source a moment ago.
            self.read(followed, Consistency::Strong, now).await;
        }
        let config = self.config();
        if has(&config) {
            Lookup::Found(config)
        } else if self.state().failed {
            Lookup::Unreadable
        } else {
            Lookup::Unknown
        }
    }

    /// Describes the configuration, for the heartbeat.
    pub fn report(&self) -> SourcesReport {
        let state = self.state();
        SourcesReport {
            from_table: self.followed.is_some(),
            version: state.version,
            hash: state.config.hash().to_owned(),
            schema: SCHEMA,
            failed: state.failed,
            bounds: match &self.followed {
                Some(followed) => followed.bounds.clone(),
                None => Bounds::new("", &state.config),
            },
            long_actions: None,
        }
    }

    fn may_look(&self, now: UnixMillis) -> bool {
        let mut state = self.state();
        let may = is_over(state.looked_at, LOOK_AGAIN, now);
        if may {
            state.looked_at = Some(now);
        }
        may
    }

    /// Reads the version, and uses it if it is new. A read that the caller drops counts as failed.
    async fn read(&self, followed: &Followed, consistency: Consistency, now: UnixMillis) {
        let (known, hash) = {
            let mut state = self.state();
            state.read_at = Some(now);
            state.failed = true;
            (state.version, state.config.hash().to_owned())
        };
        let read = Box::pin(followed.newer(known, &hash, consistency));
        let read = match tokio::time::timeout(SOURCES_BUDGET, read).await {
            Ok(read) => read,
            Err(_) => Err(anyhow::anyhow!("the request to DynamoDB timed out")),
        };
        match read {
            Ok(newer) => {
                self.state().failed = false;
                if let Some((version, config)) = newer {
                    self.use_version(followed, version, config);
                }
            }
            Err(error) => self.tell(&error, now),
        }
    }

    fn use_version(&self, followed: &Followed, version: u64, config: Option<Config>) {
        if let Some(config) = &config {
            followed.ledger.follow(config);
            followed.managed.follow(config.managed_secrets());
        }
        let mut state = self.state();
        state.version = Some(version);
        if let Some(config) = config {
            state.config = Arc::new(config);
        }
        tracing::info!(
            sources.version = version,
            sources.hash = state.config.hash(),
            "uses version {version} of the sources"
        );
    }

    fn tell(&self, error: &anyhow::Error, now: UnixMillis) {
        let mut state = self.state();
        if !is_over(state.told_at, TELL_AGAIN, now) {
            return;
        }
        state.told_at = Some(now);
        let kept = match state.version {
            Some(version) => format!("version {version}"),
            None => "the built-in file".to_owned(),
        };
        tracing::warn!(
            sources.hash = state.config.hash(),
            error = format!("{error:#}"),
            "could not load the current version of the sources; the function keeps {kept}"
        );
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Followed {
    /// Returns the version in force, if it is newer than the known one. The configuration is `None`
    /// if its text is the known one.
    async fn newer(
        &self,
        known: Option<u64>,
        hash: &str,
        consistency: Consistency,
    ) -> anyhow::Result<Option<(u64, Option<Config>)>> {
        // An eventually consistent read can return an older pointer.
        let is_old = |version| known.is_some_and(|known| version <= known);
        let is_known = |facts: &VersionFacts| is_old(facts.version) || facts.hash == hash;
        let Some((facts, text)) = self.versions.newer(consistency, is_known).await? else {
            if let Some(known) = known {
                bail!("CFG/CURRENT is missing, and it pointed to version {known} before");
            }
            return Ok(None);
        };
        let version = facts.version;
        if is_old(version) {
            return Ok(None);
        }
        let Some(text) = text else {
            return Ok(Some((version, None)));
        };
        let config = Config::parse_within(&text, &self.bounds);
        let config = config.with_context(|| format!("version {version} cannot be used"))?;
        Ok(Some((version, Some(config))))
    }
}

/// Returns whether the time span has passed. If the clock was set back, it counts as passed.
fn is_over(since: Option<UnixMillis>, span: Duration, now: UnixMillis) -> bool {
    since.is_none_or(|since| now < since || now.since(since) >= span)
}
