//! How long Mitt keeps the events of a source, and why.

use serde::Serialize;
use shared::sources::Source;
use shared::sources::policy::RowsReason;

use crate::output::time::duration;

#[derive(Serialize)]
pub(super) struct Retention {
    rows_s: u64,
    bodies_s: u64,
    /// Whether the source sets `retention.rows`.
    rows_set: bool,
    /// Why the default applies to the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows_why: Option<String>,
}

impl Retention {
    pub(super) fn of(source: &Source) -> Self {
        Self {
            rows_s: source.retention.rows.as_secs(),
            bodies_s: source.retention.bodies.as_secs(),
            rows_set: source.rows_reason == RowsReason::Set,
            rows_why: match &source.rows_reason {
                RowsReason::Set => None,
                RowsReason::Short { copies, listed } => Some(format!(
                    "copies of a request are rejected after {}, and the provider lists events for {}",
                    duration(copies.as_secs()),
                    duration(listed.as_secs())
                )),
                RowsReason::Long(why) => Some((*why).to_owned()),
            },
        }
    }

    pub(super) fn text(&self) -> String {
        let why = self.rows_why.as_ref().map(|why| format!(" ({why})"));
        format!(
            "rows {} after the event is done{}, bodies {}",
            duration(self.rows_s),
            why.unwrap_or_default(),
            duration(self.bodies_s)
        )
    }
}

#[cfg(test)]
mod tests {
    use shared::sources::Config;

    use super::*;

    fn text(settings: &str) -> String {
        let file = format!(
            "schema = 1\n[[source]]\nname = \"s\"\npreset = \"stripe\"\n\
             action = [{{ kind = \"keep\" }}]\n{settings}"
        );
        let config = Config::parse(&file).unwrap();
        Retention::of(config.source("s").unwrap()).text()
    }

    #[test]
    fn a_short_default_has_its_reason() {
        assert_eq!(
            text("[source.sync]"),
            "rows 35d after the event is done (copies of a request are rejected after 10m, and the \
             provider lists events for 30d), bodies 30d"
        );
        let long = text("");
        assert!(
            long.starts_with("rows 90d after the event is done (without a sync"),
            "{long}"
        );
        assert_eq!(
            text("retention = { rows = \"400d\", bodies = \"7d\" }\n[source.sync]"),
            "rows 400d after the event is done, bodies 7d"
        );
    }
}
