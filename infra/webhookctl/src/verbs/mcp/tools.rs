//! The table of tools. Their arguments are the flags of the commands that they run.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction};
use serde_json::{Map, Value, json};

use crate::reads::{arguments, named};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// The flag `--secrets`.
    Secrets,
    /// The flag `--propose`.
    Propose,
}

pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) needs: Needs,
    /// The command that describes the flags.
    command: &'static str,
    /// The flags of the command that the agent may pass. `None` stands for all flags of the table of
    /// reads.
    flags: Option<&'static [&'static str]>,
    /// Further arguments: the name, whether it is required, and its description.
    others: &'static [(&'static str, bool, &'static str)],
}

/// The maximum number of events in a list.
pub(super) const MOST_EVENTS: u64 = 50;

/// The maximum number of events of a proposed replay.
pub(super) const MOST_REPLAYED: u64 = 200;

const TOOLS: &[Tool] = &[
    Tool {
        name: "overview",
        about: "What is wrong now, worst first. Each item names the command that helps. Call this \
                first.",
        needs: Needs::Nothing,
        command: "status",
        flags: Some(&[]),
        others: &[],
    },
    Tool {
        name: "events",
        about: "Stored events, newest first, at most 50, without bodies. Continue with `after`: the \
                `next_cursor` of the previous answer.",
        needs: Needs::Nothing,
        command: "inbox.list",
        flags: None,
        others: &[],
    },
    Tool {
        name: "event",
        about: "One event: status, cause, side effects with their idempotency keys, replays, \
                timeline, and the next action.",
        needs: Needs::Nothing,
        command: "inbox.inspect",
        flags: Some(&[]),
        others: &[("id", true, "Event id, a prefix of it, or `source:event-id`")],
    },
    Tool {
        name: "body",
        about: "The structure of a body: paths, JSON types and lengths. Values only if the operator \
                allows them, at the named `paths`.",
        needs: Needs::Nothing,
        command: "inbox.body",
        flags: Some(&[]),
        others: &[
            ("id", true, "Event id, a prefix of it, or `source:event-id`"),
            (
                "paths",
                false,
                "Paths of values, such as data.object.id (a list)",
            ),
        ],
    },
    Tool {
        name: "why_signature",
        about: "Why the signature of a stored event or of a rejected request matches or does not.",
        needs: Needs::Secrets,
        command: "verify",
        flags: Some(&[]),
        others: &[("id", true, "Id of a rejected request or of a stored event")],
    },
    Tool {
        name: "dead_letters",
        about: "Dead letters by error, and whether a replay is safe. With `error`, one error in \
                full.",
        needs: Needs::Nothing,
        command: "dlq.list",
        flags: Some(&[]),
        others: &[("error", false, "Fingerprint of an error, from the list")],
    },
    Tool {
        name: "quarantine",
        about: "Rejected requests by reason, with findings. With `id`, one request.",
        needs: Needs::Nothing,
        command: "quarantine.list",
        flags: Some(&["source", "reason"]),
        others: &[("id", false, "Id of a request, from the list")],
    },
    Tool {
        name: "sources",
        about: "The sources: last event, events per day, waiting events. With `name`, one source in \
                full. Secrets are fingerprints.",
        needs: Needs::Nothing,
        command: "sources.list",
        flags: Some(&[]),
        others: &[("name", false, "Name of a source")],
    },
    Tool {
        name: "sync",
        about: "Events that never arrived by webhook: the sync of each source, its coverage by day, \
                and the gaps.",
        needs: Needs::Nothing,
        command: "sync.gaps",
        flags: Some(&["source", "since"]),
        others: &[],
    },
    Tool {
        name: "plans",
        about: "Replay plans and the audit log: who did what, when and why. With `plan`, one plan.",
        needs: Needs::Nothing,
        command: "replay.log",
        flags: Some(&[]),
        others: &[("plan", false, "Id of a plan, such as rpl_7KQ2M4")],
    },
    Tool {
        name: "doctor",
        about: "Checks of the deployment, each with its finding and a fix.",
        needs: Needs::Nothing,
        command: "doctor",
        flags: Some(&["only"]),
        others: &[],
    },
    Tool {
        name: "propose_replay",
        about: "Proposes a replay of at most 200 selected events. It runs nothing: the answer has \
                the command with which a person applies the plan. Propose only if the next action \
                of the events allows it.",
        needs: Needs::Propose,
        command: "replay.plan",
        flags: Some(&[
            "source", "type", "status", "since", "until", "error", "via", "attempts", "id",
            "where", "account", "header", "tee", "repeats",
        ]),
        others: &[
            (
                "reason",
                true,
                "Why these events should run again; a person reads it",
            ),
            ("mode", false, "safe (the default) or guarded"),
        ],
    },
];

pub(super) fn tools() -> &'static [Tool] {
    TOOLS
}

impl Tool {
    /// Returns the JSON schema of the arguments.
    pub(super) fn schema(&self) -> Map<String, Value> {
        let mut properties = Map::new();
        let read = named(self.command);
        let command = read.map(arguments).unwrap_or_default();
        let allowed = |name: &str| match self.flags {
            Some(flags) => flags.contains(&name),
            None => read.is_some_and(|read| read.allows(name)),
        };
        for argument in &command {
            if let Some(name) = argument.get_long().filter(|name| allowed(name)) {
                properties.insert(name.to_owned(), property(argument));
            }
        }
        if let Some(limit) = properties.get_mut("limit") {
            limit["maximum"] = MOST_EVENTS.into();
        }
        let mut required = Vec::new();
        for (name, is_required, about) in self.others {
            let property = match *name {
                "paths" => json!({"type": "array", "items": {"type": "string"}, "maxItems": 20}),
                "mode" => json!({"type": "string", "enum": ["safe", "guarded"]}),
                _ => json!({"type": "string"}),
            };
            properties.insert((*name).to_owned(), described(property, about));
            if *is_required {
                required.push(Value::from(*name));
            }
        }
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), properties.into());
        schema.insert("required".to_owned(), required.into());
        schema.insert("additionalProperties".to_owned(), false.into());
        schema
    }

    /// Returns whether the agent may pass this argument.
    pub(super) fn takes(&self, name: &str) -> bool {
        let of_flags = match self.flags {
            Some(flags) => flags.contains(&name),
            None => named(self.command).is_some_and(|read| read.allows(name)),
        };
        of_flags || self.others.iter().any(|(other, ..)| *other == name)
    }
}

/// Returns the schema of a flag.
fn property(argument: &Arg) -> Value {
    let words: Vec<String> = argument
        .get_possible_values()
        .iter()
        .map(|word| word.get_name().to_owned())
        .collect();
    let mut one = match argument.get_action() {
        ArgAction::SetTrue => json!({"type": "boolean"}),
        _ if is_number(argument.get_value_parser()) => json!({"type": "integer"}),
        _ if words.is_empty() => json!({"type": "string"}),
        _ => json!({"type": "string", "enum": words}),
    };
    if matches!(argument.get_action(), ArgAction::Append) {
        one = json!({"type": "array", "items": one});
    }
    let help = argument.get_help().map(ToString::to_string);
    described(one, &help.unwrap_or_default())
}

fn is_number(parser: &ValueParser) -> bool {
    let known = parser.type_id();
    known == std::any::TypeId::of::<u32>()
        || known == std::any::TypeId::of::<u64>()
        || known == std::any::TypeId::of::<usize>()
}

fn described(mut schema: Value, about: &str) -> Value {
    schema["description"] = about
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .into();
    schema
}
