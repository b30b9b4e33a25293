//! `work`: claims events of a queue, and works on them.

pub(super) mod client;
mod handler;
mod run;

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::cli::{
    Global, WorkBeginArgs, WorkCommand, WorkEndArgs, WorkExtendArgs, WorkFinishArgs, WorkNextArgs,
    WorkResult,
};
use crate::files;
use crate::output::{CliError, Exit, Printer};
pub(super) use client::Client;

pub(super) async fn run(
    command: WorkCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let (at, op, body) = match command {
        WorkCommand::Run(args) => return Box::pin(run::run(args, global, out)).await,
        WorkCommand::Next(args) => (args.at.clone(), "next", next(&args)),
        WorkCommand::Extend(args) => (args.at.clone(), "extend", extend(&args)),
        WorkCommand::Begin(args) => (args.at.clone(), "begin", begin(&args)?),
        WorkCommand::End(args) => (args.at.clone(), "end", end(&args)),
        WorkCommand::Finish(args) => (args.at.clone(), "finish", finish(&args)?),
    };
    let client = Client::find(&at, global)?;
    let answer = client.call(op, &body).await?;
    let text = serde_json::to_string_pretty(&answer)?;
    out.document("work", &answer, "", &format!("{text}\n"))?;
    Ok(Exit::Done)
}

fn next(args: &WorkNextArgs) -> Value {
    let mut body = json!({ "max": args.max });
    set(&mut body, "lease_s", args.lease.map(seconds));
    set(&mut body, "worker", args.worker.clone());
    body
}

fn extend(args: &WorkExtendArgs) -> Value {
    let mut body = json!({ "lease": args.lease.lease });
    set(&mut body, "lease_s", args.length.map(seconds));
    body
}

fn begin(args: &WorkBeginArgs) -> anyhow::Result<Value> {
    let mut body = json!({
        "lease": args.lease.lease, "effect": args.effect, "keys": word(&args.keys),
    });
    set(&mut body, "asked", args.did_not.then_some("did_not"));
    let plan = args.plan.as_deref().map(plan).transpose()?;
    set(&mut body, "plan", plan);
    Ok(body)
}

/// Reads the plan of an effect. The API checks its fields.
fn plan(file: &Path) -> anyhow::Result<Value> {
    let bytes = files::read(file, "the plan")?;
    let plan = serde_json::from_slice(&bytes).ok().filter(Value::is_object);
    plan.ok_or_else(|| {
        let error = CliError::usage("work.plan", "the plan is not a JSON object");
        let tip = "use an object such as {\"summary\": \"refund the order\", \"amount\": 74}";
        error.tip(tip).into()
    })
}

fn end(args: &WorkEndArgs) -> Value {
    let mut body = json!({
        "lease": args.lease.lease, "effect": args.effect, "result": word(&args.result),
    });
    set(&mut body, "note", args.note.clone());
    body
}

fn finish(args: &WorkFinishArgs) -> Result<Value, CliError> {
    let mut effects = Map::new();
    for effect in &args.effect {
        let Ok(result) = WorkResult::from_str(&effect.value, false) else {
            let message = format!("invalid result of the effect {}", effect.path);
            let error = CliError::usage("work.effect", message);
            return Err(error.one_of(&effect.value, &["done", "not", "unknown", "refused"]));
        };
        effects.insert(effect.path.clone(), json!({ "result": word(&result) }));
    }
    let mut body = json!({ "lease": args.lease.lease, "outcome": word(&args.outcome) });
    set(&mut body, "error", args.error.clone());
    set(&mut body, "after_s", args.after.map(seconds));
    set(
        &mut body,
        "destination_failed",
        args.destination_failed.then_some(true),
    );
    set(
        &mut body,
        "effects",
        (!effects.is_empty()).then_some(effects),
    );
    Ok(body)
}

fn set(body: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body[name] = value.into();
    }
}

/// Whole seconds. The API refuses what is too short.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs()
}

/// Returns the word of the protocol, which is the word of the command line.
fn word(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{WorkKeys, WorkOutcome};

    #[test]
    fn the_words_of_the_command_line_are_those_of_the_protocol() {
        let words: Vec<String> = WorkKeys::value_variants().iter().map(word).collect();
        assert_eq!(
            words,
            ["honoured", "honoured-with-failures", "ignored", "ask"]
        );
        let words: Vec<String> = WorkResult::value_variants().iter().map(word).collect();
        assert_eq!(words, ["done", "not", "unknown", "refused"]);
        let words: Vec<String> = WorkOutcome::value_variants().iter().map(word).collect();
        assert_eq!(words, ["done", "retry", "permanent", "unknown", "release"]);
    }
}
