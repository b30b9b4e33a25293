//! The deployed processor on the local stack, with every kind of destination.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod answers;
mod destinations;
mod keep;
mod long;
mod missing;
mod order;
mod pause;
mod pull;
mod receivers;
mod work;
mod work_rules;

use std::path::{Path, PathBuf};

use testkit::{inbox as support, rights};

/// Returns the folder of these tests.
fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stack")
}
