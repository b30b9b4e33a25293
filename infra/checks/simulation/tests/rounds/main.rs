//! The scheduled tasks of backup-sync, in virtual time.

#![expect(clippy::unwrap_used, reason = "in tests, a panic is the answer")]

mod due;
mod feed;
mod fresh;
mod turns;
mod world;
