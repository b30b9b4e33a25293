//! `secrets put`: stores a secret.

use shared::aws::secrets::Secret;
use shared::webhook::verify::is_key;

use super::signers::signers;
use super::store::{Place, Verb, Why, checked};
use crate::cli::{Global, SecretFrom, SecretKind, SecretsPutArgs};
use crate::forward::scheme_of;
use crate::output::{CliError, Exit, Printer, Terminal};
use crate::verbs::sources::ask;

pub(super) async fn put(
    args: SecretsPutArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let kind = args.kind.given().unwrap_or(SecretKind::Ingress);
    let place = Place::open(&args.name, kind, &args.secrets_at, global).await?;
    let secret = checked(&read(&args, out.terminal)?)?;
    fits_its_source(&place, &secret)?;
    let why = Why {
        verb: Verb::Put,
        reason: args.reason.as_deref(),
        replace: args.replace,
    };
    let stored = place.store(&secret, &why).await?;
    out.document("secrets.put", &stored, &stored.name, &stored.text())?;
    if kind == SecretKind::Egress {
        let signers = signers(&place.inbox.config, &place.name);
        let warnings = signers.iter().filter_map(|signer| signer.warning(&secret));
        warnings.for_each(|warning| out.say(&warning));
    }
    stored.say(&place, out);
    Ok(Exit::Done)
}

/// Reads the value from its location. By default, this is stdin, or a prompt at a terminal.
fn read(args: &SecretsPutArgs, terminal: Terminal) -> anyhow::Result<String> {
    use std::io::IsTerminal as _;
    let what = "the secret";
    match &args.from {
        Some(from) => from.read(what),
        None if !std::io::stdin().is_terminal() => SecretFrom::Stdin.read(what),
        None if terminal.asks => ask(),
        None => {
            let why = terminal.why_it_asks_nothing();
            let message = format!("a secret is required, and the command cannot ask for it: {why}");
            Err(CliError::usage("secrets.no_value", message)
                .tip("pass --from with - (stdin), file:PATH or env:NAME")
                .into())
        }
    }
}

/// Checks the format of a provider's secret against the schemes of the sources that use it.
fn fits_its_source(place: &Place, secret: &Secret) -> anyhow::Result<()> {
    if place.kind != SecretKind::Ingress {
        return Ok(());
    }
    let sources = place.inbox.config.sources();
    for source in sources.filter(|source| source.secret == place.name) {
        let scheme = scheme_of(source)?;
        if scheme.needs_secret() && !is_key(scheme, secret) {
            let preset = &source.verifier.preset;
            let message = format!(
                "the value is not a valid secret of {}, the preset of the source {}",
                preset.name, source.name
            );
            return Err(CliError::usage("secrets.bad_value", message)
                .note("it does not have the provider's format; nothing was stored")
                .tip(format!("see {}", preset.docs))
                .into());
        }
    }
    Ok(())
}
