//! Reads the destinations of a source, and the states of their circuit breakers.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::delivery::breaker::{Breakers, Position, refuses};
use shared::inbox::ledger::Ledger;
use shared::sources::Source;

use crate::output::time::{duration, rfc3339};

/// One action of a source.
#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "JSON field names")]
pub(super) struct Destination {
    action: String,
    /// The name of the destination. It is missing if the action calls no destination.
    destination: Option<String>,
    rate: Option<String>,
    /// How requests are signed: `standard`, `provider`, `as-received` or `none`. It is missing if
    /// the action is not of the kind http.
    #[serde(skip_serializing_if = "Option::is_none")]
    sign: Option<&'static str>,
    /// `closed`, `open` or `probing`. Without an inbox, the state is unknown.
    breaker: Option<&'static str>,
    open_until: Option<String>,
    /// The last status, if the breaker is open because the destination refuses every request.
    refused: Option<u16>,
    #[serde(skip)]
    until: Option<i64>,
}

/// Returns the configured destinations.
pub(super) fn configured(source: &Source) -> Vec<Destination> {
    let actions = source.actions.iter();
    let destination = |action: &shared::sources::Action| {
        let to = action.destination.as_ref();
        Destination {
            action: action.name.clone(),
            destination: to.map(|to| to.name.clone()),
            rate: to.and_then(|to| to.rate).map(|rate| rate.to_string()),
            sign: action.kind.http().map(|(_, signing)| signing.word()),
            breaker: None,
            open_until: None,
            refused: None,
            until: None,
        }
    };
    actions.map(destination).collect()
}

/// Reads the states of the circuit breakers from the table.
pub(super) async fn look(
    ledger: &Ledger,
    destinations: &mut [Destination],
    now: UnixMillis,
) -> anyhow::Result<()> {
    let breakers = Breakers::beside(ledger);
    for destination in destinations {
        let Some(name) = &destination.destination else {
            continue;
        };
        let (word, until, refused) = match breakers.read_position(name, now).await? {
            Position::Closed => ("closed", None, None),
            Position::Open { until, refused } => ("open", Some(until), refused),
            Position::Probing => ("probing", None, None),
        };
        destination.breaker = Some(word);
        destination.refused = refused;
        destination.open_until = until.map(|until| rfc3339(until.0));
        destination.until = until.map(|until| until.0);
    }
    Ok(())
}

impl Destination {
    /// Returns the destination as text, such as `hooks.example.com, 20/s, up`.
    pub(super) fn text(&self, now: i64) -> String {
        let Some(destination) = &self.destination else {
            return self.action.clone();
        };
        let mut facts = vec![destination.clone()];
        if *destination != self.action {
            facts.insert(0, self.action.clone());
        }
        facts.extend(self.rate.clone());
        // The text does not name the default.
        let sign = self.sign.filter(|sign| *sign != "standard");
        facts.extend(sign.map(|sign| format!("sign = \"{sign}\"")));
        facts.extend(match (self.breaker, self.until) {
            (Some("open"), Some(until)) => {
                let why = self
                    .refused
                    .map_or(String::new(), |status| format!("{}; ", refuses(status)));
                Some(format!(
                    "down: {why}the circuit breaker is open for {}",
                    duration((until - now).max(0) / 1000)
                ))
            }
            (Some("probing"), _) => Some("down: the next event tests it".to_owned()),
            (Some(_), _) => Some("up".to_owned()),
            (None, _) => None,
        });
        facts.join(", ")
    }
}
