//! `sources rotate-secret`: rotates the secret of a source.

mod begin;
mod copies;
mod end;
mod render;

use serde::Serialize;
use shared::aws::secrets::{Live, Secret, Secrets};
use shared::base::clock::UnixMillis;
use shared::sources::Source;

use super::find;
use super::rotation::{Evidence, Rotation};
use crate::audit::{Change, who};
use crate::cli::{Global, SecretKind, SourcesRotateArgs};
use crate::output::{CliError, Exit, Printer};
use crate::target::{Deployment, ManagedSecret};
use crate::verbs::quarantine::reach;
use crate::verbs::secrets::secrets;
pub(in crate::verbs) use begin::next_slot;
use copies::Copied;
use render::mismatch;

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
    /// The step of the rotation: `begun`, `finished` or `aborted`.
    now: &'static str,
    accepted: Vec<Told>,
    gone: Vec<Told>,
    until: Option<String>,
    /// The egress secrets that have the value of an old or a removed secret.
    egress_copies: Vec<Copied>,
}

/// The values that all three steps need.
struct Work<'w> {
    inbox: &'w Deployment,
    source: &'w Source,
    store: Secrets,
    /// The secrets with which actions sign.
    egress: Secrets,
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
    let inbox = Deployment::open(&global.target).await?;
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
        egress: secrets(&inbox, SecretKind::Egress, &args.secrets_at)?,
        store,
        now,
    };
    if !args.finish && !args.abort {
        return work.begin(&args, out).await;
    }
    let under_way = Rotation::under_way(&inbox.ledger, &source.secret).await?;
    let Some((rotation, notice)) = under_way else {
        return Err(CliError::refused(
            "sources.no_rotation",
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
    async fn evidence(&self, from: UnixMillis) -> anyhow::Result<Evidence> {
        let (ledger, config) = (&self.inbox.ledger, &self.inbox.config);
        Evidence::since(ledger, config, &self.source.secret, from, self.now).await
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

fn told(slot: &str, secret: &Secret) -> Told {
    Told {
        slot: slot.to_owned(),
        fingerprint: secret.fingerprint(),
    }
}
