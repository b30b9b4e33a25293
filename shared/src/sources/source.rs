//! Reads and checks `[[source]]`, the settings of a source.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use super::action::FileAction;
use super::context::{self, FileContext};
use super::endpoint::FileEndpoint;
use super::order::FileOrder;
use super::quarantine::FileQuarantine;
use super::reconcile::{self, FileReconcile};
use super::retention::FileRetention;
use super::retry::FileRetry;
use super::rows;
use super::rules::{FileRule, Rule, all_rules};
use super::signing::scheme;
use super::sync::FileSync;
use super::trial::{FileMode, FileTrial, Trial};
use super::{
    Action, ActionKind, Endpoint, Forward, Pull, Reconcile, SecretStore, SourceSync, check_name,
    check_new, check_url, public_url, quiet,
};
use crate::base::backoff::Backoff;
use crate::base::setting_path::At as _;
use crate::base::timing::{ACTION_TIMEOUT, AFTER_ACTION, KEEP_ORDER};
use crate::sources::ordering::Order;
use crate::sources::policy::Limits;
use crate::sources::policy::QuietAfter;
use crate::sources::policy::{Retention, RowsReason};
use crate::webhook::preset::{Preset, Scheme};
use crate::webhook::verify::{Trust, Verifier};

/// The default of `max_body`, in bytes.
const DEFAULT_MAX_BODY: usize = 1024 * 1024;

/// The maximum of `max_body`, in bytes. A body in Base64 must fit into the largest request that
/// Lambda accepts.
const LARGEST_MAX_BODY: usize = 4 * 1024 * 1024;

/// A configured sender of webhooks.
#[derive(Debug)]
pub struct Source {
    pub name: String,
    pub verifier: Verifier,
    /// The name of the secret below the secrets path of a function.
    pub secret: String,
    pub secret_store: SecretStore,
    /// The largest accepted body, in bytes. The catcher responds with 413 to a larger body.
    pub max_body: usize,
    /// Whether the URL of the source can have a further path.
    pub accept_path: bool,
    /// The limits for the rejected requests that Mitt stores.
    pub quarantine: Limits,
    pub backoff: Backoff,
    /// How long Mitt keeps the events.
    pub retention: Retention,
    /// Why Mitt keeps the rows for this time.
    pub rows_reason: RowsReason,
    /// When the source counts as silent.
    pub quiet_after: QuietAfter,
    pub actions: Vec<Action>,
    /// The rules that decide whether an action may run.
    pub policy: Vec<Rule>,
    pub sync: Option<SourceSync>,
    /// The comparisons of the provider's objects with the operator's own state.
    pub reconcile: Vec<Reconcile>,
    /// The subscription that should exist at the provider.
    pub endpoint: Option<Endpoint>,
    /// How the source orders the events of an entity. If it is `None`, the events are not ordered.
    pub order: Option<Order>,
    /// The trial of the source, which processes no events while it lasts.
    pub trial: Option<Trial>,
}

impl Source {
    /// Returns the time limit of the actions of an event, which run in parallel.
    pub fn time_limit(&self) -> Duration {
        let timeouts = self.actions.iter().map(|action| action.timeout);
        timeouts.fold(ACTION_TIMEOUT, Duration::max) + AFTER_ACTION
    }

    /// Returns whether each event is done as soon as it is stored: no action has an effect, and
    /// nothing reads the body of an event.
    pub fn only_keeps(&self) -> bool {
        let keeps = |action: &Action| {
            matches!(action.kind, ActionKind::Keep) && !action.filter.has_conditions()
        };
        self.actions.iter().all(keeps)
            && self.order.is_none()
            && !self.verifier.confirms_subscriptions()
    }

    /// Returns the action that leaves the events to workers outside of Lambda, and its settings.
    pub fn pull(&self) -> Option<(&Action, &Pull)> {
        let mut actions = self.actions.iter();
        actions.find_map(|action| Some((action, action.kind.pull()?)))
    }

    /// Returns the queue whose workers take each event, if the processor has nothing to do or to
    /// decide before them.
    pub fn only_pulls(&self) -> Option<&str> {
        let [action] = self.actions.as_slice() else {
            return None;
        };
        let pull = action.kind.pull()?;
        let is_direct = !action.filter.is_set()
            && self.policy.is_empty()
            && self.order.is_none()
            && !self.verifier.confirms_subscriptions();
        is_direct.then_some(&pull.queue)
    }

    /// Returns whether an action can take longer than the processor runs. Then the function for
    /// long actions processes all events of the source.
    pub fn is_long(&self) -> bool {
        self.long_action().is_some()
    }

    /// Returns the first action that can take longer than the processor runs.
    pub fn long_action(&self) -> Option<&Action> {
        let mut actions = self.actions.iter();
        actions.find(|action| action.timeout > ACTION_TIMEOUT)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSource {
    pub(super) name: String,
    preset: String,
    #[serde(default = "default_variant")]
    variant: String,
    secret: Option<String>,
    #[serde(default)]
    secret_store: SecretStore,
    #[serde(default)]
    params: BTreeMap<String, String>,
    #[serde(default)]
    trust: Trust,
    public_url: Option<String>,
    max_body: Option<usize>,
    #[serde(default)]
    account: Vec<String>,
    #[serde(default)]
    accept_path: bool,
    #[serde(default)]
    context: FileContext,
    #[serde(default)]
    quarantine: FileQuarantine,
    #[serde(default)]
    retry: FileRetry,
    #[serde(default)]
    retention: FileRetention,
    quiet_after: Option<String>,
    #[serde(default)]
    action: Vec<FileAction>,
    #[serde(default)]
    policy: Vec<FileRule>,
    sync: Option<FileSync>,
    #[serde(default)]
    reconcile: Vec<FileReconcile>,
    endpoint: Option<FileEndpoint>,
    #[serde(default)]
    order: FileOrder,
    mode: Option<FileMode>,
    tee_timeout: Option<String>,
}

impl FileSource {
    pub(super) fn checked(mut self, forward: &Forward, hash: &str) -> anyhow::Result<Source> {
        check_name("a source's name", &self.name).at("name")?;
        self.trust.public_url = public_url::checked(self.public_url.take()).at("public_url")?;
        let (mut preset, quarantine) = self.preset_and_quarantine()?;
        self.check_trust(forward)?;
        self.set_request_settings(&mut preset)?;
        let max_body = checked_max_body(self.max_body).at("max_body")?;
        let secret = checked_secret(self.secret, &self.name)?;
        let actions = all_actions(self.action, &self.name, &preset, forward)?;
        let sync = self.sync.map(|it| it.checked(&preset, &self.name, forward));
        let sync = sync.transpose().within("sync").needs("preset")?;
        let endpoint = self
            .endpoint
            .map(|it| it.checked(&preset.id, &self.name, forward));
        let endpoint = endpoint.transpose().within("endpoint").needs("preset")?;
        let reconcile = reconcile::all(self.reconcile, &preset, &self.name, forward);
        let reconcile = reconcile.needs("preset")?;
        let own_order = self.order.names_a_location();
        let order = self
            .order
            .checked(
                preset.order.as_ref(),
                preset.event.batch.as_ref(),
                &actions,
                forward,
            )
            .within("order")
            .needs("preset")?;
        check_actions(&actions, &preset, &self.variant, order.as_ref())?;
        let policy = all_rules(self.policy, &actions, order.as_ref())?;
        let trial = FileTrial::new(self.mode, self.tee_timeout);
        let trial = checked_trial(trial, &actions, &preset, &self.variant)?;
        let facts = rows::Facts::new(&preset, &self.variant, sync.as_ref(), trial.as_ref());
        let (retention, rows_reason) = checked_retention(self.retention, facts, order.as_ref())?;
        preset.set_order(order.as_ref().map(|order| order.at.clone()), own_order);
        Ok(Source {
            quarantine,
            backoff: self.retry.checked().within("retry")?,
            retention,
            rows_reason,
            quiet_after: quiet::parse(self.quiet_after.as_deref()).within("quiet_after")?,
            verifier: Verifier {
                source: self.name.clone(),
                preset,
                variant: self.variant,
                trust: self.trust,
                config: hash.to_owned(),
            },
            name: self.name,
            secret,
            secret_store: self.secret_store,
            max_body,
            accept_path: self.accept_path,
            actions,
            policy,
            sync,
            reconcile,
            endpoint,
            order,
            trial,
        })
    }

    /// Returns the preset and the limits of the quarantine. Checks that the variant can verify
    /// requests.
    fn preset_and_quarantine(&mut self) -> anyhow::Result<(Preset, Limits)> {
        let preset = Preset::embedded(&self.preset, &self.params);
        let preset = match preset {
            Err(error) if Preset::names().any(|known| known == self.preset) => {
                Err(error).at("params").needs("preset")?
            }
            other => other.at("preset")?,
        };
        let scheme = scheme(&preset, &self.variant);
        let scheme = scheme.at("variant").needs("preset")?;
        usable(&self.trust, &preset, scheme)
            .at("trust")
            .needs("preset")
            .needs("variant")?;
        let store = self.secret_store.check(&preset, &self.variant);
        store.at("secret_store").needs("preset").needs("variant")?;
        let quarantine = std::mem::take(&mut self.quarantine);
        let quarantine = quarantine.checked().within("quarantine")?;
        check_fetches(&self.trust, &preset, scheme, quarantine)
            .at("quarantine")
            .needs("preset")
            .needs("trust")?;
        Ok((preset, quarantine))
    }

    fn set_request_settings(&mut self, preset: &mut Preset) -> anyhow::Result<()> {
        let context = std::mem::take(&mut self.context);
        let scheme = preset.scheme(&self.variant).context("no such variant")?;
        let context = context
            .checked(scheme)
            .within("context")
            .needs("preset")
            .needs("variant")?;
        let account = context::account(&self.account, self.accept_path, preset, scheme);
        let account = account
            .within("account")
            .needs("preset")
            .needs("variant")
            .needs("accept_path")?;
        preset.settings.context = context;
        preset.set_account(account);
        Ok(())
    }

    fn check_trust(&self, forward: &Forward) -> anyhow::Result<()> {
        if let Some(name) = &self.trust.api_secret {
            check_name("trust.api_secret", name)
                .at("api_secret")
                .at("trust")?;
        }
        if let Some(mirror) = &self.trust.fetch_from {
            let checked = check_url(mirror, forward).context("trust.fetch_from");
            checked.at("fetch_from").at("trust")?;
        }
        Ok(())
    }
}

/// Checks what actions need of the preset and of the order.
fn check_actions(
    actions: &[Action],
    preset: &Preset,
    variant: &str,
    order: Option<&Order>,
) -> anyhow::Result<()> {
    check_signing(actions, preset, variant, order)?;
    check_pull(actions, order)
}

fn checked_trial(
    file: FileTrial,
    actions: &[Action],
    preset: &Preset,
    variant: &str,
) -> anyhow::Result<Option<Trial>> {
    let trial = file.checked(actions, preset, variant);
    trial.needs("preset").needs("variant")
}

fn checked_secret(secret: Option<String>, source: &str) -> anyhow::Result<String> {
    let secret = secret.unwrap_or_else(|| source.to_owned());
    check_name("a secret's name", &secret).at("secret")?;
    Ok(secret)
}

fn check_signing(
    actions: &[Action],
    preset: &Preset,
    variant: &str,
    order: Option<&Order>,
) -> anyhow::Result<()> {
    for (index, action) in actions.iter().enumerate() {
        if let Some((_, signing)) = action.kind.http() {
            signing
                .check(preset, variant, order)
                .with_context(|| format!("action {:?}", action.name))
                .at(index)
                .at("action")
                .needs("preset")
                .needs("variant")
                .needs("order")?;
        }
    }
    Ok(())
}

/// Rejects a second action of kind `pull`, and one together with an order.
fn check_pull(actions: &[Action], order: Option<&Order>) -> anyhow::Result<()> {
    let pulls = actions.iter().enumerate();
    let pulls = pulls.filter(|(_, action)| action.kind.pull().is_some());
    for (place, (index, action)) in pulls.enumerate() {
        let check = || {
            ensure!(
                place == 0,
                "a source has at most one action of kind \"pull\"; remove one, or use a second source"
            );
            ensure!(
                order.is_none(),
                "kind \"pull\" and order exclude each other, because a worker can hold an event while \
                 a newer one is processed; remove one of the two"
            );
            Ok(())
        };
        check()
            .with_context(|| format!("action {:?}", action.name))
            .at("kind")
            .at(index)
            .at("action")
            .needs("order")?;
    }
    Ok(())
}

fn usable(trust: &Trust, preset: &Preset, scheme: &Scheme) -> anyhow::Result<()> {
    if let Some(reason) = trust.unusable(scheme) {
        let (preset, variant) = (&preset.id, &scheme.variant);
        bail!("preset {preset}, variant {variant:?}: {reason}");
    }
    Ok(())
}

fn check_fetches(
    trust: &Trust,
    preset: &Preset,
    scheme: &Scheme,
    quarantine: Limits,
) -> anyhow::Result<()> {
    ensure!(
        !(trust.fetches(scheme) && quarantine.is_off()),
        "preset {} needs the quarantine, which keeps requests until Mitt has fetched their key; \
         set limits above 0",
        preset.id
    );
    Ok(())
}

fn checked_retention(
    file: FileRetention,
    facts: rows::Facts<'_>,
    order: Option<&Order>,
) -> anyhow::Result<(Retention, RowsReason)> {
    let (retention, reason) = file
        .checked(|bodies| facts.rows_reason(bodies))
        .within("retention")?;
    check_retention(retention, order)
        .at("rows")
        .at("retention")
        .needs("order")?;
    Ok((retention, reason))
}

fn check_retention(retention: Retention, order: Option<&Order>) -> anyhow::Result<()> {
    ensure!(
        order.is_none() || retention.rows < KEEP_ORDER,
        "retention: if order is set, rows must be less than {}d, because Mitt keeps the version of \
         an object for that time",
        KEEP_ORDER.as_secs() / 86_400
    );
    Ok(())
}

fn checked_max_body(bytes: Option<usize>) -> anyhow::Result<usize> {
    let max_body = bytes.unwrap_or(DEFAULT_MAX_BODY);
    ensure!(
        (1..=LARGEST_MAX_BODY).contains(&max_body),
        "max_body = {max_body}: use a size between 1 and {LARGEST_MAX_BODY} bytes, because Lambda \
         accepts no larger request"
    );
    Ok(max_body)
}

/// Checks the actions. Each action needs a unique name.
fn all_actions(
    actions: Vec<FileAction>,
    source: &str,
    preset: &Preset,
    forward: &Forward,
) -> anyhow::Result<Vec<Action>> {
    let mut names = BTreeSet::new();
    check_any(&actions).at("action")?;
    let checked = actions.into_iter().enumerate().map(|(index, action)| {
        let action = action.checked(source, forward).at(index).at("action")?;
        let is_new = names.insert(action.name.clone());
        check_new("action", &action.name, is_new)
            .at(index)
            .at("action")?;
        let stored = action.filter.check_stored(&preset.settings.context);
        stored
            .at("where")
            .with_context(|| format!("action {:?}", action.name))
            .at(index)
            .at("action")
            .needs("context")
            .needs("preset")?;
        Ok(action)
    });
    checked.collect()
}

fn check_any(actions: &[FileAction]) -> anyhow::Result<()> {
    ensure!(
        !actions.is_empty(),
        "action is missing; to only store the events, add an action with kind = \"keep\""
    );
    Ok(())
}

fn default_variant() -> String {
    "default".to_owned()
}
