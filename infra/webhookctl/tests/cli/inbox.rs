//! `webhookctl inbox`, as a user runs it against a deployment. The test writes the ledger of the
//! deployment with the library.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

mod bodies;
mod calls;
mod context;
mod follow;
mod hostile;
mod proxy;
mod repeats;
mod selection;
mod trace;
mod trial;
mod world;
