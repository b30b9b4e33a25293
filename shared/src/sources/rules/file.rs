//! Checks the settings of a rule.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use super::{
    Amount, DEFAULT_EXPIRES, EffectRate, LONGEST_EXPIRES, NotIn, Per, Place, PlanField, Rule,
    SHORTEST_EXPIRES, Verdict,
};
use crate::base::setting_path::At as _;
use crate::sources::filter::{FileCondition, Filter, Glob, path, plain};
use crate::sources::ordering::{Mode, Order};
use crate::sources::{Action, ActionKind, address, check_name, check_new, duration, is_name};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::sources) struct FileRule {
    name: String,
    effect: Option<String>,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default, rename = "where")]
    conditions: Vec<FileCondition>,
    amount: Option<FileAmount>,
    not_in: Option<FileNotIn>,
    decide: FileVerdict,
    expires: Option<String>,
    approvers: Option<Vec<String>>,
    rate: Option<String>,
    per: Option<FilePer>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FilePer {
    Role,
    Source,
    EventType,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FileVerdict {
    Hold,
    Deny,
    DryRun,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAmount {
    path: String,
    above: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNotIn {
    path: String,
    list: Vec<toml::Value>,
}

/// Checks the rules of a source.
pub(in crate::sources) fn all_rules(
    rules: Vec<FileRule>,
    actions: &[Action],
    order: Option<&Order>,
) -> anyhow::Result<Vec<Rule>> {
    check_source(&rules, actions, order)
        .at("policy")
        .needs("action")
        .needs("order")?;
    let mut names = BTreeSet::new();
    let checked = rules.into_iter().enumerate().map(|(index, rule)| {
        let name = rule.name.clone();
        let rule = rule.checked(actions);
        let rule = rule.with_context(|| format!("policy {name:?}"));
        let rule = rule.at(index).at("policy")?;
        let is_new = names.insert(name);
        check_new("policy", &rule.name, is_new)
            .at(index)
            .at("policy")?;
        Ok(rule)
    });
    checked.collect()
}

fn check_source(
    rules: &[FileRule],
    actions: &[Action],
    order: Option<&Order>,
) -> anyhow::Result<()> {
    if rules.is_empty() {
        return Ok(());
    }
    ensure!(
        pulls(actions) || actions.iter().any(has_effect),
        "policy needs an action with an effect; kind \"keep\" has none"
    );
    ensure!(
        !order.is_some_and(|order| matches!(order.mode, Mode::Fetch(_))),
        "policy cannot be used with order.mode = \"fetch\": the rules read the event, but the \
         actions send the object that Mitt fetches; use another mode"
    );
    Ok(())
}

/// The workers of an action of kind `pull` declare effects of their own.
fn pulls(actions: &[Action]) -> bool {
    actions.iter().any(|action| action.kind.pull().is_some())
}

/// Returns whether the effect of the action has its name.
fn has_effect(action: &Action) -> bool {
    !matches!(action.kind, ActionKind::Keep | ActionKind::Pull(_))
}

impl FileRule {
    fn checked(self, actions: &[Action]) -> anyhow::Result<Rule> {
        check_name("a policy's name", &self.name).at("name")?;
        let effect = self.effect.as_deref();
        let effect = effect.map(|text| effect_of(text, actions)).transpose();
        let effect = effect.at("effect").needs("action")?;
        let filter = Filter::checked(&self.types, &self.conditions)?;
        check_filter(&filter).at("where")?;
        check_paths(&self.conditions, actions)
            .at("where")
            .needs("action")?;
        let places = Places {
            pulls: pulls(actions),
            // A rule about the event decides before a worker declares a plan. A dry run of the event
            // is one of each effect.
            of_effect: effect.is_some() || self.decide == FileVerdict::DryRun,
        };
        let amount = self.amount.map(|amount| amount.checked(places));
        let amount = amount.transpose();
        let not_in = self.not_in.map(|not_in| not_in.checked(places));
        let not_in = not_in.transpose();
        let expires = expires(self.expires.as_deref(), self.decide);
        check_approvers(self.approvers.as_deref(), self.decide, actions)
            .at("approvers")
            .needs("decide")
            .needs("action")?;
        let rate = rate(
            self.rate.as_deref(),
            self.per,
            self.decide,
            effect.is_some(),
        );
        Ok(Rule {
            name: self.name,
            effect,
            filter,
            amount: amount.within("amount")?,
            not_in: not_in.within("not_in")?,
            verdict: self.decide.verdict(),
            expires: expires.at("expires").needs("decide")?,
            approvers: self.approvers.unwrap_or_default(),
            rate: rate.at("rate").needs("decide").needs("effect")?,
        })
    }
}

/// Reads the pattern of the effects. A pattern without an effect is probably a typing error, and
/// would silently allow everything.
fn effect_of(text: &str, actions: &[Action]) -> anyhow::Result<Glob> {
    let glob = Glob::parse_as("effect", text)?;
    let mut effects = actions.iter().filter(|action| has_effect(action));
    if effects.any(|action| glob.matches(&action.name)) {
        return Ok(glob);
    }
    if pulls(actions) {
        check_of_worker(text, actions)?;
        return Ok(glob);
    }
    bail!(
        "effect {text:?} matches no action with an effect; use the name of an action, such as \
         \"{}\"",
        actions
            .iter()
            .find(|action| has_effect(action))
            .map_or("http", |action| &action.name)
    );
}

/// Refuses a pattern that matches no name that a worker could give to an effect.
fn check_of_worker(text: &str, actions: &[Action]) -> anyhow::Result<()> {
    let sample = text.replace('*', if text.len() == 1 { "a" } else { "" });
    ensure!(
        is_name(&sample),
        "effect {text:?} matches no effect of a worker: their names have 1 to 40 lower-case letters, \
         digits or hyphens"
    );
    ensure!(
        !actions.iter().any(|action| action.name == text),
        "effect {text:?} is the name of an action, and an effect of a worker must have another name; \
         use the name that the worker gives to work begin"
    );
    Ok(())
}

/// Headers, query parameters and accounts are often not part of what the signature covers.
fn check_filter(filter: &Filter) -> anyhow::Result<()> {
    ensure!(
        filter.tests_only_the_body(),
        "the conditions of a policy test the body only; use path instead of header, query or \
         account"
    );
    Ok(())
}

/// Refuses a path that looks like a field of a worker's plan: the conditions test the body.
fn check_paths(conditions: &[FileCondition], actions: &[Action]) -> anyhow::Result<()> {
    let mut paths = conditions.iter().filter_map(FileCondition::path);
    match paths.find(|path| path.starts_with("plan.")) {
        Some(path) if pulls(actions) => bail!(
            "{path:?} looks like a field of the plan of a worker, and where tests the body only; use \
             amount or not_in for a plan, or write \"$.{path}\" for a value in the body"
        ),
        _ => Ok(()),
    }
}

fn expires(text: Option<&str>, verdict: FileVerdict) -> anyhow::Result<Duration> {
    let Some(text) = text else {
        return Ok(DEFAULT_EXPIRES);
    };
    ensure!(
        verdict == FileVerdict::Hold,
        "expires is a setting of decide = \"hold\" only; remove it"
    );
    let expires = duration::parse(text)?;
    ensure!(
        (SHORTEST_EXPIRES..=LONGEST_EXPIRES).contains(&expires),
        "expires = {text:?} is out of range; use 1m to 168h (7 days)"
    );
    Ok(expires)
}

/// A role that takes the events must not approve them: an agent could then approve its own effects.
fn check_approvers(
    approvers: Option<&[String]>,
    verdict: FileVerdict,
    actions: &[Action],
) -> anyhow::Result<()> {
    let Some(approvers) = approvers else {
        return Ok(());
    };
    ensure!(
        !approvers.is_empty(),
        "approvers is empty; add at least one role, or remove the setting"
    );
    ensure!(
        verdict == FileVerdict::Hold,
        "approvers is a setting of decide = \"hold\" only; remove it"
    );
    let mut pulls = actions.iter().filter_map(|action| action.kind.pull());
    let workers = pulls.next().map_or(&[][..], |pull| &pull.workers);
    for role in approvers {
        address::check_role(role)?;
        ensure!(
            !workers.iter().any(|worker| is_same_role(worker, role)),
            "{role} is also in workers of the source; a worker cannot approve, so use another role"
        );
    }
    Ok(())
}

/// Two roles are equal if their partition, account and name are, whatever their paths are.
fn is_same_role(one: &str, other: &str) -> bool {
    let parts = |arn: &str| {
        let (account, path) = arn.split_once(":role/").unwrap_or((arn, ""));
        let name = path.rsplit('/').next().unwrap_or_default();
        (account.to_owned(), name.to_owned())
    };
    parts(one) == parts(other)
}

fn rate(
    text: Option<&str>,
    per: Option<FilePer>,
    verdict: FileVerdict,
    of_effect: bool,
) -> anyhow::Result<Option<EffectRate>> {
    let Some(text) = text else {
        ensure!(
            per.is_none(),
            "per is a setting of rate; add rate, or remove per"
        );
        return Ok(None);
    };
    ensure!(of_effect, "rate counts effects; add effect");
    ensure!(
        verdict != FileVerdict::DryRun,
        "rate cannot be used with decide = \"dry-run\"; use \"hold\" or \"deny\""
    );
    let per = match per {
        None | Some(FilePer::Role) => Per::Role,
        Some(FilePer::Source) => Per::Source,
        Some(FilePer::EventType) => Per::EventType,
    };
    EffectRate::parse(text, per).map(Some)
}

impl FileVerdict {
    fn verdict(self) -> Verdict {
        match self {
            Self::Hold => Verdict::Hold,
            Self::Deny => Verdict::Deny,
            Self::DryRun => Verdict::DryRun,
        }
    }
}

/// What the conditions of a rule can test.
#[derive(Clone, Copy)]
struct Places {
    /// Workers declare effects, and can declare plans for them.
    pulls: bool,
    /// The rule is about an effect, and not about the event before any action.
    of_effect: bool,
}

impl Places {
    /// Reads a place: `plan.amount` is a field of a worker's plan, and `$.plan.amount` is in the
    /// body.
    fn place(self, text: &str) -> anyhow::Result<Place> {
        let Some(field) = text.strip_prefix("plan.") else {
            return Ok(Place::Body(path(text)?));
        };
        let field = match field {
            "amount" => PlanField::Amount,
            "target" => PlanField::Target,
            _ => bail!(
                "{text:?} is not a field of a plan; use plan.amount or plan.target, or write \
                 \"$.{text}\" for a value in the body"
            ),
        };
        ensure!(
            self.pulls,
            "{text:?} is a field of the plan of a worker, and the source has no action of the kind \
             \"pull\"; write \"$.{text}\" for a value in the body"
        );
        ensure!(
            self.of_effect,
            "{text:?} is a field of the plan of a worker, and a policy without effect decides before \
             a worker declares a plan; add effect, or write \"$.{text}\" for a value in the body"
        );
        Ok(Place::Plan(field))
    }
}

impl FileAmount {
    fn checked(self, places: Places) -> anyhow::Result<Amount> {
        ensure!(self.above.is_finite(), "above must be a finite number");
        Ok(Amount {
            of: places.place(&self.path).at("path")?,
            above: self.above,
        })
    }
}

impl FileNotIn {
    fn checked(self, places: Places) -> anyhow::Result<NotIn> {
        ensure!(
            !self.list.is_empty(),
            "list is empty; add at least one value"
        );
        let list = self.list.iter().map(plain);
        Ok(NotIn {
            of: places.place(&self.path).at("path")?,
            list: list.collect::<anyhow::Result<_>>().at("list")?,
        })
    }
}
