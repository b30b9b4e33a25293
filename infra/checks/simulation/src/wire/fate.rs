//! The faults of a call between the production code and a store.

use std::time::Duration;

use crate::rng::Dice;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    DynamoDb,
    Sqs,
    Ssm,
    S3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Arrives,
    /// The call never reaches the store.
    Unreached,
    /// The store answers with a status and an error code, and does nothing else.
    Refused(u16, &'static str),
    /// The call never reaches the store, and no error is returned.
    Hangs,
    /// The call is applied, and the connection breaks before the answer.
    AnswerCut,
    /// The call is applied, and the answer never arrives.
    AnswerLost,
    /// The call is applied after its caller has timed out.
    Late(Duration),
}

/// The number of times that each fault happens in ten thousand calls.
#[derive(Clone, Copy, Debug)]
pub struct Odds {
    pub unreached: u64,
    pub refused: u64,
    pub throttled: u64,
    /// For DynamoDB: the share of calls whose item another transaction uses.
    pub conflict: u64,
    pub hangs: u64,
    pub answer_cut: u64,
    pub answer_lost: u64,
    pub late: u64,
}

impl Odds {
    /// No faults.
    pub const NONE: Self = Self {
        unreached: 0,
        refused: 0,
        throttled: 0,
        conflict: 0,
        hangs: 0,
        answer_cut: 0,
        answer_lost: 0,
        late: 0,
    };

    /// Fault rates with which eight of a hundred calls fail in some way.
    pub const ROUGH: Self = Self {
        unreached: 100,
        refused: 100,
        throttled: 100,
        conflict: 100,
        hangs: 50,
        answer_cut: 150,
        answer_lost: 100,
        late: 100,
    };

    pub fn draw(&self, service: Service, dice: &mut Dice) -> Fate {
        let mut left = dice.below(10_000);
        let mut is = |share: u64| {
            let hit = left < share;
            left = if hit { u64::MAX } else { left - share };
            hit
        };
        if is(self.unreached) {
            Fate::Unreached
        } else if is(self.refused) {
            Fate::Refused(500, "InternalServerError")
        } else if is(self.throttled) {
            Fate::Refused(400, "ThrottlingException")
        } else if service == Service::DynamoDb && is(self.conflict) {
            Fate::Refused(400, "TransactionConflictException")
        } else if is(self.hangs) {
            Fate::Hangs
        } else if is(self.answer_cut) {
            Fate::AnswerCut
        } else if is(self.answer_lost) {
            Fate::AnswerLost
        } else if is(self.late) {
            Fate::Late(Duration::from_millis(dice.between(200, 20_000)))
        } else {
            Fate::Arrives
        }
    }
}

/// A time span in which something is down, in milliseconds of the simulation.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub what: Down,
    pub from_ms: i64,
    pub to_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Down {
    Service(Service),
    Processor,
    Sweep,
}

impl Outage {
    pub fn covers(&self, what: Down, elapsed_ms: i64) -> bool {
        self.what == what && (self.from_ms..self.to_ms).contains(&elapsed_ms)
    }
}
