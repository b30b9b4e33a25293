//! Limits the calls to a destination to its rate, across all processes.
//!
//! Each call takes a ticket of the current window. If the number of the ticket is at most the rate,
//! the call may start now. A higher number determines a later window, in which the event takes a
//! new ticket. So the waiting events are spread over the later windows, and do not return at the
//! same time.
//!
//! | pk | sk | |
//! |---|---|---|
//! | `SYS` | `RATE#{destination}#{window}` | tickets `n` of the window; `ttl` |

use std::time::Duration;

use anyhow::Context as _;

use crate::aws::TableClient;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::item;
use crate::inbox::table::{Change, Returns, Table, Write};
use crate::sources::Rate;

/// The maximum time for a call to the counter, which must not delay the work.
const PATIENCE: Duration = Duration::from_millis(800);

/// The maximum wait behind other events. The rest of the current window and up to one window of
/// jitter are added to this wait.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long the item of a window is kept after its end.
const KEEP: Duration = Duration::from_secs(3600);

/// The counters of all destinations that have a rate.
#[derive(Clone, Debug)]
pub struct Rates {
    table: Table,
}

/// The time when a call may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Now,
    /// The event must take a new ticket at this time.
    At(UnixMillis),
}

impl Rates {
    pub fn new(dynamodb: impl Into<TableClient>, table: impl Into<String>) -> Self {
        Self {
            table: Table::new(dynamodb, table),
        }
    }

    /// Takes a ticket. `jitter` is in 0..=1. If half of the window's tickets are taken, an `old`
    /// event gets no ticket, and must wait for a later window.
    ///
    /// If the SDK repeats an update that DynamoDB has already applied, the call takes two tickets.
    /// The number of calls can then be lower than the rate allows, but never higher.
    pub async fn take(
        &self,
        destination: &str,
        rate: Rate,
        old: bool,
        now: UnixMillis,
        jitter: f64,
    ) -> anyhow::Result<Turn> {
        let window = window(rate, now);
        let condition = if old {
            "attribute_not_exists(n) OR n < :half"
        } else {
            ""
        };
        let ttl = item::n((now + rate.window + KEEP).secs());
        let mut change = Change::new(
            "count a call to a destination",
            condition,
            "SET #ttl = :ttl ADD n :one",
        )
        .named("#ttl", "ttl")
        .with(":one", item::n(1))
        .with(":ttl", ttl);
        if old {
            change = change.with(":half", item::n(rate.half().calls));
        }
        let sk = format!("RATE#{destination}#{window}");
        let count = self.table.update(("SYS", &sk), change, Returns::Updated);
        let answer = tokio::time::timeout(PATIENCE, count).await;
        let Write::Applied(counted) =
            answer.context("count a call to a destination: the update timed out")??
        else {
            return Ok(turn(rate, window, rate.calls + 1, jitter));
        };
        let counted = counted.unwrap_or_default();
        let ticket = item::number(&counted, "n")
            .context("count a call to a destination: the response contains no count")?;
        Ok(turn(rate, window, ticket, jitter))
    }
}

/// Returns the number of the window that contains a time.
fn window(rate: Rate, now: UnixMillis) -> i64 {
    now.0.div_euclid(millis(rate))
}

/// Returns the time when the call with this ticket may start. Tickets are counted from 1.
fn turn(rate: Rate, window: i64, ticket: u32, jitter: f64) -> Turn {
    let behind = ticket.saturating_sub(1) / rate.calls;
    if behind == 0 {
        return Turn::Now;
    }
    let begins = UnixMillis(window.saturating_add(1).saturating_mul(millis(rate)));
    let line = rate.window.saturating_mul(behind - 1).min(LONGEST);
    Turn::At(begins + line + rate.window.mul_f64(jitter.clamp(0.0, 1.0)))
}

fn millis(rate: Rate) -> i64 {
    i64::try_from(rate.window.as_millis())
        .unwrap_or(1000)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate {
        calls: 3,
        window: Duration::from_secs(60),
    };

    #[test]
    fn those_who_wait_stand_in_a_line() {
        let window = window(RATE, UnixMillis(1_900_000_030_000));
        let begins = UnixMillis(window * 60_000);
        let minutes = |ticket| match turn(RATE, window, ticket, 0.0) {
            Turn::Now => 0,
            Turn::At(at) => at.since(begins).as_secs() / 60,
        };
        let turns: Vec<u64> = (1..=10).map(minutes).collect();
        assert_eq!(turns, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]);
        assert_eq!(minutes(u32::MAX), 61);
        let Turn::At(late) = turn(RATE, window, 4, 1.0) else {
            panic!()
        };
        assert_eq!(late.since(begins).as_secs(), 120);
    }
}
