//! Reads the kind of an action, and checks that its settings belong to this kind.

use anyhow::ensure;
use serde::Deserialize;

use super::{FileAction, Invocation};
use crate::base::setting_path::At as _;

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FileActionKind {
    Keep,
    Http,
    Lambda,
    Sqs,
    #[serde(rename = "eventbridge")]
    EventBridge,
    StepFunctions,
    Pull,
    Rust,
}

impl FileActionKind {
    /// The kinds that have a destination. That of a `pull` action is the one that its workers call.
    const ELSEWHERE: &'static [Self] = &[
        Self::Http,
        Self::Lambda,
        Self::Sqs,
        Self::EventBridge,
        Self::StepFunctions,
        Self::Pull,
        Self::Rust,
    ];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Http => "http",
            Self::Lambda => "lambda",
            Self::Sqs => "sqs",
            Self::EventBridge => "eventbridge",
            Self::StepFunctions => "step-functions",
            Self::Pull => "pull",
            Self::Rust => "rust",
        }
    }
}

/// Settings of the same kinds: their names, and whether each is set.
type Settings<'s> = (&'static [FileActionKind], &'s [(&'static str, bool)]);

impl FileAction {
    /// Rejects a setting of another kind, because it would have no effect.
    pub(super) fn fits_its_kind(&self) -> anyhow::Result<()> {
        use FileActionKind as Kind;
        let elsewhere = [("destination", self.destination.is_some())];
        let lambda = [
            ("function", self.function.is_some()),
            ("invocation", self.invocation.is_some()),
            ("permanent_errors", self.permanent_errors.is_some()),
        ];
        let waits = [("timeout", self.timeout.is_some())];
        let queue = [("queue", self.queue.is_some())];
        let sqs = [("group", self.group.is_some())];
        let event_bridge = [
            ("bus", self.bus.is_some()),
            ("source", self.source.is_some()),
            ("detail_type", self.detail_type.is_some()),
        ];
        let step_functions = [("state_machine", self.state_machine.is_some())];
        let pull = [
            ("lease", self.lease.is_some()),
            ("max_hold", self.max_hold.is_some()),
            ("workers", self.workers.is_some()),
        ];
        let settings: [Settings<'_>; 9] = [
            (Kind::ELSEWHERE, &elsewhere),
            (&[Kind::Http, Kind::Lambda, Kind::Rust], &waits),
            (&[Kind::Http], &self.of_http()),
            (&[Kind::Lambda], &lambda),
            (&[Kind::Sqs, Kind::Pull], &queue),
            (&[Kind::Sqs], &sqs),
            (&[Kind::EventBridge], &event_bridge),
            (&[Kind::StepFunctions], &step_functions),
            (&[Kind::Pull], &pull),
        ];
        for (kinds, settings) in settings {
            let set = settings.iter().find(|(_, is_set)| *is_set);
            if let Some((setting, _)) = set {
                self.check_kind(setting, kinds).at(*setting).needs("kind")?;
            }
        }
        self.waits_for("permanent_errors", self.permanent_errors.is_some())?;
        self.waits_for("timeout", self.timeout.is_some())?;
        self.check_params().at("params").needs("kind")
    }

    fn check_kind(&self, setting: &str, kinds: &[FileActionKind]) -> anyhow::Result<()> {
        ensure!(
            kinds.contains(&self.kind),
            "{setting} is not a setting of kind {:?}; remove the setting",
            self.kind.word()
        );
        Ok(())
    }

    /// Rejects a setting that needs the result of a Lambda function, if there is none.
    fn waits_for(&self, setting: &'static str, is_set: bool) -> anyhow::Result<()> {
        let check = || {
            ensure!(
                !is_set || self.invocation != Some(Invocation::Event),
                "{setting} needs invocation = \"request-response\", because Lambda does not return \
                 the result of an \"event\" invocation; remove one of the two settings"
            );
            Ok(())
        };
        check().at(setting).needs("invocation")
    }

    fn check_params(&self) -> anyhow::Result<()> {
        ensure!(
            self.params.is_none() || self.kind == FileActionKind::Rust,
            "params is a setting of kind \"rust\" only; remove the setting"
        );
        Ok(())
    }

    fn of_http(&self) -> [(&'static str, bool); 11] {
        [
            ("url", self.url.is_some()),
            ("secret", self.secret.is_some()),
            ("sign", self.sign.is_some()),
            ("variant", self.variant.is_some()),
            ("signed_url", self.signed_url.is_some()),
            ("stale", self.stale.is_some()),
            ("keys", self.keys.is_some()),
            ("success", self.success.is_some()),
            ("permanent", self.permanent.is_some()),
            ("refused_for", self.refused_for.is_some()),
            ("answers", self.answers.is_some()),
        ]
    }
}
