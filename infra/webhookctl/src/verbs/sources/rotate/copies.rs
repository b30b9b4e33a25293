//! Finds egress secrets that have the value of a rotated secret. Actions with `sign = "provider"` sign
//! with them, and a rotation does not change them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use shared::aws::secrets::{Secret, Secrets};
use shared::base::clock::UnixMillis;
use shared::sources::{Config, Signing};

use super::Work;
use crate::output::Printer;

/// An egress secret with the value of a rotated secret.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Copied {
    secret: String,
    /// The slot of the source that has the same value.
    slot: String,
    /// The actions that sign with the egress secret, such as `shop/orders`.
    actions: BTreeSet<String>,
}

impl Copied {
    fn text(&self) -> String {
        let actions: Vec<&str> = self.actions.iter().map(String::as_str).collect();
        format!(
            "The egress secret {} has the value of {}, and {} signs with it. The rotation does not \
             change it. When the receiver has a new value, store it with `webhookctl secrets put {} \
             --egress --replace`.",
            self.secret,
            self.slot,
            actions.join(", "),
            self.secret
        )
    }
}

pub(super) fn say(copies: &[Copied], out: &mut Printer) {
    for copied in copies {
        out.say(&copied.text());
    }
}

impl Work<'_> {
    /// Returns the egress secrets that have one of these values. An egress secret that cannot be read
    /// is reported, and does not stop the rotation.
    pub(super) async fn copies(&self, rotated: &[&Secret], out: &mut Printer) -> Vec<Copied> {
        let mut copies = Vec::new();
        for (name, actions) in signers(&self.inbox.config) {
            match slot_of(&self.egress, name, rotated, self.now).await {
                Ok(Some(slot)) => copies.push(Copied {
                    secret: name.to_owned(),
                    slot,
                    actions,
                }),
                Ok(None) => {}
                Err(error) => out.say(&format!(
                    "The egress secret {name} cannot be read, so it may have the old value: {error:#}"
                )),
            }
        }
        copies
    }
}

/// Returns the slot of the rotated secret that has a live value of the egress secret.
async fn slot_of(
    egress: &Secrets,
    name: &str,
    rotated: &[&Secret],
    now: UnixMillis,
) -> anyhow::Result<Option<String>> {
    let live = egress.live(name, now).await?;
    let same = |old: &&&Secret| live.iter().any(|it| it.expose() == old.expose());
    Ok(rotated.iter().find(same).map(|old| old.slot().to_owned()))
}

/// Returns the egress secrets with which actions sign as the provider, and these actions.
fn signers(config: &Config) -> BTreeMap<&str, BTreeSet<String>> {
    let mut signers: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for source in config.sources() {
        for action in &source.actions {
            if let Some((_, Signing::Provider { secret, .. })) = action.kind.http() {
                let action = format!("{}/{}", source.name, action.name);
                signers.entry(secret).or_default().insert(action);
            }
        }
    }
    signers
}
