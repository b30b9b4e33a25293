//! Stores each event exactly once, and decides which worker may process it.
//!
//! All events enter through [`accept`]. The [`ledger`] has one row for each event; the [`queue`]
//! carries only the key of an event. While DynamoDB is unavailable, events wait in the [`spill`]
//! queue. Requests that fail verification are stored for a week in [`rejected`]; the public keys
//! that some of them need are in the [`keyring`]. [`fetch_back`] stores which objects unsigned
//! notices name.

pub mod accept;
pub mod fetch_back;
pub(crate) mod item;
pub mod keyring;
pub mod ledger;
pub mod outcome;
pub mod queue;
pub mod rejected;
pub mod spill;
pub(crate) mod table;

pub use accept::{Inbox, Stored};
