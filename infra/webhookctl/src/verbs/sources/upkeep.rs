//! Returns the lines of `sources show` about silence and the sync.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::sources::Source;

use crate::output::count::thousands;
use crate::output::table;
use crate::output::time::age;
use crate::target::Deployment;
use crate::verbs::sync::facts::{Facts, Silence, percent, standing};

#[derive(Serialize)]
pub(super) struct Upkeep {
    silence: Silence,
    sync: Option<SyncNow>,
}

#[derive(Serialize)]
struct SyncNow {
    state: &'static str,
    /// The number of events since the beginning of yesterday, within the time that the sync has
    /// checked.
    seen: u64,
    missed: u64,
    miss_rate_percent: Option<f64>,
    #[serde(skip)]
    ended: Option<i64>,
}

impl Upkeep {
    pub(super) async fn read(
        inbox: &Deployment,
        source: &Source,
        now: UnixMillis,
    ) -> anyhow::Result<Self> {
        let facts = Facts::read(&inbox.ledger, source, now).await?;
        let state = facts.state.as_ref();
        let sync = source.sync.is_some().then(|| SyncNow {
            state: standing(state, true, now),
            seen: facts.lately.all(),
            missed: facts.lately.sync,
            miss_rate_percent: facts.lately.miss_rate(),
            ended: state.and_then(|state| state.ended).map(|at| at.0),
        });
        Ok(Self {
            silence: facts.silence,
            sync,
        })
    }

    pub(super) fn add_to(&self, facts: &mut table::Facts, now: i64) {
        let gap = std::iter::once(self.silence.rhythm());
        facts.all("usual gap", gap.chain(self.silence.note()));
        if let Some(sync) = &self.sync {
            let last = match sync.ended {
                Some(at) => format!("last complete run {} ago", age(at, now)),
                None => "no complete run yet".to_owned(),
            };
            let missed = format!(
                "since yesterday {} of {} events missed by webhook: {}",
                thousands(sync.missed),
                thousands(sync.seen),
                percent(sync.miss_rate_percent)
            );
            facts.add("sync", format!("{}, {last}; {missed}", sync.state));
        }
    }
}
