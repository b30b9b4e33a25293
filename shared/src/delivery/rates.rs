//! Keeps calls of a destination within its rate, over all processes.
//!
//! Whoever wants to call takes a ticket of the present window. The first so many go through; the
//! number of another says in which later window its turn comes, so that those who wait stand in a
//! line and do not come back together.
//!
//! | pk | sk | |
//! |---|---|---|
//! | `SYS` | `RATE#{destination}#{window}` | tickets `n` of the window; `ttl` |

use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::ReturnValue;

use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, item};
use crate::sources::Rate;

/// The counter is a help, and must not hold up work.
const PATIENCE: Duration = Duration::from_millis(800);

/// Nobody is sent further back than this, however long the line.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long a window is remembered after its end.
const KEEP: Duration = Duration::from_secs(3600);

/// The counters of all destinations that have a rate.
#[derive(Clone, Debug)]
pub struct Rates {
    dynamodb: aws_sdk_dynamodb::Client,
    table: String,
}

/// When a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Now,
    /// Then a ticket has to be taken again.
    At(UnixMillis),
}

impl Rates {
    pub fn new(dynamodb: aws_sdk_dynamodb::Client, table: impl Into<String>) -> Self {
        Self {
            dynamodb,
            table: table.into(),
        }
    }

    /// Takes a ticket. `jitter` is in 0..=1. What is `old` finds none when half of the window's are
    /// taken, and takes none away then.
    ///
    /// A second try by the SDK of a count that had been made takes two: the rate is an upper
    /// bound, and stays one.
    pub async fn take(
        &self,
        destination: &str,
        rate: Rate,
        old: bool,
        now: UnixMillis,
        jitter: f64,
    ) -> anyhow::Result<Turn> {
        let window = window(rate, now);
        let mut values = Item::from([
            (":one".to_owned(), item::n(1)),
            (
                ":ttl".to_owned(),
                item::n((now + rate.window + KEEP).secs()),
            ),
        ]);
        let request = self
            .dynamodb
            .update_item()
            .table_name(&self.table)
            .key("pk", item::s("SYS"))
            .key("sk", item::s(format!("RATE#{destination}#{window}")))
            .update_expression("SET #ttl = :ttl ADD n :one")
            .expression_attribute_names("#ttl", "ttl")
            .return_values(ReturnValue::UpdatedNew);
        let request = if old {
            values.insert(":half".to_owned(), item::n(rate.half().calls));
            request.condition_expression("attribute_not_exists(n) OR n < :half")
        } else {
            request
        };
        let request = request.set_expression_attribute_values(Some(values)).send();
        let answer = tokio::time::timeout(PATIENCE, request).await;
        let answer = answer.context("count a call: no answer in time")?;
        if let Err(error) = &answer
            && error
                .as_service_error()
                .is_some_and(UpdateItemError::is_conditional_check_failed_exception)
        {
            return Ok(turn(rate, window, rate.calls + 1, jitter));
        }
        let counted = answer
            .context("count a call")?
            .attributes
            .unwrap_or_default();
        let ticket = item::number(&counted, "n").context("count a call: there is no count")?;
        Ok(turn(rate, window, ticket, jitter))
    }
}

/// The number of the window that a time is in.
fn window(rate: Rate, now: UnixMillis) -> i64 {
    now.0.div_euclid(millis(rate))
}

/// When the turn of a ticket is, counted from 1.
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
