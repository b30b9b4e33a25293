//! Checks the names and the ages of the secrets. The checks read no values.

use std::collections::BTreeSet;

use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, Unknown, Verdict};

/// The maximum age of a secret in days. Older secrets should be rotated.
const OLD_DAYS: u64 = 365;

const DAY: u64 = 24 * 3600;

pub(super) static PRESENT: Check = Check {
    name: "secret.present",
    title: "Every secret that a source needs is stored",
    why: "Without the secret of a source, the catcher answers each of its webhooks with 503, and \
          providers disable an endpoint that fails for a long time.",
    fix: "aws ssm put-parameter --type SecureString --name /STACK/KIND/NAME/current --value …; for \
          a source with `secret_store`, store the secret in Secrets Manager below \
          SecretsManagerPrefix",
    judge: present,
};

pub(super) static AGE: Check = Check {
    name: "secret.age",
    title: "No secret is older than a year",
    why: "The longer a secret is in use, the more people and machines may know it.",
    fix: "rotate the secret: store the new secret in another slot, change it at the provider, then \
          delete the old slot",
    judge: age,
};

pub(super) static UNUSED: Check = Check {
    name: "secret.unused",
    title: "Every stored secret belongs to a source",
    why: "You can delete an unused secret, unless its name is misspelled.",
    fix: "run aws ssm delete-parameter --name …, or correct the name in infra/sources.toml",
    judge: unused,
};

fn present(facts: &Facts) -> Result<Finding, Unknown> {
    let stored = known(&facts.secrets)?;
    let mut lines = Vec::new();
    let mut wanted = BTreeSet::new();
    for source in known(&facts.sources)? {
        for secret in &source.secrets {
            wanted.insert(secret);
            let mut of_kind = stored.iter().filter(|it| it.kind == secret.kind);
            if !of_kind.any(|it| it.name == secret.name) {
                let (kind, name) = (secret.kind, &secret.name);
                lines.push(format!(
                    "{}: the secret {kind}/{name} is missing",
                    source.name
                ));
            }
        }
    }
    let well = format!("all {}", wanted.len());
    Ok(Finding::of_each(Verdict::Fail, lines, well))
}

fn age(facts: &Facts) -> Result<Finding, Unknown> {
    let stored = known(&facts.secrets)?;
    let old = stored.iter().filter(|it| it.age.as_secs() > OLD_DAYS * DAY);
    let lines = old.map(|it| {
        let days = it.age.as_secs() / DAY;
        format!("{}/{}/{} is {days} days old", it.kind, it.name, it.slot)
    });
    let oldest = stored.iter().map(|it| it.age.as_secs() / DAY).max();
    let well = format!("the oldest is {} days old", oldest.unwrap_or_default());
    Ok(Finding::of_each(Verdict::Warn, lines.collect(), well))
}

fn unused(facts: &Facts) -> Result<Finding, Unknown> {
    let sources = known(&facts.sources)?;
    let is_wanted = |kind: &str, name: &str| {
        let mut wanted = sources.iter().flat_map(|source| &source.secrets);
        wanted.any(|it| it.kind == kind && it.name == name)
    };
    let spare = known(&facts.secrets)?.iter().filter(|it| {
        // A name of any source counts as used: a source can have a secret that its preset does
        // not need.
        !is_wanted(&it.kind, &it.name) && !sources.iter().any(|source| source.name == it.name)
    });
    let lines: BTreeSet<String> = spare.map(|it| format!("{}/{}", it.kind, it.name)).collect();
    Ok(Finding::of_each(
        Verdict::Warn,
        lines.into_iter().collect(),
        "none",
    ))
}
