//! Detects other listeners of the same inbox. Each listener writes a file to `.mitt/listen`.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::forward::Address;
use crate::output::Printer;

const FOLDER: &str = ".mitt/listen";

/// The content of a listener's file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Listener {
    pid: u32,
    context: String,
    sources: Vec<String>,
    to: String,
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pid, sources, to, ..
        } = self;
        let sources = sources.join(", ");
        write!(f, "another listener (pid {pid}) forwards {sources} to {to}")
    }
}

impl Listener {
    pub(super) fn new(context: &str, sources: &[String], to: &Address) -> Self {
        Self {
            pid: std::process::id(),
            context: context.to_owned(),
            sources: sources.to_vec(),
            to: to.url().to_owned(),
        }
    }

    /// Writes the file, and returns the running listeners that forward some of the same sources. If
    /// the file cannot be written, `listen` still forwards events.
    pub(super) fn announce(&self, out: &mut Printer) -> (Option<Announced>, Vec<Self>) {
        let others = self.others();
        match self.write() {
            Ok(announced) => (Some(announced), others),
            Err(error) => {
                out.say(&format!(
                    "note: other listeners cannot detect this one: {error:#}"
                ));
                (None, others)
            }
        }
    }

    fn write(&self) -> anyhow::Result<Announced> {
        std::fs::create_dir_all(FOLDER).with_context(|| format!("create {FOLDER}"))?;
        let path = Path::new(FOLDER).join(format!("{}.json", self.pid));
        std::fs::write(&path, serde_json::to_string(self)?)
            .with_context(|| format!("write {}", path.display()))?;
        Ok(Announced(path))
    }

    /// Returns the other running listeners. Removes the files of listeners that no longer run.
    fn others(&self) -> Vec<Self> {
        let files = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
        let notes = files.filter_map(|file| {
            let path = file.path();
            let is_note = path.extension().is_some_and(|end| end == "json");
            let text = std::fs::read_to_string(&path).ok().filter(|_| is_note)?;
            let note: Self = serde_json::from_str(&text).ok()?;
            if !is_running(note.pid) {
                let _ = std::fs::remove_file(&path);
                return None;
            }
            Some(note)
        });
        let same = |note: &Self| {
            note.pid != self.pid
                && note.context == self.context
                && note.sources.iter().any(|name| self.sources.contains(name))
        };
        notes.filter(same).collect()
    }
}

/// The file of this listener. It is removed on drop.
pub(super) struct Announced(PathBuf);

impl Drop for Announced {
    fn drop(&mut self) {
        // If the file cannot be removed, other listeners recognise by its pid that this listener
        // has stopped.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns whether a process with this pid runs.
fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| {
        let answer = rustix::process::test_kill_process(pid);
        // EPERM means that the process exists and belongs to another user.
        answer.is_ok() || answer == Err(rustix::io::Errno::PERM)
    })
}
