//! `sources check`: checks a sources file.

mod signing;

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use shared::sources::{Config, Source, is_on_this_machine};
use shared::webhook::event::Proven;
use shared::webhook::preset::{Kind, Scheme};

use super::file::usual;
use super::{read, versions};
use crate::cli::{Global, SourcesCheckArgs};
use crate::faults::invalid;
use crate::files;
use crate::output::{CliError, Exit, Printer};

#[derive(Serialize)]
struct Checked {
    file: String,
    hash: String,
    sources: Vec<String>,
    /// A setting that is valid but seldom intended.
    warnings: Vec<Warning>,
}

#[derive(Serialize)]
struct Warning {
    source: String,
    message: String,
}

/// Checks a sources file. If the file is invalid, the exit code is 5. A warning does not change the
/// exit code.
pub(super) async fn check(
    args: &SourcesCheckArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let path = args.file.clone().unwrap_or_else(usual);
    let file = path.display().to_string();
    let config = read(&path)?;
    let here: Vec<Warning> = config.sources().flat_map(on_this_machine).collect();
    if here.is_empty() {
        fits_a_deployment(&path)?;
    }
    if args.deployed {
        Box::pin(versions::fits(&path, &config, global, out)).await?;
    }
    let sources: Vec<String> = config.sources().map(|source| source.name.clone()).collect();
    let warnings = config.sources().flat_map(warnings).chain(here);
    let warnings: Vec<Warning> = warnings.collect();
    let mut text = format!(
        "{file} is valid: {} (configuration {})\n",
        sources.join(", "),
        config.hash()
    );
    for warning in &warnings {
        let _ = writeln!(text, "warning: {}: {}", warning.source, warning.message);
    }
    let checked = Checked {
        file: file.clone(),
        hash: config.hash().to_owned(),
        sources,
        warnings,
    };
    out.document("sources.check", &checked, &file, &text)?;
    Ok(Exit::Done)
}

/// Checks the file as a deployment does. [`read`] also accepts what only `dev` can reach.
fn fits_a_deployment(path: &Path) -> anyhow::Result<()> {
    let text = files::read_text(path, "the sources")?;
    let checked = Config::parse(&text).map_err(|error| invalid(path, &text, false, &error));
    checked.map(drop).map_err(CliError::into)
}

/// Returns a warning for each destination on this machine. `dev` accepts it, and a deployment
/// rejects the file.
fn on_this_machine(source: &Source) -> Vec<Warning> {
    let actions = source.actions.iter();
    let here = actions.filter(|action| {
        let http = action.kind.http();
        http.is_some_and(|(url, _)| is_on_this_machine(url))
    });
    here.map(|action| Warning {
        source: source.name.clone(),
        message: format!(
            "action {}: the url is on this machine: only `webhookctl dev` accepts it, and a \
             deployment rejects the file. Use the public URL of your service, and receive its \
             events here with `webhookctl dev --forward :PORT`",
            action.name
        ),
    })
    .collect()
}

fn warnings(source: &Source) -> Vec<Warning> {
    let verifier = &source.verifier;
    let scheme = verifier.preset.scheme(&verifier.variant);
    let unproven = scheme
        .filter(|scheme| proves_nothing(scheme))
        .map(|scheme| unproven(&verifier.preset.id, scheme));
    let of_actions = source.actions.iter().filter_map(|action| {
        let message = signing::warning(action, verifier)?;
        Some(format!("action {}: {message}", action.name))
    });
    let long = source.is_long().then(|| LONG.to_owned());
    let messages = unproven.into_iter().chain(of_actions).chain(long);
    let warnings = messages.map(|message| Warning {
        source: source.name.clone(),
        message,
    });
    warnings.collect()
}

/// The price is that of the function for 300 s. A test of `infra/bench` compares it with the template
/// and with `infra/prices.toml`.
const LONG: &str = "an action has a timeout above 20 s, so the stack needs LongActions=true, and each \
     event of the source runs alone in the function for long actions. While an action waits, the \
     function costs about US$0.001 for 5 minutes. A destination that answers at once costs nothing: \
     kind \"sqs\", kind \"step-functions\", or kind \"lambda\" with invocation = \"event\"";

fn proves_nothing(scheme: &Scheme) -> bool {
    scheme.kind == Kind::None || scheme.proves == Proven::Nothing
}

fn unproven(preset: &str, scheme: &Scheme) -> String {
    format!(
        "preset {preset}, variant {}, proves nothing: anyone who knows the URL can send events. \
         Destinations receive the header mitt-proven: nothing, and must check each event with the \
         provider before they act on it",
        scheme.variant
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use shared::webhook::preset::Preset;

    use super::*;

    const UNSIGNED: &str = "schema = 1\nid = \"acme\"\nname = \"Acme\"\ndocs = \"https://acme.test\"\n\
                            checked = \"2026-11\"\n[[verify]]\nkind = \"none\"\nproves = \"nothing\"\n\
                            [[verify]]\nvariant = \"signed\"\nkind = \"hmac\"\n\
                            sig = { from = \"header:x-sig\" }\n[event]\n";

    #[test]
    fn a_scheme_that_proves_nothing_has_a_warning() {
        let preset = Preset::parse(UNSIGNED, &BTreeMap::new()).unwrap();
        let scheme = preset.scheme("default").unwrap();
        assert!(proves_nothing(scheme));
        let said = unproven(&preset.id, scheme);
        for part in [
            "preset acme",
            "variant default",
            "proves nothing",
            "mitt-proven: nothing",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert!(!proves_nothing(preset.scheme("signed").unwrap()));
        // A scheme of the kind `none` proves nothing, even if the preset states something else.
        let claims = UNSIGNED.replace("proves = \"nothing\"\n", "");
        let preset = Preset::parse(&claims, &BTreeMap::new()).unwrap();
        assert!(proves_nothing(preset.scheme("default").unwrap()));
    }

    #[test]
    fn a_variant_that_is_fetched_has_no_warning() {
        let preset = Preset::embedded("mollie", &BTreeMap::new()).unwrap();
        assert!(!proves_nothing(preset.scheme("classic").unwrap()));
    }
}
