//! The function binaries as they are deployed, on the local stack: what they answer to anybody
//! who can reach them, and that nothing of it harms them.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod alarms;
mod answers;
mod arming;
mod backlog;
mod bad_input;
mod batches;
mod budget;
mod destinations;
mod erase;
mod events;
mod fetch_back;
mod foreign;
mod forged;
mod health;
mod keys;
mod large;
mod managed;
mod order;
mod pause;
mod permissions;
mod public_url;
mod quarantine;
#[path = "../support/rights.rs"]
mod rights;
mod rotation;
mod spill;
#[path = "../support/sts.rs"]
mod sts;
mod support;
mod vectors;
