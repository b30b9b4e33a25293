//! A cache of names that commands have printed. Completions read the cache and send no request.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use serde::{Deserialize, Serialize};
use shared::base::env::env_var;

/// The maximum number of names of a kind.
const MOST: usize = 50;

/// The kinds of names in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// The fingerprint of an error.
    Error,
    /// The id of a replay plan.
    Plan,
}

/// The names of each context by their kind, newest first.
type Names = BTreeMap<String, BTreeMap<Kind, Vec<String>>>;

/// Stores names that a command prints. Ignores errors, because the cache is only a convenience.
pub(crate) fn keep(context: &str, kind: Kind, shown: &[String]) {
    if let Some(file) = file() {
        let _ = keep_in(&file, context, kind, shown);
    }
}

/// Returns the stored names, newest first.
pub(crate) fn names(context: &str, kind: Kind) -> Vec<String> {
    let kept = file().map(|file| read(&file)).unwrap_or_default();
    let of_context = kept.get(context).and_then(|kinds| kinds.get(&kind));
    of_context.cloned().unwrap_or_default()
}

/// The cache file, in the cache folder of this user or in `WEBHOOKCTL_CACHE`.
fn file() -> Option<PathBuf> {
    let given = env_var("WEBHOOKCTL_CACHE").map(PathBuf::from);
    let folder = given.or_else(|| {
        let home = etcetera::base_strategy::Xdg::new().ok()?;
        Some(home.cache_dir().join("webhookctl"))
    })?;
    Some(folder.join("names.json"))
}

fn read(file: &Path) -> Names {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Returns whether the name needs no quotes in any shell.
fn is_word(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.bytes().all(fits)
}

fn keep_in(file: &Path, context: &str, kind: Kind, shown: &[String]) -> std::io::Result<()> {
    // A shell inserts completions into the command line, so the cache stores only plain words.
    let mut names: Vec<String> = shown.iter().filter(|name| is_word(name)).cloned().collect();
    let mut kept = read(file);
    let of_kind = kept.entry(context.to_owned()).or_default();
    let of_kind = of_kind.entry(kind).or_default();
    let before = of_kind.clone();
    names.extend(before.iter().filter(|name| !shown.contains(name)).cloned());
    names.truncate(MOST);
    if names == before {
        return Ok(());
    }
    *of_kind = names;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // The rename is atomic. If two processes write at the same time, the last rename determines the
    // content of the file.
    let aside = file.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::write(&aside, serde_json::to_vec(&kept)?)?;
    std::fs::rename(aside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn the_newest_come_first_and_only_words_are_kept() -> std::io::Result<()> {
        let folder = std::env::temp_dir().join(format!("mitt-recent-{}", std::process::id()));
        let file = folder.join("names.json");
        keep_in(&file, "prod", Kind::Plan, &words(&["rpl_1"]))?;
        keep_in(&file, "prod", Kind::Plan, &words(&["rpl_3", "rpl_2"]))?;
        keep_in(
            &file,
            "prod",
            Kind::Plan,
            &words(&["rpl_1", "$(rm)", "a b", ""]),
        )?;
        keep_in(&file, "test", Kind::Error, &words(&["e_1"]))?;
        let kept = read(&file);
        assert_eq!(
            kept["prod"][&Kind::Plan],
            words(&["rpl_1", "rpl_3", "rpl_2"])
        );
        assert_eq!(kept["test"][&Kind::Error], words(&["e_1"]));
        let many: Vec<String> = (0..100).map(|number| format!("e_{number}")).collect();
        keep_in(&file, "test", Kind::Error, &many)?;
        assert_eq!(read(&file)["test"][&Kind::Error], many[..MOST]);
        std::fs::write(&file, "{ this is no")?;
        assert!(read(&file).is_empty());
        std::fs::remove_dir_all(folder)
    }
}
