//! An event as one row of `inbox list`.

use serde::Serialize;
use shared::inbox::ledger::State;

use super::view::{EventView, as_word};
use crate::inspect::next_action::{NextAction, next_action};
use crate::output::Column;
use crate::output::time::rfc3339;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct EventRow {
    pub id: String,
    pub source: String,
    #[serde(rename = "type")]
    pub event_type: String,
    #[serde(serialize_with = "as_word")]
    pub status: State,
    /// The rule whose approval the event waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
    pub attempt_count: u32,
    pub account: Option<String>,
    pub dedupe_key: String,
    pub via: String,
    pub received_at: String,
    pub error_fingerprint: Option<String>,
    pub next_action: NextAction,
}

impl EventRow {
    pub(crate) fn new(view: &EventView, now_millis: i64) -> Self {
        Self {
            id: view.id.clone(),
            source: view.source.clone(),
            event_type: view.event_type.clone(),
            status: view.status,
            held_by: view.hold.as_ref().map(|hold| hold.rule.clone()),
            attempt_count: view.attempt_count,
            account: view.account.as_ref().map(|account| account.value.clone()),
            dedupe_key: view.dedupe_key.clone(),
            via: view.via.clone(),
            received_at: rfc3339(view.received_at),
            error_fingerprint: view
                .last_error
                .as_ref()
                .map(|error| error.fingerprint.clone()),
            next_action: next_action(view, now_millis),
        }
    }
}

/// Returns the columns of a list of events, in their order.
pub(crate) fn columns(now_millis: i64) -> Vec<Column<'static, EventRow>> {
    vec![
        Column::age("AGE", "received_at", now_millis),
        Column::id("id"),
        Column::whole("SOURCE", "source"),
        Column::text("TYPE", "type", 16),
        Column::status("status").shown(|event: &EventRow| match &event.held_by {
            Some(_) => "held".to_owned(),
            None => event.status.to_string(),
        }),
        Column::whole("TRIES", "attempt_count").right().extra(),
        Column::text("VIA", "via", 8).extra(),
        Column::text("DEDUPE KEY", "dedupe_key", 12).extra(),
        Column::whole("ERROR", "error_fingerprint").extra(),
        Column::text("NEXT ACTION", "next_action.text", 16).essential(),
        account().extra(),
    ]
}

/// Returns the column of the account, which lists show if an event has one.
pub(crate) fn account() -> Column<'static, EventRow> {
    Column::text("ACCOUNT", "account", 12)
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::{NOW, example};
    use shared::inbox::ledger::EffectState;

    use super::super::view::Effect;
    use super::*;
    use crate::output::{Format, List};

    fn views() -> Vec<EventView> {
        let view = |words: &str, ago: i64, status| {
            let words: Vec<&str> = words.split(' ').collect();
            EventView {
                id: format!("{}AAAAAAAAAAAAAAA", words[0]),
                source: words[1].into(),
                event_type: words[2].into(),
                status,
                received_at: NOW - ago * 1000,
                effects: Vec::new(),
                ..example()
            }
        };
        vec![
            EventView {
                claimed_until: Some(NOW + 117_000),
                ..view(
                    "evt_01M7W76WNHE stripe-main payment_intent.succeeded",
                    3,
                    State::Processing,
                )
            },
            EventView {
                due: Some(NOW + 130_000),
                ..view("evt_01M7W76PT2F github-org issues.opened", 9, State::Failed)
            },
            view(
                "evt_01M7W76B33M stripe-main charge.updated",
                21,
                State::Done,
            ),
            EventView {
                attempt_count: 10,
                ..view(
                    "evt_01M7W54EPFH github-org pull_request.closed",
                    2180,
                    State::DeadLetter,
                )
            },
            EventView {
                effects: vec![Effect {
                    name: "call".into(),
                    key: "k".into(),
                    state: EffectState::Unknown,
                    keyed: false,
                    at: NOW,
                    note: None,
                }],
                ..view(
                    "evt_01M7W53FEG8 acme job.completed",
                    2212,
                    State::DeadLetter,
                )
            },
        ]
    }

    #[test]
    fn the_list_at_a_hundred_columns() {
        let list = List {
            truncated: true,
            ..List::new(
                "inbox.list",
                "prod",
                shared::base::clock::UnixMillis(NOW),
                columns(NOW),
                views()
                    .iter()
                    .map(|view| EventRow::new(view, NOW))
                    .collect(),
            )
        };
        assert_eq!(
            list.data(Format::Table, Some(100), false).unwrap(),
            "   AGE  ID               SOURCE       TYPE              STATUS       NEXT ACTION
    3s  evt_01M7W76WNHE  stripe-main  payment_intent.…  processing   wait, lease 1m57s
    9s  evt_01M7W76PT2F  github-org   issues.opened     failed       auto retry 4 of 10 in 2m10s
   21s  evt_01M7W76B33M  stripe-main  charge.updated    done         none
36m20s  evt_01M7W54EPFH  github-org   pull_request.cl…  dead_letter  replay after fix
36m52s  evt_01M7W53FEG8  acme         job.completed     dead_letter  check downstream, effect unkno…
"
        );
        let csv = list.data(Format::Csv, None, false).unwrap();
        assert!(csv.starts_with("received_at,id,source,type,status,attempt_count,via,dedupe_key,"));
        let json = list.data(Format::Json, None, false).unwrap();
        assert!(json.contains("\"error_fingerprint\": \"c41f09\""));
    }
}
