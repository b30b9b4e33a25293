//! Checks which outage each source tolerates, and whether its events arrive.

use shared::delivery::breaker::refuses;

use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, SourceFacts, Unknown, Verdict};
use crate::output::count::plural;
use crate::output::time::age;

/// The outage of the stack that must not lose events. A failed deployment and its fix take about
/// this time.
const OUTAGE_S: u64 = 3600;

pub(super) static OUTAGE: Check = Check {
    name: "source.outage",
    title: "An outage of an hour loses no events",
    why: "An event is lost only if an outage of the stack lasts longer than the retries of the \
          provider, and the sync can no longer list the event.",
    fix: "add a [source.sync] to the source if its preset has one; `webhookctl sources show` has \
          details",
    judge: outage,
};

pub(super) static SYNC: Check = Check {
    name: "source.sync",
    title: "The sync of each source is on time",
    why: "A late sync has not found missed events yet, and the provider keeps its list only for a \
          limited time.",
    fix: "webhookctl sync status shows the cause; the log of backup-sync contains the provider's \
          answer",
    judge: sync,
};

pub(super) static SILENT: Check = Check {
    name: "source.silent",
    title: "No source is silent",
    why: "A source becomes silent if its endpoint is disabled, or if the provider has a wrong URL \
          or no secret.",
    fix: "run webhookctl endpoint show, or check the page of deliveries at the provider",
    judge: silent,
};

pub(super) static PATHS: Check = Check {
    name: "source.paths",
    title: "Events have the values that Mitt reads",
    why: "If the id is not at its location, a repeated delivery with other bytes becomes a second \
          event. Without the entity or the version, events are not ordered, and a filter that reads \
          a missing path never matches.",
    fix: "compare the location with the documentation of the provider, then correct the source; \
          webhookctl presets check lists the presets that are old",
    judge: paths,
};

pub(super) static SUBSCRIPTION: Check = Check {
    name: "source.subscription",
    title: "The providers' subscriptions point to this inbox",
    why: "If a subscription is disabled or missing, or points to another URL, no webhooks arrive.",
    fix: "run webhookctl endpoint enable SOURCE, or correct the subscription at the provider",
    judge: subscription,
};

pub(super) static BREAKER: Check = Check {
    name: "source.breaker",
    title: "Every destination can be called",
    why: "While a circuit breaker is open, the events for its destination wait.",
    fix: "check the destination; the circuit breaker closes with the first successful call",
    judge: breaker,
};

pub(super) static PAUSED: Check = Check {
    name: "source.paused",
    title: "No source is paused",
    why: "The events of a paused source are stored and wait until an operator resumes the source.",
    fix: "run webhookctl sources resume SOURCE",
    judge: paused,
};

pub(super) static ROTATION: Check = Check {
    name: "source.rotation",
    title: "No rotation is unfinished",
    why: "Until the rotation ends, the catcher accepts requests from anyone who has the old \
          secret.",
    fix: "run webhookctl sources rotate-secret SOURCE --finish, or --abort",
    judge: rotation,
};

pub(super) static LONG_ACTIONS: Check = Check {
    name: "source.long_actions",
    title: "The stack can run every action",
    why: "An event of a source with a timeout above 20 s becomes a dead letter if the stack has no \
          function for long actions.",
    fix: "deploy the template with LongActions=true, then redrive the dead letters; or set a \
          timeout of at most 20s",
    judge: long_actions,
};

pub(super) static TRIAL: Check = Check {
    name: "source.trial",
    title: "The catcher can run every trial",
    why: "Without the parameter Trial, the catcher runs only for 10 s, and may not record what the \
          route of a trial answered.",
    fix: "deploy the template with Trial=true, or end the trial with webhookctl sources promote SOURCE",
    judge: trial,
};

fn outage(facts: &Facts) -> Result<Finding, Unknown> {
    each(facts, Verdict::Warn, |source| {
        let outage = &source.outage;
        let covered = outage.any || outage.longest_s.is_some_and(|longest| longest >= OUTAGE_S);
        (!covered).then(|| outage.text())
    })
}

fn sync(facts: &Facts) -> Result<Finding, Unknown> {
    each(facts, Verdict::Warn, |source| {
        let standing = source.sync?;
        let bad = matches!(standing, "late" | "paused" | "never ran");
        bad.then(|| standing.to_owned())
    })
}

fn silent(facts: &Facts) -> Result<Finding, Unknown> {
    each(facts, Verdict::Warn, |source| source.silent.clone())
}

fn paths(facts: &Facts) -> Result<Finding, Unknown> {
    each(facts, Verdict::Warn, |source| {
        let missing = &source.missing;
        (!missing.is_empty()).then(|| missing.join("; "))
    })
}

fn subscription(facts: &Facts) -> Result<Finding, Unknown> {
    each(facts, Verdict::Fail, |source| {
        let dark = source.dark.as_ref()?;
        let note = dark.note.as_ref().map(|note| format!(", {note}"));
        Some(format!("{}{}", dark.health, note.unwrap_or_default()))
    })
}

fn paused(facts: &Facts) -> Result<Finding, Unknown> {
    each(facts, Verdict::Warn, |source| source.paused.clone())
}

fn rotation(facts: &Facts) -> Result<Finding, Unknown> {
    each(facts, Verdict::Warn, |source| source.overdue.clone())
}

fn long_actions(facts: &Facts) -> Result<Finding, Unknown> {
    let named = facts.names.long_queue_url.is_some();
    let runs = facts.reported_long_actions().unwrap_or(named);
    each(facts, Verdict::Fail, |source| {
        source.long.clone().filter(|_| !runs)
    })
}

fn trial(facts: &Facts) -> Result<Finding, Unknown> {
    let environment = &known(&facts.functions.catcher)?.environment;
    let path = environment.get("MITT_EGRESS_PATH");
    let runs = path.is_some_and(|path| !path.is_empty());
    each(facts, Verdict::Fail, |source| {
        let needs = source.trial && !runs;
        needs.then(|| "mode = \"tee\" needs Trial=true".to_owned())
    })
}

fn breaker(facts: &Facts) -> Result<Finding, Unknown> {
    each(facts, Verdict::Warn, |source| {
        let first = source.breakers.first()?;
        let until = first
            .until
            .map_or("while it is probed".to_owned(), |until| {
                format!("for {}", age(facts.now.0, until.0))
            });
        let why = first
            .refused
            .map_or(String::new(), |status| format!(": it {}", refuses(status)));
        Some(format!("{} is not called {until}{why}", first.destination))
    })
}

fn each(
    facts: &Facts,
    bad: Verdict,
    wrong: impl Fn(&SourceFacts) -> Option<String>,
) -> Result<Finding, Unknown> {
    let sources = known(&facts.sources)?;
    let lines = sources.iter().filter_map(|source| {
        let wrong = wrong(source)?;
        Some(format!("{}: {wrong}", source.name))
    });
    let well = plural(sources.len(), "source");
    Ok(Finding::of_each(bad, lines.collect(), well))
}
