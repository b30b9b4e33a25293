//! `approve` and `reject`: the decision about a held event, by a role in `approvers` of its rules.
//!
//! The path has the name of the source instead of a queue, because the rules are those of a source.
//! A right to change the table cannot prove who asked. A request of this API has an identity that
//! IAM has verified, and a role that takes the events of the source cannot decide about them.

use serde_json::json;
use shared::inbox::ledger::{AuditAction, By, Hold, HoldDecision, Row, Through};
use shared::sources::{Config, Source};
use shared::webhook::event::EventKey;

use super::caller::Caller;
use super::http::Answer;
use super::protocol::{Decide, Refusal, VERSION};
use crate::Processor;

/// Who decides: the identity as API Gateway passes it, and the form in which it is compared.
pub(super) struct Approver<'a> {
    pub(super) arn: &'a str,
    pub(super) caller: &'a Caller,
}

impl Processor {
    /// Applies a decision about a held event of this source.
    pub(super) async fn decide(
        &self,
        config: &Config,
        source: &str,
        by: &Approver<'_>,
        decide: &Decide,
    ) -> anyhow::Result<Result<Answer, Refusal>> {
        let source = match approvable(config, source, by.caller) {
            Ok(source) => source,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(key) = key_of(source, &decide.key) else {
            let message = "key must be the key of an event of this source, as source:event-id";
            return Ok(Err(Refusal::invalid(message)));
        };
        let Some(row) = self.services.inbox.ledger.event(&key).await? else {
            return Ok(Err(unknown_event()));
        };
        let hold = row.hold.as_deref().filter(|hold| hold.id == decide.hold);
        let Some(hold) = hold else {
            return Ok(decided_before(&row, by, decide));
        };
        if let Err(refusal) = check_rules(source, hold, by.caller) {
            return Ok(Err(refusal));
        }
        if hold.expires <= (self.clock)() {
            return Ok(Err(expired()));
        }
        self.apply(source, &row, hold, by, decide).await
    }

    /// Writes the audit log, and then the decision.
    async fn apply(
        &self,
        source: &Source,
        row: &Row,
        hold: &Hold,
        by: &Approver<'_>,
        decide: &Decide,
    ) -> anyhow::Result<Result<Answer, Refusal>> {
        let (now, key) = ((self.clock)(), &row.key);
        let action = AuditAction {
            what: if decide.approves {
                "hold.approve"
            } else {
                "hold.reject"
            },
            who: by.arn.to_owned(),
            through: Through::Api,
            why: decide.reason.clone(),
            selection: format!(
                "{key}, hold {}, rule {}, effect {}",
                hold.id, hold.rule, hold.effect
            ),
            count: 1,
        };
        let inbox = &self.services.inbox;
        inbox.ledger.operations().log(&action, now).await?;
        let by = By {
            who: by.arn,
            why: &decide.reason,
        };
        let decision = if decide.approves {
            inbox.approve(key, &hold.id, by, now).await?
        } else {
            inbox.ledger.reject(key, &hold.id, by, now).await?
        };
        Ok(match decision {
            HoldDecision::Made(row) => {
                let word = if decide.approves {
                    "approved"
                } else {
                    "rejected"
                };
                tracing::info!(
                    event.key = %key,
                    source = source.name,
                    hold = hold.id,
                    "the hold of event {key} was {word}"
                );
                Ok(status(&row, by.who))
            }
            HoldDecision::Moved(row) => Err(moved(&row)),
            HoldDecision::Expired => Err(expired()),
            HoldDecision::Missing => Err(unknown_event()),
        })
    }
}

/// Returns the source if the caller is an approver of one of its rules. The answer to anyone else
/// says nothing about its events.
fn approvable<'c>(config: &'c Config, name: &str, caller: &Caller) -> Result<&'c Source, Refusal> {
    let Some(source) = config.source(name) else {
        let message = "no source has this name; use /work/{source}/approve";
        return Err(Refusal::new(404, "unknown_source", message));
    };
    let workers = source.pull().map_or(&[][..], |(_, pull)| &pull.workers);
    if workers.iter().any(|arn| caller.is(arn)) {
        let message = format!(
            "{} is in the workers of the source, and cannot approve",
            caller.arn()
        );
        return Err(Refusal::new(403, "not_allowed", message));
    }
    let mut approvers = source.policy.iter().flat_map(|rule| &rule.approvers);
    if !approvers.any(|arn| caller.is(arn)) {
        let message = format!(
            "{} is not in the approvers of a rule of the source",
            caller.arn()
        );
        return Err(Refusal::new(403, "not_allowed", message));
    }
    Ok(source)
}

/// Refuses a caller that an approver of one of the rules would have to be. One approval answers all
/// rules that hold the effect.
fn check_rules(source: &Source, hold: &Hold, caller: &Caller) -> Result<(), Refusal> {
    let mut names_approvers = false;
    for name in hold.rules() {
        let mut rules = source.policy.iter();
        let Some(rule) = rules.find(|rule| rule.name == name && !rule.approvers.is_empty()) else {
            continue;
        };
        names_approvers = true;
        if !rule.approvers.iter().any(|arn| caller.is(arn)) {
            let message = format!(
                "{} is not in the approvers of the rule {name}",
                caller.arn()
            );
            return Err(Refusal::new(403, "not_allowed", message));
        }
    }
    if !names_approvers {
        let message = "the rule that holds the event has no approvers; an operator decides with \
                       webhookctl hold";
        return Err(Refusal::new(403, "not_allowed", message));
    }
    Ok(())
}

fn key_of(source: &Source, text: &str) -> Option<EventKey> {
    let (name, id) = text.split_once(':')?;
    let key = EventKey::from_pk(&format!("E#{name}#{id}"))?;
    (key.source() == source.name).then_some(key)
}

/// Answers a decision about a hold that the event does not have. An approval whose answer was lost
/// gets the same answer again.
fn decided_before(row: &Row, by: &Approver<'_>, decide: &Decide) -> Result<Answer, Refusal> {
    let mut approvals = row.approvals.values();
    let is_own = approvals.any(|it| it.hold == decide.hold && it.who == by.arn);
    if decide.approves && is_own {
        return Ok(status(row, by.arn));
    }
    Err(moved(row))
}

fn status(row: &Row, by: &str) -> Answer {
    let body = json!({ "v": VERSION, "status": row.state.as_str(), "by": by });
    Answer::new(200, &body)
}

fn unknown_event() -> Refusal {
    Refusal::new(404, "unknown_event", "the inbox does not have this event")
}

fn moved(row: &Row) -> Refusal {
    let message = if row.is_held() {
        "the event is held for something else; look at it again".to_owned()
    } else {
        format!("the event is not held; its state is {}", row.state)
    };
    Refusal::new(409, "moved", message)
}

fn expired() -> Refusal {
    let message = "the hold has expired, and the event becomes a dead letter";
    Refusal::new(409, "expired", message)
}
