//! Keeps each event exactly once, and says who may work on it.
//!
//! [`accept`] is the one way in. The [`ledger`] has one row for each event; the [`queue`] carries only
//! the key of an event. While DynamoDB is unavailable, events wait in the [`spill`] queue. A request that
//! fails verification is stored in the [`quarantine`] for some days; the public keys that such requests
//! wait for are in the [`keyring`], and what an unsigned notice names is fetched by [`fetch_back`].

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
