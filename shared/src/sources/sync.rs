//! Reads `[source.sync]`, which configures how Mitt finds events of a source that never arrived.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use serde::Deserialize;

use super::{Forward, check_name, duration};
use crate::base::setting_path::At as _;
use crate::webhook::preset::{FetchedAccount, Preset, Sync, SyncKind};

/// The default overlap. A run lists events from this time before the cursor. A preset can set a
/// longer overlap.
const OVERLAP: Duration = Duration::from_secs(15 * 60);

/// The settings with which the sync finds missed events of a source.
#[derive(Debug)]
pub struct SourceSync {
    /// The provider's list of events, with the values of this source.
    pub list: Sync,
    /// The name of the API key below the secrets path of backup-sync.
    pub secret: String,
    /// How far back in time the first run lists events.
    pub first_lookback: Duration,
    /// The time before the cursor from which a run lists events. It must be longer than the delay
    /// with which events appear in the provider's list.
    pub overlap: Duration,
    pub missing: Missing,
    /// Skips events that the list reports as delivered.
    pub failed_only: bool,
    /// The account of the events. `None` uses the JSON locations of the source or the preset.
    pub account: Option<FetchedAccount>,
}

/// The way in which the sync gets an event that never arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// Takes the event from the provider's API.
    #[default]
    Take,
    /// Requests that the provider delivers the event again, as a signed webhook.
    Redeliver,
}

/// The `sync` table of a source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSync {
    variant: Option<String>,
    /// A custom list, with the settings of a preset's `[[sync]]`.
    list: Option<Sync>,
    #[serde(default)]
    fields: BTreeMap<String, String>,
    secret: Option<String>,
    first_lookback: Option<String>,
    overlap: Option<String>,
    #[serde(default)]
    missing: Missing,
    #[serde(default)]
    failed_only: bool,
    account: Option<String>,
}

impl FileSync {
    pub(super) fn checked(
        self,
        preset: &Preset,
        source: &str,
        forward: &Forward,
    ) -> anyhow::Result<SourceSync> {
        let list = self.list_of(preset)?;
        let list = list.filled(&self.fields).at("fields").needs("variant")?;
        let key = if self.list.is_some() {
            "list"
        } else {
            "fields"
        };
        for url in list.urls() {
            check_sync_url(url, forward).at(key)?;
        }
        let secret = self.secret.clone().unwrap_or_else(|| source.to_owned());
        check_name("a secret's name", &secret).at("secret")?;
        self.check_missing(&list, preset)
            .at("missing")
            .needs("variant")?;
        self.check_failed_only(&list, preset)
            .at("failed_only")
            .needs("variant")?;
        self.check_first_lookback(&list, preset)
            .at("first_lookback")
            .needs("variant")?;
        let parsed =
            |text: Option<&str>, default: Duration| text.map_or(Ok(default), duration::parse);
        let own = parsed(list.overlap.as_deref(), OVERLAP).context("the preset's overlap")?;
        Ok(SourceSync {
            secret,
            first_lookback: parsed(self.first_lookback.as_deref(), OVERLAP)
                .within("first_lookback")?,
            overlap: parsed(self.overlap.as_deref(), own).within("overlap")?,
            missing: self.missing,
            failed_only: self.failed_only,
            account: self
                .account
                .map(|text| FetchedAccount::parse(&text))
                .transpose()
                .within("account")?,
            list,
        })
    }

    fn list_of<'l>(&'l self, preset: &'l Preset) -> anyhow::Result<&'l Sync> {
        match (&self.list, &self.variant) {
            (None, variant) => of_preset(preset, variant.as_deref()).at("variant"),
            (Some(list), None) => {
                list.check().within("list")?;
                Ok(list)
            }
            (Some(_), Some(_)) => Err(anyhow!(
                "variant selects a preset's list; remove variant or list"
            ))
            .at("variant")
            .needs("list"),
        }
    }

    fn check_missing(&self, list: &Sync, preset: &Preset) -> anyhow::Result<()> {
        ensure!(
            self.missing == Missing::Take || list.redeliver.is_some(),
            "missing = \"redeliver\": preset {} does not support redelivery; use missing = \"take\" \
             to take the event from the list",
            preset.id
        );
        Ok(())
    }

    fn check_failed_only(&self, list: &Sync, preset: &Preset) -> anyhow::Result<()> {
        ensure!(
            !self.failed_only || list.delivered.is_some(),
            "failed_only: the list of preset {} does not report which events were delivered; \
             remove failed_only",
            preset.id
        );
        Ok(())
    }

    fn check_first_lookback(&self, list: &Sync, preset: &Preset) -> anyhow::Result<()> {
        ensure!(
            list.kind != SyncKind::ChangeCursor
                || list.mark.is_none()
                || self.first_lookback.is_none(),
            "first_lookback: Mitt reads the list of preset {} from a position, not from a time; \
             remove first_lookback",
            preset.id
        );
        Ok(())
    }
}

fn of_preset<'p>(preset: &'p Preset, variant: Option<&str>) -> anyhow::Result<&'p Sync> {
    let variant = variant.unwrap_or("default");
    preset.sync(variant).with_context(|| {
        let known: Vec<_> = preset.syncs.iter().map(|sync| &sync.variant[..]).collect();
        if known.is_empty() {
            return format!(
                "preset {} has no list of events for a sync; define a list in [source.sync.list]",
                preset.id
            );
        }
        format!(
            "preset {} has no sync {variant:?}; it has {}",
            preset.id,
            known.join(", ")
        )
    })
}

/// Requires https, because the request contains the API key. Tests may use http on this machine.
pub(super) fn check_sync_url(url: &str, forward: &Forward) -> anyhow::Result<()> {
    let host = url.split(['/', '?', '#']).nth(2).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let loopback = matches!(name, "127.0.0.1" | "localhost" | "[::1]");
    ensure!(
        url.starts_with("https://") || (loopback && forward.allow_loopback),
        "the URL {url:?} must begin with https://, because the request contains the API key"
    );
    ensure!(
        !host.is_empty() && !host.contains(['@', '{']),
        "the URL {url:?} has no valid host"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Config;

    fn sync(preset: &str, sync: &str) -> anyhow::Result<SourceSync> {
        let config = Config::parse(&format!(
            "schema = 1\n[[source]]\nname = \"s\"\npreset = \"{preset}\"\n\
             [[source.action]]\nkind = \"keep\"\n[source.sync]\n{sync}\n"
        ))?;
        let mut sources = config.sources.into_values();
        let source = sources.next().context("no source")?;
        source.sync.context("the source has no sync")
    }

    /// A list that is not in any preset.
    const OWN: &str = r#"kind = "event-log"
docs = "https://acme.test/docs"
checked = "2026-11"
auth = { kind = "bearer" }
items = "data"
id = ["item:id"]
retention_days = 3
request = { url = "https://api.acme.test/events" }"#;

    const GITHUB: &str = "fields = { owner = \"acme\", repo = \"a.b\", hook = \"12\" }";

    #[test]
    fn the_values_of_a_source_stand_in_the_requests() {
        let github = sync("github", GITHUB).unwrap();
        let url = "https://api.github.com/repos/acme/a.b/hooks/12/deliveries";
        assert_eq!(github.list.request.url, url);
        let fetch = github.list.fetch.unwrap().url;
        assert_eq!(fetch, format!("{url}/{{item:id}}"));
        assert_eq!((github.missing, github.failed_only), (Missing::Take, false));

        let gitlab = "fields = { project = \"group/my project\", hook = \"1\" }";
        let gitlab = sync("gitlab", gitlab).unwrap();
        let url = &gitlab.list.request.url;
        assert!(
            url.contains("/projects/group%2Fmy%20project/hooks/1/"),
            "{url}"
        );

        let graph = "fields = { resource = \"users/7/messages\", tenant = \"t\", client = \"c\" }";
        let graph = sync("microsoft-graph", graph).unwrap();
        assert!(
            graph
                .list
                .request
                .url
                .ends_with("/v1.0/users/7/messages/delta")
        );
        assert_eq!(sync("stripe", "").unwrap().overlap, OVERLAP);
        let hour = Duration::from_secs(3600);
        let jira = "fields = { site = \"acme\", email = \"a@acme.test\" }";
        assert_eq!(sync("jira", jira).unwrap().overlap, hour);
    }

    #[test]
    fn a_wrong_sync_is_refused_with_what_was_meant() {
        for (preset, text, said) in [
            ("slack", "", "no list of events"),
            (
                "github",
                "",
                "field hook is missing: the number of the webhook",
            ),
            ("github", "", "fields = { hook = "),
            ("github", "variant = \"team\"", "it has default, org, app"),
            (
                "github",
                "fields = { ownr = \"a\" }",
                "known fields: hook, owner, repo",
            ),
            (
                "github",
                &GITHUB.replace("acme", "a/b"),
                "the value does not match",
            ),
            (
                "github",
                &GITHUB.replace("a.b", ".."),
                "would change the path",
            ),
            ("github", &GITHUB.replace("12", ""), "1 to 300 characters"),
            (
                "shopify",
                "fields = { shop = \"evil.test#\" }",
                "field shop",
            ),
            (
                "stripe",
                "missing = \"redeliver\"",
                "does not support redelivery",
            ),
            ("stripe", "missing = \"ask\"", "`redeliver`"),
            (
                "stripe",
                "failed_only = true",
                "does not report which events were delivered",
            ),
            (
                "asana",
                "fields = { resource = \"1\" }\nfirst_lookback = \"1h\"",
                "from a position, not from a time",
            ),
            ("stripe", "overlap = \"soon\"", "invalid duration"),
        ] {
            let error = format!("{:#}", sync(preset, text).map(|_| ()).unwrap_err());
            assert!(error.contains(said), "{preset} {text}\n{error}");
        }
        let clear = "schema = 1\n[[source]]\nname = \"s\"\npreset = \"stripe\"\n\
                     params = { api = \"http://api.stripe.com\" }\n\
                     [[source.action]]\nkind = \"keep\"\n[source.sync]\n";
        let error = format!("{:#}", Config::parse(clear).map(|_| ()).unwrap_err());
        assert!(error.contains("must begin with https://"), "{error}");
    }

    #[test]
    fn a_custom_list_is_checked_like_that_of_a_preset() {
        let own = sync("standard-webhooks", &format!("[source.sync.list]\n{OWN}")).unwrap();
        assert_eq!(own.list.request.url, "https://api.acme.test/events");
        for (text, said) in [
            (
                format!("variant = \"org\"\n[source.sync.list]\n{OWN}"),
                "remove variant or list",
            ),
            (
                format!(
                    "[source.sync.list]\n{}",
                    OWN.replace("https://api", "http://api")
                ),
                "must begin with https://",
            ),
            (
                format!(
                    "[source.sync.list]\n{OWN}\nfetch = {{ url = \"http://acme.test/{{item:id}}\" }}"
                ),
                "must begin with https://",
            ),
            (
                format!("[source.sync.list]\n{}", OWN.replace("item:id", "json:id")),
                "item:, const:",
            ),
        ] {
            let error = format!(
                "{:#}",
                sync("standard-webhooks", &text).map(|_| ()).unwrap_err()
            );
            assert!(error.contains(said), "{text}\n{error}");
        }
    }
}
