//! A file with the sources of a test's own stack.

use std::path::PathBuf;

/// A `sources.toml` in a folder of its own, which is removed when this value is dropped.
pub struct SourcesFile(PathBuf);

impl SourcesFile {
    /// Writes the file. `name` is part of the folder's name.
    pub fn new(name: &str, text: &str) -> Self {
        let unique = local::names::random_id();
        let folder = std::env::temp_dir().join(format!("mitt-{name}-{unique}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("sources.toml"), text).unwrap();
        Self(folder)
    }

    pub fn path(&self) -> PathBuf {
        self.0.join("sources.toml")
    }
}

impl Drop for SourcesFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
