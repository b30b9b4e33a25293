//! `sources rotate-secret`

mod render;

use anyhow::Context as _;
use local::names::random_id;
use serde::Serialize;
use shared::aws::secrets::{Live, REREAD, Secret, Secrets, short};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{FlagKind, FlagResult, OperatorFlag};
use shared::sources::Source;
use shared::webhook::preset::Scheme;

use super::find;
use super::rotation::{Evidence, LATELY, Rotation};
use super::secret_input::new_secret;
use crate::audit::{Change, who};
use crate::cli::{Global, SourcesRotateArgs};
use crate::output::time::rfc3339;
use crate::output::{CliError, Exit, Printer};
use crate::target::{Deployment, ManagedSecret};
use crate::verbs::quarantine::reach;
use render::{begun, counts, early, ended, mismatch, pending, under_way_already};

/// A secret without its value, for output.
#[derive(Serialize)]
struct Told {
    slot: String,
    fingerprint: String,
}

#[derive(Serialize)]
struct Rotated {
    source: String,
    secret: String,
    /// `begun`, `finished` or `aborted`.
    now: &'static str,
    accepted: Vec<Told>,
    gone: Vec<Told>,
    until: Option<String>,
}

/// The context of all three steps.
struct Work<'w> {
    inbox: &'w Deployment,
    source: &'w Source,
    store: Secrets,
    /// The secret, if it is stored in Secrets Manager.
    managed: Option<ManagedSecret>,
    live: Live,
    who: String,
    why: String,
    now: UnixMillis,
}

pub(super) async fn rotate(
    args: SourcesRotateArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let now = UnixMillis::now();
    let inbox = Deployment::open(&global.target)?;
    inbox.may_write("change a secret")?;
    let source = find(&inbox.config, &args.source)?;
    let store = reach::store(&inbox, global, &args.secrets_at)?;
    let managed = store.managed(&source.secret)?;
    let managed = managed.map(|id| inbox.managed_secret(id));
    let work = Work {
        managed: managed.transpose()?,
        live: store.live(&source.secret, now).await?,
        who: who(&inbox).await?,
        why: args.reason.clone().unwrap_or_default(),
        inbox: &inbox,
        source,
        store,
        now,
    };
    if !args.finish && !args.abort {
        return work.begin(&args, out).await;
    }
    let under_way = Rotation::under_way(&inbox.ledger, &source.secret).await?;
    let Some((rotation, notice)) = under_way else {
        return Err(CliError::new(
            "sources.no_rotation",
            Exit::Refused,
            format!("no rotation of {} is in progress", source.name),
        )
        .tip(format!("webhookctl sources rotate-secret {}", source.name))
        .into());
    };
    match &args.confirm {
        Some(name) if *name != source.name => return Err(mismatch(&source.name, name).into()),
        Some(_) => {}
        None if args.finish => work.may_finish(&rotation, &notice).await?,
        None => work.may_abort(&rotation).await?,
    }
    work.end(&rotation, &notice, args.finish, out).await
}

impl Work<'_> {
    async fn begin(&self, args: &SourcesRotateArgs, out: &mut Printer) -> anyhow::Result<Exit> {
        let (source, ledger) = (self.source, &self.inbox.ledger);
        let scheme = scheme(source)?;
        let under_way = Rotation::under_way(ledger, &source.secret).await?;
        if let Some((rotation, notice)) = under_way {
            return Err(under_way_already(source, &rotation, &notice).into());
        }
        let secret = new_secret(
            &args.new_secret,
            &source.verifier.preset,
            scheme,
            out.terminal,
        )?;
        if self
            .live
            .iter()
            .any(|live| live.expose() == secret.expose())
        {
            return Err(CliError::new(
                "sources.same_secret",
                Exit::Refused,
                format!("{} already accepts this secret", source.name),
            )
            .tip(format!("webhookctl sources show {}", source.name))
            .into());
        }
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
        let about = FlagKind::Rotation(&source.secret);
        let doc = serde_json::to_string(&rotation).context("serialize the rotation")?;
        let notice = OperatorFlag::new(&self.who, &self.why, doc, self.now)?;
        // A first secret starts no overlap, so it needs no flag. The flag is set before the secret
        // is stored, so that only one of two concurrent operators uses the slot.
        let first = self.live.is_empty();
        if !first
            && let FlagResult::AlreadySet(notice) =
                ledger.operations().set_flag(about, &notice).await?
        {
            return Err(under_way_already(source, &rotation, &notice).into());
        }
        let put = match &self.managed {
            None => self.store.put(&source.secret, &rotation.new, &secret).await,
            Some(managed) => managed.put(&version_id, &secret).await,
        };
        if !matches!(put, Ok(true)) {
            ledger.operations().clear_flag(about, &notice).await?;
            put?;
            return Err(CliError::new(
                "sources.slot_taken",
                Exit::Busy,
                format!(
                    "another operator has stored {} in the meantime",
                    rotation.new
                ),
            )
            .into());
        }
        let accepted = std::iter::once(told(&rotation.new, &secret));
        let old = old.iter().map(|old| told(old.slot(), old));
        let rotated = Rotated {
            source: source.name.clone(),
            secret: source.secret.clone(),
            now: "begun",
            accepted: accepted.chain(old).collect(),
            gone: Vec::new(),
            until: (!first).then(|| rfc3339(rotation.until)),
        };
        out.document("sources.rotate", &rotated, &source.name, &begun(&rotated))?;
        out.say(&format!(
            "Wait {} s, then change the secret at the provider. `webhookctl sources show {}` shows \
            which secret is in use.",
            REREAD.as_secs(),
            source.name
        ));
        Ok(Exit::Done)
    }

    /// The secrets that stay accepted beside a new version. The new version takes the label from
    /// the previous one, so the previous one must not be in use, and no other rotation may be in
    /// progress.
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

    /// Fails if the removal of the old secrets could reject webhooks that are accepted now.
    async fn may_finish(&self, rotation: &Rotation, notice: &OperatorFlag) -> anyhow::Result<()> {
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
            return Err(CliError::new(
                "sources.rotate_unproved",
                Exit::Refused,
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

    async fn may_abort(&self, rotation: &Rotation) -> anyhow::Result<()> {
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

    async fn evidence(&self, from: UnixMillis) -> anyhow::Result<Evidence> {
        let (ledger, config) = (&self.inbox.ledger, &self.inbox.config);
        Evidence::since(ledger, config, &self.source.secret, from, self.now).await
    }

    async fn end(
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
            return Err(CliError::new(
                "sources.last_secret",
                Exit::Refused,
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
        };
        out.document("sources.rotate", &rotated, &source.name, &ended(&rotated))?;
        Ok(Exit::Done)
    }

    async fn log(&self, what: &'static str, rotation: &Rotation) -> anyhow::Result<()> {
        let change = Change {
            what,
            why: &self.why,
            selection: format!(
                "{}: {} beside {}",
                self.source.name,
                rotation.new,
                rotation.old.join(", ")
            ),
            count: 0,
        };
        change.record_as(&self.who, self.inbox).await
    }
}

fn scheme(source: &Source) -> anyhow::Result<&Scheme> {
    let verifier = &source.verifier;
    let scheme = verifier.preset.scheme(&verifier.variant);
    let scheme = scheme.context("find the scheme of the source")?;
    if scheme.needs_secret() {
        return Ok(scheme);
    }
    Err(CliError::new(
        "sources.needs_no_secret",
        Exit::Refused,
        format!("webhooks of {} are not verified with a secret", source.name),
    )
    .tip(format!("webhookctl sources presets {}", verifier.preset.id))
    .into())
}

/// Whether a version in Secrets Manager has this label.
fn is_called(secret: &Secret, label: &str) -> bool {
    secret
        .label()
        .rsplit_once('.')
        .is_some_and(|(_, called)| called == label)
}

/// The next slot: `v2` after one secret, regardless of its name.
fn next_slot(live: &[Secret]) -> String {
    let numbers = live.iter().filter_map(|secret| {
        let number = secret.slot().strip_prefix('v')?;
        number.parse::<u32>().ok()
    });
    let highest = numbers.max().unwrap_or(0);
    let count = u32::try_from(live.len()).unwrap_or(0);
    format!("v{}", highest.max(count) + 1)
}

fn told(slot: &str, secret: &Secret) -> Told {
    Told {
        slot: slot.to_owned(),
        fingerprint: secret.fingerprint(),
    }
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
