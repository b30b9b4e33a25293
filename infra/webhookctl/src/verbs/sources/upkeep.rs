//! The lines of `sources show` about usual gaps, sync, and tolerated outages.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::sources::Source;

use crate::outage_tolerance::Outage;
use crate::output::count::thousands;
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
    /// Events since the beginning of yesterday, within the time that the sync has checked.
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

    /// The names and values of the output lines.
    pub(super) fn lines(&self, now: i64) -> Vec<(&'static str, String)> {
        let mut lines = vec![("usual gap", self.silence.rhythm())];
        lines.extend(self.silence.note().map(|note| ("", note)));
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
            lines.push(("sync", format!("{}, {last}; {missed}", sync.state)));
        }
        lines
    }
}

/// The longest outage without lost events, and below it the reasons.
pub(super) fn outage_lines(outage: &Outage) -> Vec<(&'static str, String)> {
    let why = outage.why.iter().map(|why| ("", why.clone()));
    std::iter::once(("outage", outage.text()))
        .chain(why)
        .collect()
}
