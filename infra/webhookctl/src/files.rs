//! Reads and writes files that the operator names or owns.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;

use crate::output::CliError;

/// Reads a file, or stdin if the path is `-`. `what` names the content in error messages.
pub(crate) fn read(file: &Path, what: &str) -> anyhow::Result<Vec<u8>> {
    if file == Path::new("-") {
        return read_stdin(what);
    }
    std::fs::read(file).map_err(|error| unreadable(file, what, &error))
}

/// Reads a text file. `what` names the content in error messages.
pub(crate) fn read_text(file: &Path, what: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(file).map_err(|error| unreadable(file, what, &error))
}

fn unreadable(file: &Path, what: &str, error: &io::Error) -> anyhow::Error {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "the file does not exist".to_owned(),
        io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    let message = format!("cannot read {what} from {}: {why}", file.display());
    CliError::usage("usage.file", message).into()
}

pub(crate) fn read_stdin(what: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = io::stdin().read_to_end(&mut bytes);
    read.with_context(|| format!("read {what} from stdin"))?;
    Ok(bytes)
}

/// Creates a file that only its owner can read. If the file exists, returns an error.
pub(crate) fn create_private(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(file)
}

/// Replaces a file by a rename, so that a failed write leaves the old file intact. Without a mode,
/// the file keeps its permissions.
pub(crate) fn replace(file: &Path, text: &str, mode: Option<u32>) -> anyhow::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .with_context(|| format!("create the folder {}", folder.display()))?;
    let draft = file.with_extension(format!("draft-{}", std::process::id()));
    let put = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        options.mode(mode.unwrap_or(0o666));
        options.open(&draft)?.write_all(text.as_bytes())?;
        if let (None, Ok(old)) = (mode, std::fs::metadata(file)) {
            std::fs::set_permissions(&draft, old.permissions())?;
        }
        std::fs::rename(&draft, file)
    };
    put().with_context(|| format!("write {}", file.display()))
}
