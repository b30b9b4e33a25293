//! The default of `retention.rows`. The row of an event is what recognizes a duplicate, so Mitt keeps
//! it for as long as a duplicate can arrive.

use std::time::Duration;

use super::SourceSync;
use super::trial::Trial;
use crate::base::timing::{KEEP_ROW_SHORT, LONGEST_REPETITION};
use crate::sources::policy::RowsReason;
use crate::webhook::preset::{Preset, Retry, Scheme, SyncKind};

/// The facts about a source that decide the default.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'s> {
    scheme: Option<&'s Scheme>,
    retry: &'s Retry,
    sync: Option<&'s SourceSync>,
    is_trial: bool,
}

impl<'s> Facts<'s> {
    pub(super) fn new(
        preset: &'s Preset,
        variant: &str,
        sync: Option<&'s SourceSync>,
        trial: Option<&Trial>,
    ) -> Self {
        Self {
            scheme: preset.scheme(variant),
            retry: &preset.retry,
            sync,
            is_trial: trial.is_some(),
        }
    }

    /// Returns the default for a source that keeps its bodies for `bodies`. It is short only if
    /// every way in which a duplicate can arrive has a limit that Mitt knows:
    ///
    /// - The sender or an attacker sends the same request again. Verification rejects the request if
    ///   its signature covers a time.
    /// - The provider retries a delivery.
    /// - The provider delivers an event again on request, or the sync finds it again. The provider
    ///   can do this for as long as its list contains the event.
    pub(super) fn rows_reason(self, bodies: Duration) -> RowsReason {
        let copies = self.scheme.and_then(Scheme::accepts_copies_for);
        let Some(copies) = copies.filter(|longest| *longest <= LONGEST_REPETITION) else {
            return RowsReason::Long("the age of a request has no limit that Mitt checks");
        };
        if self.retry.longest() > Some(LONGEST_REPETITION) {
            return RowsReason::Long("the provider retries for more than 30 days");
        }
        let Some(sync) = self.sync else {
            return RowsReason::Long(
                "without a sync, it is not known how long the provider can resend",
            );
        };
        // A delivery log contains each redelivery as a new entry, which can be delivered again. A list
        // of changes does not contain the events.
        if sync.list.kind != SyncKind::EventLog {
            return RowsReason::Long(
                "the provider's list does not limit how long it can resend an event",
            );
        }
        let Some(days) = sync.list.retention_days else {
            return RowsReason::Long("the provider's list has no time limit");
        };
        let listed = Duration::from_secs(u64::from(days) * 24 * 3600);
        if listed > LONGEST_REPETITION {
            return RowsReason::Long("the provider's list reaches back more than 30 days");
        }
        if bodies > KEEP_ROW_SHORT {
            return RowsReason::Long("the bodies are kept for more than 35 days");
        }
        if self.is_trial {
            return RowsReason::Long("the report of a trial reads the rows");
        }
        RowsReason::Short { copies, listed }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::base::timing::{KEEP_BODY, KEEP_ROW};
    use crate::sources::Config;
    use crate::sources::policy::Retention;

    const DAY: u64 = 24 * 3600;

    /// A custom list of events, like Stripe's.
    const LIST: &str = r#"
[source.sync.list]
kind = "event-log"
docs = "https://acme.test/docs"
checked = "2026-11"
auth = { kind = "bearer" }
items = "data"
id = ["item:id"]
time = { at = ["item:created"], unit = "s" }
request = { url = "https://api.acme.test/events" }
"#;

    fn kept(source: &str) -> anyhow::Result<(Retention, RowsReason)> {
        let (settings, tables) = source.split_once('\n').unwrap_or((source, ""));
        let action = r#"action = [{ kind = "http", url = "https://a.test", secret = "a" }]"#;
        let file = format!(
            "schema = 1\n[forward]\nallow_hosts = [\"a.test\"]\n\
             [[source]]\nname = \"s\"\n{}\n{action}\n{tables}",
            settings.replace("; ", "\n")
        );
        let config = Config::parse(&file)?;
        let source = config.source("s").unwrap();
        Ok((source.retention, source.rows_reason.clone()))
    }

    fn days(source: &str) -> u64 {
        let (retention, reason) = kept(source).unwrap();
        let short = matches!(reason, RowsReason::Short { .. });
        assert_eq!(short, retention.rows == KEEP_ROW_SHORT, "{source}");
        retention.rows.as_secs() / DAY
    }

    const SYNC: &str = "[source.sync]";

    #[test]
    fn each_condition_alone_makes_the_rows_long() {
        let sync = |settings: &str| format!("{SYNC}\n{settings}");
        let listed = |settings: &str| format!("{LIST}{settings}");
        let github = "fields = { owner = \"a\", repo = \"b\", hook = \"1\" }";
        let zendesk = "fields = { subdomain = \"a\", email = \"a@b.test\", webhook = \"W\" }";
        let changes = "fields = { client = \"a\", enterprise = \"1\" }";
        for (preset, tables, expected) in [
            ("stripe", sync(""), 35),
            // The source has no sync.
            ("stripe", String::new(), 90),
            // The signature covers no time, or its time is not checked.
            ("square", sync(""), 90),
            ("github", sync(github), 90),
            ("paypal", sync("fields.client = \"c\""), 90),
            // The list goes back 90 days.
            ("paddle", sync(""), 90),
            ("stripe", listed("retention_days = 30"), 35),
            ("stripe", listed("retention_days = 31"), 90),
            ("stripe", listed(""), 90),
            // The list is a log of deliveries, or a list of changes.
            ("zendesk", sync(zendesk), 90),
            ("box", sync(changes), 90),
        ] {
            let source = format!("preset = \"{preset}\"\n{tables}");
            assert_eq!(days(&source), expected, "{source}");
        }
    }

    #[test]
    fn a_set_retention_wins_and_a_trial_needs_the_rows() {
        for (settings, expected) in [
            ("retention = { rows = \"400d\" }", 400),
            ("retention = { rows = \"90d\" }", 90),
            ("retention = { rows = \"31d\" }", 31),
            ("mode = \"tee\"", 90),
            // The order of events does not need the rows of earlier events.
            ("order = { mode = \"latest_wins\" }", 35),
        ] {
            let source = format!("preset = \"stripe\"; {settings}\n{SYNC}");
            assert_eq!(days(&source), expected, "{source}");
        }
        let without_sync = "preset = \"github\"; retention = { rows = \"31d\" }";
        assert_eq!(days(without_sync), 31);
    }

    #[test]
    fn bodies_are_never_kept_for_longer_than_rows() {
        for (bodies, rows) in [(3, 35), (7, 35), (14, 35), (30, 35), (60, 90), (90, 90)] {
            let source = format!(
                "preset = \"stripe\"; retention = {{ bodies = \"{bodies}d\" }}\n[source.sync]"
            );
            assert_eq!(days(&source), rows, "{bodies}");
        }
        let error = kept("preset = \"stripe\"; retention = { bodies = \"180d\" }\n[source.sync]");
        let error = format!("{:#}", error.unwrap_err());
        assert!(error.contains("for longer than rows"), "{error}");
        assert!(KEEP_BODY < KEEP_ROW_SHORT && KEEP_ROW_SHORT < KEEP_ROW);
        assert!(LONGEST_REPETITION < KEEP_ROW_SHORT);
    }

    #[test]
    fn retries_of_more_than_a_month_make_the_rows_long() {
        let mut preset = Preset::embedded("stripe", &[].into()).unwrap();
        let sync = settings(preset.sync("default").unwrap());
        for (horizon, short) in [(None, true), (Some("30d"), true), (Some("31d"), false)] {
            preset.retry.horizon = horizon.map(str::to_owned);
            let facts = Facts::new(&preset, "default", Some(&sync), None);
            let reason = facts.rows_reason(KEEP_BODY);
            assert_eq!(
                matches!(reason, RowsReason::Short { .. }),
                short,
                "{horizon:?}"
            );
        }
    }

    /// Returns the settings of a source that uses this list.
    fn settings(list: &crate::webhook::preset::Sync) -> SourceSync {
        SourceSync {
            list: list.clone(),
            secret: String::new(),
            first_lookback: Duration::ZERO,
            overlap: Duration::ZERO,
            missing: super::super::Missing::Take,
            failed_only: false,
            account: None,
        }
    }

    /// Reads the conditions from the file of a preset, and not from the structs that the default
    /// uses.
    fn file_fulfils(file: &toml::Table, scheme: &toml::Value, sync: &toml::Value) -> bool {
        let kind = scheme["kind"].as_str().unwrap();
        let signed = scheme.get("message").and_then(toml::Value::as_str);
        let ts = scheme.get("ts");
        let is_checked = ts.is_some_and(|ts| {
            let enforced = ts
                .get("enforce")
                .is_none_or(|it| it.as_bool() == Some(true));
            let past = ts.get("past").and_then(toml::Value::as_integer);
            enforced && past.unwrap_or(300) < 29 * 24 * 3600
        });
        let signs_time = ["hmac", "hash", "ed25519", "ecdsa-p256", "rsa-sha256"].contains(&kind)
            && is_checked
            && signed.is_some_and(|message| message.contains("{ts}"));
        let jwt = scheme.get("jwt");
        let age = jwt.and_then(|jwt| jwt.get("iat_max_age"));
        let horizon = file.get("retry").and_then(|retry| retry.get("horizon"));
        let weeks = horizon.and_then(toml::Value::as_str).unwrap_or("none");
        let listed = sync.get("retention_days").and_then(toml::Value::as_integer);
        (signs_time || age.is_some())
            && !weeks.ends_with('w')
            && weeks
                .strip_suffix('d')
                .is_none_or(|days| days.parse::<u64>().unwrap() <= 30)
            && sync["kind"].as_str() == Some("event-log")
            && listed.is_some_and(|days| days <= 30)
    }

    #[test]
    fn the_default_follows_from_the_data_of_each_preset() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/presets");
        let mut short = BTreeSet::new();
        for id in Preset::ids() {
            let text = std::fs::read_to_string(format!("{folder}/{id}.toml")).unwrap();
            let file: toml::Table = text.parse().unwrap();
            let tables = |name: &str| {
                let tables = file.get(name).and_then(toml::Value::as_array);
                tables.cloned().unwrap_or_default()
            };
            let preset = Preset::embedded(id, &[].into()).unwrap();
            for (scheme, of_scheme) in preset.schemes.iter().zip(tables("verify")) {
                let decide = |sync: Option<&SourceSync>| {
                    let facts = Facts::new(&preset, &scheme.variant, sync, None);
                    facts.rows_reason(KEEP_BODY)
                };
                assert!(matches!(decide(None), RowsReason::Long(_)), "{id}");
                for (sync, of_sync) in preset.syncs.iter().zip(tables("sync")) {
                    let reason = decide(Some(&settings(sync)));
                    let is_short = matches!(reason, RowsReason::Short { .. });
                    let expected = file_fulfils(&file, &of_scheme, &of_sync);
                    let variants = (&scheme.variant, &sync.variant);
                    assert_eq!(is_short, expected, "{id}, {variants:?}: {reason:?}");
                    if is_short {
                        short.insert(id);
                    }
                }
            }
        }
        let names: Vec<String> = short.iter().map(|id| format!("`{id}`")).collect();
        let sentence = format!("keep rows for 35 days: {}.", names.join(", "));
        let page = include_str!("../../../infra/docs/retention.md");
        assert!(page.contains(&sentence), "retention.md lacks: {sentence}");
    }
}
