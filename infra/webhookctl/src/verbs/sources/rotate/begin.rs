//! Starts a rotation: stores the new secret beside the old ones.

use anyhow::Context as _;
use local::names::random_id;
use shared::aws::secrets::{REREAD, Secret, short};
use shared::inbox::ledger::{FlagKind, FlagResult, OperatorFlag};
use shared::sources::Source;
use shared::webhook::preset::Scheme;

use super::render::{begun, counts, early, mismatch, pending, under_way_already};
use super::{Rotated, Work, copies, told};
use crate::cli::SourcesRotateArgs;
use crate::forward::scheme_of;
use crate::output::time::rfc3339;
use crate::output::{CliError, Exit, Printer};
use crate::verbs::sources::rotation::{LATELY, Rotation};
use crate::verbs::sources::secret_input::new_secret;

impl Work<'_> {
    pub(super) async fn begin(
        &self,
        args: &SourcesRotateArgs,
        out: &mut Printer,
    ) -> anyhow::Result<Exit> {
        let (source, ledger) = (self.source, &self.inbox.ledger);
        let scheme = scheme(source)?;
        let under_way = Rotation::under_way(ledger, &source.secret).await?;
        if let Some((rotation, notice)) = under_way {
            return Err(under_way_already(source, &rotation, &notice).into());
        }
        let preset = &source.verifier.preset;
        let secret = new_secret(&args.new_secret, preset, scheme, out.terminal)?;
        self.is_other(&secret)?;
        let version_id = random_id();
        let old: Vec<&Secret> = match &self.managed {
            None => self.live.iter().collect(),
            Some(_) => self.may_move_labels(args.confirm.as_deref()).await?,
        };
        let rotation = Rotation {
            new: match &self.managed {
                None => next_slot(&self.live),
                Some(_) => short(&version_id),
            },
            old: old.iter().map(|old| old.slot().to_owned()).collect(),
            until: (self.now + args.overlap).0,
        };
        self.log("secret.rotate", &rotation).await?;
        self.put(&rotation, &secret, &version_id).await?;

        let copies = self.copies(&old, out).await;
        let accepted = std::iter::once(told(&rotation.new, &secret));
        let old = old.iter().map(|old| told(old.slot(), old));
        let rotated = Rotated {
            source: source.name.clone(),
            secret: source.secret.clone(),
            now: "begun",
            accepted: accepted.chain(old).collect(),
            gone: Vec::new(),
            until: (!self.is_first()).then(|| rfc3339(rotation.until)),
            egress_copies: copies,
        };
        out.document("sources.rotate", &rotated, &source.name, &begun(&rotated))?;
        out.say(&format!(
            "Wait {} s, then change the secret at the provider. `webhookctl sources show {}` shows \
            which secret is in use.",
            REREAD.as_secs(),
            source.name
        ));
        copies::say(&rotated.egress_copies, out);
        Ok(Exit::Done)
    }

    /// Returns whether the source has no secret yet. The first secret does not need an overlap.
    fn is_first(&self) -> bool {
        self.live.is_empty()
    }

    fn is_other(&self, secret: &Secret) -> Result<(), CliError> {
        let mut live = self.live.iter();
        if live.all(|live| live.expose() != secret.expose()) {
            return Ok(());
        }
        let name = &self.source.name;
        Err(CliError::refused(
            "sources.same_secret",
            format!("{name} already accepts this secret"),
        )
        .tip(format!("webhookctl sources show {name}")))
    }

    /// Sets the operator flag of the rotation, and then stores the secret. The flag prevents two
    /// operators from using the same slot at the same time.
    async fn put(
        &self,
        rotation: &Rotation,
        secret: &Secret,
        version_id: &str,
    ) -> anyhow::Result<()> {
        let operations = self.inbox.ledger.operations();
        let name = &self.source.secret;
        let about = FlagKind::Rotation(name);
        let doc = serde_json::to_string(rotation).context("serialize the rotation")?;
        let notice = OperatorFlag::new(&self.who, &self.why, doc, self.now)?;
        if !self.is_first()
            && let FlagResult::AlreadySet(notice) = operations.set_flag(about, &notice).await?
        {
            return Err(under_way_already(self.source, rotation, &notice).into());
        }
        let put = match &self.managed {
            None => self.store.put(name, &rotation.new, secret).await,
            Some(managed) => managed.put(version_id, secret).await,
        };
        if matches!(put, Ok(true)) {
            return Ok(());
        }
        operations.clear_flag(about, &notice).await?;
        put?;
        let new = &rotation.new;
        let message = format!("another operator has stored {new} in the meantime");
        Err(CliError::new("sources.slot_taken", Exit::Busy, message).into())
    }

    /// Returns the secrets that stay accepted beside a new version, or an error. A new version
    /// moves the label of the previous version to the current version. So the previous version must
    /// not be in use, and no other rotation may be in progress.
    async fn may_move_labels(&self, confirmed: Option<&str>) -> anyhow::Result<Vec<&Secret>> {
        let name = &self.source.name;
        if let Some(confirmed) = confirmed
            && confirmed != name
        {
            return Err(mismatch(name, confirmed).into());
        }
        if self.live.iter().any(|live| is_called(live, "pending")) {
            return Err(pending(self.source).into());
        }
        let (previous, stay): (Vec<&Secret>, Vec<&Secret>) = self
            .live
            .iter()
            .partition(|live| is_called(live, "previous"));
        let slots = |of: &[&Secret]| -> Vec<String> {
            of.iter().map(|secret| secret.slot().to_owned()).collect()
        };
        let (previous, current) = (slots(&previous), slots(&stay));
        let lately = self.evidence(self.now - LATELY).await?;
        let (old, new) = (lately.of(&previous), lately.of(&current));
        if old > 0 && confirmed.is_none() {
            let said = counts(&previous, old, &current.join(", "), new);
            let tip = format!(
                "wait until the provider uses the current secret; to remove the previous one \
                 anyway: --confirm {name}"
            );
            return Err(early(said, &tip).into());
        }
        Ok(stay)
    }
}

fn scheme(source: &Source) -> anyhow::Result<&Scheme> {
    let scheme = scheme_of(source)?;
    if scheme.needs_secret() {
        return Ok(scheme);
    }
    Err(CliError::refused(
        "sources.needs_no_secret",
        format!("webhooks of {} are not verified with a secret", source.name),
    )
    .tip(format!(
        "webhookctl sources presets {}",
        source.verifier.preset.id
    ))
    .into())
}

/// Returns whether a version in Secrets Manager has this label.
fn is_called(secret: &Secret, label: &str) -> bool {
    secret
        .label()
        .rsplit_once('.')
        .is_some_and(|(_, called)| called == label)
}

/// Returns the next slot. Its number is one more than the highest slot number or the number of
/// live secrets, whichever is larger.
pub(in crate::verbs) fn next_slot(live: &[Secret]) -> String {
    let numbers = live.iter().filter_map(|secret| {
        let number = secret.slot().strip_prefix('v')?;
        number.parse::<u32>().ok()
    });
    let highest = numbers.max().unwrap_or(0);
    let count = u32::try_from(live.len()).unwrap_or(0);
    format!("v{}", highest.max(count) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_numbered_behind_all_that_are_live() {
        let slots = |labels: &[&str]| {
            let live: Vec<Secret> = labels
                .iter()
                .map(|label| Secret::new(*label, "x"))
                .collect();
            next_slot(&live)
        };
        assert_eq!(slots(&[]), "v1");
        assert_eq!(slots(&["current.3"]), "v2");
        assert_eq!(slots(&["v7.1", "current.1"]), "v8");
        assert_eq!(slots(&["current.1", "previous.1"]), "v3");
    }
}
