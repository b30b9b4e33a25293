//! The cost of a million events, and of a month without events.
//!
//! [`bench`] runs the real functions on the local stack with events of several sizes, and counts
//! everything that AWS bills. [`deployed`] reads fixed costs from the template. [`prices`] is the
//! dated file of AWS prices, [`bill`] multiplies, and [`report`] prints.

pub mod bench;
pub mod bill;
pub mod deployed;
pub mod events;
pub mod idle;
pub mod prices;
pub mod report;
pub mod tally;
