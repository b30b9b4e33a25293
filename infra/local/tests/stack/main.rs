//! Tests of the local stack with a real function process that follows instructions.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod emulators;
mod functions;
mod http;
mod lifetime;
mod queue;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use local::{Options, Stack};

/// Returns the template of these tests, and a folder in which every function is the echo function.
fn options() -> Options {
    Options::new(template(), binaries())
}

async fn stack() -> Stack {
    Stack::start(options()).await.expect("the stack starts")
}

fn template() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stack/template.yaml")
}

/// Returns the path of an example. Cargo builds examples before it runs tests, two folders above
/// the test's executable.
fn example(name: &str) -> PathBuf {
    let me = std::env::current_exe().expect("a test has an executable");
    let folder = me
        .parent()
        .and_then(Path::parent)
        .expect("the executable is in a target folder");
    let path = folder.join("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing: cargo build --examples -p local",
        path.display()
    );
    path
}

fn binaries() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("functions");
    std::fs::create_dir_all(&folder).expect("create the folder of functions");
    for name in ["catcher", "processor", "backup-sync"] {
        let link = folder.join(name);
        if !link.exists() {
            // Another test may have created the link first.
            let _ = std::os::unix::fs::symlink(example("echo_function"), &link);
        }
    }
    folder
}

/// Polls until the condition is true. Fails after 20 s.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "timed out waiting until {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns whether a process runs. A zombie that waits for its parent does not run.
fn runs(id: u32) -> bool {
    state(id).is_some_and(|state| state != 'Z')
}

fn is_stopped(id: u32) -> bool {
    state(id) == Some('T')
}

/// Returns the state letter of a process, which follows the program name in brackets.
fn state(id: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit(')').next()?.trim().chars().next()
}

/// Returns the path of a folder that belongs only to this test run and does not exist yet.
fn scratch(name: &str) -> PathBuf {
    let me = std::process::id();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{me}"));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}
