//! Reads an action of kind `pull`, which leaves the events to workers outside of Lambda.

use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::FileAction;
use crate::base::setting_path::At as _;
use crate::base::timing::LONGEST_WORK_LEASE;
use crate::sources::{address, check_name, duration};

/// The lease of a worker, if the file sets none.
const LEASE: Duration = Duration::from_secs(120);

/// The shortest lease of a worker.
const SHORTEST_LEASE: Duration = Duration::from_secs(30);

/// How long a worker can hold an event, if the file sets no time.
const MAX_HOLD: Duration = Duration::from_secs(3_600);

/// The longest time for which a worker can hold an event.
const LONGEST_HOLD: Duration = Duration::from_secs(12 * 3_600);

/// How workers outside of Lambda take the events of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The name of the queue, which several sources can share.
    pub queue: String,
    /// The lease of a worker that asks for no other length.
    pub lease: Duration,
    /// How long a worker can hold an event by extending its lease.
    pub max_hold: Duration,
    /// The ARNs of the roles that can take the events.
    pub workers: Vec<String>,
}

impl FileAction {
    /// `source` is the name of the source, which is also the default name of the queue.
    pub(super) fn into_pull(self, source: &str) -> anyhow::Result<Pull> {
        self.has_no_rate().at("rate").needs("kind")?;
        let queue = self.queue.unwrap_or_else(|| source.to_owned());
        check_name("a queue's name", &queue)
            .at("queue")
            .needs("kind")?;
        let lease = self.lease.as_deref().map(lease).transpose().at("lease")?;
        let lease = lease.unwrap_or(LEASE);
        let max_hold = self.max_hold.as_deref();
        let max_hold = max_hold.map(|text| hold(text, lease)).transpose();
        let max_hold = max_hold.at("max_hold").needs("lease")?;
        let workers = self.workers.unwrap_or_default();
        for role in &workers {
            address::check_role(role).at("workers")?;
        }
        Ok(Pull {
            queue,
            lease,
            max_hold: max_hold.unwrap_or(MAX_HOLD),
            workers,
        })
    }

    fn has_no_rate(&self) -> anyhow::Result<()> {
        ensure!(
            self.rate.is_none(),
            "rate is not a setting of kind \"pull\", because workers ask for events at their own \
             pace; remove the setting"
        );
        Ok(())
    }
}

fn lease(text: &str) -> anyhow::Result<Duration> {
    let lease = duration::parse(text).context("lease")?;
    ensure!(
        (SHORTEST_LEASE..=LONGEST_WORK_LEASE).contains(&lease),
        "lease = {text:?} is out of range; use 30s to 15m. A worker extends its lease while it works"
    );
    Ok(lease)
}

fn hold(text: &str, lease: Duration) -> anyhow::Result<Duration> {
    let hold = duration::parse(text).context("max_hold")?;
    ensure!(
        (lease..=LONGEST_HOLD).contains(&hold),
        "max_hold = {text:?} is out of range; use the length of the lease to 12h"
    );
    Ok(hold)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Config;

    fn read(action: &str, more: &str) -> Result<Pull, String> {
        let file = format!(
            "schema = 1\n[[source]]\nname = \"shop\"\npreset = \"stripe\"\n{more}\n\
             [[source.action]]\nkind = \"pull\"\n{action}\n"
        );
        let config = Config::parse(&file).map_err(|error| format!("{error:#}"))?;
        let (_, pull) = config.source("shop").unwrap().pull().unwrap();
        Ok(pull.clone())
    }

    #[test]
    fn a_queue_is_named_after_its_source_and_its_times_have_defaults() {
        let pull = read("", "").unwrap();
        assert_eq!(pull.queue, "shop");
        assert_eq!((pull.lease, pull.max_hold), (LEASE, MAX_HOLD));
        assert_eq!(pull.workers, [""; 0]);
        let role = "arn:aws:iam::111122223333:role/triage-agent";
        let set = format!(
            "queue = \"triage\"\nlease = \"5m\"\nmax_hold = \"4h\"\nworkers = [{role:?}]\n\
             destination = \"tracker\"\ntypes = [\"charge.*\"]"
        );
        let pull = read(&set, "").unwrap();
        assert_eq!(
            (pull.queue.as_str(), pull.workers),
            ("triage", vec![role.to_owned()])
        );
        let minute = Duration::from_secs(60);
        assert_eq!((pull.lease, pull.max_hold), (5 * minute, 240 * minute));
    }

    #[test]
    fn a_setting_without_effect_is_refused_with_its_reason() {
        for (action, more, error) in [
            ("lease = \"20s\"", "", "use 30s to 15m"),
            ("lease = \"16m\"", "", "use 30s to 15m"),
            ("max_hold = \"1m\"", "", "the length of the lease to 12h"),
            ("max_hold = \"13h\"", "", "the length of the lease to 12h"),
            ("leases = 4", "", "leases is not supported yet"),
            ("queue = \"https://sqs/a\"", "", "a queue's name must have"),
            ("workers = [\"triage\"]", "", "invalid role ARN"),
            (
                "rate = \"20/s\"",
                "",
                "rate is not a setting of kind \"pull\"",
            ),
            (
                "url = \"https://a\"",
                "",
                "url is not a setting of kind \"pull\"",
            ),
            (
                "timeout = \"5m\"",
                "",
                "timeout is not a setting of kind \"pull\"",
            ),
            (
                "",
                "order = { mode = \"latest_wins\" }",
                "exclude each other",
            ),
            (
                "[[source.action]]\nkind = \"pull\"\nname = \"second\"",
                "",
                "at most one action of kind \"pull\"",
            ),
        ] {
            let found = read(action, more).unwrap_err();
            assert!(found.contains(error), "{action} {more}: {found}");
        }
        let keep = "[[source.action]]\nkind = \"keep\"\nlease = \"2m\"";
        let found = read(keep, "").unwrap_err();
        assert!(
            found.contains("lease is not a setting of kind \"keep\""),
            "{found}"
        );
    }

    #[test]
    fn sources_share_a_queue_by_its_name() {
        let source = |name: &str, action: &str| {
            format!(
                "[[source]]\nname = \"{name}\"\npreset = \"stripe\"\naction = [{{ {action} }}]\n"
            )
        };
        let file = [
            "schema = 1\n".to_owned(),
            source("a", "kind = \"pull\", queue = \"triage\""),
            source("b", "kind = \"keep\""),
            source("triage", "kind = \"pull\""),
        ];
        let config = Config::parse(&file.concat()).unwrap();
        let names = |sources: Vec<&crate::sources::Source>| {
            let names = sources.iter().map(|source| source.name.clone());
            names.collect::<Vec<_>>()
        };
        let of = |queue| names(config.sources_of_queue(queue).collect());
        assert_eq!(of("triage"), ["a", "triage"]);
        assert_eq!(of("b"), [""; 0]);
        assert_eq!(names(config.pulled().collect()), ["a", "triage"]);
    }
}
