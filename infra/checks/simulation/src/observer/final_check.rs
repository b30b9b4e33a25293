//! Checks the ledger at the end of a run.

use std::collections::HashMap;

use shared::base::timing::ROUND_EVERY;

use super::agents::ends_a_hold;
use super::{Figures, KEY_ROUNDS, Known, Named, QUARANTINED, Witness, event_of, is_settled, text};
use crate::agents::ATTEMPTS;
use crate::wire::dynamodb::{Item, Value};

impl Witness {
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
            stale_writes: self.agents.stale_writes,
            unapproved: self.agents.unapproved,
            misplaced: self.agents.misplaced,
            trespasses: self.agents.trespasses,
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
                    let explained = explained(row, tried, known)
                        || known.is_worn_out(row)
                        || self.agents.is_forgotten(event, row);
                    figures.unexplained += u64::from(!explained);
                }
                _ => figures.stuck += 1,
            }
            figures.bad_histories += u64::from(!fits(row));
        }
        figures
    }

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

    /// Returns the number of keys that a genuine sender named and that were not fetched in time.
    fn unfetched(&self) -> u64 {
        let patience = (ROUND_EVERY * KEY_ROUNDS).as_millis();
        let late = |named: &&Named| {
            let took = named.given_out_at.map(|at| (at - named.at).unsigned_abs());
            took.is_none_or(|took| u128::from(took) > patience)
        };
        self.named.values().filter(late).count() as u64
    }
}

/// How the final check classifies a row.
enum Judged {
    Of(usize),
    /// The stranger caused the row, and it does not run.
    Quarantined,
    /// The stranger caused the row, and the row may run.
    Forged,
    /// The row has another name, which no row may have without a stranger.
    KeptApart,
}

/// Returns whether a dead letter has a cause that happened.
fn explained(row: &Item, asked: u32, known: &Known) -> bool {
    let interrupted = known.interrupted;
    match text(row, "reason") {
        "permanent" => asked >= 1,
        "refused" => asked + interrupted >= 6,
        "attempts_exhausted" => asked + interrupted >= 10,
        "crash_loop" => interrupted >= 3,
        _ => false,
    }
}

impl Known {
    /// Returns whether workers outside of Lambda used all attempts. An attempt can end without a
    /// call.
    fn is_worn_out(&self, row: &Item) -> bool {
        let last = i128::from(ATTEMPTS);
        text(row, "reason") == "attempts_exhausted" && self.claimed_at.contains_key(&last)
    }
}

/// Returns whether the history of a settled row leads to exactly one end.
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
    let is_end = |what: &str| is_settled(what) || ends_a_hold(what);
    let words: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry.get(1).copied())
        .collect();
    let ends = words.iter().filter(|what| is_end(what)).count();
    let last = words.last().copied().unwrap_or_default();
    let ended = last == state || (state == "dead_letter" && ends_a_hold(last));
    // The attempts of a worker begin at one, and a held attempt does not count.
    let mut runs = entries.split(|entry| is_a_wait(entry));
    let sorted = runs.all(|run| {
        let attempts = run
            .iter()
            .filter_map(|entry| entry.get(2)?.parse::<u32>().ok());
        attempts.is_sorted()
    });
    ends == 1 && ended && sorted && row.get("own").is_none() && row.get("lu").is_none()
}

/// Returns whether the event waited for a worker or for a person after this entry.
fn is_a_wait(entry: &[&str]) -> bool {
    matches!(entry.get(1), Some(&("parked" | "held")))
}
