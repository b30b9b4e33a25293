//! Lists and deletes the data that a stack stored in its state folder.

use std::{
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, bail};

/// The lock file, which is locked while the folder is in use. A folder without it may not belong to
/// a stack.
const LOCK: &str = "lock";

/// The data that remains after a stack ends. Logs are not deleted. Files that each start writes
/// again are not deleted either.
const PARTS: [(&str, &[&str]); 3] = [
    (
        "the table",
        &[
            "dynamodb.sqlite",
            "dynamodb.sqlite-wal",
            "dynamodb.sqlite-shm",
            "dynamodb.sqlite-journal",
        ],
    ),
    ("the bucket", &["s3"]),
    (
        "the secrets",
        &["ssm.json", "ssm.draft", "secrets.json", "secrets.draft"],
    ),
];

/// The stored data in a folder that no running stack uses.
pub struct Kept {
    folder: PathBuf,
    /// A lock that prevents a stack from starting in the folder.
    _lock: File,
}

/// One kind of stored data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub what: &'static str,
    pub files: usize,
    pub bytes: u64,
    /// The time of the last write, if known.
    pub written_at: Option<SystemTime>,
}

impl Kept {
    /// Returns the stored data of the folder, or `None` if no stack has used it yet.
    pub fn find(folder: &Path) -> anyhow::Result<Option<Self>> {
        let lock = match File::open(folder.join(LOCK)) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("open the lock in {}", folder.display()));
            }
        };
        lock_for_one(&lock, folder)?;
        Ok(Some(Self {
            folder: folder.to_owned(),
            _lock: lock,
        }))
    }

    /// Returns the kinds of data that have at least one file.
    pub fn parts(&self) -> anyhow::Result<Vec<Part>> {
        let mut parts = Vec::new();
        for (what, names) in PARTS {
            let mut part = Part {
                what,
                files: 0,
                bytes: 0,
                written_at: None,
            };
            for name in names {
                let path = self.folder.join(name);
                part.add(&path)
                    .with_context(|| format!("read the size of {}", path.display()))?;
            }
            if part.files > 0 {
                parts.push(part);
            }
        }
        Ok(parts)
    }

    /// Deletes all stored data.
    pub fn remove(self) -> anyhow::Result<()> {
        for name in PARTS.iter().flat_map(|(_, names)| *names) {
            let path = self.folder.join(name);
            let removed = match found(&path) {
                Ok(Some(about)) if about.is_dir() => fs::remove_dir_all(&path),
                Ok(Some(_)) => fs::remove_file(&path),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            removed.with_context(|| format!("delete {}", path.display()))?;
        }
        Ok(())
    }
}

impl Part {
    /// Adds a file, or the files of a folder, to the counts.
    fn add(&mut self, path: &Path) -> io::Result<()> {
        let Some(about) = found(path)? else {
            return Ok(());
        };
        if about.is_dir() {
            for entry in fs::read_dir(path)? {
                self.add(&entry?.path())?;
            }
            return Ok(());
        }
        self.files += 1;
        self.bytes += about.len();
        self.written_at = self.written_at.max(about.modified().ok());
        Ok(())
    }
}

/// Returns the metadata of the path itself, without following a symbolic link. Returns `None` if
/// the path does not exist.
fn found(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(about) => Ok(Some(about)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file that only its owner can read, for secrets.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Creates the lock file of a folder and locks it.
pub(super) fn lock(folder: &Path) -> anyhow::Result<File> {
    let lock = File::create(folder.join(LOCK))
        .with_context(|| format!("create the state folder {}", folder.display()))?;
    lock_for_one(&lock, folder)?;
    Ok(lock)
}

/// Locks the folder for one process, because two stacks would overwrite each other's files.
fn lock_for_one(lock: &File, folder: &Path) -> anyhow::Result<()> {
    if lock.try_lock().is_err() {
        bail!(
            "another local stack uses the state folder {}",
            folder.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::random_hex;

    /// A folder that is deleted when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(files: &[&str]) -> Self {
            let folder = std::env::temp_dir().join(format!("mitt-kept-{}", random_hex(8)));
            for file in files {
                let path = folder.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, file).unwrap();
            }
            Self(folder)
        }

        fn has(&self, file: &str) -> bool {
            self.0.join(file).exists()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_kept_goes_and_what_else_is_there_stays() {
        let kept = [
            "dynamodb.sqlite",
            "dynamodb.sqlite-wal",
            "s3/bodies/a",
            "s3/bodies/b",
            "ssm.json",
            "secrets.json",
        ];
        let others = ["lock", "logs/catcher.log", "sources.toml", "mine.txt"];
        let folder = Folder::new(&[&kept[..], &others].concat());
        let found = Kept::find(&folder.0).unwrap().unwrap();
        let parts = found.parts().unwrap();
        let parts = parts.iter().map(|part| (part.what, part.files));
        assert_eq!(
            parts.collect::<Vec<_>>(),
            [("the table", 2), ("the bucket", 2), ("the secrets", 2)]
        );
        found.remove().unwrap();
        assert!(kept.iter().all(|file| !folder.has(file)));
        assert!(others.iter().all(|file| folder.has(file)));
        let empty = Kept::find(&folder.0).unwrap().unwrap();
        assert!(empty.parts().unwrap().is_empty());
        empty.remove().unwrap();
    }

    #[test]
    fn a_folder_that_no_stack_has_used_keeps_nothing() {
        let folder = Folder::new(&["s3/bodies/a", "dynamodb.sqlite"]);
        assert!(Kept::find(&folder.0).unwrap().is_none());
        assert!(Kept::find(&folder.0.join("none")).unwrap().is_none());
        assert!(folder.has("s3/bodies/a"));
    }

    #[test]
    fn a_folder_in_use_is_left_alone() {
        let folder = Folder::new(&["ssm.json"]);
        let used = lock(&folder.0).unwrap();
        let error = Kept::find(&folder.0).err().unwrap().to_string();
        assert!(error.starts_with("another local stack uses"), "{error}");
        drop(used);
        assert!(Kept::find(&folder.0).unwrap().is_some());
    }
}
