//! `account`, `accept_path` and `[source.context]`: the account of an event, and what is stored of
//! its request.

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::base::setting_path::At as _;
use crate::webhook::context::{ContextPolicy, Keep, NamePattern, is_transport};
use crate::webhook::envelope::is_credential;
use crate::webhook::preset::{AccountAt, Location, Preset, Scheme};
use crate::webhook::verify::{reads_secret_in, reads_secret_in_query};

/// The most entries of each list.
const MOST: usize = 32;

/// Headers that contain a credential of the sender and nothing else.
const NEVER_KEPT: [&str; 3] = ["authorization", "cookie", "set-cookie"];

/// The `context` table of a source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileContext {
    #[serde(default)]
    keep: Keep,
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    never: Vec<String>,
    #[serde(default = "yes")]
    query: bool,
}

impl Default for FileContext {
    fn default() -> Self {
        Self {
            keep: Keep::default(),
            also: Vec::new(),
            never: Vec::new(),
            query: true,
        }
    }
}

impl FileContext {
    pub(super) fn checked(self, scheme: &Scheme) -> anyhow::Result<ContextPolicy> {
        self.check_keep()
            .at("keep")
            .needs("also")
            .needs("never")
            .needs("query")?;
        check_length("also", &self.also).at("also")?;
        check_length("never", &self.never).at("never")?;
        for (index, name) in self.also.iter().enumerate() {
            let checked = check_also(name, scheme).with_context(|| format!("also {name:?}"));
            checked.at(index).at("also")?;
        }
        let never = self.never.iter().enumerate().map(|(index, text)| {
            let pattern = NamePattern::parse(text).with_context(|| {
                format!(
                    "never {text:?}: use the name of a header in lower case, with an optional * \
                     at the end"
                )
            });
            pattern.at(index).at("never")
        });
        Ok(ContextPolicy {
            keep: self.keep,
            never: never.collect::<anyhow::Result<_>>()?,
            also: self.also,
            without_query: !self.query,
        })
    }

    fn check_keep(&self) -> anyhow::Result<()> {
        let is_empty = self.also.is_empty() && self.never.is_empty() && self.query;
        ensure!(
            self.keep != Keep::None || is_empty,
            "keep = \"none\" stores no request; remove also, never and query"
        );
        Ok(())
    }
}

fn check_length(what: &str, names: &[String]) -> anyhow::Result<()> {
    ensure!(
        names.len() <= MOST,
        "{what} has {} entries; use at most {MOST}",
        names.len()
    );
    Ok(())
}

fn check_also(name: &str, scheme: &Scheme) -> anyhow::Result<()> {
    ensure!(
        NamePattern::parse(name).is_some() && !name.ends_with('*'),
        "use the name of a header in lower case"
    );
    ensure!(
        !is_transport(name),
        "this header belongs to the connection and is never kept"
    );
    ensure!(
        !NEVER_KEPT.contains(&name) && !reads_secret_in(scheme, name),
        "this header contains a credential of the sender and is never kept"
    );
    Ok(())
}

/// The locations of the account that a source sets.
pub(super) fn account(
    locations: &[String],
    accept_path: bool,
    preset: &Preset,
    scheme: &Scheme,
) -> anyhow::Result<Vec<AccountAt>> {
    ensure!(
        locations.len() <= MOST,
        "a source can have at most {MOST} locations"
    );
    let parsed = locations
        .iter()
        .enumerate()
        .map(|(index, text)| account_at(text, accept_path, preset, scheme).at(index));
    parsed.collect()
}

fn account_at(
    text: &str,
    accept_path: bool,
    preset: &Preset,
    scheme: &Scheme,
) -> anyhow::Result<AccountAt> {
    let at = AccountAt::parse(text)?;
    let secret = match &at {
        AccountAt::Path(_) => {
            ensure!(
                accept_path,
                "{text:?} needs accept_path = true: otherwise, requests with a path are \
                     answered with 404"
            );
            false
        }
        AccountAt::Request(Location::Header(names)) => names
            .iter()
            .any(|name| is_credential(name) || reads_secret_in(scheme, name)),
        AccountAt::Request(Location::Query(name)) => {
            is_credential(&name.replace('_', "-")) || reads_secret_in_query(scheme, name)
        }
        AccountAt::Request(Location::Item(_)) => {
            ensure!(
                preset.event.batch.is_some(),
                "{text:?}: the requests of preset {} have no items; use json:PATH",
                preset.id
            );
            false
        }
        AccountAt::Request(_) => false,
    };
    ensure!(
        !secret,
        "{text:?} contains a credential of the sender, and the account is shown in lists"
    );
    Ok(at)
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{Config, Source};

    fn source(preset: &str, lines: &str) -> anyhow::Result<Source> {
        let config = Config::parse(&format!(
            "schema = 1\n[[source]]\nname = \"shop\"\npreset = \"{preset}\"\n\
             action = [{{ kind = \"keep\" }}]\n{lines}\n"
        ))?;
        config.sources.into_values().next().context("no source")
    }

    #[test]
    fn the_settings_reach_the_verifier() {
        let plain = source("shopify", "").unwrap();
        assert!(!plain.accept_path);
        assert_eq!(
            plain.verifier.preset.settings.context,
            ContextPolicy::default()
        );
        assert_eq!(plain.verifier.preset.settings.account, []);
        let set = source(
            "shopify",
            "account = [\"header:X-Tenant\", \"query:tenant\", \"path:1\"]\naccept_path = true\n\
             [source.context]\nkeep = \"named\"\nalso = [\"x-once-token\"]\n\
             never = [\"x-debug-*\"]\nquery = false",
        );
        let set = set.unwrap();
        assert!(set.accept_path);
        let settings = &set.verifier.preset.settings;
        assert_eq!(settings.account.len(), 3);
        assert_eq!(settings.account[2], AccountAt::Path(1));
        assert_eq!(settings.context.keep, Keep::Named);
        assert!(settings.context.without_query);
    }

    #[test]
    fn a_wrong_setting_is_refused_with_what_was_meant() {
        for (preset, lines, said) in [
            ("shopify", "account = [\"tenant\"]", "header:NAME"),
            (
                "shopify",
                "account = [\"const:x\"]",
                "cannot contain an account",
            ),
            (
                "shopify",
                "account = [\"path:1\"]",
                "needs accept_path = true",
            ),
            ("shopify", "account = [\"item:a\"]", "use json:PATH"),
            ("shopify", "account = [\"header:x-token\"]", "a credential"),
            ("shopify", "account = [\"query:api_key\"]", "a credential"),
            (
                "gitlab",
                "account = [\"header:x-gitlab-token\"]",
                "a credential",
            ),
            ("shopify", "acount = []", "`account`"),
            ("shopify", "context = { keep = \"all\" }", "`provider`"),
            ("shopify", "context = { kept = 1 }", "`keep`"),
            (
                "shopify",
                "context = { keep = \"none\", query = false }",
                "remove also, never and query",
            ),
            ("shopify", "context = { also = [\"X-A\"] }", "in lower case"),
            ("shopify", "context = { also = [\"x-*\"] }", "in lower case"),
            ("shopify", "context = { also = [\"host\"] }", "connection"),
            ("shopify", "context = { also = [\"cookie\"] }", "never kept"),
            (
                "gitlab",
                "context = { also = [\"x-gitlab-token\"] }",
                "never kept",
            ),
            ("shopify", "context = { never = [\"*x\"] }", "optional *"),
            (
                "stripe",
                "sync = { account = \"header:x\" }",
                "use json:PATH, or the account itself",
            ),
        ] {
            let error = format!("{:#}", source(preset, lines).map(|_| ()).unwrap_err());
            assert!(error.contains(said), "{lines}\n{error}");
        }
    }
}
