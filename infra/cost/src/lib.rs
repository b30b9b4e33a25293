//! What a million events cost, and what a month costs in which none comes.
//!
//! The real functions run on the local stack over events of several sizes, and everything that AWS
//! bills is counted on the way: [`bench`]. What is there without events is read from the template:
//! [`deployed`]. [`prices`] is the dated file of what AWS asks for, [`bill`] multiplies, and
//! [`report`] prints.

pub mod bench;
pub mod bill;
pub mod deployed;
pub mod events;
pub mod idle;
pub mod prices;
pub mod report;
pub mod tally;
