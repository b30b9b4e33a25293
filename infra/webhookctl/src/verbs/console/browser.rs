//! Opens the page in a browser. Every user of the machine can read the arguments of a process, so
//! the browser gets a file with the address, and not the address.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use shared::base::env::env_var;
use tokio::process::Command;

/// The file with the address. It is removed when this value is dropped.
pub(super) struct Page(PathBuf);

impl Drop for Page {
    fn drop(&mut self) {
        // The code in the file is good only once, so a file that stays does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens the address. Returns `None` if there is no browser or no private folder for the file.
pub(super) async fn open(address: &str) -> Option<Page> {
    let program = program()?;
    let page = Page(folder()?.join(format!("webhookctl-{}.html", std::process::id())));
    let _ = std::fs::remove_file(&page.0);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&page.0)
        .ok()?;
    write!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={address}\">"
    )
    .ok()?;
    let mut command = Command::new(program);
    command.arg(&page.0).stdin(Stdio::null());
    let opened = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    opened.await.ok()?.success().then_some(page)
}

fn program() -> Option<&'static str> {
    if cfg!(target_os = "macos") {
        return Some("open");
    }
    let has_screen = env_var("DISPLAY").is_some() || env_var("WAYLAND_DISPLAY").is_some();
    has_screen.then_some("xdg-open")
}

/// Returns a folder that only this user can read.
fn folder() -> Option<PathBuf> {
    if cfg!(target_os = "macos") {
        return Some(std::env::temp_dir());
    }
    env_var("XDG_RUNTIME_DIR").map(PathBuf::from)
}
