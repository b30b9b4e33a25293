//! The settings of the sources that the ledger needs. They can change while the process runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use super::Ledger;
use crate::sources::Config;
use crate::sources::ordering::{Mode, Order};
use crate::sources::policy::Retentions;

#[derive(Clone, Debug, Default)]
pub(super) struct Policies {
    pub(super) retentions: Retentions,
    /// Sources whose events are processed in strict order.
    pub(super) strict: Arc<BTreeMap<String, Order>>,
    /// Sources that have a trial. The events that Mitt fetches for them are recorded, and not
    /// delivered.
    pub(super) trials: Arc<BTreeSet<String>>,
    /// The sources whose events wait for a worker from the start, each with its queue.
    pub(super) queues: Arc<BTreeMap<String, String>>,
}

/// The settings, shared by all clones of a ledger.
#[derive(Clone, Debug, Default)]
pub(super) struct CurrentPolicies(Arc<RwLock<Arc<Policies>>>);

impl CurrentPolicies {
    pub(super) fn now(&self) -> Arc<Policies> {
        let policies = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&policies)
    }

    fn set(&self, policies: Policies) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(policies);
    }

    /// Returns these settings with a change, without changing the clones of the ledger.
    fn changed(&self, change: impl FnOnce(&mut Policies)) -> Self {
        let mut policies = (*self.now()).clone();
        change(&mut policies);
        let changed = Self::default();
        changed.set(policies);
        changed
    }
}

impl Ledger {
    /// Sets the retention of each source. A source without a retention uses the default.
    #[must_use]
    pub fn keeping(self, retentions: Retentions) -> Self {
        let policies = self.policies.changed(|it| it.retentions = retentions);
        Self { policies, ..self }
    }

    /// Returns a ledger that uses the settings of a configuration. Its clones before this call do
    /// not change.
    #[must_use]
    pub fn with_sources(self, config: &Config) -> Self {
        let policies = self.policies.changed(|it| *it = Policies::of(config));
        Self { policies, ..self }
    }

    /// Uses the settings of another configuration from now on, also in all clones of this ledger.
    pub fn follow(&self, config: &Config) {
        self.policies.set(Policies::of(config));
    }
}

impl Policies {
    fn of(config: &Config) -> Self {
        Self {
            retentions: config.retentions(),
            strict: strict(config),
            trials: Arc::new(config.trials()),
            queues: Arc::new(queues(config)),
        }
    }
}

fn queues(config: &Config) -> BTreeMap<String, String> {
    let pulled = config
        .sources()
        .filter_map(|source| Some((source.name.clone(), source.only_pulls()?.to_owned())));
    pulled.collect()
}

fn strict(config: &Config) -> Arc<BTreeMap<String, Order>> {
    let ordered = config.sources().filter_map(|source| {
        let order = source.order.clone()?;
        matches!(order.mode, Mode::Strict).then(|| (source.name.clone(), order))
    });
    Arc::new(ordered.collect())
}
