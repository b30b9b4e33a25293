//! Writes the files of a recipe, and changes no file that exists.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::output::CliError;
use crate::recipes::File;

/// The files of a recipe that a folder does not have yet.
pub(super) struct Missing<'f> {
    folder: PathBuf,
    files: Vec<&'f File>,
}

/// Compares the files with the folder. If a file exists and differs, returns an error.
pub(super) fn missing<'f>(folder: &Path, files: &'f [File]) -> anyhow::Result<Missing<'f>> {
    let mut missing = Vec::new();
    let mut different = Vec::new();
    for file in files {
        let path = folder.join(&file.path);
        match std::fs::read(&path) {
            Ok(text) if text == file.text.as_bytes() => {}
            Ok(_) => different.push(path.display().to_string()),
            Err(error) if error.kind() == ErrorKind::NotFound => missing.push(file),
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        }
    }
    if different.is_empty() {
        let folder = folder.to_owned();
        return Ok(Missing {
            folder,
            files: missing,
        });
    }
    let message = "files of the folder differ from those of the recipe; nothing was written";
    Err(CliError::refused("recipe.differs", message)
        .details(different)
        .tip(
            "choose another folder, or compare the files with those that `webhookctl sources \
             recipe` prints",
        )
        .into())
}

impl Missing<'_> {
    /// Writes the files. Returns their paths.
    pub(super) fn write(&self) -> anyhow::Result<Vec<String>> {
        let mut written = Vec::new();
        for file in &self.files {
            let path = self.folder.join(&file.path);
            let shown = path.display().to_string();
            let parent = path.parent().unwrap_or(&self.folder);
            std::fs::create_dir_all(parent)
                .with_context(|| format!("create the folder {}", parent.display()))?;
            // `create_new`, so that a file that another program has just created stays.
            let mut options = OpenOptions::new();
            let created = options.write(true).create_new(true).open(&path);
            let put = created.and_then(|mut created| created.write_all(file.text.as_bytes()));
            put.with_context(|| format!("write {shown}"))?;
            written.push(shown);
        }
        Ok(written)
    }
}
