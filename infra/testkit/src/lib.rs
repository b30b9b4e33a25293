//! Code that the tests of several crates share. Only tests and benches use it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

pub mod inbox;
pub mod pty;
pub mod rights;
pub mod sources;
pub mod sts;
pub mod wire;

use std::path::{Path, PathBuf};

/// Returns the root folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the template that is deployed.
pub fn template() -> PathBuf {
    root().join("template.yaml")
}

/// Returns the folder with the built functions and the CLI, next to the running test program. Cargo
/// does not build the binaries of other packages for a test.
///
/// # Panics
///
/// Panics if a binary is missing. `cargo build --workspace` builds them.
pub fn programs() -> PathBuf {
    let test = std::env::current_exe().expect("the test program has a path");
    let folder = test.parent().and_then(Path::parent).unwrap();
    for name in ["catcher", "processor", "backup-sync", "webhookctl"] {
        let path = folder.join(name);
        assert!(
            path.exists(),
            "{} is missing: run `cargo build --workspace` first",
            path.display()
        );
    }
    folder.to_owned()
}

/// Returns the path of the CLI.
pub fn webhookctl() -> PathBuf {
    programs().join("webhookctl")
}
