//! Writes a file with the granted, used and denied permissions, each line once.

use std::{
    collections::BTreeSet,
    fs::File,
    io::Write as _,
    path::Path,
    sync::{Mutex, PoisonError},
};

use anyhow::Context as _;

use crate::names::random_hex;

pub(super) struct Record {
    file: Option<File>,
    written: Mutex<BTreeSet<String>>,
}

impl Record {
    pub(super) fn open(folder: Option<&Path>) -> anyhow::Result<Self> {
        let create = |folder: &Path| {
            std::fs::create_dir_all(folder)?;
            File::create(folder.join(format!("{}.txt", random_hex(8))))
        };
        let file = folder.map(|folder| {
            create(folder).with_context(|| format!("record permissions in {}", folder.display()))
        });
        Ok(Self {
            file: file.transpose()?,
            written: Mutex::default(),
        })
    }

    pub(super) fn granted(&self, role: &str, part: &str) {
        self.write(format!("granted {role} {part}"));
    }

    pub(super) fn used(&self, role: &str, part: &str) {
        self.write(format!("used {role} {part}"));
    }

    pub(super) fn denied(&self, role: &str, call: &str) {
        tracing::warn!("{role} has no permission for {call}");
        self.write(format!("denied {role} {call}"));
    }

    fn write(&self, line: String) {
        let Some(mut file) = self.file.as_ref() else {
            return;
        };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.contains(&line) {
            return;
        }
        // The test that reads the file detects a missing line.
        let _ = file.write_all(format!("{line}\n").as_bytes());
        written.insert(line);
    }
}
