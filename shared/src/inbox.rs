//! Stores each event exactly once, and decides which worker may process it.
//!
//! Every event enters through [`accept`]. The [`ledger`] has one row for each event. The [`queue`]
//! carries only the keys of events. While DynamoDB is unavailable, events wait in the [`spill`]
//! queue. The module [`rejected`] stores requests that fail verification, and keeps them for a
//! week. The [`keyring`] stores the certificates and public keys that the verification of some
//! requests needs. The module [`fetch_back`] records the objects that unsigned notices name. The
//! module [`source_versions`] stores the configurations that operators apply, and a process follows
//! them through [`current_sources`]. The module [`trace`] derives the trace ids of an event.

pub mod accept;
pub mod current_sources;
pub mod fetch_back;
pub(crate) mod item;
pub mod keyring;
pub mod ledger;
pub mod outcome;
pub mod queue;
pub mod rejected;
pub mod source_versions;
pub mod spill;
pub(crate) mod table;
pub mod trace;

pub use accept::{Inbox, Stored};
