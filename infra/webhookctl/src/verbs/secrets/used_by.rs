//! Finds the sources that use a secret.

use std::collections::{BTreeMap, BTreeSet};

use shared::sources::Config;

use crate::verbs::doctor::wanted_secrets;

/// The names of the sources, by the kind and the name of a secret.
pub(super) type UsedBy = BTreeMap<(&'static str, String), BTreeSet<String>>;

/// Returns the secrets that the configuration names.
pub(super) fn used_by(config: &Config) -> UsedBy {
    let mut used = UsedBy::new();
    for source in config.sources() {
        let required = wanted_secrets(source).into_iter();
        let required = required.map(|wanted| (wanted.kind, wanted.name));
        for secret in required {
            used.entry(secret).or_default().insert(source.name.clone());
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_secret_that_a_source_names_is_found() {
        let text = "schema = 1\n[forward]\nallow_hosts = [\"a.example\"]\n\
                    [[source]]\nname = \"shop\"\npreset = \"stripe\"\n\
                    order = { mode = \"fetch\", url = \"https://a.example/{entity}\", secret = \"state\", \
                    version = \"json:updated\", compare = \"time\" }\n\
                    [[source.action]]\nkind = \"http\"\nurl = \"https://a.example/\"\nsecret = \"app\"\n\
                    [[source.reconcile]]\nobjects = \"subscriptions\"\nfields = [{ name = \"status\" }]\n\
                    [source.reconcile.local]\nkind = \"http\"\nurl = \"https://a.example/s\"\nsecret = \"mine\"\n";
        let used = used_by(&Config::parse(text).unwrap());
        let names: Vec<(&str, &str)> = used
            .keys()
            .map(|(kind, name)| (*kind, name.as_str()))
            .collect();
        assert_eq!(
            names,
            [
                ("egress", "app"),
                ("egress", "state"),
                ("ingress", "shop"),
                ("provider-api", "mine"),
                ("provider-api", "shop"),
            ]
        );
    }
}
