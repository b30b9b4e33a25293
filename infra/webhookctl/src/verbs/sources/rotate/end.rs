//! Ends a rotation: removes the old secrets, or the new one.

use shared::aws::secrets::Secret;
use shared::inbox::ledger::{FlagKind, OperatorFlag};

use super::render::{counts, early, ended};
use super::{Rotated, Work, copies, told};
use crate::output::{CliError, Exit, Printer};
use crate::verbs::sources::rotation::{LATELY, Rotation};

impl Work<'_> {
    pub(super) async fn end(
        &self,
        rotation: &Rotation,
        notice: &OperatorFlag,
        finish: bool,
        out: &mut Printer,
    ) -> anyhow::Result<Exit> {
        let source = self.source;
        let (what, now) = if finish {
            ("secret.finish", "finished")
        } else {
            ("secret.abort", "aborted")
        };
        let goes = |slot: &str| {
            if finish {
                rotation.old.iter().any(|old| old == slot)
            } else {
                rotation.new == slot
            }
        };
        let (gone, stay): (Vec<&Secret>, Vec<&Secret>) =
            self.live.iter().partition(|secret| goes(secret.slot()));
        if stay.is_empty() {
            return Err(CliError::refused(
                "sources.last_secret",
                format!(
                    "{} would have no secret left; nothing was changed",
                    source.name
                ),
            )
            .tip(format!("webhookctl sources show {}", source.name))
            .into());
        }
        self.log(what, rotation).await?;
        let named = |secret: &&&Secret| {
            rotation.new == secret.slot() || rotation.old.iter().any(|old| old == secret.slot())
        };
        let heir = stay.iter().find(named).or(stay.first());
        let heir = heir.map_or("", |heir| heir.slot());
        for secret in &gone {
            match &self.managed {
                None => self.store.delete(&source.secret, secret.slot()).await?,
                Some(managed) => managed.retire(secret.slot(), heir).await?,
            }
        }
        let about = FlagKind::Rotation(&source.secret);
        self.inbox
            .ledger
            .operations()
            .clear_flag(about, notice)
            .await?;
        let tell = |secrets: &[&Secret]| secrets.iter().map(|one| told(one.slot(), one)).collect();
        let rotated = Rotated {
            source: source.name.clone(),
            secret: source.secret.clone(),
            now,
            accepted: tell(&stay),
            gone: tell(&gone),
            until: None,
            egress_copies: self.copies(&gone, out).await,
        };
        out.document("sources.rotate", &rotated, &source.name, &ended(&rotated))?;
        copies::say(&rotated.egress_copies, out);
        Ok(Exit::Done)
    }

    /// Returns an error if the removal of the old secrets could make the catcher reject webhooks
    /// that it accepts now.
    pub(super) async fn may_finish(
        &self,
        rotation: &Rotation,
        notice: &OperatorFlag,
    ) -> anyhow::Result<()> {
        let name = &self.source.name;
        let lately = self.evidence(self.now - LATELY).await?;
        let (old, new) = (lately.of(&rotation.old), lately.of([&rotation.new]));
        if old > 0 {
            let said = counts(&rotation.old, old, &rotation.new, new);
            return Err(early(
                said,
                &format!(
                    "save the new secret at {}, then wait; or --finish --confirm {name} to finish \
                    anyway",
                    self.source.verifier.preset.name
                ),
            )
            .into());
        }
        let since = self.evidence(notice.at).await?;
        if since.of([&rotation.new]) == 0 {
            return Err(CliError::refused(
                "sources.rotate_unproved",
                format!("no webhook has been signed with {} yet", rotation.new),
            )
            .note("without the old secret, webhooks may be rejected: the provider may still use it")
            .tip(format!(
                "let the provider send a webhook; to finish anyway: --finish --confirm {name}"
            ))
            .into());
        }
        Ok(())
    }

    pub(super) async fn may_abort(&self, rotation: &Rotation) -> anyhow::Result<()> {
        let lately = self.evidence(self.now - LATELY).await?;
        let (old, new) = (lately.of(&rotation.old), lately.of([&rotation.new]));
        if new > 0 {
            let new_slot = std::slice::from_ref(&rotation.new);
            let said = counts(new_slot, new, &rotation.old.join(", "), old);
            let tip = format!(
                "save the old secret at {} again, then wait; or --abort --confirm {} to abort anyway",
                self.source.verifier.preset.name, self.source.name
            );
            return Err(early(said, &tip).into());
        }
        Ok(())
    }
}
