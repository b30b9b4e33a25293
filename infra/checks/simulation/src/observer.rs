//! Observes every write and every answer, and checks them. It shares no code with production.

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

/// Maximum number of backup-sync rounds until the key of a genuine request is fetched, regardless
/// of the keys that other callers name: one hour.
pub const KEY_ROUNDS: u32 = 12;

/// Maximum time until a catcher reads a fetched key.
const KEY_READ: Duration = Duration::from_secs(60);

/// A key that a genuine request named: when it was first named, and when it was fetched.
#[derive(Clone, Copy, Debug)]
struct Named {
    at: i64,
    given_out_at: Option<i64>,
}

/// The observed state of one event.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: bool,
    /// Invocations that crashed, froze or failed while they had a message of the event or had
    /// claimed it.
    interrupted: u32,
    /// The invocation that claimed the event last.
    held_by: Option<u64>,
    /// Recorded outcomes by run.
    outcomes: HashMap<i128, u32>,
    retries: u64,
    /// When the row was written, and whether it is settled.
    arrived_at: Option<i64>,
    settled: bool,
    /// When each attempt began.
    claimed_at: HashMap<i128, i64>,
}

#[derive(Debug, Default)]
pub struct Witness {
    known: HashMap<usize, Known>,
    /// The events that each running invocation has claimed.
    claimed: HashMap<u64, Vec<usize>>,
    /// Invocations that ended. Their requests may still arrive.
    over: HashSet<u64>,
    /// Events that were taken over from an invocation that was too slow but still running.
    overtaken: HashSet<(usize, u64)>,
    /// Outcomes that changed after they were recorded.
    pub changed_outcomes: u64,
    /// Claims that did not increase the fencing token, and similar errors.
    pub backward: u64,
    /// Attempts that began before they were due.
    pub early: u64,
    /// Calls for an event while an older event of its entity was open, which had arrived before the
    /// attempt began.
    pub inversions: u64,
    /// The event of each body that a genuine sender sends, by the hash in the rows. Empty without a
    /// stranger.
    genuine: HashMap<String, usize>,
    /// The first row of each event that may run.
    homes: HashMap<usize, String>,
    /// The keys with which genuine senders sign.
    named: BTreeMap<String, Named>,
    refused: u64,
    delayed: u64,
}

/// The figures of a run. Most must be zero, some must be small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub events: u64,
    pub acknowledged: u64,
    pub done: u64,
    pub dead: u64,
    /// Acknowledged, but not in the ledger.
    pub lost: u64,
    /// Not settled at the end.
    pub stuck: u64,
    /// A second outcome in one run, or an outcome that was revoked.
    pub double_outcomes: u64,
    /// The destination carried out an event more than once.
    pub double_effects: u64,
    /// Done in the ledger, but never carried out.
    pub hollow: u64,
    /// Dead letters without a cause at the destination and without a crash.
    pub unexplained: u64,
    /// Rows whose history does not match their state.
    pub bad_histories: u64,
    /// Events that were quarantined as conflicting with another event, without a reason.
    pub false_conflicts: u64,
    /// Attempts that began too early.
    pub early: u64,
    /// Entities whose version at the destination is not the newest at the end.
    pub stale: u64,
    /// Calls for an event before an older event of its entity that had arrived.
    pub inversions: u64,
    /// Rows that may run and were not caused by a genuine sender, or were caused a second time.
    pub forged: u64,
    /// Genuine requests that were rejected.
    pub refused: u64,
    /// Genuine requests that were rejected temporarily for longer than it takes to fetch a key.
    pub delayed: u64,
    /// Keys of genuine senders that were not fetched in time.
    pub unfetched: u64,
    /// Messages left in the spill queue at the end.
    pub undrained: u64,
    /// Messages sent to either queue. A message moved from the backlog queue counts once.
    pub sent: u64,
    /// The part of them that a processor moved to the backlog queue because they had waited too
    /// long.
    pub moved: u64,
    /// Messages that were sent to the spill queue.
    pub spilled: u64,
    /// Messages that were necessary.
    pub needed: u64,
    pub calls: u64,
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

/// The event of a key. A quarantined event has a longer key.
fn event_of(pk: &str) -> Option<usize> {
    let (_, id) = pk.split_once("#evt_")?;
    id.parse().ok()
}

impl Witness {
    /// With a stranger, the observer must know the bodies of genuine senders.
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

    /// Whether the provider has a key of this name.
    pub fn gave_out(&mut self, kid: &str) -> bool {
        let named = self.named.get_mut(kid);
        let now = clock::true_ms();
        named
            .map(|named| named.given_out_at.get_or_insert(now))
            .is_some()
    }

    /// Whether the event is in the ledger.
    pub fn has_row(&self, event: usize) -> bool {
        self.homes.contains_key(&event)
    }

    /// The event of a row that may run. With a stranger, event ids are not trustworthy: the body
    /// determines the event, and only one row of each event may run.
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

    /// Each key that a genuine sender named must have been fetched in time.
    fn unfetched(&self) -> u64 {
        let patience = (ROUND_EVERY * KEY_ROUNDS).as_millis();
        let late = |named: &&Named| {
            let took = named.given_out_at.map(|at| (at - named.at).unsigned_abs());
            took.is_none_or(|took| u128::from(took) > patience)
        };
        self.named.values().filter(late).count() as u64
    }

    pub fn acknowledged(&mut self, event: usize) {
        self.known.entry(event).or_default().acknowledged = true;
    }

    /// Records that an invocation ended. The messages of its batch that are `hurt` are received
    /// again.
    ///
    /// A worker also continues with events of which it has no message. Those that it did not finish
    /// were interrupted too.
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
            // Once per invocation.
            if !self.overtaken.remove(&(event, invocation)) {
                self.known.entry(event).or_default().interrupted += 1;
            }
        }
    }

    /// Records a call for an event whose entity has this many older versions.
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
        let (before, after) = (text(old, "st"), text(new, "st"));
        let same_run = number(old, "run") == number(new, "run") && changed.old.is_some();
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
        let claimed = after == "processing" && text(old, "own") != text(new, "own");
        if claimed {
            known
                .claimed_at
                .insert(number(new, "att"), clock::true_ms());
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
        // The sweep also takes an event from a slow worker when it makes the event a dead letter.
        if after != "processing"
            && let Some(holder) = known.held_by.take()
            && holder != invocation
            && !self.over.contains(&holder)
        {
            known.interrupted += 1;
            self.overtaken.insert((event, holder));
        }
        if number(new, "epoch") < number(old, "epoch") + i128::from(claimed) {
            self.backward += 1;
        }
        if claimed && before == "failed" && number(new, "lu") - 35_000 < number(old, "due") {
            self.early += 1;
        }
        // By the clock of the worker that took over, with the margin for the other clocks.
        let begun = number(new, "lu") - 35_000;
        if claimed && before == "processing" && begun <= number(old, "lu") + 5_000 {
            self.early += 1;
        }
    }

    /// Checks the ledger at the end.
    pub fn judge(&self, rows: &[(&str, &Item)], done: &[u32], asked: &[u32]) -> Figures {
        let mut figures = Figures {
            double_outcomes: self.changed_outcomes,
            early: self.early,
            bad_histories: self.backward,
            inversions: self.inversions,
            refused: self.refused,
            delayed: self.delayed,
            unfetched: self.unfetched(),
            ..Figures::default()
        };
        let mut rows_of: HashMap<usize, &Item> = HashMap::new();
        for (pk, row) in rows {
            match self.judged(pk, row) {
                Judged::Of(event) => {
                    rows_of.insert(event, row);
                }
                Judged::Quarantined => {}
                Judged::Forged => figures.forged += 1,
                Judged::KeptApart => figures.false_conflicts += 1,
            }
        }
        let nothing = Known::default();
        for (event, carried_out) in done.iter().enumerate() {
            figures.events += 1;
            let known = self.known.get(&event).unwrap_or(&nothing);
            figures.acknowledged += u64::from(known.acknowledged);
            figures.needed += known.retries;
            figures.double_effects += u64::from(*carried_out > 1);
            figures.double_outcomes +=
                known.outcomes.values().filter(|count| **count > 1).count() as u64;
            let Some(row) = rows_of.get(&event) else {
                figures.lost += u64::from(known.acknowledged);
                continue;
            };
            figures.needed += 1;
            match text(row, "st") {
                "done" => {
                    figures.done += 1;
                    figures.hollow += u64::from(*carried_out == 0);
                }
                "dead_letter" => {
                    figures.dead += 1;
                    let tried = asked.get(event).copied().unwrap_or(0);
                    figures.unexplained += u64::from(!explained(row, tried, known.interrupted));
                }
                _ => figures.stuck += 1,
            }
            figures.bad_histories += u64::from(!fits(row));
        }
        figures
    }
}

/// The meaning of a row for the check.
enum Judged {
    Of(usize),
    /// The stranger caused the row, and it does not run.
    Quarantined,
    /// The stranger caused the row, and it may run.
    Forged,
    /// Without a stranger, no row may have another name.
    KeptApart,
}

impl Witness {
    fn judged(&self, pk: &str, row: &Item) -> Judged {
        if self.genuine.is_empty() {
            return event_of(pk).map_or(Judged::KeptApart, Judged::Of);
        }
        if text(row, "st") == QUARANTINED {
            return Judged::Quarantined;
        }
        match self.sent(row) {
            Some(event) if self.homes.get(&event).is_some_and(|home| home == pk) => {
                Judged::Of(event)
            }
            _ => Judged::Forged,
        }
    }
}

/// Whether a dead letter has a cause that happened.
fn explained(row: &Item, asked: u32, interrupted: u32) -> bool {
    match text(row, "reason") {
        "permanent" => asked >= 1,
        "attempts_exhausted" => asked + interrupted >= 10,
        "crash_loop" => interrupted >= 3,
        _ => false,
    }
}

/// Whether the history of a settled row leads to exactly one end.
fn fits(row: &Item) -> bool {
    let state = text(row, "st");
    if !is_settled(state) {
        return true;
    }
    let Some(Value::L(list)) = row.get("h") else {
        return false;
    };
    let entries: Vec<Vec<&str>> = list
        .iter()
        .filter_map(Value::text)
        .map(|entry| entry.split('|').collect())
        .collect();
    let ends = entries
        .iter()
        .filter(|entry| entry.get(1).is_some_and(|what| is_settled(what)))
        .count();
    let last = entries.last().and_then(|entry| entry.get(1)).copied();
    let attempts: Vec<u32> = entries
        .iter()
        .filter_map(|entry| entry.get(2)?.parse().ok())
        .collect();
    ends == 1
        && last == Some(state)
        && attempts.is_sorted()
        && row.get("own").is_none()
        && row.get("lu").is_none()
}

impl Figures {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            events: self.events + other.events,
            acknowledged: self.acknowledged + other.acknowledged,
            done: self.done + other.done,
            dead: self.dead + other.dead,
            lost: self.lost + other.lost,
            stuck: self.stuck + other.stuck,
            double_outcomes: self.double_outcomes + other.double_outcomes,
            double_effects: self.double_effects + other.double_effects,
            hollow: self.hollow + other.hollow,
            unexplained: self.unexplained + other.unexplained,
            bad_histories: self.bad_histories + other.bad_histories,
            false_conflicts: self.false_conflicts + other.false_conflicts,
            early: self.early + other.early,
            stale: self.stale + other.stale,
            inversions: self.inversions + other.inversions,
            forged: self.forged + other.forged,
            refused: self.refused + other.refused,
            delayed: self.delayed + other.delayed,
            unfetched: self.unfetched + other.unfetched,
            undrained: self.undrained + other.undrained,
            sent: self.sent + other.sent,
            moved: self.moved + other.moved,
            spilled: self.spilled + other.spilled,
            needed: self.needed + other.needed,
            calls: self.calls + other.calls,
        }
    }

    /// Messages sent per message needed.
    pub fn amplification(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a ratio for display")]
        let ratio = self.sent as f64 / self.needed.max(1) as f64;
        ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: usize = 5;

    fn row(state: &str, owner: &str, epoch: i64) -> Item {
        let text = |value: &str| Value::S(value.to_owned());
        let row = [
            ("st", text(state)),
            ("own", text(owner)),
            ("epoch", Value::N(epoch.to_string())),
        ];
        row.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn changed(old: Item, new: Item) -> Changed {
        Changed {
            pk: format!("E#s#evt_{EVENT:09}"),
            sk: "M".into(),
            old: Some(old),
            new: Some(new),
        }
    }

    /// An event that these invocations claimed one after the other.
    fn claimed(by: &[u64]) -> Witness {
        let mut witness = Witness::default();
        let mut before = row("received", "", 0);
        for (epoch, invocation) in (1..).zip(by) {
            let after = row("processing", &invocation.to_string(), epoch);
            witness.saw(&changed(before, after.clone()), *invocation);
            before = after;
        }
        witness
    }

    fn work_message() -> Message {
        Message {
            id: 1,
            body: format!("E#s#evt_{EVENT:09}"),
            sent_at: 0,
            receives: 1,
        }
    }

    fn interrupted(witness: &Witness) -> u32 {
        witness.known[&EVENT].interrupted
    }

    #[test]
    fn what_a_worker_had_no_message_of_was_interrupted_too() {
        let mut witness = claimed(&[7]);
        witness.ended(8, &[], |_| true);
        assert_eq!(interrupted(&witness), 0);
        witness.ended(7, &[], |_| true);
        assert_eq!(interrupted(&witness), 1);
    }

    #[test]
    fn what_it_had_a_message_of_was_interrupted_once() {
        let mut witness = claimed(&[7]);
        witness.ended(7, &[work_message()], |_| true);
        assert_eq!(interrupted(&witness), 1);
        let mut witness = claimed(&[7]);
        witness.ended(7, &[work_message()], |_| false);
        assert_eq!(interrupted(&witness), 0);
    }

    #[test]
    fn what_it_had_settled_was_not_interrupted() {
        let mut witness = claimed(&[7]);
        let settled = changed(row("processing", "7", 1), row("done", "", 1));
        witness.saw(&settled, 7);
        witness.ended(7, &[], |_| true);
        assert_eq!(interrupted(&witness), 0);
    }

    #[test]
    fn what_was_taken_from_a_slow_worker_was_interrupted_once() {
        let mut witness = claimed(&[7, 9]);
        assert_eq!(interrupted(&witness), 1);
        witness.ended(7, &[work_message()], |_| true);
        assert_eq!(interrupted(&witness), 1);
        // The other invocation holds the event now, and crashes.
        witness.ended(9, &[], |_| true);
        assert_eq!(interrupted(&witness), 2);
    }

    #[test]
    fn what_was_given_up_in_the_hands_of_a_slow_worker_was_interrupted_once() {
        let given_up = || changed(row("processing", "7", 1), row("dead_letter", "", 1));
        let mut witness = claimed(&[7]);
        witness.saw(&given_up(), 9);
        assert_eq!(interrupted(&witness), 1);
        witness.ended(7, &[work_message()], |_| true);
        assert_eq!(interrupted(&witness), 1);
        // This invocation had already ended.
        let mut witness = claimed(&[7]);
        witness.ended(7, &[], |_| true);
        witness.saw(&given_up(), 9);
        assert_eq!(interrupted(&witness), 1);
    }

    #[test]
    fn a_claim_that_arrives_after_its_worker_died_was_interrupted() {
        let mut witness = Witness::default();
        witness.ended(7, &[], |_| true);
        let claim = changed(row("received", "", 0), row("processing", "7", 1));
        witness.saw(&claim, 7);
        assert_eq!(interrupted(&witness), 1);
    }
}
