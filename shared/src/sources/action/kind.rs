//! Reads the kind of an action, and checks that its settings belong to this kind.

use anyhow::ensure;
use serde::Deserialize;

use super::{FileAction, Invocation};

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
    Rust,
}

impl FileActionKind {
    /// The kinds that call a destination.
    const ELSEWHERE: &'static [Self] = &[
        Self::Http,
        Self::Lambda,
        Self::Sqs,
        Self::EventBridge,
        Self::StepFunctions,
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
        let sqs = [
            ("queue", self.queue.is_some()),
            ("group", self.group.is_some()),
        ];
        let event_bridge = [
            ("bus", self.bus.is_some()),
            ("source", self.source.is_some()),
            ("detail_type", self.detail_type.is_some()),
        ];
        let step_functions = [("state_machine", self.state_machine.is_some())];
        let settings: [Settings<'_>; 7] = [
            (Kind::ELSEWHERE, &elsewhere),
            (&[Kind::Http, Kind::Lambda, Kind::Rust], &waits),
            (&[Kind::Http], &self.of_http()),
            (&[Kind::Lambda], &lambda),
            (&[Kind::Sqs], &sqs),
            (&[Kind::EventBridge], &event_bridge),
            (&[Kind::StepFunctions], &step_functions),
        ];
        for (kinds, settings) in settings {
            let set = settings.iter().find(|(_, is_set)| *is_set);
            if let Some((setting, _)) = set {
                ensure!(
                    kinds.contains(&self.kind),
                    "{setting} is not a setting of kind {:?}; remove the setting",
                    self.kind.word()
                );
            }
        }
        ensure!(
            self.permanent_errors.is_none() || self.invocation != Some(Invocation::Event),
            "permanent_errors needs invocation = \"request-response\": Lambda returns no result of \
             an \"event\" invocation"
        );
        ensure!(
            self.timeout.is_none() || self.invocation != Some(Invocation::Event),
            "timeout needs invocation = \"request-response\": Lambda answers an \"event\" \
             invocation at once"
        );
        ensure!(
            self.params.is_none() || self.kind == Kind::Rust,
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
