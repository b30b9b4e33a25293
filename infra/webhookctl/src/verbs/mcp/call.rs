//! Runs the commands of a tool.

use serde_json::{Map, Value, json};

use super::answer::Answered;
use super::reader::Agent;
use super::tools::{MOST_EVENTS, MOST_REPLAYED, Tool};
use super::{answer, body};
use crate::output::{CliError, Format};
use crate::reads::{Answer, Pairs, Question, pairs};

type Arguments = Map<String, Value>;

impl Agent {
    pub(super) async fn call(&self, tool: &Tool, arguments: Arguments) -> Answered {
        let document = match check(tool, &arguments) {
            Ok(()) => Box::pin(self.document(tool.name, arguments)).await,
            Err(error) => Err(error),
        };
        match document {
            Ok(document) => answer::of(tool.name, document),
            Err(error) => answer::failed(tool.name, &error),
        }
    }

    async fn document(&self, tool: &str, mut arguments: Arguments) -> Result<Value, CliError> {
        let has = |name: &str| arguments.get(name).is_some_and(|value| !value.is_null());
        match tool {
            "overview" => self.read("status", &arguments).await,
            "events" => {
                if arguments.get("limit").and_then(Value::as_u64) > Some(MOST_EVENTS) {
                    return Err(CliError::usage("mcp.limit", "a list has at most 50 events")
                        .tip("continue with `after`"));
                }
                self.read("inbox.list", &arguments).await
            }
            "event" => self.read("inbox.inspect", &arguments).await,
            "body" => {
                let paths = arguments.remove("paths").unwrap_or_default();
                let document = self.read("inbox.body", &arguments).await?;
                body::answer(&document, &paths, self.reads_bodies)
            }
            "why_signature" => self.read("verify", &arguments).await,
            "dead_letters" if has("error") => self.read("dlq.inspect", &arguments).await,
            "dead_letters" => self.read("dlq.list", &arguments).await,
            "quarantine" if has("id") => {
                let id = arguments.remove("id").unwrap_or_default();
                let id = Map::from_iter([("id".to_owned(), id)]);
                self.read("quarantine.inspect", &id).await
            }
            "quarantine" => self.read("quarantine.list", &arguments).await,
            "sources" if has("name") => self.read("sources.show", &arguments).await,
            "sources" => self.read("sources.list", &arguments).await,
            "sync" => self.sync(arguments).await,
            "plans" if has("plan") => self.read("replay.show", &arguments).await,
            "plans" => Ok(json!({
                "plans": self.read("replay.log", &arguments).await?,
                "log": self.read("log", &arguments).await?,
            })),
            "doctor" => self.read("doctor", &arguments).await,
            "propose_replay" => self.propose(arguments).await,
            _ => Err(CliError::not_found("console.no_read", "unknown tool")),
        }
    }

    async fn read(&self, name: &str, arguments: &Arguments) -> Result<Value, CliError> {
        let question = Question::new(name, &pairs(arguments)?)?;
        parsed(self.reader.ask(&question).await)
    }

    async fn sync(&self, mut arguments: Arguments) -> Result<Value, CliError> {
        let gaps = self.read("sync.gaps", &arguments).await?;
        let coverage = self.read("sync.coverage", &arguments).await?;
        arguments.remove("since");
        let status = self.read("sync.status", &arguments).await?;
        Ok(json!({"status": status, "coverage": coverage, "gaps": gaps}))
    }

    /// Stores a plan that an agent proposes. A person applies it, or it expires.
    async fn propose(&self, mut arguments: Arguments) -> Result<Value, CliError> {
        let reason = arguments.remove("reason");
        let reason = reason.as_ref().and_then(Value::as_str).unwrap_or_default();
        if reason.trim().is_empty() {
            return Err(CliError::usage("mcp.reason", "a proposal needs a reason"));
        }
        let mode = arguments
            .get("mode")
            .and_then(Value::as_str)
            .unwrap_or("safe");
        if !["safe", "guarded"].contains(&mode) {
            return Err(CliError::usage(
                "mcp.mode",
                "an agent may propose safe or guarded",
            ));
        }
        if arguments.keys().all(|name| name == "mode") {
            let error = CliError::usage("mcp.selection", "a proposal needs a selection");
            return Err(error.tip("pass `error`, `id`, or `source` and `status`"));
        }
        let given: Pairs = pairs(&arguments)?;
        let more = vec![
            format!("--reason={}", reason.trim()),
            format!("--max={MOST_REPLAYED}"),
        ];
        let question = Question::write("replay.plan", &given, more)?;
        let mut plan = parsed(self.reader.run(question.line("json")).await)?;
        let id = plan["id"].as_str().unwrap_or_default().to_owned();
        if plan["events"]["planned"] != 0 {
            plan["command"] = format!("webhookctl replay apply {id}").into();
        }
        Ok(plan)
    }
}

/// Returns an error for an argument that is not in the schema, or is missing.
fn check(tool: &Tool, arguments: &Arguments) -> Result<(), CliError> {
    if let Some(name) = arguments.keys().find(|name| !tool.takes(name)) {
        let message = format!("unknown argument '{name}' of {}", tool.name);
        let schema = tool.schema();
        let known = schema.get("properties").and_then(Value::as_object);
        let known: Vec<&str> = known
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect();
        return Err(CliError::usage("mcp.argument", message).one_of(name, &known));
    }
    let schema = tool.schema();
    let required = schema.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    match required.find(|name| !arguments.contains_key(*name)) {
        Some(name) => {
            let message = format!("missing argument '{name}' of {}", tool.name);
            Err(CliError::usage("mcp.argument", message))
        }
        None => Ok(()),
    }
}

fn parsed(answer: Answer) -> Result<Value, CliError> {
    if let Some(error) = answer.error {
        return Err(error);
    }
    let document = serde_json::from_slice(&answer.body);
    document.map_err(|_| CliError::failed("failed", "the command printed no JSON document"))
}

/// Returns an error as the document of the CLI.
pub(super) fn document_of(error: &CliError) -> Value {
    serde_json::from_str(&error.render(Format::Json, false)).unwrap_or_default()
}
