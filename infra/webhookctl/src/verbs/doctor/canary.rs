//! Sends the test webhook of `--end-to-end`, and converts its outcome to a finding.

use shared::sources::{ActionKind, Config};

use crate::cli::{DoctorArgs, Global};
use crate::doctor::Finding;
use crate::output::{CliError, Exit};
use crate::target::Deployment;
use crate::verbs::send::{self, Canary};

pub(super) async fn canary(args: &DoctorArgs, global: &Global) -> anyhow::Result<Finding> {
    let inbox = Deployment::open(&global.target).await?;
    let source = source(args, &inbox.config)?;
    let Some(source) = source else {
        return Ok(Finding::not_checked(
            "not checked: no source has only `keep` actions; add one, or pass --canary SOURCE",
        ));
    };
    Ok(match Box::pin(send::canary(inbox, &source)).await {
        Ok(canary) => judged(&canary),
        Err(error) => match error.downcast_ref::<CliError>() {
            Some(ours) if ours.exit == Exit::Usage => return Err(error),
            _ => Finding::fail(format!("{source}: {error:#}")),
        },
    })
}

/// Returns the source for the test webhook: the source of `--canary`, or the first suitable source.
/// A source is suitable if its only action is `keep`, because any other action would run for the
/// test event, and if `webhookctl` can sign for it.
fn source(args: &DoctorArgs, config: &Config) -> Result<Option<String>, CliError> {
    if let Some(name) = &args.canary {
        if config.source(name).is_none() {
            let message = format!("unknown source '{name}'");
            return Err(CliError::usage("doctor.canary", message));
        }
        return Ok(Some(name.clone()));
    }
    let mut sources = config.sources();
    let keeps = sources.find(|source| {
        let mut actions = source.actions.iter();
        let scheme = source.verifier.preset.scheme(&source.verifier.variant);
        let signs = scheme.is_some_and(|scheme| {
            matches!(
                shared::webhook::sign::means(scheme),
                shared::webhook::sign::Means::Secret
            )
        });
        signs && actions.all(|action| matches!(action.kind, ActionKind::Keep))
    });
    Ok(keeps.map(|source| source.name.clone()))
}

fn judged(canary: &Canary) -> Finding {
    let said = format!(
        "{} answered {} in {}ms",
        canary.url, canary.status, canary.took_ms
    );
    let id = canary.id.as_deref().unwrap_or("its event");
    match (canary.status, canary.outcome.as_deref()) {
        (200..=299, Some("done")) => Finding::pass(format!("{said}; {id} is done")),
        (200..=299, Some(other)) => Finding::fail(format!("{said}; {id} is {other}")),
        (200..=299, None) => {
            Finding::fail(format!("{said}, but the ledger does not contain the event"))
        }
        _ => Finding::fail(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn only_an_event_that_is_done_is_well() {
        let canary = |status, outcome: Option<&str>| Canary {
            url: "https://inbox/in/a".to_owned(),
            status,
            took_ms: 12,
            id: Some("evt_1".to_owned()),
            outcome: outcome.map(str::to_owned),
        };
        assert_eq!(judged(&canary(202, Some("done"))).verdict, Verdict::Pass);
        for (status, outcome) in [
            (202, Some("dead_letter")),
            (202, None),
            (401, None),
            (503, None),
        ] {
            let finding = judged(&canary(status, outcome));
            assert_eq!(finding.verdict, Verdict::Fail, "{status} {outcome:?}");
        }
    }

    #[test]
    fn a_canary_goes_unasked_only_where_nothing_is_done() {
        let file = |actions: &str| {
            let text = format!(
                "schema = 1\n[[source]]\nname = \"a\"\npreset = \"standard-webhooks\"\naction = [{actions}]\n"
            );
            Config::parse(&text).unwrap()
        };
        let keeps = file("{ kind = \"keep\" }");
        let acts = file("{ kind = \"sqs\", queue = \"https://sqs.eu-west-1.amazonaws.com/1/q\" }");
        let args = DoctorArgs::default();
        assert_eq!(source(&args, &keeps).unwrap().as_deref(), Some("a"));
        assert_eq!(source(&args, &acts).unwrap(), None);
        let named = DoctorArgs {
            canary: Some("a".to_owned()),
            ..DoctorArgs::default()
        };
        assert_eq!(source(&named, &acts).unwrap().as_deref(), Some("a"));
    }
}
