//! Events that wait for an approval.
//!
//! A rule of the source can hold an effect: see [`rules`](crate::sources::rules). The worker then
//! gives up its lease, and the row keeps the hold until an operator approves or rejects it, or until
//! it expires. An approval is bound to the hold and to the hash of the plan, so that Mitt does
//! exactly what the operator saw.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Context as _;
use aws_sdk_dynamodb::types::AttributeValue;
use sha2::{Digest as _, Sha256};

use super::transition::hold::{self as transition, EXPIRED, REJECTED, held_partition};
use super::{By, Item, Ledger, Row, State, Write, item};
use crate::base::clock::UnixMillis;
use crate::inbox::outcome::HoldRequest;
use crate::inbox::queue::WorkMessage;
use crate::webhook::event::EventKey;

/// The name of a hold that is about the event as a whole.
pub const WHOLE_EVENT: &str = "*";

/// The number of holds of one effect in a run, after which another plan ends in a dead letter.
pub(super) const MOST_HOLDS: u32 = 2;

/// The number of hex digits of the id of a hold.
const ID_DIGITS: usize = 12;

/// The largest text of a hold, in characters.
const LONGEST_TEXT: usize = 200;

/// The largest summary, in characters. The longest amount and the longest target of a worker's plan
/// fit, which begin its summary.
const LONGEST_SUMMARY: usize = 260;

/// The most paths that a hold names.
const MOST_PATHS: usize = 16;

/// Why and until when an event is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The id, which no other hold of the event has.
    pub id: String,
    /// The names of the rules that hold the effect, separated by commas.
    pub rule: String,
    /// Whether a rule names the roles that can approve. Then the decision is made over the API,
    /// which checks the role.
    pub over_api: bool,
    /// The effect, or [`WHOLE_EVENT`].
    pub effect: String,
    /// The hash of what would be sent, or of what a worker declared.
    pub plan: String,
    /// What would be sent, for operators. It has no content of the event, unless a worker outside of
    /// Lambda declared the effect: then it is the worker's text.
    pub summary: String,
    /// Why the rule applies.
    pub why: String,
    /// The paths in the body that the rule read.
    pub read: Vec<String>,
    pub at: UnixMillis,
    pub expires: UnixMillis,
    /// How often the effect was held in this run.
    pub count: u32,
    /// The version of the row before the hold.
    pub version: u32,
}

/// The approval of an effect, as the row keeps it for the rest of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    pub hold: String,
    pub who: String,
    pub at: UnixMillis,
    /// The hash of the approved plan.
    pub plan: String,
    /// How often the effect was held in this run.
    pub count: u32,
}

/// The result of a decision about a hold.
#[derive(Clone, Debug)]
pub enum HoldDecision {
    /// The decision is stored.
    Made(Box<Row>),
    /// The event is not held, or is held for something else. Nothing was changed.
    Moved(Box<Row>),
    /// The hold has expired. The sweep ends it.
    Expired,
    Missing,
}

impl HoldDecision {
    /// Returns the message to send to the work queue if the event was approved. A worker outside of
    /// Lambda finds the event of its queue without a message.
    pub fn work_message(&self) -> Option<WorkMessage> {
        match self {
            Self::Made(row) if row.state == State::Received && !row.is_pulled() => {
                Some(WorkMessage {
                    key: row.key.clone(),
                    run: row.run,
                })
            }
            _ => None,
        }
    }
}

impl Hold {
    /// Returns the hold that a worker writes for a request. Returns `None` if the effect was held too
    /// often in this run, because each attempt has another plan.
    pub(super) fn of(request: &HoldRequest, row: &Row, now: UnixMillis) -> Option<Self> {
        let before = row.approvals.get(&request.effect);
        let count = before.map_or(0, |approval| approval.count) + 1;
        if count > MOST_HOLDS {
            return None;
        }
        let short = |text: &str, most| text.chars().take(most).collect::<String>();
        Some(Self {
            id: id(row, request),
            rule: request.rule.clone(),
            over_api: request.over_api,
            effect: request.effect.clone(),
            plan: request.plan.clone(),
            summary: short(&request.summary, LONGEST_SUMMARY),
            why: short(&request.why, LONGEST_TEXT),
            read: request.read.iter().take(MOST_PATHS).cloned().collect(),
            at: now,
            expires: now + request.expires,
            count,
            version: row.schema,
        })
    }

    pub(super) fn write(&self) -> AttributeValue {
        let read = self.read.iter().map(item::s).collect();
        AttributeValue::M(Item::from([
            ("id".to_owned(), item::s(&self.id)),
            ("rule".to_owned(), item::s(&self.rule)),
            ("api".to_owned(), AttributeValue::Bool(self.over_api)),
            ("eff".to_owned(), item::s(&self.effect)),
            ("plan".to_owned(), item::s(&self.plan)),
            ("sum".to_owned(), item::s(&self.summary)),
            ("why".to_owned(), item::s(&self.why)),
            ("rd".to_owned(), AttributeValue::L(read)),
            ("at".to_owned(), item::ms(self.at)),
            ("exp".to_owned(), item::ms(self.expires)),
            ("n".to_owned(), item::n(self.count)),
            ("sv".to_owned(), item::n(self.version)),
        ]))
    }

    /// Reads the hold of a row. A hold with missing parts is still a hold, so that no worker claims
    /// the event.
    pub(super) fn read(row: &Item) -> Option<Self> {
        let none = Item::new();
        let hold = row.get("hld")?.as_m().unwrap_or(&none);
        let text = |name| item::text(hold, name).unwrap_or_default().to_owned();
        let read = hold.get("rd").and_then(|list| list.as_l().ok());
        let read = read.into_iter().flatten();
        Some(Self {
            id: text("id"),
            rule: text("rule"),
            over_api: hold
                .get("api")
                .is_some_and(|api| api == &AttributeValue::Bool(true)),
            effect: text("eff"),
            plan: text("plan"),
            summary: text("sum"),
            why: text("why"),
            read: read.filter_map(|path| path.as_s().ok().cloned()).collect(),
            at: item::time(hold, "at").unwrap_or_default(),
            expires: item::time(hold, "exp").unwrap_or_default(),
            count: item::number(hold, "n").unwrap_or(1),
            version: item::number(hold, "sv").unwrap_or(super::SCHEMA),
        })
    }
}

/// The id depends on the claim that holds the event, so a retried write has the same id, and a later
/// hold has another.
fn id(row: &Row, request: &HoldRequest) -> String {
    let mut hash = Sha256::new();
    let (run, epoch) = (row.run.to_string(), row.epoch.to_string());
    let pk = row.key.pk();
    for part in [&pk, &run, &epoch, &request.effect, &request.plan] {
        hash.update(part);
        hash.update([0]);
    }
    hex::encode(hash.finalize())[..ID_DIGITS].to_owned()
}

/// The stored text, `hold|who|time|plan|count`.
impl fmt::Display for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = self.who.replace('|', "/");
        let (hold, at, plan, count) = (&self.hold, self.at.0, &self.plan, self.count);
        write!(f, "{hold}|{who}|{at}|{plan}|{count}")
    }
}

impl Approval {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('|');
        let mut next = || parts.next();
        Some(Self {
            hold: next()?.to_owned(),
            who: next()?.to_owned(),
            at: UnixMillis(next()?.parse().ok()?),
            plan: next()?.to_owned(),
            count: next()?.parse().ok()?,
        })
    }
}

/// Reads the approvals of a row, by effect. An approval that cannot be read approves nothing.
pub(super) fn approvals(row: &Item) -> BTreeMap<String, Approval> {
    let approvals = row.get("apv").and_then(|map| map.as_m().ok());
    let approvals = approvals.into_iter().flatten();
    approvals
        .filter_map(|(effect, text)| {
            let approval = Approval::parse(text.as_s().ok()?)?;
            Some((effect.clone(), approval))
        })
        .collect()
}

/// What ends a hold.
#[derive(Clone, Copy)]
enum End<'e> {
    Approve(By<'e>),
    Reject(By<'e>),
    Expire,
}

impl Ledger {
    /// Approves the hold of an event: the effect may run with the plan that was held. The caller
    /// sends the work message. If that message is lost, the sweep sends another one.
    pub async fn approve(
        &self,
        key: &EventKey,
        hold: &str,
        by: By<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<HoldDecision> {
        self.end_hold(key, Some(hold), End::Approve(by), now).await
    }

    /// Rejects the hold of an event, which becomes a dead letter.
    pub async fn reject(
        &self,
        key: &EventKey,
        hold: &str,
        by: By<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<HoldDecision> {
        self.end_hold(key, Some(hold), End::Reject(by), now).await
    }

    /// Makes an event whose hold has expired a dead letter.
    pub async fn expire_hold(
        &self,
        key: &EventKey,
        now: UnixMillis,
    ) -> anyhow::Result<HoldDecision> {
        self.end_hold(key, None, End::Expire, now).await
    }

    async fn end_hold(
        &self,
        key: &EventKey,
        wanted: Option<&str>,
        end: End<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<HoldDecision> {
        let pk = key.pk();
        let Some(item) = self.get(&pk, "M").await? else {
            return Ok(HoldDecision::Missing);
        };
        let row = Row::read(&item)?;
        let hold = row.hold.as_ref();
        let hold = hold.filter(|hold| wanted.is_none_or(|wanted| hold.id == wanted));
        let Some(hold) = hold else {
            return Ok(HoldDecision::Moved(Box::new(row)));
        };
        let change = match end {
            End::Approve(_) if hold.expires <= now => return Ok(HoldDecision::Expired),
            End::Approve(by) => {
                transition::approve(&row, hold, &hold.approval(by.who, now), by.why, now)
            }
            End::Reject(by) => transition::reject(&row, hold, by, now),
            End::Expire => transition::expire(&row, hold, now),
        };
        let old = match self.change(&pk, change).await? {
            Write::Applied(item) => {
                let row = Row::read(&item.unwrap_or_default())?;
                // The event may have waited so long that its body expires soon.
                self.hold_if_old(&row, now).await;
                return Ok(HoldDecision::Made(Box::new(row)));
            }
            Write::Refused(None) => return Ok(HoldDecision::Missing),
            Write::Refused(Some(old)) => Row::read(&old)?,
        };
        Ok(if is_ended(&old, hold, end, now) {
            HoldDecision::Made(Box::new(old))
        } else {
            HoldDecision::Moved(Box::new(old))
        })
    }

    /// Returns the held events of a source whose holds expire from `from` to `to`, first the one that
    /// expires first, and whether there are more than `limit`.
    pub async fn held(
        &self,
        source: &str,
        (from, to): (UnixMillis, UnixMillis),
        limit: i32,
    ) -> anyhow::Result<(Vec<EventKey>, bool)> {
        let query = self.table.query().index_name("work");
        let query = query
            .key_condition_expression("gpk = :part AND gsk BETWEEN :from AND :to")
            .projection_expression("pk")
            .expression_attribute_values(":part", item::s(held_partition(source)))
            .expression_attribute_values(":from", item::ms(from))
            .expression_attribute_values(":to", item::ms(to))
            .set_limit(Some(limit));
        let page = self
            .page(query, None)
            .await
            .context("list the held events")?;
        let page = page.read(super::pages::key_of);
        Ok((page.found, page.next.is_some()))
    }
}

impl Hold {
    /// Returns the names of the rules that hold the effect.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rule.split(", ")
    }

    fn approval(&self, who: &str, now: UnixMillis) -> Approval {
        Approval {
            hold: self.id.clone(),
            who: who.chars().take(LONGEST_TEXT).collect(),
            at: now,
            plan: self.plan.clone(),
            count: self.count,
        }
    }
}

/// Returns whether an earlier try of a refused change succeeded and its response was lost.
fn is_ended(row: &Row, hold: &Hold, end: End<'_>, now: UnixMillis) -> bool {
    let died = |reason| {
        row.state == State::DeadLetter
            && row.dead_at == Some(now)
            && row.reason.as_deref() == Some(reason)
    };
    match end {
        End::Approve(by) => {
            let approval = row.approvals.get(&hold.effect);
            approval == Approval::parse(&hold.approval(by.who, now).to_string()).as_ref()
        }
        End::Reject(_) => died(REJECTED),
        End::Expire => died(EXPIRED),
    }
}

impl Row {
    /// Returns whether the event waits for an approval.
    pub fn is_held(&self) -> bool {
        self.hold.is_some()
    }

    /// Returns the plan that an operator approved for an effect in this run.
    pub fn approved_plan(&self, effect: &str) -> Option<&str> {
        let approval = self.approvals.get(effect);
        approval.map(|approval| approval.plan.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approval_is_read_as_it_was_written() {
        let approval = Approval {
            hold: "a1".into(),
            who: "arn:aws:sts::111122223333:assumed-role/oncall/ann".into(),
            at: UnixMillis(5),
            plan: "b2".into(),
            count: 2,
        };
        assert_eq!(
            Approval::parse(&approval.to_string()),
            Some(approval.clone())
        );
        let who = "ann|eve".to_owned();
        let odd = Approval { who, ..approval };
        let read = Approval::parse(&odd.to_string()).unwrap();
        assert_eq!((read.who.as_str(), read.plan.as_str()), ("ann/eve", "b2"));
        for text in ["", "a", "a|b|c|d|1", "a|b|1|d", "a|b|1|d|x"] {
            assert_eq!(Approval::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_damaged_hold_is_still_a_hold() {
        let row = Item::from([("hld".to_owned(), item::s("x"))]);
        assert!(Hold::read(&row).is_some());
        assert!(Hold::read(&Item::new()).is_none());
    }
}
