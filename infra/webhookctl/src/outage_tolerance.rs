//! Computes how long an outage may last before a source loses an event. The result depends on the
//! retries of the provider and the settings of the sync.

use std::time::Duration;

use serde::Serialize;
use shared::base::timing::SYNC_EVERY;
use shared::sources::Source;
use shared::webhook::preset::SyncKind;

use crate::output::time::duration;

const DAY: u64 = 24 * 3600;

/// The longest outage that loses no events, and the reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Outage {
    /// The longest safe outage in seconds. 0 means that any outage can lose events. `None` means
    /// that there is no limit, or that the limit is unknown.
    pub longest_s: Option<u64>,
    /// Whether an outage of any length is safe. If this is false and `longest_s` is `None`, the
    /// limit is unknown.
    pub any: bool,
    /// The reasons, one sentence each.
    pub why: Vec<String>,
}

impl Outage {
    /// Returns the outage that a source tolerates. This is the longer of two times: how long the
    /// provider retries, and how far back the sync reaches.
    pub(crate) fn of(source: &Source) -> Self {
        let preset = &source.verifier.preset;
        let retries = preset.retry.longest();
        let mut why = vec![match retries {
            None => format!("it is unknown how long {} retries", preset.name),
            Some(Duration::ZERO) => format!("{} does not retry", preset.name),
            Some(horizon) => format!("{} retries for {}", preset.name, said(horizon)),
        }];
        let reach = reach(source, &mut why);
        if let Some(disable) = &preset.retry.auto_disable {
            why.push(format!("the provider may disable the endpoint: {disable}"));
        }
        let longest = retries.max(reach);
        let any = longest == Some(Duration::MAX);
        Self {
            longest_s: longest.filter(|_| !any).map(|longest| longest.as_secs()),
            any,
            why,
        }
    }

    /// Returns a short description.
    pub(crate) fn text(&self) -> String {
        match self.longest_s {
            None if self.any => "no outage loses events".to_owned(),
            None => "the longest safe outage is unknown".to_owned(),
            Some(0) => "any outage can lose events".to_owned(),
            Some(seconds) => format!(
                "an outage of up to {} loses no events",
                said(Duration::from_secs(seconds))
            ),
        }
    }
}

/// Returns the longest outage after which the sync still finds all events. The last run before the
/// outage can be one interval older than the outage. The first run after the outage can start one
/// interval later, and it reads from one overlap before the last run.
fn reach(source: &Source, why: &mut Vec<String>) -> Option<Duration> {
    let Some(settings) = &source.sync else {
        why.push(if source.verifier.preset.syncs.is_empty() {
            "missed events cannot be fetched: the preset has no sync".to_owned()
        } else {
            "missed events could be fetched, but the source has no [source.sync]".to_owned()
        });
        return None;
    };
    if settings.list.kind == SyncKind::ChangeCursor {
        why.push("the sync lists changed objects, not events".to_owned());
        return None;
    }
    why.push("while the sync runs, an outage of only the endpoint loses no events".to_owned());
    let Some(days) = settings.list.retention_days else {
        why.push("the provider's list has no time limit".to_owned());
        return Some(Duration::MAX);
    };
    let history = Duration::from_secs(u64::from(days) * DAY);
    why.push(format!(
        "the provider's list reaches back {}, less {} of overlap and two intervals of {}",
        said(history),
        said(settings.overlap),
        said(SYNC_EVERY)
    ));
    Some(history.saturating_sub(settings.overlap + SYNC_EVERY * 2))
}

fn said(span: Duration) -> String {
    duration(span.as_secs())
}

#[cfg(test)]
mod tests {
    use shared::sources::Config;

    use super::*;

    fn outage(preset: &str, sync: &str) -> Outage {
        let file = format!(
            "schema = 1\n[[source]]\nname = \"s\"\npreset = \"{preset}\"\n\
             action = [{{ kind = \"keep\" }}]\n{sync}"
        );
        let config = Config::parse(&file).unwrap();
        Outage::of(config.source("s").unwrap())
    }

    #[test]
    fn the_longer_of_retries_and_sync_counts() {
        let retried = outage("stripe", "");
        assert_eq!(retried.longest_s, Some(3 * DAY));
        assert!(retried.why[1].contains("no [source.sync]"), "{retried:?}");
        let synced = outage("stripe", "[source.sync]\noverlap = \"30m\"");
        assert_eq!(synced.longest_s, Some(30 * DAY - 3600));
        assert_eq!(synced.text(), "an outage of up to 29d23h loses no events");
        assert!(synced.why[2].contains("less 30m of overlap"), "{synced:?}");
    }

    #[test]
    fn where_nobody_tries_again_any_outage_loses_events() {
        let lost = outage("github", "");
        assert_eq!(lost.longest_s, Some(0));
        assert_eq!(lost.text(), "any outage can lose events");
        assert!(lost.why[0].contains("does not retry"));
    }

    #[test]
    fn what_is_not_known_is_not_said_to_be_safe() {
        let unknown = outage("fireflies", "");
        assert!(!unknown.any);
        assert_eq!(unknown.longest_s, None);
        assert_eq!(unknown.text(), "the longest safe outage is unknown");
    }
}
