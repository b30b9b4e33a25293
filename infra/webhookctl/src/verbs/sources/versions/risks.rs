//! Refuses changes of the sources that lose, repeat or block events, unless a flag allows them.

use anyhow::Context as _;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Waiting;
use shared::sources::{Config, Source};
use shared::webhook::preset::Scheme;

use super::super::traffic;
use super::changes::Changes;
use crate::cli::{Global, RiskArgs, SecretsAt};
use crate::output::CliError;
use crate::output::count::plural;
use crate::target::Deployment;
use crate::verbs::quarantine::reach;

/// Fails if another preset, variant or event id of a source changes the keys of its events, or if
/// the version in force cannot be parsed (`old` is `None`).
pub(super) fn keys_stay(
    old: Option<&Config>,
    new: &Config,
    risks: &RiskArgs,
) -> Result<(), CliError> {
    if risks.changes_keys {
        return Ok(());
    }
    let Some(old) = old else {
        let message = "this release cannot parse the version in force, so it cannot compare the \
                       event keys; nothing was changed";
        return Err(CliError::refused("sources.changes_keys", message)
            .tip("use a newer webhookctl, or pass --changes-keys"));
    };
    let changed = |source: &&Source| {
        let before = old.source(&source.name);
        before.is_some_and(|before| key_settings(before) != key_settings(source))
    };
    let changed = new.sources().filter(changed);
    let changed: Vec<&str> = changed.map(|source| source.name.as_str()).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the event keys of {} would change; nothing was changed",
        changed.join(", ")
    );
    Err(CliError::refused("sources.changes_keys", message)
        .note("the provider's retries of earlier events would count as new events")
        .tip("give the source another name, or pass --changes-keys"))
}

/// Returns the settings that determine the key of an event.
fn key_settings(source: &Source) -> impl PartialEq + use<> {
    let (preset, at) = (&source.verifier.preset, &source.verifier.preset.event);
    let locations = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        at.id, at.composite, at.key_values, at.batch, at.batch_field, at.varies, at.fallback
    );
    (
        preset.id.clone(),
        source.verifier.variant.clone(),
        locations,
    )
}

/// Fails if a removed source has open events. Without the source, no worker can process them.
pub(super) async fn no_event_is_left(
    inbox: &Deployment,
    changes: &Changes,
    risks: &RiskArgs,
    now: UnixMillis,
) -> anyhow::Result<()> {
    let removed = changes.removed();
    let removed: Vec<&str> = removed
        .filter(|name| !risks.remove.iter().any(|allowed| allowed == name))
        .collect();
    if removed.is_empty() {
        return Ok(());
    }
    let open = traffic::waiting_of(&inbox.ledger, (&removed, &removed), Waiting::Open, now).await?;
    for name in removed {
        let count = traffic::of(&open, name);
        if count.count == 0 && !count.or_more {
            continue;
        }
        let message = if count.count == 0 {
            format!("source {name} may have open events: too many events are open to check it")
        } else {
            format!("source {name} has {}", plural(count.count, "open event"))
        };
        return Err(CliError::refused(
            "sources.open_events",
            format!("{message}; nothing was changed"),
        )
        .note("open events of a removed source wait until the source exists again")
        .tip(format!(
            "wait until they are processed, or pass --remove {name}"
        ))
        .into());
    }
    Ok(())
}

/// Fails if events of a source wait for a worker, and the source no longer has an action of kind
/// `pull`. Then no worker gets them, and after the retention of the source their bodies expire.
pub(super) async fn no_event_waits_for_a_worker(
    inbox: &Deployment,
    (old, new): (Option<&Config>, &Config),
    risks: &RiskArgs,
) -> anyhow::Result<()> {
    for source in old.into_iter().flat_map(Config::pulled) {
        let name = source.name.as_str();
        let new = new.source(name);
        // `no_event_is_left` checks the sources that are removed.
        if new.is_none_or(|new| new.pull().is_some()) || risks.remove.iter().any(|it| it == name) {
            continue;
        }
        let waiting = inbox.ledger.pulled(&[name], UnixMillis(0), 1).await?;
        if waiting.0.is_empty() {
            continue;
        }
        let message = format!("events of source {name} wait for a worker; nothing was changed");
        return Err(CliError::refused("sources.open_events", message)
            .note(
                "without an action of kind \"pull\", no worker gets them, and their bodies expire",
            )
            .tip(format!("let the workers end them, or pass --remove {name}"))
            .into());
    }
    Ok(())
}

/// Fails if a secret that the sources in force do not use has no live value.
pub(super) async fn secrets_are_live(
    inbox: &Deployment,
    (old, new): (Option<&Config>, &Config),
    (global, at, risks): (&Global, &SecretsAt, &RiskArgs),
    now: UnixMillis,
) -> anyhow::Result<()> {
    if risks.unchecked_secrets {
        return Ok(());
    }
    let known = |source: &Source| {
        let mut sources = old.into_iter().flat_map(Config::sources);
        sources.any(|old| old.secret == source.secret && old.secret_store == source.secret_store)
    };
    let added = new
        .sources()
        .filter(|source| needs_secret(source) && !known(source));
    let added: Vec<&Source> = added.collect();
    if added.is_empty() {
        return Ok(());
    }
    let managed = inbox.managed();
    managed.follow(new.managed_secrets());
    let store = reach::store(inbox, global, at)?.with_managed(managed);
    for source in added {
        let live = store.live(&source.secret, now).await.with_context(|| {
            format!(
                "read the secret {} of {}; nothing was changed (--unchecked-secrets skips this \
                 check)",
                source.secret, source.name
            )
        })?;
        if live.is_empty() {
            let message = format!(
                "the secret {} of source {} has no live value; nothing was changed",
                source.secret, source.name
            );
            return Err(CliError::refused("sources.no_live_secret", message)
                .note("the catcher would answer each webhook of the source with 503")
                .tip(format!(
                    "webhookctl secrets put {}, or pass --unchecked-secrets",
                    source.secret
                ))
                .into());
        }
    }
    Ok(())
}

/// A handshake stores the first secret of some sources, so these may have none yet.
fn needs_secret(source: &Source) -> bool {
    let verifier = &source.verifier;
    let scheme = verifier.preset.scheme(&verifier.variant);
    let mut handshakes = verifier.preset.handshakes.iter();
    scheme.is_some_and(Scheme::needs_secret)
        && handshakes.all(|handshake| handshake.store_secret_from.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(preset: &str, more: &str) -> Config {
        let text = format!(
            "schema = 1\n[[source]]\nname = \"shop\"\npreset = \"{preset}\"\n{more}\n\
             action = [{{ kind = \"keep\" }}]\n"
        );
        Config::parse(&text).unwrap()
    }

    #[test]
    fn another_preset_changes_the_keys_and_another_secret_does_not() {
        let (old, none) = (config("stripe", ""), RiskArgs::default());
        let old = Some(&old);
        let other = config("stripe", "secret = \"other\"\nmax_body = 1000");
        assert_eq!(keys_stay(old, &other, &none), Ok(()));
        let error = keys_stay(old, &config("github", ""), &none).unwrap_err();
        assert_eq!(error.code, "sources.changes_keys");
        let allowed = RiskArgs {
            changes_keys: true,
            ..none
        };
        assert_eq!(keys_stay(old, &config("github", ""), &allowed), Ok(()));
        let unknown = keys_stay(None, &config("stripe", ""), &RiskArgs::default());
        assert_eq!(unknown.unwrap_err().code, "sources.changes_keys");
    }
}
