//! Observes every write and every answer, and checks them. It shares no code with production.

mod agents;
mod figures;
mod final_check;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use shared::base::timing::ROUND_EVERY;

use crate::clock;
use crate::scenario::Scenario;
use crate::sender;
use crate::webhook;
use crate::wire::dynamodb::{Changed, Item, Value};
use crate::wire::sqs::Message;
use agents::Agents;
pub use figures::Figures;

/// The maximum number of backup-sync rounds until the key of a genuine request is fetched,
/// regardless of the keys that other callers name. These rounds take one hour.
pub const KEY_ROUNDS: u32 = 12;

/// The maximum time until a catcher reads a fetched key.
const KEY_READ: Duration = Duration::from_secs(60);

/// The times at which a genuine request first named a key, and at which the key was fetched.
#[derive(Clone, Copy, Debug)]
struct Named {
    at: i64,
    given_out_at: Option<i64>,
}

/// The observed state of one event.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: bool,
    /// The number of invocations that crashed, froze or failed while they had a message of the
    /// event or had claimed it.
    interrupted: u32,
    /// The invocation that made the newest claim of the event.
    held_by: Option<u64>,
    /// The number of recorded outcomes by run.
    outcomes: HashMap<i128, u32>,
    retries: u64,
    /// The time at which the row was written, and whether it is settled.
    arrived_at: Option<i64>,
    settled: bool,
    /// The time at which each attempt began.
    claimed_at: HashMap<i128, i64>,
}

#[derive(Debug, Default)]
pub struct Witness {
    known: HashMap<usize, Known>,
    /// The events that each running invocation has claimed.
    claimed: HashMap<u64, Vec<usize>>,
    /// Invocations that have ended. Their requests can still arrive.
    over: HashSet<u64>,
    /// Events that were taken over from an invocation that was too slow but still running.
    overtaken: HashSet<(usize, u64)>,
    /// The number of outcomes that changed after they were recorded.
    pub changed_outcomes: u64,
    /// The number of claims that did not increase the fencing token, and of similar errors.
    pub backward: u64,
    /// The number of attempts that began before they were due.
    pub early: u64,
    /// The number of calls for an event while an older event of its entity was open, which had
    /// arrived before the attempt began.
    pub inversions: u64,
    /// The event of each body that a genuine sender sends, by the hash in the rows. Empty without a
    /// stranger.
    genuine: HashMap<String, usize>,
    /// The first row that may run, for each event.
    homes: HashMap<usize, String>,
    /// The keys with which genuine senders sign.
    named: BTreeMap<String, Named>,
    refused: u64,
    delayed: u64,
    agents: Agents,
}

const QUARANTINED: &str = "quarantined";

fn text<'i>(item: &'i Item, name: &str) -> &'i str {
    item.get(name).and_then(Value::text).unwrap_or_default()
}

fn number(item: &Item, name: &str) -> i128 {
    item.get(name).and_then(Value::number).unwrap_or(0)
}

fn is_settled(state: &str) -> bool {
    matches!(state, "done" | "dead_letter")
}

/// Returns the event of a key. A quarantined event has a longer key.
fn event_of(pk: &str) -> Option<usize> {
    let (_, id) = pk.split_once("#evt_")?;
    id.parse().ok()
}

impl Witness {
    /// Creates an observer. With a stranger, it must know the bodies of genuine senders.
    pub fn of(scenario: &Scenario) -> Self {
        let events = match scenario.stranger {
            Some(_) => scenario.events,
            None => 0,
        };
        let genuine = (0..events).map(|event| {
            let body = webhook::body_of(scenario, event);
            (STANDARD.encode(Sha256::digest(body)), event)
        });
        Self {
            genuine: genuine.collect(),
            agents: Agents::of(scenario),
            ..Self::default()
        }
    }

    /// Records the answer to a request of a genuine sender. The request may name a key.
    pub fn told(&mut self, status: Option<u16>, kid: Option<String>) {
        let now = clock::true_ms();
        let waits_from = kid.map(|kid| {
            let named = Named {
                at: now,
                given_out_at: None,
            };
            self.named.entry(kid).or_insert(named).at
        });
        match status {
            Some(200..300) => {}
            Some(400..500) => self.refused += 1,
            _ => {
                let patience = (ROUND_EVERY * KEY_ROUNDS + KEY_READ).as_millis();
                let late = |from: i64| u128::from((now - from).unsigned_abs()) > patience;
                self.delayed += u64::from(waits_from.is_none_or(late));
            }
        }
    }

    /// Records that an invocation answers a request about a lease with this fencing token.
    pub fn leased(&mut self, invocation: u64, event: usize, epoch: i128) {
        self.agents.leased(invocation, event, epoch);
    }

    /// Records a call of such a worker.
    pub fn called(&mut self, event: usize) {
        self.agents.called(event);
    }

    /// Records that the provider returned a key. Returns whether the provider has a key of this
    /// name.
    pub fn gave_out(&mut self, kid: &str) -> bool {
        let named = self.named.get_mut(kid);
        let now = clock::true_ms();
        named
            .map(|named| named.given_out_at.get_or_insert(now))
            .is_some()
    }

    /// Returns whether the event is in the ledger.
    pub fn has_row(&self, event: usize) -> bool {
        self.homes.contains_key(&event)
    }

    /// Returns the event of a row that may run. With a stranger, event ids are not trustworthy, so
    /// the body determines the event, and only one row of each event may run.
    fn event_of_row(&mut self, pk: &str, row: &Item) -> Option<usize> {
        if self.genuine.is_empty() {
            return event_of(pk);
        }
        if text(row, "st") == QUARANTINED {
            return None;
        }
        let event = self.sent(row)?;
        let home = self.homes.entry(event).or_insert_with(|| pk.to_owned());
        (home == pk).then_some(event)
    }

    fn sent(&self, row: &Item) -> Option<usize> {
        match row.get("sha")? {
            Value::B(sha) => self.genuine.get(sha).copied(),
            _ => None,
        }
    }

    pub fn acknowledged(&mut self, event: usize) {
        self.known.entry(event).or_default().acknowledged = true;
    }

    /// Records that an invocation ended. The queue delivers the messages of its batch that are
    /// `hurt` again.
    ///
    /// A worker also processes events without a message in its batch. If the worker did not finish
    /// them, they were interrupted too.
    pub fn ended(&mut self, invocation: u64, batch: &[Message], hurt: impl Fn(&Message) -> bool) {
        self.over.insert(invocation);
        let event_of = |message: &Message| sender::event_of_message(&message.body);
        let named: HashSet<usize> = batch.iter().filter_map(event_of).collect();
        let hurt = batch.iter().filter(|message| hurt(message));
        let mut interrupted: HashSet<usize> = hurt.filter_map(event_of).collect();
        let claimed = self.claimed.remove(&invocation).unwrap_or_default();
        interrupted.extend(claimed.into_iter().filter(|event| {
            let known = self.known.get(event);
            let held = known.is_some_and(|known| known.held_by == Some(invocation));
            held && !named.contains(event)
        }));
        for event in interrupted {
            // Each invocation counts once.
            if !self.overtaken.remove(&(event, invocation)) {
                self.known.entry(event).or_default().interrupted += 1;
            }
        }
    }

    /// Records a call for an event whose entity has `older` older versions.
    pub fn asked_in_order(&mut self, event: usize, older: usize, attempt: i128) {
        let claimed = self.known.get(&event);
        let Some(claimed_at) = claimed
            .and_then(|known| known.claimed_at.get(&attempt))
            .copied()
        else {
            return;
        };
        let before = (event - older..event).filter_map(|other| self.known.get(&other));
        let waits = |known: &Known| {
            !known.settled
                && known
                    .arrived_at
                    .is_some_and(|arrived_at| arrived_at < claimed_at)
        };
        self.inversions += u64::from(before.into_iter().any(waits));
    }

    /// Records a write that was applied by this invocation.
    pub fn saw(&mut self, changed: &Changed, invocation: u64) {
        let row = changed.new.as_ref().or(changed.old.as_ref());
        let (Some(row), "M") = (row, changed.sk.as_str()) else {
            return;
        };
        let Some(event) = self.event_of_row(&changed.pk, row) else {
            return;
        };
        let nothing = Item::new();
        let old = changed.old.as_ref().unwrap_or(&nothing);
        let Some(new) = &changed.new else {
            self.backward += 1;
            return;
        };
        self.saw_outcome(event, old, new);
        self.agents.saw(event, old, new, invocation);
        let claimed = text(new, "st") == "processing" && text(old, "own") != text(new, "own");
        if claimed {
            self.saw_claim(event, number(new, "att"), invocation);
        }
        if text(new, "st") != "processing" {
            self.saw_end_of_claim(event, invocation);
        }
        if number(new, "epoch") < number(old, "epoch") + i128::from(claimed) {
            self.backward += 1;
        }
        if claimed && is_early(old, new) {
            self.early += 1;
        }
    }

    fn saw_outcome(&mut self, event: usize, old: &Item, new: &Item) {
        let (before, after) = (text(old, "st"), text(new, "st"));
        let same_run = number(old, "run") == number(new, "run");
        let known = self.known.entry(event).or_default();
        known.arrived_at.get_or_insert_with(clock::true_ms);
        known.settled = is_settled(after);
        let written_again = is_settled(before)
            && same_run
            && (before != after || text(old, "done_by") != text(new, "done_by"));
        if written_again {
            self.changed_outcomes += 1;
        }
        if is_settled(after) && (!is_settled(before) || written_again) {
            *known.outcomes.entry(number(new, "run")).or_default() += 1;
        }
        if after == "failed" && before != "failed" {
            known.retries += 1;
        }
    }

    fn saw_claim(&mut self, event: usize, attempt: i128, invocation: u64) {
        let known = self.known.entry(event).or_default();
        known.claimed_at.insert(attempt, clock::true_ms());
        if let Some(slow) = known.held_by.replace(invocation)
            && !self.over.contains(&slow)
        {
            known.interrupted += 1;
            self.overtaken.insert((event, slow));
        }
        if self.over.contains(&invocation) {
            known.interrupted += 1;
        } else {
            self.claimed.entry(invocation).or_default().push(event);
        }
    }

    /// Records the end of a claim. The sweep also takes an event from a slow worker when it makes
    /// the event a dead letter.
    fn saw_end_of_claim(&mut self, event: usize, invocation: u64) {
        let known = self.known.entry(event).or_default();
        if let Some(holder) = known.held_by.take()
            && holder != invocation
            && !self.over.contains(&holder)
        {
            known.interrupted += 1;
            self.overtaken.insert((event, holder));
        }
    }
}

/// Returns whether an attempt began before its retry was due, or before the lease of the previous
/// attempt ended.
fn is_early(old: &Item, new: &Item) -> bool {
    let begun = agents::claimed_at(new).unwrap_or(number(new, "lu") - 35_000);
    match text(old, "st") {
        "failed" => begun < number(old, "due"),
        // The comparison uses the clock of the worker that took over, with a margin for the
        // difference from other clocks.
        "processing" => begun <= number(old, "lu") + 5_000,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
