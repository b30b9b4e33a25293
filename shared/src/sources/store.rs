//! Reads `secret_store`, the AWS service that stores the secret of a source.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::Source;
use crate::base::setting_path::{At as _, Step};
use crate::webhook::preset::Preset;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretStore {
    /// SSM Parameter Store. Each value has a slot.
    #[default]
    ParameterStore,
    /// AWS Secrets Manager. Each live version has a label.
    SecretsManager,
}

impl SecretStore {
    pub(super) fn check(self, preset: &Preset, variant: &str) -> anyhow::Result<()> {
        if self == Self::ParameterStore {
            return Ok(());
        }
        let scheme = preset.scheme(variant);
        ensure!(
            scheme.is_some_and(crate::webhook::preset::Scheme::needs_secret),
            "secret_store: Mitt verifies requests of preset {} without a secret; remove \
             secret_store",
            preset.id
        );
        let mut handshakes = preset.handshakes.iter();
        ensure!(
            handshakes.all(|handshake| handshake.store_secret_from.is_none()),
            "secret_store: the provider of preset {} sets its secret by a handshake; use \
             \"parameter-store\"",
            preset.id
        );
        Ok(())
    }
}

/// Rejects a secret if two sources read it from different stores.
pub(super) fn one_for_each_secret(sources: &BTreeMap<String, Source>) -> anyhow::Result<()> {
    let mut stores = BTreeMap::new();
    for source in sources.values() {
        let store = source.secret_store;
        let known = *stores.entry(&source.secret).or_insert(store);
        one_store(&source.secret, known == store)
            .at("secret_store")
            .at(Step::Named(source.name.clone()))
            .at("source")?;
    }
    Ok(())
}

fn one_store(secret: &str, is_one: bool) -> anyhow::Result<()> {
    ensure!(
        is_one,
        "secret {secret:?} has two values of secret_store; set the same value, or use two secret \
         names"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    use crate::sources::Config;

    /// Google signs these requests with keys that it publishes.
    const PUBSUB: &str = "secret_store = \"secrets-manager\"\n\
        params = { audience = \"https://in.example\", email = \"push@in.example\" }";

    fn read(sources: &[(&str, &str, &str)]) -> Result<BTreeSet<String>, String> {
        let mut text = "schema = 1\n".to_owned();
        for (name, preset, more) in sources {
            write!(
                text,
                "[[source]]\nname = \"{name}\"\npreset = \"{preset}\"\n{more}\n\
                 action = [{{ kind = \"keep\" }}]\n"
            )
            .unwrap();
        }
        let config = Config::parse(&text).map_err(|error| format!("{error:#}"))?;
        Ok(config.managed_secrets())
    }

    #[test]
    fn a_secret_is_in_the_parameter_store_unless_its_source_says_otherwise() {
        let managed = "secret_store = \"secrets-manager\"";
        let two = [
            ("shop", "shopify", managed),
            ("code", "github", "secret_store = \"parameter-store\""),
            ("pay", "stripe", ""),
        ];
        assert_eq!(read(&two), Ok(BTreeSet::from(["shop".to_owned()])));
        let shared = format!("{managed}\nsecret = \"both\"");
        let both = [
            ("one", "github", shared.as_str()),
            ("two", "github", shared.as_str()),
        ];
        assert_eq!(read(&both), Ok(BTreeSet::from(["both".to_owned()])));
    }

    #[test]
    fn a_store_that_cannot_hold_the_secret_is_refused() {
        let managed = "secret_store = \"secrets-manager\"";
        for (sources, said) in [
            (
                &[
                    (
                        "one",
                        "github",
                        "secret = \"both\"\nsecret_store = \"secrets-manager\"",
                    ),
                    ("two", "github", "secret = \"both\""),
                ][..],
                "secret \"both\" has two values",
            ),
            (
                &[("tasks", "asana", managed)][..],
                "sets its secret by a handshake",
            ),
            (&[("push", "google-pubsub", PUBSUB)][..], "without a secret"),
            (
                &[("shop", "shopify", "secret_store = \"vault\"")][..],
                "unknown variant",
            ),
        ] {
            let error = read(sources).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
