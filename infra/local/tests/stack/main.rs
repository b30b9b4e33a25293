//! The local stack with a real function process that does as it is told.

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

/// The template of these tests and a folder where every function is the echo function.
fn options() -> Options {
    Options::new(template(), binaries())
}

async fn stack() -> Stack {
    Stack::start(options()).await.expect("the stack starts")
}

fn template() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stack/template.yaml")
}

/// Cargo builds examples before it runs tests, two folders up from the test's executable.
fn example(name: &str) -> PathBuf {
    let me = std::env::current_exe().expect("a test has an executable");
    let folder = me
        .parent()
        .and_then(Path::parent)
        .expect("it is in a target folder");
    let path = folder.join("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing: cargo build --examples -p webhookctl",
        path.display()
    );
    path
}

fn binaries() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("functions");
    std::fs::create_dir_all(&folder).expect("make the folder of functions");
    for name in ["catcher", "processor", "backup-sync"] {
        let link = folder.join(name);
        if !link.exists() {
            // Another test may be quicker.
            let _ = std::os::unix::fs::symlink(example("echo_function"), &link);
        }
    }
    folder
}

/// Looks again and again until it is so; fails after 20 s.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "waited in vain until {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process runs, that is neither gone nor a zombie that waits for its parent.
fn runs(id: u32) -> bool {
    state(id).is_some_and(|state| state != 'Z')
}

fn is_stopped(id: u32) -> bool {
    state(id) == Some('T')
}

/// The letter after the name of the program, which stands in brackets.
fn state(id: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit(')').next()?.trim().chars().next()
}

/// A folder of this run of the tests, which nobody else uses and which is not there yet.
fn scratch(name: &str) -> PathBuf {
    let me = std::process::id();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{me}"));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}
