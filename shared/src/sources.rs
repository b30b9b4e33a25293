//! `infra/sources.toml`: the sources, and the actions for their events.
//!
//! The file is in git and embedded at build. It names secrets and contains none. An invalid file is
//! rejected as a whole; the error names the line and a suggestion.

mod action;
mod address;
mod duration;
mod endpoint;
mod filter;
mod order;
pub mod ordering;
pub mod policy;
mod public_url;
mod quarantine;
mod quiet;
mod rate;
mod reconcile;
mod retention;
mod retry;
mod source;
mod store;
mod sync;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Error, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::base::toml_error::{self, NotAName, refusal};
pub use action::{Action, ActionKind, Destination, Invocation};
pub use address::is_fifo;
pub use endpoint::{Endpoint, Subscriber};
pub use filter::Filter;
use policy::Retentions;
pub use rate::Rate;
pub use reconcile::{Compared, Local, LocalEndpoint, LocalTable, NamedBy, Reconcile};
use source::FileSource;
pub use source::Source;
pub use store::SecretStore;
pub use sync::{Missing, SourceSync};

/// The content of the file at build.
pub const EMBEDDED: &str = include_str!("../../infra/sources.toml");

/// The checked configuration.
#[derive(Debug)]
pub struct Config {
    sources: BTreeMap<String, Source>,
    pub forward: Forward,
    hash: String,
}

/// The hosts that events may be sent to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    /// Hosts of HTTP destinations. Other hosts are rejected.
    #[serde(default)]
    pub allow_hosts: Vec<String>,
    /// Permits `http://` to this machine, for the local stack and for tests.
    #[serde(default)]
    pub allow_loopback: bool,
}

impl Config {
    /// Reads and checks a file. An error names the line and contains no value that may be a secret.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let file = toml::from_str(text).map_err(|error| Error::msg(refusal(&error, text)))?;
        Self::checked(file, text).map_err(|error| Error::msg(toml_error::refused(&error, text)))
    }

    fn checked(file: File, text: &str) -> anyhow::Result<Self> {
        ensure!(
            file.schema == 1,
            "unsupported schema {} (expected 1)",
            file.schema
        );
        let hash = hex::encode(&Sha256::digest(text)[..4]);
        let mut sources = BTreeMap::new();
        for (index, source) in file.source.into_iter().enumerate() {
            let name = source.name.clone();
            let source = source.checked(&file.forward, &hash);
            let source = source.with_context(|| {
                if is_name(&name) {
                    format!("source {name:?}")
                } else {
                    format!("source {}", index + 1)
                }
            })?;
            ensure!(
                sources.insert(name.clone(), source).is_none(),
                "duplicate source {name:?}"
            );
        }
        share_rates(&mut sources)?;
        store::one_for_each_secret(&sources)?;
        Ok(Self {
            sources,
            forward: file.forward,
            hash,
        })
    }

    /// The source of this name.
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.sources.get(name)
    }

    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.values()
    }

    /// Every comparison with a provider's objects, with its source.
    pub fn reconciles(&self) -> impl Iterator<Item = (&Source, &Reconcile)> {
        let of = |source| move |reconcile| (source, reconcile);
        self.sources()
            .flat_map(move |source: &Source| source.reconcile.iter().map(of(source)))
    }

    /// The names of the secrets in Secrets Manager.
    pub fn managed_secrets(&self) -> BTreeSet<String> {
        let managed = |source: &&Source| source.secret_store == SecretStore::SecretsManager;
        let managed = self.sources().filter(managed);
        managed.map(|source| source.secret.clone()).collect()
    }

    /// The retention of the events of each source.
    pub fn retentions(&self) -> Retentions {
        let sources = self.sources.iter();
        let retentions = sources.map(|(name, source)| (name.clone(), source.retention));
        retentions.collect::<BTreeMap<_, _>>().into()
    }

    /// The hash of this configuration, which each row stores.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    #[serde(default)]
    forward: Forward,
    #[serde(default)]
    source: Vec<FileSource>,
}

/// Applies the rate of a destination to all actions that use it. One action is enough to set it.
fn share_rates(sources: &mut BTreeMap<String, Source>) -> anyhow::Result<()> {
    let all = || sources.values().flat_map(|source| &source.actions);
    let mut rates = BTreeMap::new();
    for destination in all().filter_map(|action| action.destination.as_ref()) {
        let Some(rate) = destination.rate else {
            continue;
        };
        let known = *rates.entry(destination.name.clone()).or_insert(rate);
        ensure!(
            known == rate,
            "destination {:?} has two rates; set one rate, or use two destination names",
            destination.name
        );
    }
    for source in sources.values_mut() {
        let actions = source.actions.iter_mut();
        for destination in actions.filter_map(|action| action.destination.as_mut()) {
            destination.rate = rates.get(&destination.name).copied();
        }
    }
    Ok(())
}

/// Names become part of keys, paths and URLs.
fn check_name(what: &'static str, name: &str) -> anyhow::Result<()> {
    if is_name(name) {
        Ok(())
    } else {
        Err(NotAName::new(what, name).into())
    }
}

fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty() && name.len() <= 40 && name.bytes().all(fits)
}

/// Checks whether events may be sent to a URL. Errors show only the host, because a URL can contain
/// a key.
fn check_url(url: &str, forward: &Forward) -> anyhow::Result<()> {
    let (scheme, rest) = url
        .split_once("://")
        .context("invalid url; use a URL like https://hooks.example.com/orders")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    ensure!(
        !authority.contains('@'),
        "the url contains a user name; remove it"
    );
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    ensure!(!host.is_empty(), "the url has no host");
    let loopback = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    if loopback && forward.allow_loopback {
        return Ok(());
    }
    ensure!(
        scheme == "https",
        "{host:?}: the url must begin with https://"
    );
    ensure!(
        forward.allow_hosts.iter().any(|allowed| allowed == host),
        "{host:?} is not in forward.allow_hosts; add it if events may be sent to this host"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const GOOD: &str = r#"
schema = 1
[forward]
allow_hosts = ["hooks.example.com"]
[[source]]
name = "stripe-main"
preset = "stripe"
retry = { attempts = 3, waits = ["1s", "2m"] }
[[source.action]]
kind = "http"
url = "https://hooks.example.com/stripe"
secret = "orders"
[source.sync]
"#;

    #[test]
    fn the_embedded_file_is_good() {
        let config = Config::parse(EMBEDDED).unwrap();
        assert!(config.sources().count() > 0);
    }

    #[test]
    fn every_setting_has_a_default() {
        let config = Config::parse(GOOD).unwrap();
        let source = config.source("stripe-main").unwrap();
        assert_eq!(
            (source.secret.as_str(), source.max_body),
            ("stripe-main", 1_048_576)
        );
        assert_eq!(
            (source.backoff.attempts, source.backoff.waits.len()),
            (3, 2)
        );
        assert_eq!(
            source.sync.as_ref().unwrap().overlap,
            Duration::from_secs(900)
        );
        assert!(config.source("other").is_none());
        assert_eq!(config.hash().len(), 8);
    }

    #[test]
    fn a_destination_has_one_rate_for_all_of_its_actions() {
        let more = r#"
[[source.action]]
kind = "lambda"
function = "orders"
[[source.action]]
kind = "lambda"
name = "again"
function = "orders:live"
rate = "5/s"
"#;
        let config = Config::parse(&format!("{GOOD}{more}")).unwrap();
        let actions = &config.source("stripe-main").unwrap().actions;
        let rates: Vec<_> = actions
            .iter()
            .filter_map(|action| Some(action.destination.as_ref()?.rate?.calls))
            .collect();
        assert_eq!(rates, [5, 5]);
        let two = more.replace("\"orders\"\n", "\"orders\"\nrate = \"6/s\"\n");
        let error = Config::parse(&format!("{GOOD}{two}")).unwrap_err();
        assert!(format!("{error:#}").contains("two rates"), "{error:#}");
    }

    #[test]
    fn a_source_may_be_given_what_it_trusts() {
        let plaid = r#"
schema = 1
[[source]]
name = "plaid"
preset = "plaid"
[source.trust]
arming = false
jwks = '{"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "x": "AA", "y": "AA"}]}'
[[source.action]]
kind = "keep"
"#;
        let config = Config::parse(plaid).unwrap();
        let trust = &config.source("plaid").unwrap().verifier.trust;
        assert_eq!((trust.arming, trust.has_jwks()), (Some(false), true));

        let roots = "certificates = { roots = '-----BEGIN CERTIFICATE-----' }";
        let error = Config::parse(&plaid.replace("arming = false", roots)).unwrap_err();
        assert!(format!("{error:#}").contains("the roots"), "{error:#}");
    }

    #[test]
    fn a_key_in_the_wrong_place_is_not_repeated() {
        const KEY: &str = "sk_live_51H8xQzR";
        for (from, to, line, said) in [
            ("\"orders\"", "\"KEY\"", 12, "a secret's name must have"),
            ("\"orders\"", "KEY", 12, "secret: "),
            ("\"orders\"", "{ KEY = 1 }", 12, "secret: invalid type: map"),
            (
                "\"stripe-main\"",
                "\"KEY\"",
                6,
                "source 1: a source's name must have",
            ),
            ("\"stripe\"\n", "\"KEY_0\"\n", 7, "unknown preset"),
            (
                "schema = 1",
                "schema = \"KEY\"",
                2,
                "schema: invalid type: string",
            ),
            ("schema = 1", "schema = 1\nKEY = 1", 3, "unknown field"),
            ("schema = 1", "schema = 1\nKEY", 3, ""),
            ("\"http\"", "\"KEY\"", 10, "unknown variant …"),
            ("3, waits", "\"KEY\", waits", 8, "attempts: invalid type"),
            ("\"2m\"", "\"KEY_0\"", 8, "invalid duration"),
            (
                "\"stripe\"\n",
                "\"stripe\"\nparams = { KEY_0 = \"1\" }\n",
                8,
                "unknown parameter",
            ),
            (
                "\"stripe\"\n",
                "\"stripe\"\ntrust = { api_secret = \"KEY\" }\n",
                8,
                "trust.api_secret must have",
            ),
            (
                "[source.sync]",
                "[source.sync]\nsecret = \"KEY\"",
                14,
                "a secret's name must have",
            ),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let to = to.replace("KEY", KEY);
            let error = Config::parse(&GOOD.replacen(from, &to, 1)).unwrap_err();
            for told in [format!("{error:#}"), format!("{error:?}")] {
                assert!(!told.contains("51H8"), "{to}: {told}");
                assert!(told.starts_with(&format!("line {line}: ")), "{to}: {told}");
                assert!(told.contains(said), "{to}: {told}");
            }
        }
        for (from, to) in [
            ("https://hooks", "https://u:KEY@hooks"),
            ("https://hooks.example.com/stripe", "KEY"),
            ("https://hooks.example.com/", "https:///KEY"),
            ("https://hooks", "http://hooks.example.com/KEY"),
        ] {
            let to = to.replace("KEY", KEY);
            let error = Config::parse(&GOOD.replacen(from, &to, 1)).unwrap_err();
            let told = format!("{error:#}");
            assert!(!told.contains("51H8"), "{to}: {told}");
            assert!(told.contains("action \"http\": "), "{to}: {told}");
        }
    }

    #[test]
    fn a_wrong_file_is_refused_with_what_was_meant() {
        for (from, to, said) in [
            ("preset = \"stripe\"", "presett = \"stripe\"", "line 7"),
            ("preset = \"stripe\"", "presett = \"stripe\"", "`preset`"),
            ("\"stripe\"\n", "\"strpe\"\n", "unknown preset \"strpe\""),
            (
                "stripe-main",
                "Stripe Main",
                "a source's name must have 1 to 40",
            ),
            ("kind = \"http\"", "kind = \"htp\"", "`http`"),
            ("[forward]", "[forward]\nallow_host = []", "allow_hosts"),
            ("https://hooks", "https://evil", "forward.allow_hosts"),
            ("https://hooks", "http://hooks", "must begin with https://"),
            ("https://hooks", "https://u@hooks", "contains a user name"),
            (
                "https://hooks.example.com",
                "http://127.0.0.1:1",
                "must begin with https://",
            ),
            ("attempts = 3", "attempts = 0", "between 1 and 50"),
            ("\"2m\"", "\"2 parsecs\"", "2 parsecs"),
            ("\"2m\"", "\"25h\"", "at most 24h"),
            ("schema = 1", "schema = 1\nquarantine = 5", "`quarantine`"),
            (
                "retry = {",
                "quarantine = { perday = 1 }\nretry = {",
                "`per_day`",
            ),
            (
                "\"stripe\"\n",
                "\"sns\"\nquarantine = { per_day = 0 }\n",
                "needs the quarantine",
            ),
            (
                "retry =",
                "trust = { fetch_from = \"https://evil\" }\nretry =",
                "forward.allow_hosts",
            ),
            ("\"stripe\"\n", "\"ebay\"\n", "trust.keys"),
            (
                "\"stripe\"\n",
                "\"mollie\"\nvariant = \"classic\"\n",
                "--name /<stack>/provider-api/NAME/current",
            ),
            (
                "retry =",
                "retention = { rows = \"120d\" }\norder = { mode = \"latest_wins\" }\nretry =",
                "less than 120d",
            ),
            ("\"stripe\"\n", "\"plaid\"\n", "trust.jwks"),
            ("\"stripe\"\n", "\"google-pubsub\"\n", "is not set"),
            (
                "retry =",
                "trust = { jwks = \"x\" }\nretry =",
                "invalid key set",
            ),
            ("secret = \"orders\"", "", "secret is missing"),
            ("schema = 1", "schema = 2", "schema 2"),
            ("schema = 1", "schema = ", "line 2"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = format!(
                "{:#}",
                Config::parse(&GOOD.replacen(from, to, 1)).unwrap_err()
            );
            assert!(error.contains(said), "{to}: {error}");
        }
        let twice = format!(
            "{GOOD}\n{}",
            GOOD.split_once("[[source]]")
                .map(|(_, s)| format!("[[source]]{s}"))
                .unwrap()
        );
        assert!(format!("{:#}", Config::parse(&twice).unwrap_err()).contains("duplicate"));
    }
}
