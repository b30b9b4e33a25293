//! The table of tools.

use serde_json::{Map, Value, json};

use super::claim::LONGEST_WAIT_S;

pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) is_idempotent: bool,
}

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "next_work",
        about: "Claims one event of the queue for you. The answer has the event, the effects of \
                earlier attempts, and the structure of its body. This server extends the lease \
                until you end the work. With `id`, reads an event again that you hold.",
        is_idempotent: false,
    },
    Tool {
        name: "extend_work",
        about: "Extends the lease of an event, and says how long you hold it. You need it only \
                before a call that takes longer than the lease, or to learn whether you still hold \
                the event.",
        is_idempotent: true,
    },
    Tool {
        name: "begin_effect",
        about: "Declares a call that changes another system, before you make it. Make the call only \
                if the answer has `go`, and pass `key` as its idempotency key.",
        is_idempotent: true,
    },
    Tool {
        name: "end_effect",
        about: "Records what became of an effect that you began.",
        is_idempotent: true,
    },
    Tool {
        name: "finish_work",
        about: "Ends the work on an event. Each effect that you began needs end_effect first.",
        is_idempotent: true,
    },
];

impl Tool {
    /// Returns the JSON schema of the arguments.
    pub(super) fn schema(&self, reads_bodies: bool) -> Map<String, Value> {
        let (properties, required) = match self.name {
            "next_work" => (next(reads_bodies), &[][..]),
            "extend_work" => (extend(), &["id"][..]),
            "begin_effect" => (begin(), &["id", "effect", "keys"][..]),
            "end_effect" => (end(), &["id", "effect", "result"][..]),
            _ => (finish(), &["id", "outcome"][..]),
        };
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        schema.as_object().cloned().unwrap_or_default()
    }
}

fn next(reads_bodies: bool) -> Value {
    let mut properties = json!({
        "wait_s": {
            "type": "integer", "minimum": 0, "maximum": LONGEST_WAIT_S,
            "description": "How long to wait for an event, in seconds (default 0)",
        },
        "id": {
            "type": "string",
            "description": "An event that you hold: reads it again, and claims nothing",
        },
    });
    if reads_bodies {
        properties["paths"] = json!({
            "type": "array", "items": {"type": "string"}, "maxItems": 20,
            "description": "Paths of values in the body, such as data.object.id. Without it, you get \
                            the beginning of the whole body",
        });
    }
    properties
}

fn extend() -> Value {
    json!({
        "id": id(),
        "lease_s": {
            "type": "integer", "minimum": 30, "maximum": 900,
            "description": "Length of the lease from now, in seconds (default: that of the queue)",
        },
    })
}

fn begin() -> Value {
    json!({
        "id": id(),
        "effect": effect("such as open-ticket; use the same name in each attempt"),
        "keys": {
            "type": "string",
            "enum": ["honoured", "honoured-with-failures", "ignored", "ask"],
            "description": "What the other system does with an idempotency key: repeats have one \
                            effect; the same, and a failure is stored under the key; the key has no \
                            meaning; or the key has no meaning, but you can search for it",
        },
        "asked": {
            "type": "string", "enum": ["did_not"],
            "description": "You searched the other system, and the earlier call had no effect",
        },
        "plan": {
            "type": "object",
            "description": "What you will do, for rules and for a person who approves it: `summary` \
                            (at most 200 characters), `target`, `amount`. Leave it out for a plan \
                            that a person approved",
        },
    })
}

fn end() -> Value {
    json!({
        "id": id(),
        "effect": effect("the name that you began"),
        "result": {
            "type": "string", "enum": ["done", "not", "unknown", "refused"],
            "description": "It happened, did not happen, may have happened, or the other system \
                            refused it",
        },
        "note": {
            "type": "string", "maxLength": 120,
            "description": "What a later attempt needs, such as the number of a ticket",
        },
    })
}

fn finish() -> Value {
    json!({
        "id": id(),
        "outcome": {
            "type": "string", "enum": ["done", "retry", "permanent", "unknown", "release"],
            "description": "done; try again later; a retry would fail again; an effect may have \
                            happened, and a person must decide; or leave the event to another worker",
        },
        "error": {"type": "string", "maxLength": 500, "description": "What went wrong, for people"},
        "after_s": {
            "type": "integer", "minimum": 0, "maximum": 604_800,
            "description": "Seconds until the next attempt at the earliest",
        },
        "destination_failed": {
            "type": "boolean",
            "description": "The system that you called is down",
        },
    })
}

fn id() -> Value {
    json!({"type": "string", "description": "Id of the event, as next_work returned it"})
}

fn effect(more: &str) -> Value {
    json!({
        "type": "string", "pattern": "^[a-z0-9-]{1,40}$",
        "description": format!("Name of the effect, {more}"),
    })
}
