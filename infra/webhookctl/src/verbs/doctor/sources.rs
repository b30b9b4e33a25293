//! Gathers the facts of each source.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use shared::base::clock::UnixMillis;
use shared::delivery::breaker::{Breakers, Position};
use shared::monitoring::endpoint::Health;
use shared::monitoring::missing_paths::MissingRecord;
use shared::sources::ordering::Mode;
use shared::sources::{Local, Source};

use super::probe::told;
use crate::doctor::{Dark, Known, OpenBreaker, SourceFacts, Wanted};
use crate::outage_tolerance::Outage;
use crate::output::time::duration;
use crate::target::Deployment;
use crate::verbs::missing_paths::{missing_paths, text_of};
use crate::verbs::sources::{Pause, Rotation};
use crate::verbs::sync::facts::{Facts, standing};

pub(super) async fn sources(inbox: &Deployment, now: UnixMillis) -> Known<Vec<SourceFacts>> {
    const ACTION: &str = "dynamodb:GetItem";
    let table = inbox.names().table.clone().unwrap_or_default();
    let breakers = Breakers::new(told(ACTION, inbox.dynamodb())?, table);
    let missing = told("dynamodb:Query", missing_paths(inbox, now).await)?;
    let sources = inbox.config.sources();
    let all = sources.map(|source| of(inbox, source, &breakers, lacks(source, &missing), now));
    told(ACTION, try_join_all(all).await)
}

/// Returns what events of the source lack, each as a sentence.
fn lacks(source: &Source, missing: &[MissingRecord]) -> Vec<String> {
    let of_source = missing.iter().filter(|it| it.source == source.name);
    of_source.map(|record| text_of(source, record)).collect()
}

async fn of(
    inbox: &Deployment,
    source: &Source,
    breakers: &Breakers,
    missing: Vec<String>,
    now: UnixMillis,
) -> anyhow::Result<SourceFacts> {
    let facts = Facts::read(&inbox.ledger, source, now).await?;
    let subscription = match &source.endpoint {
        Some(_) => {
            inbox
                .ledger
                .provider_reports()
                .endpoint(&source.name)
                .await?
        }
        None => None,
    };
    let dark = subscription.filter(|status| status.finding.health != Health::Good);
    let mut open = Vec::new();
    let destinations = source
        .actions
        .iter()
        .filter_map(|it| it.destination.as_ref());
    let destinations: BTreeSet<&str> = destinations.map(|it| it.name.as_str()).collect();
    for destination in destinations {
        let (until, refused) = match breakers.position(destination, now).await {
            Position::Closed => continue,
            Position::Open { until, refused } => (Some(until), refused),
            Position::Probing => (None, None),
        };
        open.push(OpenBreaker {
            destination: destination.to_owned(),
            until,
            refused,
        });
    }
    let pause = Pause::of(inbox, &source.name).await?;
    let rotation = Rotation::under_way(&inbox.ledger, &source.secret).await?;
    let overdue = rotation.filter(|(rotation, _)| rotation.is_over(now));
    Ok(SourceFacts {
        name: source.name.clone(),
        secrets: secrets(source),
        outage: Outage::of(source),
        sync: source
            .sync
            .as_ref()
            .map(|_| standing(facts.state.as_ref(), true, now)),
        silent: facts.silence.note(),
        watched: source.endpoint.is_some(),
        reconciled: !source.reconcile.is_empty(),
        dark: dark.map(|status| Dark {
            health: status.finding.health.to_string(),
            note: status.finding.note,
        }),
        paused: pause.map(|pause| pause.text(now.0)),
        long: source.long_action().map(|action| {
            let timeout = duration(action.timeout.as_secs());
            format!("action {} has a timeout of {timeout}", action.name)
        }),
        trial: source.trial.is_some(),
        overdue: overdue.map(|(rotation, _)| rotation.note(now)),
        missing,
        breakers: open,
    })
}

/// Returns the tokens with which Mitt reads the current state of an object.
fn of_own_state(source: &Source) -> impl Iterator<Item = (&'static str, &str)> {
    let compared = source.reconcile.iter().filter_map(|it| match &it.local {
        Local::Http(endpoint) => Some(("provider-api", endpoint.secret.as_str())),
        Local::DynamoDb(_) => None,
    });
    let fetched = source.order.iter().filter_map(|order| match &order.mode {
        Mode::Fetch(current) => current.secret.as_deref(),
        _ => None,
    });
    compared.chain(fetched.map(|name| ("egress", name)))
}

/// Returns the secrets that the source requires.
pub(in crate::verbs) fn secrets(source: &Source) -> Vec<Wanted> {
    let verifier = &source.verifier;
    let scheme = verifier.preset.scheme(&verifier.variant);
    let needed = scheme.is_some_and(shared::webhook::preset::Scheme::needs_secret);
    let mut names: BTreeSet<(&'static str, &str)> = BTreeSet::new();
    if needed {
        names.insert(("ingress", &source.secret));
    }
    for action in &source.actions {
        if let Some((_, signing)) = action.kind.http() {
            names.extend(signing.secret().map(|secret| ("egress", secret)));
        }
    }
    let of_api = source.sync.iter().map(|sync| sync.secret.as_str());
    let of_api = of_api.chain(source.endpoint.iter().map(|it| it.secret.as_str()));
    let of_api = of_api.chain(source.reconcile.iter().map(|it| it.secret.as_str()));
    let of_api = of_api.chain(verifier.trust.api_secret.as_deref());
    names.extend(of_api.map(|name| ("provider-api", name)));
    names.extend(of_own_state(source));
    let wanted = names.into_iter().map(|(kind, name)| Wanted {
        kind,
        name: name.to_owned(),
    });
    wanted.collect()
}

#[cfg(test)]
mod tests {
    use shared::sources::Config;

    use super::*;

    #[test]
    fn a_source_that_fetches_needs_the_key_of_the_api() {
        let text = "schema = 1\n[[source]]\nname = \"a\"\npreset = \"mollie\"\nvariant = \"classic\"\n\
                    trust = { api_secret = \"shop\" }\naction = [{ kind = \"keep\" }]\n";
        let config = Config::parse(text).unwrap();
        let wanted = secrets(config.source("a").unwrap());
        let wanted: Vec<(&str, &str)> = wanted
            .iter()
            .map(|it| (it.kind, it.name.as_str()))
            .collect();
        assert_eq!(wanted, [("provider-api", "shop")]);
    }

    #[test]
    fn a_source_needs_a_secret_for_each_side_that_it_speaks_to() {
        let text = "schema = 1\n[forward]\nallow_hosts = [\"down.example\"]\n[[source]]\nname = \"a\"\n\
                    preset = \"stripe\"\naction = [{ kind = \"http\", url = \"https://down.example/\", \
                    secret = \"down\" }]\n[source.sync]\n";
        let config = Config::parse(text).unwrap();
        let wanted = secrets(config.source("a").unwrap());
        let wanted: Vec<(&str, &str)> = wanted
            .iter()
            .map(|it| (it.kind, it.name.as_str()))
            .collect();
        assert_eq!(
            wanted,
            [("egress", "down"), ("ingress", "a"), ("provider-api", "a")]
        );
    }
}
