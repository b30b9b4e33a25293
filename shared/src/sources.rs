//! Reads `infra/sources.toml`, which configures the sources and the actions for their events.
//!
//! The file is in git, and the build embeds it. It contains the names of secrets, but no secret.
//! Mitt rejects the whole file if one setting is invalid. The error names the line and suggests a
//! fix.

mod action;
mod address;
mod answers;
mod bounds;
mod context;
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
mod refusal;
mod retention;
mod retry;
mod rows;
pub mod rules;
pub mod settings;
mod signing;
mod source;
mod store;
mod sync;
mod trial;
pub mod url_template;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Error, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use toml::Spanned;
use toml::de::DeTable;

use crate::base::setting_path::{At as _, Step};
use crate::base::toml_error::{self, NotAName, refusal};
pub use action::{Action, ActionKind, Destination, Invocation, Pull};
pub use address::{is_fifo, is_on_this_machine};
pub use answers::AnswerRules;
pub use bounds::Bounds;
pub use endpoint::{Endpoint, Subscriber};
pub use filter::{Facts, Filter};
use policy::Retentions;
pub use rate::Rate;
pub use reconcile::{Compared, Local, LocalEndpoint, LocalTable, NamedBy, Reconcile};
pub use refusal::Refusal;
pub use signing::{Signing, Stale};
use source::FileSource;
pub use source::Source;
pub use store::SecretStore;
pub use sync::{Missing, SourceSync};
pub use trial::Trial;

/// The version of the file format that this code reads.
pub const SCHEMA: u32 = 1;

/// The message of the parser for a file without `schema`.
const MISSING_SCHEMA: &str = "missing field `schema`";

/// The content of `infra/sources.toml` at build time.
pub const EMBEDDED: &str = include_str!("../../infra/sources.toml");

/// The checked configuration.
#[derive(Debug)]
pub struct Config {
    sources: BTreeMap<String, Source>,
    pub forward: Forward,
    hash: String,
}

/// The hosts to which Mitt may send events.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    /// The allowed hosts of HTTP destinations. Mitt rejects all other hosts.
    #[serde(default)]
    pub allow_hosts: Vec<String>,
    /// Allows `http://` URLs of this machine, for the local stack and for tests.
    #[serde(default)]
    pub allow_loopback: bool,
}

impl Config {
    /// Parses and checks a file. The error names the line. It contains no value that may be a
    /// secret.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        Self::parse_with(text, |_| {})
    }

    /// Parses and checks a file for the local stack, whose destinations can be on the same machine.
    pub fn parse_for_dev(text: &str) -> anyhow::Result<Self> {
        Self::parse_with(text, |forward| forward.allow_loopback = true)
    }

    /// Parses and checks a configuration from the inbox table, within the limits of the deployment.
    pub fn parse_within(text: &str, bounds: &Bounds) -> anyhow::Result<Self> {
        let config = Self::parse(text)?;
        bounds.check(&config.forward, text)?;
        Ok(config)
    }

    /// Returns what the limits of the deployment do not allow.
    pub fn refusals_within(&self, bounds: &Bounds, text: &str) -> Vec<Refusal> {
        let errors = bounds.errors(&self.forward);
        let refusal = |error| Refusal::of_check(&error, text);
        errors.into_iter().map(refusal).collect()
    }

    /// Returns the hash of a file, as each row stores it.
    pub fn hash_of(text: &str) -> String {
        hex::encode(&Sha256::digest(text)[..4])
    }

    /// Returns the version of the file format of a text, if the text states one.
    pub fn schema_of(text: &str) -> Option<u32> {
        let schema = toml::from_str::<toml::Table>(text).ok()?.remove("schema")?;
        schema.as_integer()?.try_into().ok()
    }

    /// Checks a document whose syntax is valid. `text` is the file of the document.
    pub fn of_document(
        document: Spanned<DeTable<'_>>,
        text: &str,
        allow_loopback: bool,
    ) -> Result<Self, Refusal> {
        let file = File::deserialize(toml::Deserializer::from(document));
        let mut file = file.map_err(|error| Refusal::of_parser(&error))?;
        file.forward.allow_loopback |= allow_loopback;
        Self::checked(file, text).map_err(|error| Refusal::of_check(&error, text))
    }

    fn parse_with(text: &str, change: impl FnOnce(&mut Forward)) -> anyhow::Result<Self> {
        let file =
            toml::from_str(text).map_err(|error| Error::msg(refused_by_parser(&error, text)));
        let mut file: File = file?;
        change(&mut file.forward);
        Self::checked(file, text).map_err(|error| Error::msg(toml_error::refused(&error, text)))
    }

    fn checked(file: File, text: &str) -> anyhow::Result<Self> {
        check_schema(file.schema).at("schema")?;
        let hash = Self::hash_of(text);
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
            });
            let source = source.at(index).at("source")?;
            let is_new = sources.insert(name.clone(), source).is_none();
            check_new("source", &name, is_new).at(index).at("source")?;
        }
        share_rates(&mut sources)?;
        store::one_for_each_secret(&sources)?;
        Ok(Self {
            sources,
            forward: file.forward,
            hash,
        })
    }

    /// Returns the source with this name.
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.sources.get(name)
    }

    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.values()
    }

    /// Returns each reconciliation with its source.
    pub fn reconciles(&self) -> impl Iterator<Item = (&Source, &Reconcile)> {
        let of = |source| move |reconcile| (source, reconcile);
        self.sources()
            .flat_map(move |source: &Source| source.reconcile.iter().map(of(source)))
    }

    /// Returns the names of the secrets that are in Secrets Manager.
    pub fn managed_secrets(&self) -> BTreeSet<String> {
        let managed = |source: &&Source| source.secret_store == SecretStore::SecretsManager;
        let managed = self.sources().filter(managed);
        managed.map(|source| source.secret.clone()).collect()
    }

    /// Returns the names of the sources that have a trial.
    pub fn trials(&self) -> BTreeSet<String> {
        let trials = self.sources().filter(|source| source.trial.is_some());
        trials.map(|source| source.name.clone()).collect()
    }

    /// Returns the sources whose events the workers of a queue take.
    pub fn sources_of_queue<'c>(&'c self, queue: &'c str) -> impl Iterator<Item = &'c Source> {
        self.pulled().filter(move |source| {
            let pull = source.pull();
            pull.is_some_and(|(_, pull)| pull.queue == queue)
        })
    }

    /// Returns the sources whose events workers outside of Lambda take.
    pub fn pulled(&self) -> impl Iterator<Item = &Source> {
        self.sources().filter(|source| source.pull().is_some())
    }

    /// Returns the retention of each source.
    pub fn retentions(&self) -> Retentions {
        let sources = self.sources.iter();
        let retentions = sources.map(|(name, source)| (name.clone(), source.retention));
        retentions.collect::<BTreeMap<_, _>>().into()
    }

    /// The hash of this configuration. Each row stores the hash.
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

/// Describes an error of the parser. Most files without `schema` were written by hand.
fn refused_by_parser(error: &toml::de::Error, text: &str) -> String {
    let said = refusal(error, text);
    match error.message() {
        MISSING_SCHEMA => format!("{said}; add `schema = {SCHEMA}` as the first line"),
        _ => refusal::with_hint(error, said),
    }
}

fn check_schema(schema: u32) -> anyhow::Result<()> {
    ensure!(
        schema == SCHEMA,
        "schema {schema} is not supported; set schema = {SCHEMA}"
    );
    Ok(())
}

/// Rejects a name that another table of the same array already has.
fn check_new(what: &str, name: &str, is_new: bool) -> anyhow::Result<()> {
    let check = || {
        ensure!(
            is_new,
            "duplicate {what} {name:?}; set a different name for one of them"
        );
        Ok(())
    };
    check().at("name")
}

/// Applies the rate of a destination to all actions that call the destination. Only one of these
/// actions needs to set the rate.
fn share_rates(sources: &mut BTreeMap<String, Source>) -> anyhow::Result<()> {
    let mut rates = BTreeMap::new();
    for source in sources.values() {
        for (index, action) in source.actions.iter().enumerate() {
            let Some(destination) = &action.destination else {
                continue;
            };
            one_rate(destination, &mut rates)
                .at("rate")
                .at(index)
                .at("action")
                .at(Step::Named(source.name.clone()))
                .at("source")?;
        }
    }
    for source in sources.values_mut() {
        let actions = source.actions.iter_mut();
        for destination in actions.filter_map(|action| action.destination.as_mut()) {
            destination.rate = rates.get(&destination.name).copied();
        }
    }
    Ok(())
}

/// Rejects a second rate of a destination.
fn one_rate(destination: &Destination, rates: &mut BTreeMap<String, Rate>) -> anyhow::Result<()> {
    let Some(rate) = destination.rate else {
        return Ok(());
    };
    let known = *rates.entry(destination.name.clone()).or_insert(rate);
    ensure!(
        known == rate,
        "destination {:?} has two rates; set one rate, or use two destination names",
        destination.name
    );
    Ok(())
}

/// Checks a name, because a name becomes part of keys, paths and URLs.
fn check_name(what: &'static str, name: &str) -> anyhow::Result<()> {
    if is_name(name) {
        Ok(())
    } else {
        Err(NotAName::new(what, name).into())
    }
}

/// Returns whether a text has the form of a name.
pub fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty() && name.len() <= 40 && name.bytes().all(fits)
}

/// Checks whether Mitt may send events to a URL. The errors show only the host, because a URL can
/// contain a key.
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
    ensure!(!host.is_empty(), "the url has no host; add a host");
    let loopback = is_on_this_machine(url);
    if loopback && forward.allow_loopback {
        return Ok(());
    }
    ensure!(
        scheme == "https",
        "host {host:?}: the url must begin with https://"
    );
    check_allowed(host, forward).needs_of_file("forward")
}

fn check_allowed(host: &str, forward: &Forward) -> anyhow::Result<()> {
    ensure!(
        forward.allow_hosts.iter().any(|allowed| allowed == host),
        "the host {host:?} is not in forward.allow_hosts; add the host if Mitt may send events to \
         it"
    );
    Ok(())
}

#[cfg(test)]
mod tests;
