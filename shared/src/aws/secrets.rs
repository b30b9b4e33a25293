//! Reads secrets from SSM Parameter Store or AWS Secrets Manager, and caches them.
//!
//! In Parameter Store, a secret has one or more slots. Each slot is a parameter with the name
//! `<path>/<name>/<slot>`. In Secrets Manager, a secret has the name `<prefix>/<name>`, and Mitt
//! reads each version that has a label. All values are live, so the old and the new value are both
//! valid during a rotation.

mod managed;
mod page;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use aws_sdk_ssm::operation::delete_parameter::DeleteParameterError;
use aws_sdk_ssm::operation::put_parameter::PutParameterError;
use aws_sdk_ssm::types::ParameterType;

use crate::aws::ParameterClient;
use crate::base::clock::UnixMillis;
pub use crate::webhook::secret::{Live, Secret};
pub use managed::{Managed, is_same, short};
use page::Page;

/// How long cached secrets are used before they are read again.
pub const FRESH: Duration = Duration::from_secs(300);

/// How long cached secrets are used while the store is unavailable.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// The minimum time between two reads after a request matched no value. It limits the calls that
/// forged requests can cause.
pub const REREAD: Duration = Duration::from_secs(30);

/// The slot for a secret that a provider sets by a handshake.
const HANDSHAKE: &str = "handshake";

/// The secrets below one path of Parameter Store, and the secrets in Secrets Manager.
pub struct Secrets {
    ssm: ParameterClient,
    path: String,
    managed: Managed,
    /// The cached values by the name of the secret. Mitt reads each secret separately, because a
    /// read of all secrets needs one call for every ten values, and a request waits for the result.
    caches: Mutex<BTreeMap<String, Cache>>,
}

#[derive(Clone)]
struct Cache {
    read_at: UnixMillis,
    /// The time of the last failed read. Until a later retry, requests do not wait for a store that
    /// times out.
    failed_at: Option<UnixMillis>,
    live: Live,
}

/// A value in a store: the name of the secret, the Unix time in seconds at which the value was
/// stored, and the value.
type Found = (String, i64, Secret);

impl Secrets {
    pub fn new(ssm: impl Into<ParameterClient>, path: impl Into<String>) -> Self {
        Self {
            ssm: ssm.into(),
            path: path.into(),
            managed: Managed::default(),
            caches: Mutex::default(),
        }
    }

    /// Sets the secrets that are read from Secrets Manager.
    #[must_use]
    pub fn with_managed(self, managed: Managed) -> Self {
        Self { managed, ..self }
    }

    /// Returns the id of a secret in Secrets Manager, or `None` for a secret in Parameter Store.
    pub fn managed(&self, name: &str) -> anyhow::Result<Option<String>> {
        self.managed
            .has(name)
            .then(|| self.managed.id(name))
            .transpose()
    }

    /// Returns the live values of a secret. The result is empty if there are no values. Fails if
    /// the store is unavailable and the last successful read is more than 24 hours ago.
    pub async fn live(&self, name: &str, now: UnixMillis) -> anyhow::Result<Live> {
        self.no_older_than(FRESH, name, now).await
    }

    /// Reads the live values again for a request that matched no value, because the secret may have
    /// been rotated since the last read. Reads them at most once every 30 s.
    pub async fn live_again(&self, name: &str, now: UnixMillis) -> anyhow::Result<Live> {
        self.no_older_than(REREAD, name, now).await
    }

    /// Stores a secret that a provider sets by a handshake, in a separate slot. Returns `false` if
    /// any slot already has a value. Reads all slots, because the cache may be older than a value
    /// that an operator stored. If two handshakes are concurrent, Parameter Store accepts only one
    /// of them.
    pub async fn set_first(&self, name: &str, secret: &Secret) -> anyhow::Result<bool> {
        self.has_slots(name)?;
        if !self.stored(name).await?.is_empty() {
            self.forget();
            return Ok(false);
        }
        self.put(name, HANDSHAKE, secret)
            .await
            .context("store the secret that the provider set by a handshake")
    }

    /// Stores a secret in a free slot. Returns `false` if the slot already has a value.
    pub async fn put(&self, name: &str, slot: &str, secret: &Secret) -> anyhow::Result<bool> {
        self.has_slots(name)?;
        let put = self
            .ssm
            .put_parameter()
            .name(self.parameter(name, slot))
            .value(secret.expose())
            .r#type(ParameterType::SecureString)
            .overwrite(false)
            .send()
            .await;
        match put {
            Ok(_) => {
                self.forget();
                Ok(true)
            }
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(PutParameterError::is_parameter_already_exists) =>
            {
                Ok(false)
            }
            // The error of the SDK contains the parameter's name, but not its value.
            Err(error) => Err(error).context("store a secret"),
        }
    }

    /// Deletes the value in a slot. Also succeeds if the slot is empty.
    pub async fn delete(&self, name: &str, slot: &str) -> anyhow::Result<()> {
        self.has_slots(name)?;
        let deleted = self
            .ssm
            .delete_parameter()
            .name(self.parameter(name, slot))
            .send()
            .await;
        self.forget();
        match deleted {
            Err(error)
                if !error
                    .as_service_error()
                    .is_some_and(DeleteParameterError::is_parameter_not_found) =>
            {
                Err(error).context("delete a secret")
            }
            _ => Ok(()),
        }
    }

    /// Returns the full parameter name of a slot.
    pub fn parameter(&self, name: &str, slot: &str) -> String {
        format!("{}/{name}/{slot}", self.path)
    }

    /// Returns all live values by the name of the secret. The result contains the secrets in
    /// Secrets Manager, and all secrets below the path, including secrets that no source uses.
    pub async fn all(&self) -> anyhow::Result<BTreeMap<String, Live>> {
        let mut names: BTreeMap<String, Vec<Found>> = BTreeMap::new();
        for found in self.below(&self.path).await? {
            names.entry(found.0.clone()).or_default().push(found);
        }
        names.retain(|name, _| !self.managed.has(name));
        let live = |(name, found)| (name, live(found));
        let mut all: BTreeMap<String, Live> = names.into_iter().map(live).collect();
        for name in self.managed.names().iter() {
            let found = self.stored(name).await?;
            if !found.is_empty() {
                all.insert(name.clone(), crate::aws::secrets::live(found));
            }
        }
        Ok(all)
    }

    /// Fails for a secret in Secrets Manager. The rotation in Secrets Manager writes the versions
    /// of such a secret, and a version has labels instead of slots.
    fn has_slots(&self, name: &str) -> anyhow::Result<()> {
        ensure!(
            !self.managed.has(name),
            "the secret {name} is in Secrets Manager, so it has no slots; change the secret in \
             Secrets Manager"
        );
        Ok(())
    }

    fn forget(&self) {
        let caches = self.caches.lock();
        caches.unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn no_older_than(
        &self,
        age: Duration,
        name: &str,
        now: UnixMillis,
    ) -> anyhow::Result<Live> {
        let cached = self
            .caches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned();
        if let Some(cache) = &cached
            && (now.since(cache.read_at) <= age || cache.failed_lately(now))
        {
            return Ok(cache.live.clone());
        }
        match self.stored(name).await {
            Ok(found) => {
                let cache = Cache {
                    read_at: now,
                    failed_at: None,
                    live: live(found),
                };
                self.remember(name, cache.clone());
                Ok(cache.live)
            }
            Err(error) => match cached {
                Some(cache) if now.since(cache.read_at) <= STALE => {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "cannot read the secrets; Mitt uses the cached values"
                    );
                    let live = cache.live.clone();
                    let failed_at = Some(now);
                    self.remember(name, Cache { failed_at, ..cache });
                    Ok(live)
                }
                _ => Err(error),
            },
        }
    }

    fn remember(&self, name: &str, cache: Cache) {
        let caches = self.caches.lock();
        caches
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), cache);
    }

    /// Reads the current values of a secret from its store.
    async fn stored(&self, name: &str) -> anyhow::Result<Vec<Found>> {
        if self.managed.has(name) {
            let id = self.managed.id(name)?;
            let live = Box::pin(managed::read(&self.ssm, &id)).await?;
            let live = live.into_iter();
            return Ok(live
                .map(|(at, secret)| (name.to_owned(), at, secret))
                .collect());
        }
        let mut found = self.below(&format!("{}/{name}", self.path)).await?;
        found.retain(|(of, _, _)| of == name);
        Ok(found)
    }

    /// Reads the values in all slots below `path`, which is `self.path` or the path of one secret.
    async fn below(&self, path: &str) -> anyhow::Result<Vec<Found>> {
        let mut found: Vec<Found> = Vec::new();
        let mut token = None;
        loop {
            let page = Page::read(&self.ssm, path, token).await;
            let page = page.context("read the secrets from Parameter Store")?;
            for parameter in page.parameters {
                let rest = parameter.name.strip_prefix(&self.path);
                let name = rest.and_then(|rest| rest.trim_start_matches('/').split_once('/'));
                let Some((name, slot)) = name else {
                    continue;
                };
                let at = parameter.last_modified_date;
                let label = format!("{slot}.{}", parameter.version);
                let since = (at > 0).then(|| UnixMillis::from_secs(at));
                let secret = Secret::stored(label, &parameter.value, since);
                found.push((name.to_owned(), at, secret));
            }
            token = page.next_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(found);
            }
        }
    }
}

/// Returns the live values of a secret, newest first.
///
/// The value of a handshake is live only if it is the oldest value. After an operator has stored a
/// secret, Mitt does not trust a later handshake.
fn live(mut found: Vec<Found>) -> Live {
    let set_by_handshake = |secret: &Secret| secret.slot() == HANDSHAKE;
    let others = found.iter().filter(|(_, _, one)| !set_by_handshake(one));
    let oldest = others.map(|(_, at, _)| *at).min().unwrap_or(i64::MAX);
    found.retain(|(_, at, secret)| !set_by_handshake(secret) || *at < oldest);
    found.sort_by_key(|(_, at, _)| std::cmp::Reverse(*at));
    found.into_iter().map(|(_, _, secret)| secret).collect()
}

impl Cache {
    /// Returns whether the last read failed a short time ago and the cached values are still
    /// usable.
    fn failed_lately(&self, now: UnixMillis) -> bool {
        self.failed_at
            .is_some_and(|failed| now.since(failed) <= REREAD)
            && now.since(self.read_at) <= STALE
    }
}

#[cfg(test)]
mod tests {
    use aws_credential_types::Credentials;
    use local::names::{ACCESS_KEY, REGION, SECRET_KEY};

    use super::*;
    use crate::aws::{Aws, CallPolicy};

    #[tokio::test]
    async fn secrets_are_read_without_the_sdk_as_with_it() {
        let emulators = local::Emulators::start(None).unwrap();
        let url = &emulators.endpoints().ssm;
        let aws = |url: &str| {
            let credentials = Credentials::from_keys(ACCESS_KEY, SECRET_KEY, None);
            let endpoint = Some(url.to_owned());
            Aws::new(REGION.to_owned(), credentials, endpoint, CallPolicy::SHORT)
        };
        let nowhere = aws("http://127.0.0.1:9").later(Aws::ssm);
        let direct = Secrets::new(aws(url).parameters().with_rest(nowhere), "/mitt/ingress");
        let sdk = Secrets::new(aws(url).ssm(), "/mitt/ingress");
        // More values than one page has.
        for n in 0..12 {
            let value = Secret::new("", format!("whsec_{n}_\"\u{1}ä"));
            let stored = sdk.put(&format!("source-{n}"), "current", &value).await;
            assert!(stored.unwrap());
        }
        let value = Secret::new("", "whsec_before");
        assert!(sdk.put("source-1", "previous", &value).await.unwrap());
        let seen = async |secrets: &Secrets| {
            let all = secrets.all().await.unwrap().into_iter();
            let values = |live: Live| {
                let live = live.iter();
                let each =
                    live.map(|one| (one.label().to_owned(), one.expose().to_owned(), one.since()));
                each.collect::<Vec<_>>()
            };
            all.map(|(name, live)| (name, values(live)))
                .collect::<Vec<_>>()
        };
        let found = seen(&direct).await;
        assert_eq!(found.len(), 12);
        assert_eq!(found, seen(&sdk).await);
    }

    #[test]
    fn a_fingerprint_is_that_of_the_value_alone() {
        let print = |label: &str, value: &str| Secret::new(label, value).fingerprint();
        let one = print("current.1", "whsec_one");
        assert_eq!(one, print("previous.2", "whsec_one"));
        assert_ne!(one, print("current.1", "whsec_one "));
        assert!(one.len() == 11 && one.starts_with("fp:"), "{one}");
    }

    #[test]
    fn a_handshake_after_an_operators_secret_is_not_live() {
        let labels = |slots: &[(&str, i64)]| {
            let found = |(slot, at): &(&str, i64)| {
                let secret = Secret::new(format!("{slot}.1"), "value");
                ("name".to_owned(), *at, secret)
            };
            let live = live(slots.iter().map(found).collect());
            live.iter()
                .map(|secret| secret.slot().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(labels(&[("handshake", 7)]), ["handshake"]);
        assert_eq!(labels(&[("current", 7), ("handshake", 8)]), ["current"]);
        assert_eq!(labels(&[("current", 7), ("handshake", 7)]), ["current"]);
        // A secret that an operator stores later belongs to a rotation.
        let rotated = labels(&[("handshake", 7), ("current", 9)]);
        assert_eq!(rotated, ["current", "handshake"]);
        let rotated = labels(&[("current", 9), ("handshake", 8), ("previous", 7)]);
        assert_eq!(rotated, ["current", "previous"]);
    }
}
