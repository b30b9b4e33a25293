//! The functions.

use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, Function, Unknown, Verdict};

pub(super) static ACTIVE: Check = Check {
    name: "function.active",
    title: "The functions are active, and their last update succeeded",
    why: "A function whose update failed runs the old code, and an inactive function runs no code.",
    fix: "run sam deploy again, and check the error that it reports for the function",
    judge: active,
};

pub(super) static SETTINGS: Check = Check {
    name: "function.settings",
    title: "The functions use the resources that the context names",
    why: "A function with the settings of another stack would write to other resources. A function \
          with the secrets of another stack may read secrets that it must not read.",
    fix: "deploy the template again; if the context is wrong, run webhookctl context add NAME \
          --refresh",
    judge: settings,
};

pub(super) static ENDPOINTS: Check = Check {
    name: "function.endpoints",
    title: "The functions call AWS and not local services",
    why: "MITT_ENDPOINTS is only for functions that run on a developer's machine. A deployed function \
          that has a value cannot reach the inbox, so the catcher answers 503 to each webhook.",
    fix: "deploy the template again; in it, MITT_ENDPOINTS is empty",
    judge: endpoints,
};

pub(super) static VERSION: Check = Check {
    name: "function.version",
    title: "The functions and the CLI are of one version",
    why: "The description of each function ends with the version of its template. An older CLI \
          cannot read rows that newer functions write.",
    fix: "deploy the template of this version, or install the CLI of the version of the stack; \
          infra/docs/upgrade.md says which versions work together",
    judge: version,
};

pub(super) static ARCHITECTURE: Check = Check {
    name: "function.architecture",
    title: "The functions have one architecture",
    why: "One parameter of the template, Architecture, sets the architecture of all functions, and \
          their programs come from one build. A function with another architecture cannot start its \
          program. AWS does not tell for which architecture a program was compiled, so the check \
          only compares the functions.",
    fix: "build and deploy again with one value: sam build and sam deploy, each with \
          --parameter-overrides Architecture=VALUE",
    judge: architecture,
};

/// The version of this program.
const OWN: &str = env!("CARGO_PKG_VERSION");

fn version(facts: &Facts) -> Result<Finding, Unknown> {
    let all = each(facts)?;
    let stated = all.iter().filter_map(|(what, function)| {
        let version = function.version.as_deref()?;
        Some((*what, version))
    });
    let stated: Vec<_> = stated.collect();
    if stated.is_empty() {
        return Err(Unknown::Skipped("the functions do not state their version"));
    }
    let others = stated.iter().filter(|(_, version)| *version != OWN);
    let lines = others.map(|(what, version)| format!("{what} is of {version}, the CLI of {OWN}"));
    Ok(Finding::of_each(Verdict::Warn, lines.collect(), OWN))
}

fn architecture(facts: &Facts) -> Result<Finding, Unknown> {
    let all = each(facts)?;
    let stated = all.iter().filter_map(|(what, function)| {
        let architecture = function.architecture.as_deref()?;
        Some((*what, architecture))
    });
    let stated: Vec<_> = stated.collect();
    let Some((_, first)) = stated.first().copied() else {
        return Err(Unknown::Skipped(
            "the functions do not state their architecture",
        ));
    };
    let others = stated.iter().filter(|(_, other)| *other != first);
    let lines =
        others.map(|(what, other)| format!("{what} is for {other}, the catcher for {first}"));
    Ok(Finding::of_each(Verdict::Fail, lines.collect(), first))
}

fn endpoints(facts: &Facts) -> Result<Finding, Unknown> {
    let all = each(facts)?;
    let set = all.iter().filter(|(_, function)| {
        let value = function.environment.get("MITT_ENDPOINTS");
        value.is_some_and(|value| !value.is_empty())
    });
    let lines = set.map(|(what, _)| format!("{what}: MITT_ENDPOINTS has a value"));
    Ok(Finding::of_each(Verdict::Fail, lines.collect(), "call AWS"))
}

fn active(facts: &Facts) -> Result<Finding, Unknown> {
    let mut lines = Vec::new();
    let functions = each(facts)?;
    for (what, function) in &functions {
        let state = function.state.as_deref().unwrap_or("Active");
        // Lambda makes a function inactive after a long time without calls; the next call
        // activates it.
        if !matches!(state, "Active" | "Inactive") {
            lines.push(format!("{what} is {}", state.to_lowercase()));
        }
        if function.last_update.as_deref() == Some("Failed") {
            lines.push(format!("the last update of {what} failed"));
        }
    }
    let well = format!("all {}", functions.len());
    Ok(Finding::of_each(Verdict::Fail, lines, well))
}

/// The variable of the functions that read secrets of sources from Secrets Manager.
const MANAGED: &str = "MITT_SECRETS_MANAGER_PREFIX";

fn settings(facts: &Facts) -> Result<Finding, Unknown> {
    let names = &facts.names;
    let mut lines = Vec::new();
    for (what, function) in each(facts)? {
        let (kind, queue_url) = match what {
            "catcher" => ("ingress", &names.queue_url),
            "processor" => ("egress", &names.queue_url),
            LONG => ("egress", &names.long_queue_url),
            _ => ("provider-api", &names.queue_url),
        };
        for (variable, wanted) in [
            ("MITT_TABLE", names.table.clone()),
            ("MITT_QUEUE_URL", queue_url.clone()),
            ("MITT_SPILL_QUEUE_URL", names.spill_queue_url.clone()),
            ("MITT_BODY_BUCKET", names.bucket.clone()),
            ("MITT_SECRETS_PATH", names.secrets(kind)),
        ] {
            let found = function.environment.get(variable);
            match (found, wanted) {
                (Some(found), Some(wanted)) if *found != wanted => {
                    lines.push(format!("{what}: {variable} is {found}, not {wanted}"));
                }
                (None, _) => lines.push(format!("{what}: {variable} is not set")),
                _ => {}
            }
        }
        let prefix = names.secrets_manager_prefix.as_ref();
        if let Some(prefix) = prefix.filter(|_| kind != "egress")
            && function.environment.get(MANAGED) != Some(prefix)
        {
            lines.push(format!("{what}: {MANAGED} is not {prefix}"));
        }
    }
    Ok(Finding::of_each(Verdict::Fail, lines, "match the context"))
}

/// The function for long actions.
const LONG: &str = "long-processor";

fn each(facts: &Facts) -> Result<Vec<(&'static str, &Function)>, Unknown> {
    let functions = &facts.functions;
    let mut all = vec![
        ("catcher", known(&functions.catcher)?),
        ("processor", known(&functions.processor)?),
        ("backup-sync", known(&functions.backup_sync)?),
    ];
    if let Some(long) = &functions.long_processor {
        all.push((LONG, known(long)?));
    }
    Ok(all)
}
