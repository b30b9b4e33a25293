//! Reads `[[source.action]]`, which configures the actions of a source and their destinations.

mod kind;
mod pull;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use super::answers::{AnswerRules, FileAnswers, FileKeep, FileStatus};
use super::filter::{FileCondition, Filter, path};
use super::rate::Rate;
use super::signing::{FileSign, FileSigning, Signing, Stale};
use super::{Forward, address, check_name, check_url, duration, url_template};
use crate::base::json_path::JsonPath;
use crate::base::setting_path::At as _;
use crate::base::timing::{ACTION_TIMEOUT, LONGEST_ACTION};
use crate::sources::policy::IdempotencySupport;
use kind::FileActionKind;
pub use pull::Pull;

/// An action for the events of a source. Each action is a separate effect.
#[derive(Debug)]
pub struct Action {
    /// The name of the action, which is also the name of its effect in the ledger.
    pub name: String,
    pub kind: ActionKind,
    /// The filter for the events to which the action applies.
    pub filter: Filter,
    /// The destination, which has its own circuit breaker and rate limit.
    pub destination: Option<Destination>,
    /// What the answers of the destination mean.
    pub answers: AnswerRules,
    /// The timeout of a call to the destination, from 1 s to [`LONGEST_ACTION`].
    pub timeout: Duration,
}

#[derive(Clone, Debug)]
pub enum ActionKind {
    /// Only stores the event.
    Keep,
    /// Sends the event to a URL in a POST request with an `Idempotency-Key`. `signing` determines
    /// the signature.
    Http {
        /// Its path and its query can have placeholders: see [`url_template`].
        url: String,
        signing: Signing,
        keys: IdempotencySupport,
    },
    /// Invokes a Lambda function.
    Lambda {
        /// The name or ARN of the function.
        function: String,
        invocation: Invocation,
    },
    /// Sends the event to an SQS queue.
    Sqs {
        url: String,
        /// The path in the body to the message group of a FIFO queue. If the body has no value at
        /// this path, the name of the source is the message group.
        group: Option<JsonPath>,
    },
    /// Puts an event on an EventBridge bus.
    EventBridge {
        /// The name or ARN of the bus.
        bus: String,
        source: String,
        /// The detail type of the event. If it is `None`, the detail type is the event's type.
        detail_type: Option<String>,
    },
    /// Starts an execution of a Step Functions state machine.
    StepFunctions { state_machine: String },
    /// Leaves the event to a worker outside of Lambda, after the other actions are done.
    Pull(Pull),
    /// Calls the code with this name in `functions/processor/src/actions/`.
    Rust {
        code: String,
        params: BTreeMap<String, String>,
    },
}

impl ActionKind {
    /// Returns the URL and the signature of an action that sends HTTP requests. Each new kind needs
    /// a branch here, so that no command ignores the URL or the secret of the kind.
    pub fn http(&self) -> Option<(&str, &Signing)> {
        match self {
            Self::Http { url, signing, .. } => Some((url, signing)),
            Self::Keep
            | Self::Lambda { .. }
            | Self::Sqs { .. }
            | Self::EventBridge { .. }
            | Self::StepFunctions { .. }
            | Self::Pull(_)
            | Self::Rust { .. } => None,
        }
    }

    /// Returns the settings of an action that leaves the event to a worker.
    pub fn pull(&self) -> Option<&Pull> {
        match self {
            Self::Pull(pull) => Some(pull),
            _ => None,
        }
    }
}

/// How a Lambda function is invoked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Invocation {
    /// Waits for the result. If the function fails, Mitt invokes it again.
    #[default]
    RequestResponse,
    /// Adds the event to the function's asynchronous queue in Lambda, and does not wait for the
    /// result.
    Event,
}

/// The destination of an action. Several actions can share a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The name of the destination, which is unique in a stack, such as `hooks.example.com` or
    /// `lambda:orders`.
    pub name: String,
    pub rate: Option<Rate>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileAction {
    kind: FileActionKind,
    name: Option<String>,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default, rename = "where")]
    conditions: Vec<FileCondition>,
    destination: Option<String>,
    rate: Option<String>,
    url: Option<String>,
    secret: Option<String>,
    sign: Option<FileSign>,
    variant: Option<String>,
    signed_url: Option<String>,
    stale: Option<Stale>,
    keys: Option<FileKeys>,
    success: Option<Vec<FileStatus>>,
    permanent: Option<Vec<FileStatus>>,
    refused_for: Option<String>,
    permanent_errors: Option<Vec<String>>,
    answers: Option<FileKeep>,
    timeout: Option<String>,
    function: Option<String>,
    invocation: Option<Invocation>,
    queue: Option<String>,
    group: Option<String>,
    bus: Option<String>,
    source: Option<String>,
    detail_type: Option<String>,
    state_machine: Option<String>,
    lease: Option<String>,
    max_hold: Option<String>,
    workers: Option<Vec<String>>,
    params: Option<BTreeMap<String, String>>,
}

/// How a destination handles an `Idempotency-Key`.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FileKeys {
    Honoured,
    HonouredWithFailures,
    Ignored,
}

impl FileAction {
    /// Checks the settings of the action. `source` is the name of the source to which the action
    /// belongs.
    pub(super) fn checked(self, source: &str, forward: &Forward) -> anyhow::Result<Action> {
        let name = self.effect().at("name")?;
        check_name("an action's name", &name).at("name")?;
        self.with_name(name.clone(), source, forward)
            .with_context(|| format!("action {name:?}"))
    }

    /// Returns the name of the action.
    fn effect(&self) -> anyhow::Result<String> {
        Ok(match (&self.name, self.kind) {
            (Some(name), _) => name.clone(),
            (None, FileActionKind::Rust) => bail!(
                "name is missing in an action of kind \"rust\"; set name to the name of the \
                 action's code"
            ),
            (None, kind) => kind.word().to_owned(),
        })
    }

    fn with_name(
        mut self,
        name: String,
        source: &str,
        forward: &Forward,
    ) -> anyhow::Result<Action> {
        self.fits_its_kind()?;
        let answers = self.take_answers().checked()?;
        let filter = Filter::checked(&self.types, &self.conditions)?;
        let rate = self.rate.as_deref().map(Rate::parse).transpose();
        let rate = rate.at("rate")?;
        let timeout = self.timeout.as_deref().map(timeout).transpose();
        let timeout = timeout.at("timeout")?;
        let given = self.destination.clone();
        let (kind, derived) = self.into_kind(&name, source, forward)?;
        if let Some(given) = &given {
            check_name("a destination's name", given).at("destination")?;
        }
        let destination = given.or(derived);
        check_limited(rate, destination.as_deref())
            .at("rate")
            .needs("destination")
            .needs("kind")?;
        let destination = destination.map(|name| Destination { name, rate });
        Ok(Action {
            name,
            kind,
            filter,
            destination,
            answers,
            timeout: timeout.unwrap_or(ACTION_TIMEOUT),
        })
    }

    fn take_answers(&mut self) -> FileAnswers {
        FileAnswers {
            success: self.success.take(),
            permanent: self.permanent.take(),
            refused_for: self.refused_for.take(),
            permanent_errors: self.permanent_errors.take(),
            answers: self.answers.take(),
        }
    }

    /// Returns the kind of the action, and the default name of its destination.
    fn into_kind(
        self,
        name: &str,
        source: &str,
        forward: &Forward,
    ) -> anyhow::Result<(ActionKind, Option<String>)> {
        Ok(match self.kind {
            FileActionKind::Keep => (ActionKind::Keep, None),
            FileActionKind::Http => self.into_http(forward)?,
            FileActionKind::Lambda => {
                let function = self
                    .function
                    .context("function is missing; set it to the name or ARN of a Lambda function");
                let function = function.at("function")?;
                let short = address::function(&function).at("function")?.to_owned();
                let invocation = self.invocation.unwrap_or_default();
                let kind = ActionKind::Lambda {
                    function,
                    invocation,
                };
                (kind, Some(format!("lambda:{short}")))
            }
            FileActionKind::Sqs => {
                let queue = self
                    .queue
                    .context("queue is missing; set it to the URL of an SQS queue");
                let url = queue.at("queue")?;
                let short = address::queue(&url, forward.allow_loopback).at("queue")?;
                let group = self.group.as_deref();
                let group = group.map(|group| group_of(group, &url)).transpose();
                let group = group.at("group").needs("queue")?;
                let destination = format!("sqs:{short}");
                (ActionKind::Sqs { url, group }, Some(destination))
            }
            FileActionKind::EventBridge => self.into_event_bridge(source)?,
            FileActionKind::StepFunctions => {
                let state_machine = self
                    .state_machine
                    .context("state_machine is missing; set it to the ARN of a state machine")
                    .at("state_machine")?;
                let short = address::state_machine(&state_machine).at("state_machine")?;
                let destination = format!("step-functions:{short}");
                (
                    ActionKind::StepFunctions { state_machine },
                    Some(destination),
                )
            }
            FileActionKind::Pull => (ActionKind::Pull(self.into_pull(source)?), None),
            FileActionKind::Rust => {
                let kind = ActionKind::Rust {
                    code: name.to_owned(),
                    params: self.params.unwrap_or_default(),
                };
                (kind, None)
            }
        })
    }

    fn into_http(self, forward: &Forward) -> anyhow::Result<(ActionKind, Option<String>)> {
        let url = self
            .url
            .context("url is missing; set it to the URL of the destination")
            .at("url")?;
        check_destination(&url, forward).at("url")?;
        let host = address::host(&url).to_ascii_lowercase();
        let signing = FileSigning {
            sign: self.sign,
            secret: self.secret,
            variant: self.variant,
            signed_url: self.signed_url,
            stale: self.stale,
        };
        let signing = signing.checked()?;
        let keys = self
            .keys
            .map_or(IdempotencySupport::Honoured, FileKeys::keys);
        Ok((ActionKind::Http { url, signing, keys }, Some(host)))
    }

    fn into_event_bridge(self, source: &str) -> anyhow::Result<(ActionKind, Option<String>)> {
        let bus = self.bus.unwrap_or_else(|| "default".to_owned());
        let short = address::bus(&bus).at("bus")?;
        let from = self.source.unwrap_or_else(|| format!("mitt.{source}"));
        check_event_source(&from).at("source")?;
        if let Some(detail_type) = &self.detail_type {
            address::check_event_text("detail_type", detail_type, 128).at("detail_type")?;
        }
        let destination = format!("eventbridge:{short}");
        let kind = ActionKind::EventBridge {
            bus,
            source: from,
            detail_type: self.detail_type,
        };
        Ok((kind, Some(destination)))
    }
}

fn check_limited(rate: Option<Rate>, destination: Option<&str>) -> anyhow::Result<()> {
    ensure!(
        rate.is_none() || destination.is_some(),
        "a rate needs a destination; set one, such as destination = \"tracker\""
    );
    Ok(())
}

fn group_of(group: &str, queue: &str) -> anyhow::Result<JsonPath> {
    ensure!(
        address::is_fifo(queue),
        "group needs a FIFO queue; use a queue whose name ends in .fifo, or remove group"
    );
    path(group)
}

fn check_destination(url: &str, forward: &Forward) -> anyhow::Result<()> {
    url_template::check(url)?;
    ensure!(
        forward.allow_loopback || !address::is_on_this_machine(url),
        "a deployment cannot reach a url on this machine; use the public URL of your service. To \
         receive its events here, run `webhookctl dev --forward {}`",
        address::port(url)
    );
    check_url(url, forward)
}

fn check_event_source(from: &str) -> anyhow::Result<()> {
    address::check_event_text("source", from, 256)?;
    ensure!(
        !from.starts_with("aws."),
        "source = {from:?}: the prefix \"aws.\" is reserved for AWS services; use another prefix"
    );
    Ok(())
}

fn timeout(text: &str) -> anyhow::Result<Duration> {
    let timeout = duration::parse(text).context("timeout")?;
    ensure!(
        (Duration::from_secs(1)..=LONGEST_ACTION).contains(&timeout),
        "timeout = {text:?} is out of range; use 1s to 14m. A Lambda function runs for at most 15 \
         minutes: for longer work, use kind \"step-functions\", kind \"sqs\", or kind \"lambda\" \
         with invocation = \"event\""
    );
    Ok(timeout)
}

impl FileKeys {
    fn keys(self) -> IdempotencySupport {
        match self {
            Self::Honoured => IdempotencySupport::Honoured,
            Self::HonouredWithFailures => IdempotencySupport::HonouredWithFailures,
            Self::Ignored => IdempotencySupport::Ignored,
        }
    }
}

#[cfg(test)]
mod tests;
