//! Reads the outcomes of replayed events.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use shared::inbox::ledger::{Ledger, PlanEvent, PlanOutcome, Row, State};
use shared::sources::Config;

use crate::inspect::view;

/// The number of rows that are read concurrently.
const AT_ONCE: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Became {
    /// The run has not handled the event yet.
    NotYet,
    /// The event is queued, or the processor works on it.
    Waiting,
    /// The event waits for an approval, or is in a queue of workers outside of Lambda. Both can take
    /// hours.
    Parked,
    Done,
    /// The event failed again. Another attempt may be due.
    Failed {
        fingerprint: String,
        text: String,
    },
    /// The event had changed since the plan was made, or has changed since it was replayed.
    Changed,
}

/// An error with which several events failed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Failure {
    pub(super) events: usize,
    pub(super) fingerprint: String,
    pub(super) text: String,
}

/// Returns the outcome of a replayed event from its row.
pub(super) fn became(event: &PlanEvent, row: Option<&Row>, config: &Config) -> Became {
    let Some(row) = row else {
        return Became::Changed;
    };
    match row.state {
        // A later replay has started another run of the event.
        _ if row.run > event.run + 1 => Became::Changed,
        _ if row.is_held() => Became::Parked,
        State::Done => Became::Done,
        State::Quarantined => Became::Changed,
        State::DeadLetter => failed(row, config),
        // A deferred event had no attempt.
        State::Failed if row.attempts > 0 => failed(row, config),
        _ if row.is_pulled() => Became::Parked,
        State::Failed | State::Received | State::Processing => Became::Waiting,
    }
}

fn failed(row: &Row, config: &Config) -> Became {
    let error = view(row, config).last_error;
    let (fingerprint, text) = error.map_or_else(
        || ("-".to_owned(), row.reason.clone().unwrap_or_default()),
        |error| (error.fingerprint, error.text),
    );
    Became::Failed { fingerprint, text }
}

/// Reads the outcomes of replayed events.
pub(super) async fn look<'e>(
    ledger: &Ledger,
    config: &Config,
    events: impl Iterator<Item = &'e PlanEvent>,
) -> anyhow::Result<Vec<Became>> {
    let looks = events.map(async |event: &PlanEvent| {
        let row = ledger.event(&event.key).await?;
        anyhow::Ok(became(event, row.as_ref(), config))
    });
    let looks: Vec<_> = looks.collect();
    stream::iter(looks).buffered(AT_ONCE).try_collect().await
}

pub(super) fn count<'b>(all: impl Iterator<Item = &'b Became>) -> PlanOutcome {
    let mut outcome = PlanOutcome::default();
    for became in all {
        match became {
            Became::NotYet => {}
            Became::Waiting | Became::Parked => outcome.waiting += 1,
            Became::Done => outcome.done += 1,
            Became::Failed { .. } => outcome.failed += 1,
            Became::Changed => outcome.changed += 1,
        }
    }
    outcome
}

/// Returns the errors, most frequent first.
pub(super) fn failures<'b>(all: impl Iterator<Item = &'b Became>) -> Vec<Failure> {
    let mut found: BTreeMap<&str, Failure> = BTreeMap::new();
    for became in all {
        if let Became::Failed { fingerprint, text } = became {
            let failure = found.entry(fingerprint).or_insert_with(|| Failure {
                events: 0,
                fingerprint: fingerprint.clone(),
                text: text.clone(),
            });
            failure.events += 1;
        }
    }
    let mut failures: Vec<Failure> = found.into_values().collect();
    failures.sort_by_key(|failure| std::cmp::Reverse(failure.events));
    failures
}

/// Returns the counts as text, such as `248 done · 4 failed again`.
pub(super) fn words(outcome: &PlanOutcome) -> String {
    said(outcome, "", "")
}

/// Returns the counts with symbols, such as `● 248 done · ▲ 4 failed again`.
pub(super) fn signed(outcome: &PlanOutcome) -> String {
    said(outcome, "● ", "▲ ")
}

fn said(outcome: &PlanOutcome, done: &str, failed: &str) -> String {
    let mut words = vec![format!("{done}{} done", outcome.done)];
    for (count, sign, said) in [
        (outcome.failed, failed, "failed again"),
        (outcome.waiting, "", "waiting"),
        (outcome.changed, "", "left out, changed since the plan"),
    ] {
        if count > 0 {
            words.push(format!("{sign}{count} {said}"));
        }
    }
    words.join(" · ")
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;
    use shared::base::clock::UnixMillis;
    use shared::inbox::ledger::Item;
    use shared::sources::EMBEDDED;
    use shared::webhook::event::EventKey;

    use super::*;

    fn row(state: State, run: u64, attempts: u32) -> Row {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let number = |number: u64| AttributeValue::N(number.to_string());
        let row = Item::from([
            ("pk".to_owned(), text("E#stripe-main#evt_1")),
            ("sv".to_owned(), number(1)),
            ("st".to_owned(), text(state.as_str())),
            ("epoch".to_owned(), number(3)),
            ("run".to_owned(), number(run)),
            ("att".to_owned(), number(attempts.into())),
            ("cr".to_owned(), number(0)),
            ("rcv".to_owned(), number(1)),
            ("due".to_owned(), number(1)),
            ("lu".to_owned(), number(1)),
            ("bref".to_owned(), text("d")),
            ("err".to_owned(), text("502")),
            ("fx".to_owned(), AttributeValue::M(Item::new())),
        ]);
        Row::read(&row).unwrap()
    }

    #[test]
    fn a_row_tells_what_became_of_the_run() {
        let config = Config::parse(EMBEDDED).unwrap();
        let event = PlanEvent {
            key: EventKey::new("stripe-main", "evt_1"),
            received_at: UnixMillis(1),
            epoch: 2,
            run: 0,
            until: None,
        };
        let of = |row: Option<&Row>| match became(&event, row, &config) {
            Became::Failed { .. } => "failed",
            Became::Done => "done",
            Became::Waiting => "waiting",
            Became::Parked => "parked",
            Became::Changed => "changed",
            Became::NotYet => "not yet",
        };
        assert_eq!(of(None), "changed");
        for (state, expected) in [
            (State::Received, "parked"),
            (State::Processing, "parked"),
            (State::Failed, "parked"),
            (State::Done, "done"),
        ] {
            let mut pulled = row(state, 1, 0);
            pulled.pull = Some("triage".to_owned());
            assert_eq!(of(Some(&pulled)), expected, "{state}");
        }
        for (state, attempts, expected) in [
            (State::Received, 0, "waiting"),
            (State::Processing, 1, "waiting"),
            (State::Failed, 0, "waiting"),
            (State::Failed, 1, "failed"),
            (State::DeadLetter, 1, "failed"),
            (State::Done, 1, "done"),
            (State::Quarantined, 0, "changed"),
        ] {
            assert_eq!(of(Some(&row(state, 1, attempts))), expected, "{state}");
            assert_eq!(of(Some(&row(state, 2, attempts))), "changed", "{state}");
        }
    }

    #[test]
    fn errors_are_counted_by_their_kind() {
        let failed = |fingerprint: &str| Became::Failed {
            fingerprint: fingerprint.to_owned(),
            text: "502".to_owned(),
        };
        let all = [
            failed("b"),
            Became::Done,
            failed("a"),
            Became::NotYet,
            failed("a"),
            Became::Waiting,
            Became::Changed,
        ];
        let counted = count(all.iter());
        assert_eq!(
            words(&counted),
            "1 done · 3 failed again · 1 waiting · 1 left out, changed since the plan"
        );
        assert_eq!(
            signed(&counted),
            "● 1 done · ▲ 3 failed again · 1 waiting · 1 left out, changed since the plan"
        );
        let failures = failures(all.iter());
        assert_eq!(
            (failures[0].events, failures[0].fingerprint.as_str()),
            (2, "a")
        );
        assert_eq!(failures.len(), 2);
    }
}
