//! `sources add`: adds a source to the sources file and stores its secret.

use std::fmt::Write as _;

use anyhow::Context as _;
use local::names::random_id;
use serde::Serialize;
use shared::aws::secrets::{Managed, Secret, Secrets};
use shared::base::clock::UnixMillis;
use shared::sources::{Config, Source};
use shared::webhook::preset::{Preset, Scheme};

use super::file::{Block, SourcesFile};
use super::secret_input::new_secret;
use super::to::To;
use super::{api_url, named};
use crate::audit::Change;
use crate::cli::{Global, SourcesAddArgs, Store};
use crate::forward::scheme_of;
use crate::output::table::Facts;
use crate::output::{CliError, Exit, Printer};
use crate::target::{Chosen, Deployment, Local};
use crate::verbs::quarantine::reach;

#[derive(Serialize)]
struct Added {
    source: String,
    preset: String,
    file: String,
    /// The URL to which the provider must deliver.
    url: String,
    /// The full name of the stored secret.
    secret: Option<String>,
    fingerprint: Option<String>,
    /// The URL of the destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// The name of the secret that signs the requests to the destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    egress_secret: Option<String>,
    /// What the operator must do next before the source can receive webhooks.
    next: String,
}

/// The inbox, and the store of the catcher's secrets.
struct Place {
    inbox: Deployment,
    store: Secrets,
}

pub(super) async fn add(
    args: SourcesAddArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    check_preset(&args.preset)?;
    let to = args.to.as_deref();
    let to = to.map(|url| To::parse(url, &args.source, args.sign));
    let to = to.transpose()?;
    let local = running(global)?;
    let file = SourcesFile::read(args.file.as_deref(), local.as_ref())?;
    file.has_no(&args.source)?;
    let (text, config) = file.with(&block(&args, to.as_ref()))?;
    let source = config
        .source(&args.source)
        .context("find the added source")?;
    let scheme = scheme_of(source)?;
    let needed = !args.no_secret && scheme.needs_secret();
    // Without an inbox and a secret, only the file changes. `later` tells how to go on.
    let place = match (needed && args.new_secret.is_given(), named(global)?) {
        (true, false) => return Err(nowhere().into()),
        (false, false) => None,
        (_, true) => Some(Place::open(&args, global, &config).await?),
    };
    let stored = match &place {
        Some(place) if needed => Some(place.secret(&args, source, scheme, out).await?),
        _ => None,
    };
    // The audit log entry is written first, so that each change has an operator. The secret is
    // stored before the source is added, because the source needs it.
    if let Some(place) = &place {
        let what = format!("{} of preset {}", source.name, args.preset);
        record(&place.inbox, "source.add", what).await?;
        if let Some(Stored::Now(secret)) = &stored {
            put(place, &source.secret, secret).await?;
        }
    }
    file.write(&text)?;

    let inbox = place.as_ref().map(|place| &place.inbox);
    let both = place.as_ref().zip(stored.as_ref());
    let added = Added {
        source: source.name.clone(),
        preset: args.preset.clone(),
        file: file.path.display().to_string(),
        url: format!("{}/in/{}", api_url(inbox, &args.api_at), source.name),
        secret: both.map(|(place, stored)| place.full_name(source, stored.secret().slot())),
        fingerprint: stored.as_ref().map(|stored| stored.secret().fingerprint()),
        to: to.as_ref().map(|to| to.url.to_owned()),
        egress_secret: to.as_ref().map(|to| to.secret.to_owned()),
        next: match &place {
            Some(_) => next(local.is_some()),
            None => later(source, needed, to.as_ref()),
        },
    };
    let text = told(&added, source, stored.as_ref());
    out.document("sources.add", &added, &added.source, &text)?;
    if to.as_ref().is_some_and(To::is_here) {
        out.say(HERE);
    }
    out.say(&added.next);
    out.tip(&format!(
        "then run `webhookctl sources test {}`",
        source.name
    ));
    Ok(Exit::Done)
}

/// The warning about a destination on this machine.
const HERE: &str = "warning: the destination is on this machine: only `dev` accepts it, and a \
                    deployment rejects the file. Use the public URL of your service, and receive \
                    its events here with `webhookctl dev --forward :PORT`.";

fn block<'b>(args: &'b SourcesAddArgs, to: Option<&'b To<'b>>) -> Block<'b> {
    let params = args.param.iter();
    Block {
        name: &args.source,
        preset: &args.preset,
        variant: args.variant.as_deref(),
        params: params
            .map(|p| (p.path.as_str(), p.value.as_str()))
            .collect(),
        secret_store: args.secret_store.map(|store| match store {
            Store::ParameterStore => "parameter-store",
            Store::SecretsManager => "secrets-manager",
        }),
        to,
    }
}

impl Place {
    async fn open(args: &SourcesAddArgs, global: &Global, config: &Config) -> anyhow::Result<Self> {
        let inbox = Deployment::open(&global.target).await?;
        inbox.may_write("store a secret")?;
        let prefix = inbox.names().secrets_manager_prefix.as_deref();
        let managed = Managed::new(config.managed_secrets(), prefix);
        let store = reach::store(&inbox, global, &args.secrets_at)?.with_managed(managed);
        Ok(Self { inbox, store })
    }

    /// Returns the secret that is already stored, or a new secret.
    async fn secret(
        &self,
        args: &SourcesAddArgs,
        source: &Source,
        scheme: &Scheme,
        out: &Printer,
    ) -> anyhow::Result<Stored> {
        let live = self.store.live(&source.secret, UnixMillis::now()).await?;
        if let Some(secret) = live.first() {
            return Ok(Stored::Before(secret.clone()));
        }
        let preset = &source.verifier.preset;
        let secret = new_secret(&args.new_secret, preset, scheme, out.terminal)?;
        Ok(Stored::Now(secret))
    }

    fn full_name(&self, source: &Source, slot: &str) -> String {
        match self.store.managed(&source.secret) {
            Ok(Some(id)) => id,
            _ if slot == "new" => self.store.parameter(&source.secret, FIRST),
            _ => self.store.parameter(&source.secret, slot),
        }
    }
}

/// The slot of a source's first secret.
const FIRST: &str = "v1";

enum Stored {
    /// The store already had this secret.
    Before(Secret),
    Now(Secret),
}

impl Stored {
    fn secret(&self) -> &Secret {
        match self {
            Self::Before(secret) | Self::Now(secret) => secret,
        }
    }
}

async fn put(place: &Place, name: &str, secret: &Secret) -> anyhow::Result<()> {
    let stored = match place.store.managed(name)? {
        None => place.store.put(name, FIRST, secret).await?,
        Some(id) => {
            let managed = place.inbox.managed_secret(id)?;
            managed.put(&random_id(), secret).await?
        }
    };
    if stored {
        return Ok(());
    }
    Err(CliError::new(
        "sources.slot_taken",
        Exit::Busy,
        "another operator has stored a secret of this name; the file was not changed",
    )
    .into())
}

fn check_preset(name: &str) -> Result<(), CliError> {
    if Preset::names().any(|known| known == name) {
        return Ok(());
    }
    Err(
        CliError::usage("sources.no_preset", format!("unknown preset '{name}'"))
            .tip("webhookctl sources presets")
            .did_you_mean(name, Preset::names()),
    )
}

pub(super) fn nowhere() -> CliError {
    CliError::usage(
        "sources.no_inbox",
        "the secret needs an inbox, and no inbox is selected; nothing was written",
    )
    .note("checked: --table, MITT_TABLE, and a running `dev` in this folder")
    .tip("name the deployment, or change only the file with --no-secret")
}

/// Returns the running `dev`, unless the command names another deployment.
pub(super) fn running(global: &Global) -> anyhow::Result<Option<Local>> {
    let local = global.target.context.as_deref() == Some("local");
    if !local && Chosen::is_named(&global.target)? {
        return Ok(None);
    }
    Local::find()
}

pub(super) fn next(local: bool) -> String {
    if local {
        "Restart `dev`: it reads the sources only when it starts. With --state DIR it keeps its \
         secrets."
            .to_owned()
    } else {
        "Deploy the change: the sources are built into the functions (sam build && sam deploy)."
            .to_owned()
    }
}

/// Returns what to do next if no inbox is selected: only the file was changed.
fn later(source: &Source, needs_secret: bool, to: Option<&To<'_>>) -> String {
    let name = &source.name;
    let mut text = match to {
        Some(_) => {
            "Try it here: `webhookctl dev --forward :3000` runs the source on this machine, \
                    and sends its events to port 3000."
                .to_owned()
        }
        None => "Try it here: `webhookctl dev` runs the source on this machine.".to_owned(),
    };
    let ingress = needs_secret.then(|| format!("`webhookctl secrets put {}`", source.secret));
    let egress = to.map(|_| format!("`webhookctl secrets put {name} --egress`"));
    let commands: Vec<String> = ingress.into_iter().chain(egress).collect();
    if !commands.is_empty() {
        let commands = commands.join(" and ");
        let _ = write!(
            text,
            " In a deployment, store the secrets first: {commands}."
        );
    }
    text
}

fn told(added: &Added, source: &Source, stored: Option<&Stored>) -> String {
    let mut text = String::new();
    if let (Some(name), Some(print), Some(stored)) = (&added.secret, &added.fingerprint, stored) {
        let said = match stored {
            Stored::Now(_) => "secret stored   ",
            Stored::Before(_) => "secret existed  ",
        };
        let _ = writeln!(text, "  ✓ {said}  {name}   {print}");
    }
    let _ = writeln!(text, "  ✓ source written    {}", added.file);
    if let (Some(to), Some(secret)) = (&added.to, &added.egress_secret) {
        let _ = writeln!(
            text,
            "  ✓ sends events to   {to}, signed with the secret {secret}"
        );
    }
    text.push('\n');
    let preset = &source.verifier.preset;
    let _ = writeln!(text, "Paste these at {} ({})", preset.name, preset.docs);
    let mut facts = Facts::default();
    facts.add("URL", &added.url);
    facts.add(
        "Content type",
        "application/json, if the provider lets you choose",
    );
    facts.maybe("Secret", stored.map(|_| "the stored secret"));
    text + &facts.text()
}

/// Records a change of the sources file.
pub(super) async fn record(
    inbox: &Deployment,
    what: &'static str,
    selection: String,
) -> anyhow::Result<()> {
    let change = Change {
        what,
        why: "",
        selection,
        count: 0,
    };
    change.record(inbox).await?;
    Ok(())
}
