//! The sources: what each would survive, and whether it is heard.

use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, SourceFacts, Unknown, Verdict};
use crate::output::time::age;

/// An outage of the stack that should lose nothing: one deployment that went wrong, and its mending.
const OUTAGE_S: u64 = 3600;

pub(super) static OUTAGE: Check = Check {
    name: "source.outage",
    title: "An outage of an hour loses nothing",
    why: "How long the provider tries again, and how far back the sync can ask, decide what an outage of ours \
          costs.",
    fix: "give the source a [source.sync] where its preset has one; `webhookctl sources show` says more",
    judge: outage,
};

pub(super) static SYNC: Check = Check {
    name: "source.sync",
    title: "The sync of each source is on time",
    why: "A sync that is late has not yet found what did not arrive, and the provider's list reaches back \
          only so far.",
    fix: "webhookctl sync status says why; the log of backup-sync has the provider's answer",
    judge: sync,
};

pub(super) static SILENT: Check = Check {
    name: "source.silent",
    title: "No source has fallen silent",
    why: "A disabled endpoint, a wrong URL or a lost secret at the provider all look like silence.",
    fix: "webhookctl endpoint show, or look at the provider's page of deliveries",
    judge: silent,
};

pub(super) static SUBSCRIPTION: Check = Check {
    name: "source.subscription",
    title: "The providers' subscriptions lead to us",
    why: "A subscription that is disabled, gone or leads elsewhere delivers nothing.",
    fix: "webhookctl endpoint enable SOURCE, or mend the subscription at the provider",
    judge: subscription,
};

pub(super) static BREAKER: Check = Check {
    name: "source.breaker",
    title: "Every destination can be called",
    why: "While a breaker is open the events for its destination wait.",
    fix: "look at the destination; its breaker closes with the first call that goes well",
    judge: breaker,
};

pub(super) static PAUSED: Check = Check {
    name: "source.paused",
    title: "No source is paused",
    why: "The events of a paused source are kept and wait; somebody has to remember to go on.",
    fix: "webhookctl sources resume SOURCE",
    judge: paused,
};

pub(super) static ROTATION: Check = Check {
    name: "source.rotation",
    title: "No rotation is left half done",
    why: "The old secret is accepted until the rotation is ended, also from whoever should not have it any more.",
    fix: "webhookctl sources rotate-secret SOURCE --finish, or --abort",
    judge: rotation,
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

fn breaker(facts: &Facts) -> Result<Finding, Unknown> {
    each(facts, Verdict::Warn, |source| {
        let first = source.breakers.first()?;
        let until = first
            .until
            .map_or("while it is probed".to_owned(), |until| {
                format!("for {}", age(facts.now.0, until.0))
            });
        Some(format!("{} is not called {until}", first.destination))
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
    let well = format!("{} sources", sources.len());
    Ok(Finding::of_each(bad, lines.collect(), well))
}
