//! Reads a new secret of a source: from an argument, from a prompt, or generated.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::Context as _;
use shared::aws::secrets::Secret;
use shared::webhook::preset::{KeyForm, Preset, Scheme};
use shared::webhook::sign::{Means, means};
use shared::webhook::verify::is_key;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::NewSecretArgs;
use crate::files;
use crate::output::{CliError, Exit, Terminal};
use crate::samples::random_hex;

/// The presets whose provider accepts a secret that the user chooses, according to the
/// documentation of the provider.
const OURS: [&str; 8] = [
    "bitbucket",
    "generic-hmac",
    "github",
    "gitlab",
    "jira",
    "telegram",
    "typeform",
    "woocommerce",
];

/// Returns the secret that the arguments give, or that the user types at a hidden prompt.
pub(super) fn new_secret(
    args: &NewSecretArgs,
    preset: &Preset,
    scheme: &Scheme,
    terminal: Terminal,
) -> anyhow::Result<Secret> {
    let text = match (&args.secret_from, &args.new_secret) {
        (Some(from), _) => from.read("the secret")?,
        (None, Some(file)) => make(file, preset, scheme)?,
        (None, None) if terminal.asks => ask()?,
        (None, None) => {
            let why = terminal.why_it_asks_nothing();
            let message = format!("a secret is required, and the command cannot ask for it: {why}");
            return Err(CliError::usage("sources.no_secret", message)
                .tip("pass --secret-from with - (stdin), file:PATH or env:NAME")
                .into());
        }
    };
    let value = text.trim_end_matches(['\r', '\n']);
    if value.is_empty() {
        let error = CliError::usage("sources.no_secret", "the secret is empty");
        return Err(if can_be_ours(preset, scheme) {
            error.tip("--new-secret FILE generates a secret").into()
        } else {
            error.tip("copy the secret from the provider").into()
        });
    }
    let secret = Secret::new("new", value);
    if !is_key(scheme, &secret) {
        let docs = preset.docs.clone();
        return Err(CliError::usage(
            "sources.bad_secret",
            format!("the value is not a valid secret of {}", preset.name),
        )
        .note("it does not have the provider's format; nothing was stored")
        .tip(format!("see {docs}"))
        .into());
    }
    Ok(secret)
}

/// Asks for the secret. The prompt changes the terminal settings, and by default Ctrl-C would end
/// the process before they are restored. So this function handles Ctrl-C. tokio keeps the handler
/// until the process ends, so a task ends the process on a later Ctrl-C.
pub(in crate::verbs) fn ask() -> anyhow::Result<String> {
    let mut interrupted = signal(SignalKind::interrupt()).context("listen for Ctrl-C")?;
    let typed = rpassword::prompt_password("Secret (hidden): ");
    if let Err(error) = &typed
        && error.kind() == ErrorKind::Interrupted
    {
        let message = "no secret was given; nothing was changed";
        return Err(CliError::new("interrupted", Exit::Interrupted, message).into());
    }
    tokio::spawn(async move {
        interrupted.recv().await;
        std::process::exit(Exit::Interrupted.code().into());
    });
    typed.context("ask for the secret")
}

/// Generates a secret and writes it to a file that only the owner can read. It is never printed.
fn make(file: &Path, preset: &Preset, scheme: &Scheme) -> anyhow::Result<String> {
    if !can_be_ours(preset, scheme) {
        return Err(CliError::refused(
            "sources.not_ours",
            format!(
                "{} creates the secret and does not accept yours",
                preset.name
            ),
        )
        .tip("pass --secret-from with - (stdin), file:PATH or env:NAME")
        .into());
    }
    let secret = random_hex(20)?;
    let created = files::create_private(file);
    created
        .with_context(|| format!("create {}", file.display()))?
        .write_all(secret.as_bytes())
        .with_context(|| format!("write {}", file.display()))?;
    Ok(secret)
}

fn can_be_ours(preset: &Preset, scheme: &Scheme) -> bool {
    let plain = scheme.key == KeyForm::Utf8 && means(scheme) == Means::Secret;
    plain && OURS.contains(&preset.id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_secret_fits_every_preset_that_takes_one() {
        for id in OURS {
            let preset = Preset::embedded(id, &std::collections::BTreeMap::new()).unwrap();
            let scheme = preset.scheme("default").unwrap();
            assert!(can_be_ours(&preset, scheme), "{id}");
            let made = Secret::new("new", random_hex(20).unwrap());
            assert!(is_key(scheme, &made), "{id}");
        }
    }
}
