//! Sees every write and every answer, and judges by them. It shares no code with production.

use std::collections::{HashMap, HashSet};

use crate::clock;
use crate::sender;
use crate::wire::dynamodb::{Changed, Item, Value};
use crate::wire::sqs::Message;

/// What is known of one event.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: bool,
    /// Invocations that died, froze or failed while they had a doorbell of it, or had claimed it.
    interrupted: u32,
    /// The invocation that claimed it last.
    held_by: Option<u64>,
    /// Outcomes that were recorded, by run.
    outcomes: HashMap<i128, u32>,
    retries: u64,
    /// When its row was written, and whether it is settled.
    arrived_at: Option<i64>,
    settled: bool,
    /// When each attempt began.
    claimed_at: HashMap<i128, i64>,
}

#[derive(Debug, Default)]
pub struct Witness {
    known: HashMap<usize, Known>,
    /// What each invocation that is at work has claimed.
    claimed: HashMap<u64, Vec<usize>>,
    /// Invocations that ended. What they asked for may still arrive.
    over: HashSet<u64>,
    /// Events that were taken from an invocation while it was at work, because it was too slow.
    overtaken: HashSet<(usize, u64)>,
    /// Outcomes that were changed after they had been recorded.
    pub changed_outcomes: u64,
    /// Claims that did not raise the fencing token, and the like.
    pub backward: u64,
    /// Attempts that began before they were due.
    pub early: u64,
    /// Calls for an event while an older one of its entity stood open that had been there before
    /// the attempt began.
    pub inversions: u64,
}

/// What is to be zero, and what is to be small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub events: u64,
    pub acknowledged: u64,
    pub done: u64,
    pub dead: u64,
    /// Acknowledged, and not in the ledger.
    pub lost: u64,
    /// Not settled at the end.
    pub stuck: u64,
    /// A second outcome in one run, or one that was taken back.
    pub double_outcomes: u64,
    /// The destination carried out an event more than once.
    pub double_effects: u64,
    /// Done in the ledger, and never carried out.
    pub hollow: u64,
    /// Dead letters that neither the destination nor a crash explains.
    pub unexplained: u64,
    /// Rows whose history does not fit their state.
    pub bad_histories: u64,
    /// Kept apart as if it were another event.
    pub false_conflicts: u64,
    /// Attempts before their time.
    pub early: u64,
    /// Entities whose newest version is not the one that the destination has at the end.
    pub stale: u64,
    /// Calls for an event before an older one of its entity that had arrived.
    pub inversions: u64,
    /// Messages left in the spill queue at the end.
    pub undrained: u64,
    /// Doorbells that were sent, to either queue. One that goes over from the backlog is no other.
    pub sent: u64,
    /// Of them, those that a processor moved to the backlog, because they had waited for long.
    pub moved: u64,
    /// Messages that were sent to the spill queue.
    pub spilled: u64,
    /// Messages that could not have been spared.
    pub needed: u64,
    pub calls: u64,
}

fn text<'i>(item: &'i Item, name: &str) -> &'i str {
    item.get(name).and_then(Value::text).unwrap_or_default()
}

fn number(item: &Item, name: &str) -> i128 {
    item.get(name).and_then(Value::number).unwrap_or(0)
}

fn is_settled(state: &str) -> bool {
    matches!(state, "done" | "dead_letter")
}

/// The event that a key names; what is kept apart has a longer key.
fn event_of(pk: &str) -> Option<usize> {
    let (_, id) = pk.split_once("#evt_")?;
    id.parse().ok()
}

impl Witness {
    pub fn acknowledged(&mut self, event: usize) {
        self.known.entry(event).or_default().acknowledged = true;
    }

    /// An invocation ended, and the messages of its batch that are `hurt` come again.
    ///
    /// A worker also goes on to events of which it has no message. Those that it left behind were
    /// interrupted as well.
    pub fn ended(&mut self, invocation: u64, batch: &[Message], hurt: impl Fn(&Message) -> bool) {
        self.over.insert(invocation);
        let event_of = |message: &Message| sender::event_of_doorbell(&message.body);
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
            // Once for each invocation.
            if !self.overtaken.remove(&(event, invocation)) {
                self.known.entry(event).or_default().interrupted += 1;
            }
        }
    }

    /// A call for an event whose entity has this many older versions.
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

    /// A write that was applied, by this invocation.
    pub fn saw(&mut self, changed: &Changed, invocation: u64) {
        let (Some(event), "M") = (event_of(&changed.pk), changed.sk.as_str()) else {
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
        // Also the sweep takes an event from a slow worker, when it gives the event up.
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
        // By the clock of the one who took it over, with the margin for all others.
        let begun = number(new, "lu") - 35_000;
        if claimed && before == "processing" && begun <= number(old, "lu") + 5_000 {
            self.early += 1;
        }
    }

    /// Judges what is in the ledger at the end.
    pub fn judge(&self, rows: &[(&str, &Item)], done: &[u32], asked: &[u32]) -> Figures {
        let mut figures = Figures {
            double_outcomes: self.changed_outcomes,
            early: self.early,
            bad_histories: self.backward,
            inversions: self.inversions,
            ..Figures::default()
        };
        let mut rows_of: HashMap<usize, &Item> = HashMap::new();
        for (pk, row) in rows {
            match event_of(pk) {
                Some(event) => {
                    rows_of.insert(event, row);
                }
                None => figures.false_conflicts += 1,
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

/// Whether a dead letter has a cause that happened.
fn explained(row: &Item, asked: u32, interrupted: u32) -> bool {
    match text(row, "reason") {
        "permanent" => asked >= 1,
        "attempts_exhausted" => asked + interrupted >= 10,
        "crash_loop" => interrupted >= 3,
        _ => false,
    }
}

/// Whether the history of a settled row tells one way to its end.
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
            undrained: self.undrained + other.undrained,
            sent: self.sent + other.sent,
            moved: self.moved + other.moved,
            spilled: self.spilled + other.spilled,
            needed: self.needed + other.needed,
            calls: self.calls + other.calls,
        }
    }

    /// Messages sent for each that was needed.
    pub fn amplification(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
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

    /// Taken by an invocation, and by another one, should there be any, after it.
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

    fn doorbell() -> Message {
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
        witness.ended(7, &[doorbell()], |_| true);
        assert_eq!(interrupted(&witness), 1);
        let mut witness = claimed(&[7]);
        witness.ended(7, &[doorbell()], |_| false);
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
        witness.ended(7, &[doorbell()], |_| true);
        assert_eq!(interrupted(&witness), 1);
        // The other one has it now, and dies.
        witness.ended(9, &[], |_| true);
        assert_eq!(interrupted(&witness), 2);
    }

    #[test]
    fn what_was_given_up_in_the_hands_of_a_slow_worker_was_interrupted_once() {
        let given_up = || changed(row("processing", "7", 1), row("dead_letter", "", 1));
        let mut witness = claimed(&[7]);
        witness.saw(&given_up(), 9);
        assert_eq!(interrupted(&witness), 1);
        witness.ended(7, &[doorbell()], |_| true);
        assert_eq!(interrupted(&witness), 1);
        // This one was dead by then.
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
