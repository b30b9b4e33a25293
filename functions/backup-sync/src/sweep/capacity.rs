//! Tracks how many messages of the sweep the queues can still take.
//!
//! A reservation counts before its message is sent. Rows are checked in parallel, and without
//! reservations each row would see the same capacity.

use std::collections::VecDeque;

use shared::base::timing::{BACKLOG_BATCH, DEPTH_LAG};
use shared::inbox::ledger::{Capacity, CapacityRequest};
use shared::inbox::queue::QueueName;
use tokio::time::Instant;

/// The number of messages in a queue above which the sweep sends none. A simulation showed that
/// without this limit a sweep multiplies the messages, and the queue never becomes empty.
pub(super) const DEPTH: u64 = 1_000;

/// The fill level of the two queues, as far as the sweep knows it.
pub(super) struct SendCapacity {
    live: QueueFill,
    backlog: QueueFill,
}

/// The fill level of one queue.
struct QueueFill {
    /// The number of messages that can be added.
    left: u64,
    /// The number of messages that were in the queue before and can still belong to any row.
    unclaimed: u64,
    /// The times of recent reservations whose messages the depth does not include yet.
    given: VecDeque<Instant>,
}

impl QueueFill {
    fn new(depth: u64, unclaimed: u64) -> Self {
        Self {
            left: DEPTH.saturating_sub(depth),
            unclaimed,
            given: VecDeque::new(),
        }
    }

    /// Updates the fill level with a new depth.
    fn renew(&mut self, depth: u64, now: Instant) {
        while self.given.front().is_some_and(|at| now - *at >= DEPTH_LAG) {
            self.given.pop_front();
        }
        let unseen = self.given.len() as u64;
        self.left = DEPTH.saturating_sub(depth.saturating_add(unseen));
    }

    fn give(&mut self, now: Instant) {
        self.left = self.left.saturating_sub(1);
        self.given.push_back(now);
    }

    fn give_back(&mut self) {
        self.left = (self.left + 1).min(DEPTH);
        self.given.pop_back();
    }
}

/// The reservation of a message in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    pub(super) there: QueueName,
    /// Whether the message uses capacity. A delayed message does not use capacity yet.
    counted: bool,
}

impl SendCapacity {
    pub(super) fn new(live: u64, backlog: u64) -> Self {
        Self {
            live: QueueFill::new(live, live),
            // An old event can have a message in the work queue, sent while the event was recent.
            backlog: QueueFill::new(backlog, live.saturating_add(backlog)),
        }
    }

    /// Starts a pass. Each message that waits in a queue can belong to any row.
    pub(super) fn begin(&mut self, live: u64, backlog: u64, now: Instant) {
        self.renew(live, backlog, now);
        self.live.unclaimed = live;
        self.backlog.unclaimed = live.saturating_add(backlog);
    }

    /// Updates the fill levels with new depths.
    pub(super) fn renew(&mut self, live: u64, backlog: u64, now: Instant) {
        self.live.renew(live, now);
        self.backlog.renew(backlog, now);
    }

    /// Returns when the depths will include the oldest message that they do not include yet.
    pub(super) fn shows_at(&self) -> Option<Instant> {
        let given = [&self.live, &self.backlog].map(|queue| queue.given.front());
        let first = given.into_iter().flatten().min()?;
        Some(*first + DEPTH_LAG)
    }

    /// Returns how many rows of recent events may be checked.
    pub(super) fn for_recent(&self) -> u64 {
        self.live.left
    }

    /// Returns how many rows of old events may be checked.
    pub(super) fn for_old(&self) -> u64 {
        let in_work_queue = (self.live.left + BACKLOG_BATCH).saturating_sub(DEPTH);
        self.backlog.left + in_work_queue
    }

    /// Reserves a place for the message of a row, if the queue has capacity. A full queue also
    /// rejects the first message of a retry, although the queue has no other message of this retry.
    pub(super) fn admit(&mut self, wanted: CapacityRequest, now: Instant) -> Option<Reservation> {
        let there = self.lane(wanted.lane);
        // The number of messages of old events in the work queue is always limited.
        let counted = wanted.delay.is_zero() || there != wanted.lane;
        let own = self.of(wanted.lane);
        let waits = own.unclaimed > 0;
        if counted {
            own.unclaimed = own.unclaimed.saturating_sub(1);
        }
        let space = match (self.of(there).left, waits && !wanted.first) {
            (0, _) => Capacity::Full,
            (_, true) => Capacity::Saturated,
            _ => Capacity::Free,
        };
        if !space.takes(wanted.sends) {
            return None;
        }
        if counted {
            self.of(there).give(now);
        }
        Some(Reservation { there, counted })
    }

    /// Releases a reservation whose message was not sent.
    pub(super) fn give_back(&mut self, place: Reservation) {
        if place.counted {
            self.of(place.there).give_back();
        }
    }

    fn of(&mut self, lane: QueueName) -> &mut QueueFill {
        match lane {
            QueueName::Main => &mut self.live,
            QueueName::Backlog => &mut self.backlog,
        }
    }

    /// Returns the queue for a message. While few messages wait in the work queue, it also takes a
    /// few messages of old events, because each message in the backlog queue has to be sent a
    /// second time.
    fn lane(&self, lane: QueueName) -> QueueName {
        match lane {
            QueueName::Backlog if self.live.left + BACKLOG_BATCH > DEPTH => QueueName::Main,
            lane => lane,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn wanted(lane: QueueName, sends: u32) -> CapacityRequest {
        CapacityRequest {
            lane,
            sends,
            first: false,
            delay: Duration::ZERO,
        }
    }

    fn there(room: &mut SendCapacity, wanted: CapacityRequest) -> Option<QueueName> {
        room.admit(wanted, Instant::now()).map(|place| place.there)
    }

    #[test]
    fn a_row_that_was_rung_for_waits_for_its_message() {
        let mut room = SendCapacity::new(2 + BACKLOG_BATCH, 1);
        // One of the waiting messages may belong to this row.
        for _ in 0..2 + BACKLOG_BATCH {
            assert_eq!(there(&mut room, wanted(QueueName::Main, 1)), None);
        }
        assert_eq!(
            there(&mut room, wanted(QueueName::Main, 1)),
            Some(QueueName::Main)
        );
        // An old row may already have a message in one of the two queues, so it waits for both.
        for _ in 0..3 + BACKLOG_BATCH {
            assert_eq!(there(&mut room, wanted(QueueName::Backlog, 1)), None);
        }
        let old = there(&mut room, wanted(QueueName::Backlog, 1));
        assert_eq!(old, Some(QueueName::Backlog));
    }

    #[test]
    fn a_row_that_was_never_rung_for_need_not_wait() {
        let mut room = SendCapacity::new(100, 0);
        assert_eq!(
            there(&mut room, wanted(QueueName::Main, 0)),
            Some(QueueName::Main)
        );
        let first = CapacityRequest {
            first: true,
            ..wanted(QueueName::Main, 7)
        };
        assert_eq!(there(&mut room, first), Some(QueueName::Main));
    }

    #[test]
    fn what_is_old_goes_among_those_of_now_while_these_are_few() {
        let mut room = SendCapacity::new(BACKLOG_BATCH - 2, 0);
        for _ in 0..2 {
            let old = there(&mut room, wanted(QueueName::Backlog, 0));
            assert_eq!(old, Some(QueueName::Main));
        }
        let old = there(&mut room, wanted(QueueName::Backlog, 0));
        assert_eq!(old, Some(QueueName::Backlog));
        assert_eq!(
            there(&mut room, wanted(QueueName::Main, 0)),
            Some(QueueName::Main)
        );
        assert_eq!(SendCapacity::new(0, 0).for_old(), DEPTH + BACKLOG_BATCH);
        assert_eq!(SendCapacity::new(BACKLOG_BATCH, 0).for_old(), DEPTH);
        assert_eq!(SendCapacity::new(2 * DEPTH, DEPTH).for_old(), 0);
    }

    #[test]
    fn a_queue_is_filled_up_to_its_depth() {
        let mut room = SendCapacity::new(DEPTH - 1, DEPTH);
        assert_eq!(
            there(&mut room, wanted(QueueName::Main, 0)),
            Some(QueueName::Main)
        );
        assert_eq!((room.for_recent(), room.for_old()), (0, 0));
        let first = CapacityRequest {
            first: true,
            ..wanted(QueueName::Main, 0)
        };
        for wanted in [
            wanted(QueueName::Main, 0),
            wanted(QueueName::Backlog, 0),
            first,
        ] {
            assert_eq!(there(&mut room, wanted), None, "{wanted:?}");
        }
    }

    #[test]
    fn a_place_is_counted_before_its_message_is_sent() {
        let mut room = SendCapacity::new(DEPTH - 1, DEPTH);
        let now = Instant::now();
        let place = room.admit(wanted(QueueName::Main, 0), now).unwrap();
        assert_eq!(room.admit(wanted(QueueName::Main, 0), now), None);
        room.give_back(place);
        assert_eq!(room.for_recent(), 1);
        let late = CapacityRequest {
            delay: Duration::from_secs(9),
            ..wanted(QueueName::Main, 0)
        };
        assert!(room.admit(late, now).is_some());
        assert_eq!(room.for_recent(), 1, "it uses no capacity now");
    }

    #[test]
    fn a_depth_that_lags_behind_opens_no_room() {
        let (mut room, now) = (SendCapacity::new(0, 0), Instant::now());
        for _ in 0..DEPTH {
            assert!(room.admit(wanted(QueueName::Main, 0), now).is_some());
        }
        room.renew(0, 0, now + DEPTH_LAG / 2);
        assert_eq!(room.for_recent(), 0);
        room.renew(0, 0, now + DEPTH_LAG);
        assert_eq!(room.for_recent(), DEPTH);
        room.renew(DEPTH - 3, 0, now + DEPTH_LAG);
        assert_eq!(room.for_recent(), 3);
    }
}
