//! `webhookctl inbox` as a user runs it against a deployment, whose ledger was written by the
//! library.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

mod bodies;
mod calls;
mod follow;
mod hostile;
mod proxy;
mod selection;
mod world;
