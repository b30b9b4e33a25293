//! backup-sync as it is deployed, on the local stack.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod alarms;
mod backlog;
mod fetch_back;
mod health;

use testkit::inbox as support;
