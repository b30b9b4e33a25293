//! What is done with an event.
//!
//! To add an action of your own, copy `open_issue.rs`, give it a name here, and name it in
//! `infra/sources.toml`: `kind = "rust"`, `name = "open-issue"`. Whatever it does to the world
//! goes through [`Effects::once`] or [`Effects::keyed`], each under a name of its own.

mod confirm;
mod http;
mod open_issue;

use std::collections::BTreeMap;

use anyhow::Context as _;
use bytes::Bytes;
use shared::clock::Clock;
use shared::config::{Action, ActionKind};
use shared::effects::Effects;
use shared::ledger::Row;
use shared::outbound::Outbound;
use shared::outcome::Outcome;
use shared::secrets::{Secret, Secrets};

/// An event under a lease, and what an action may use.
pub(crate) struct Work<'w> {
    /// What the ledger knows of the event.
    pub(crate) row: &'w Row,
    /// The exact bytes that arrived.
    pub(crate) body: &'w Bytes,
    pub(crate) effects: &'w Effects<'w>,
    pub(crate) outbound: &'w Outbound,
    pub(crate) secrets: &'w Secrets,
    pub(crate) clock: Clock,
}

impl Work<'_> {
    pub(crate) async fn run(&self, action: &Action) -> Outcome {
        match &action.kind {
            ActionKind::Keep => Outcome::Done,
            ActionKind::Http { url, secret } => {
                http::forward(self, &action.name, url, secret).await
            }
            ActionKind::Rust { code, params } => self.run_code(code, params).await,
        }
    }

    async fn run_code(&self, code: &str, params: &BTreeMap<String, String>) -> Outcome {
        match code {
            "open-issue" => open_issue::open_issue(self, params).await,
            // After the attempts it is a dead letter, and a replay once the code is there.
            _ => Outcome::retry(format!("this processor has no action {code:?}")),
        }
    }

    /// The newest live secret of a name.
    pub(crate) async fn secret(&self, name: &str) -> anyhow::Result<Secret> {
        let live = self.secrets.live(name, (self.clock)()).await?;
        live.first()
            .cloned()
            .with_context(|| format!("there is no secret {name:?}"))
    }
}
