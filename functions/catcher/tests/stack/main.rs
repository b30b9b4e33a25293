//! The deployed catcher on the local stack: its responses to any caller, and requests that could
//! harm it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod arming;
mod bad_input;
mod batches;
mod budget;
mod endpoints;
mod erase;
mod events;
mod foreign;
mod forged;
mod keys;
mod large;
mod managed;
mod missing;
mod permissions;
mod public_url;
mod quarantine;
mod rotation;
mod run_time_sources;
mod spill;
mod trial;
mod vectors;

use std::path::{Path, PathBuf};

use testkit::{inbox as support, rights, root, sts};

/// Returns the folder of these tests.
fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stack")
}
