//! `sources remove`: removes a source from the sources file.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde::Serialize;
use shared::aws::secrets::Secrets;
use shared::base::clock::UnixMillis;
use shared::sources::{Config, Source};

use super::add::{next, nowhere, record, running};
use super::file::SourcesFile;
use super::named;
use crate::cli::{Global, SourcesRemoveArgs};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;
use crate::verbs::quarantine::reach;

#[derive(Serialize)]
struct Removed {
    source: String,
    file: String,
    /// The number of deleted secrets.
    secrets_deleted: usize,
    next: String,
}

pub(super) async fn remove(
    args: SourcesRemoveArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let local = running(global)?;
    let file = SourcesFile::read(args.file.as_deref(), local.as_ref())?;
    let text = file.without(&args.source)?;
    let config = Config::parse_for_dev(&file.text)?;
    let source = config.source(&args.source).context("find the source")?;
    confirmed(&args)?;
    let mut deleted = 0;
    if named(global)? {
        let inbox = Deployment::open(&global.target).await?;
        inbox.may_write("remove a source")?;
        let what = if args.with_secrets {
            format!("{} with its secrets", args.source)
        } else {
            args.source.clone()
        };
        record(&inbox, "source.remove", what).await?;
        file.write(&text)?;
        if args.with_secrets {
            let store = reach::store(&inbox, global, &args.secrets_at)?;
            deleted = delete(&inbox, &store, &config, source).await?;
        }
    } else if args.with_secrets {
        return Err(nowhere().into());
    } else {
        file.write(&text)?;
    }
    let removed = Removed {
        source: args.source.clone(),
        file: file.path.display().to_string(),
        secrets_deleted: deleted,
        next: next(local.is_some()),
    };
    let mut text = format!("  ✓ source removed    {}\n", removed.file);
    if args.with_secrets {
        let _ = writeln!(text, "  ✓ secrets deleted   {deleted}");
    }
    out.document("sources.remove", &removed, &removed.source, &text)?;
    out.say(&removed.next);
    Ok(Exit::Done)
}

fn confirmed(args: &SourcesRemoveArgs) -> Result<(), CliError> {
    let name = &args.source;
    let refused = match &args.confirm {
        Some(confirm) if confirm == name => return Ok(()),
        Some(confirm) => CliError::refused(
            "sources.confirm_mismatch",
            format!("the source is {name}, but --confirm is {confirm}; nothing was changed"),
        ),
        None => CliError::refused(
            "sources.confirm",
            format!("{name} would be removed, and the catcher would answer its webhooks with 404"),
        ),
    };
    Err(refused.tip(format!("webhookctl sources remove {name} --confirm {name}")))
}

/// Deletes all secrets of a source, unless another source uses them.
async fn delete(
    inbox: &Deployment,
    store: &Secrets,
    config: &Config,
    source: &Source,
) -> anyhow::Result<usize> {
    let mut others = config.sources().filter(|other| other.name != source.name);
    if let Some(other) = others.find(|other| other.secret == source.secret) {
        return Err(CliError::new(
            "sources.shared_secret",
            Exit::Partial,
            format!(
                "{} uses the same secrets, so they were not deleted",
                other.name
            ),
        )
        .note("the source was removed from the file")
        .into());
    }
    let live = store.live(&source.secret, UnixMillis::now()).await?;
    if let Some(id) = store.managed(&source.secret)? {
        if !live.is_empty() {
            inbox.managed_secret(id)?.delete().await?;
        }
        return Ok(live.len());
    }
    for secret in live.iter() {
        store.delete(&source.secret, secret.slot()).await?;
    }
    Ok(live.len())
}
