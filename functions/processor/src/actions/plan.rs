//! What an action would send, for the rules of the source and for the operator who approves it.

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use shared::inbox::ledger::Row;
use shared::sources::{Action, ActionKind, Invocation, Signing, Source};
use shared::webhook::context::RequestContext;
use shared::webhook::event::Sha;

use super::request::EventRequest;

/// The number of hex digits of a plan's hash.
const HASH_DIGITS: usize = 32;

/// What an action would send. Two attempts of an event have equal plans, unless the sources file or
/// the body has changed in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The hash of the method, the target and the body.
    pub(crate) hash: String,
    /// A short text. A URL can contain a key, so the text has only its host.
    pub(crate) summary: String,
}

/// The parts of an event that a plan depends on.
#[derive(Clone, Copy)]
pub(crate) struct Planned<'p> {
    pub(crate) source: &'p Source,
    pub(crate) row: &'p Row,
    pub(crate) body: &'p Bytes,
    pub(crate) request: Option<&'p RequestContext>,
}

impl Plan {
    pub(crate) fn of(action: &Action, event: Planned<'_>) -> Self {
        let (target, summary) = target(&action.kind, event);
        let body = Sha::of(event.body).hex();
        let parts = target.iter().map(String::as_str);
        let parts = [action.name.as_str()].into_iter().chain(parts);
        Self {
            hash: hash(parts.chain([body.as_str()])),
            summary: format!("{summary} ({} bytes)", event.body.len()),
        }
    }

    /// Returns the plan of several actions together.
    pub(crate) fn of_all(plans: &[Self]) -> Self {
        let summaries: Vec<_> = plans.iter().map(|plan| plan.summary.as_str()).collect();
        Self {
            hash: hash(plans.iter().map(|plan| plan.hash.as_str())),
            summary: summaries.join(", "),
        }
    }
}

/// Returns the parts of the target for the hash, and a text for operators.
fn target(kind: &ActionKind, event: Planned<'_>) -> (Vec<String>, String) {
    let owned = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
    match kind {
        ActionKind::Keep => (Vec::new(), "nothing".to_owned()),
        ActionKind::Http { url, signing, .. } => {
            let url = url_of(url, signing, event);
            let host = url.split_once("://").map_or("", |(_, rest)| rest);
            let host = host.split(['/', '?', '#']).next().unwrap_or_default();
            let summary = format!("POST to {host}");
            (owned(&["http", "POST", &url]), summary)
        }
        ActionKind::Lambda {
            function,
            invocation,
        } => {
            let how = match invocation {
                Invocation::RequestResponse => "request-response",
                Invocation::Event => "event",
            };
            let summary = format!("invocation of {function}");
            (owned(&["lambda", function, how]), summary)
        }
        ActionKind::Sqs { url, group } => {
            let group = group.as_ref().map(ToString::to_string);
            let parts = owned(&["sqs", url, &group.unwrap_or_default()]);
            (parts, format!("message to {url}"))
        }
        ActionKind::EventBridge {
            bus,
            source,
            detail_type,
        } => {
            let detail_type = detail_type.as_deref().unwrap_or_default();
            let parts = owned(&["eventbridge", bus, source, detail_type]);
            (parts, format!("event on bus {bus}"))
        }
        ActionKind::StepFunctions { state_machine } => {
            let summary = format!("execution of {state_machine}");
            (owned(&["step-functions", state_machine]), summary)
        }
        ActionKind::Pull(pull) => {
            let summary = format!("work of a worker of {}", pull.queue);
            (owned(&["pull", &pull.queue]), summary)
        }
        ActionKind::Rust { code, params } => {
            let params = flat(params);
            let parts = ["rust", code].into_iter();
            let parts = parts.chain(params.iter().map(String::as_str));
            let parts = parts.map(str::to_owned).collect();
            (parts, format!("Rust action {code}"))
        }
    }
}

fn flat(params: &BTreeMap<String, String>) -> Vec<String> {
    let params = params.iter();
    params
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

/// Returns the URL that the action calls. An event whose values make no valid URL is not sent: the
/// plan then has the template.
fn url_of(template: &str, signing: &Signing, event: Planned<'_>) -> String {
    let request = EventRequest {
        row: event.row,
        body: event.body,
        request: event.request,
        entity: None,
        verifier: &event.source.verifier,
    };
    let url = request.target(template, signing);
    url.unwrap_or_else(|_| template.to_owned())
}

fn hash<'p>(parts: impl Iterator<Item = &'p str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // The length keeps two lists of parts with the same text apart.
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hex::encode(hash.finalize())[..HASH_DIGITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_depends_on_where_its_parts_end() {
        let of = |parts: &[&str]| hash(parts.iter().copied());
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_eq!(of(&["a"]).len(), HASH_DIGITS);
        for other in [&["ab"][..], &["a", "b", ""], &["", "ab"], &["b", "a"]] {
            assert_ne!(of(&["a", "b"]), of(other), "{other:?}");
        }
    }
}
