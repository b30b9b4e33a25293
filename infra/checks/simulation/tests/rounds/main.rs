//! The scheduled tasks of backup-sync and long actions, in virtual time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod due;
mod feed;
mod fresh;
mod long;
mod turns;
mod world;
