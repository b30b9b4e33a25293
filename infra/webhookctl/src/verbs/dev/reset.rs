//! `--reset`: deletes the stored state.

use std::path::Path;

use local::{Kept, Part};

use crate::output::count::{plural, thousands};
use crate::output::time::duration;
use crate::output::{CliError, Printer};

/// Prints what the folder contains, then deletes it.
pub(super) fn reset(folder: &Path, out: &mut Printer) -> anyhow::Result<()> {
    let shown = folder.display();
    let kept = Kept::find(folder).map_err(|error| {
        CliError::failed("dev.reset", format!("nothing was deleted: {error:#}"))
    })?;
    let parts = kept.as_ref().map(Kept::parts).transpose()?;
    let parts = parts.unwrap_or_default();
    if parts.is_empty() {
        out.say(&format!("{shown} contains no state yet."));
        return Ok(());
    }
    let words: Vec<String> = parts.iter().map(words).collect();
    out.say(&format!(
        "Deleting the state in {shown}{}: {}.",
        age(&parts),
        words.join(", ")
    ));
    match kept {
        Some(kept) => kept.remove(),
        None => Ok(()),
    }
}

fn words(part: &Part) -> String {
    let (files, bytes) = (plural(part.files, "file"), thousands(part.bytes));
    format!("{} ({files}, {bytes} bytes)", part.what)
}

/// Returns the time since the last write to the state, as text.
fn age(parts: &[Part]) -> String {
    let last = parts.iter().filter_map(|part| part.written_at).max();
    let ago = last.and_then(|last| last.elapsed().ok());
    let seconds = ago.and_then(|ago| i64::try_from(ago.as_secs()).ok());
    seconds.map_or_else(String::new, |seconds| {
        format!(", last written {} ago", duration(seconds))
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn what_is_thrown_away_is_said_with_its_size_and_age() {
        let part = Part {
            what: "the bucket",
            files: 1,
            bytes: 1_204,
            written_at: None,
        };
        assert_eq!(words(&part), "the bucket (1 file, 1,204 bytes)");
        assert_eq!(age(&[part]), "");
        let written_at = Some(UNIX_EPOCH + Duration::from_secs(1));
        let old = Part { written_at, ..part };
        assert!(age(&[part, old]).starts_with(", last written "));
    }
}
