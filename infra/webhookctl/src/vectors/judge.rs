//! Compares the result of a verification with the expected result of a vector.

use anyhow::bail;
use serde_json::Value;
use shared::webhook::event::{Event, Proven};
use shared::webhook::verify::{Arrival, Reason, Rejected, Verifier};

use super::{Expect, Vector};

/// What a vector shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A genuine request.
    Valid,
    /// A genuine request of a provider that does not sign.
    Unverified,
    Invalid,
    /// A request whose verdict is a choice of the preset.
    Policy,
    Handshake,
}

impl Kind {
    pub(super) fn of(expect: &Expect) -> anyhow::Result<Self> {
        Ok(match expect.verdict.as_str() {
            "valid" => Self::Valid,
            "unverified" => Self::Unverified,
            "invalid" => Self::Invalid,
            "policy" => Self::Policy,
            "handshake" => Self::Handshake,
            verdict => bail!("unknown verdict {verdict:?}"),
        })
    }
}

impl Vector {
    /// Verifies the request as the catcher does.
    pub(crate) fn verify(&self) -> Result<Arrival, Rejected> {
        self.verifier.verify(&self.envelope, &self.secrets)
    }

    /// Returns what is wrong with the result, or `None` if it is the expected one.
    pub(crate) fn fault(&self) -> Option<String> {
        let answer = self.verify();
        let is_good = match (self.kind, &answer) {
            (Kind::Policy, _) => true,
            (Kind::Valid, Ok(Arrival::Event(event))) => names(&self.expect.event, event),
            (Kind::Valid, Ok(Arrival::Handshake(reply))) => {
                self.expect.event.is_null() && reply.status < 300
            }
            (Kind::Unverified, Ok(Arrival::Event(event))) => event.proven() == Proven::Nothing,
            (Kind::Unverified, Err(Rejected(reason))) => *reason == Reason::NotFetched,
            (Kind::Invalid, Err(Rejected(reason))) => {
                let allowed = self.expect.reason.as_deref().unwrap_or_default();
                allowed.split('|').any(|allowed| allowed == reason.as_str())
            }
            (Kind::Handshake, answer) => answers(&self.expect.response, &self.verifier, answer),
            (Kind::Valid | Kind::Invalid | Kind::Unverified, _) => false,
        };
        (!is_good).then(|| {
            let expected = match (self.kind, &self.expect.reason) {
                (Kind::Invalid, Some(reason)) => format!("invalid ({reason})"),
                _ => self.expect.verdict.clone(),
            };
            format!("{} is {}, expected {expected}", self.id, told(&answer))
        })
    }
}

fn told(answer: &Result<Arrival, Rejected>) -> String {
    match answer {
        Ok(Arrival::Event(event)) => format!("accepted as {:?} {}", event.kind(), event.key()),
        Ok(Arrival::Handshake(reply)) => format!("answered with {}", reply.status),
        Err(Rejected(reason)) => format!("refused ({reason})"),
    }
}

/// Returns whether the event has the expected ids and types.
fn names(expected: &Value, event: &Event) -> bool {
    let items = event.items();
    let ids: Vec<&str> = items.iter().filter_map(|item| item.id.as_deref()).collect();
    let kinds: Vec<&str> = items.iter().map(|item| item.kind.as_str()).collect();
    let one = |name: &str, found: Option<&str>| {
        let expected = expected[name].as_str();
        expected.is_none() || expected == found
    };
    let all = |name: &str, found: &[&str]| {
        let expected = expected[name].as_array();
        expected.is_none_or(|expected| {
            let expected: Vec<&str> = expected.iter().filter_map(Value::as_str).collect();
            expected == found
        })
    };
    let first = items.first().and_then(|item| item.id.as_deref());
    one("id", first)
        && one("type", Some(event.kind()))
        && one("delivery", event.delivery())
        && all("ids", &ids)
        && all("types", &kinds)
}

/// Returns whether the reply to a handshake is the expected one.
fn answers(expected: &Value, verifier: &Verifier, answer: &Result<Arrival, Rejected>) -> bool {
    let ack = &verifier.preset.ack;
    let (status, body) = match answer {
        Ok(Arrival::Handshake(reply)) => (reply.status, reply.body.as_str()),
        Ok(Arrival::Event(_)) => (ack.ok, ack.body.as_str()),
        Err(_) => (ack.bad_signature, ""),
    };
    let json = &expected["json"];
    let has_json = || serde_json::from_str::<Value>(body).ok().as_ref() == Some(json);
    expected["status"].as_u64() == Some(status.into())
        && expected["body"].as_str().is_none_or(|text| text == body)
        && (json.is_null() || has_json())
}
