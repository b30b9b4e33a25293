//! Keeps what the user has changed in the sources file of a state folder. The file contains the
//! addresses of the demo's servers, which have other ports in each run.

use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::demo::StandIns;

/// The name of the file that describes the sources file of `dev`.
const RECORD: &str = "demo-sources.json";

/// Describes the sources file that `dev` wrote last.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    downstream: String,
    provider: String,
    /// The hash of the text. If the file has another hash, the user has changed the file.
    sha256: String,
}

/// Returns the sources for this run: the file of the last run, if the user has changed it, and
/// otherwise the sources of the demo. `file` is in `folder`.
pub(super) fn sources(
    folder: &Path,
    file: &Path,
    stand_ins: &StandIns,
    starts_empty: bool,
) -> anyhow::Result<String> {
    let record = folder.join(RECORD);
    let [downstream, provider] = &stand_ins.urls;
    let edited = if starts_empty {
        None
    } else {
        edited(&record, file)
    };
    let (text, sha256) = match edited {
        // The empty hash marks the text as changed in all later runs, too.
        Some((text, last)) => {
            let moves = [(last.downstream, downstream), (last.provider, provider)];
            (moved(&text, &moves), String::new())
        }
        None => (stand_ins.sources.clone(), hash(&stand_ins.sources)),
    };
    let written = Written {
        downstream: downstream.clone(),
        provider: provider.clone(),
        sha256,
    };
    let json = serde_json::to_string(&written)?;
    std::fs::write(&record, json).with_context(|| format!("write {}", record.display()))?;
    Ok(text)
}

/// Returns the text of the file and the record of the last run, if the text has changed since.
fn edited(record: &Path, file: &Path) -> Option<(String, Written)> {
    let last: Written = serde_json::from_slice(&std::fs::read(record).ok()?).ok()?;
    let text = std::fs::read_to_string(file).ok()?;
    (hash(&text) != last.sha256).then_some((text, last))
}

fn hash(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

/// Replaces each old address with its new address. An address whose longer port begins with the
/// same digits does not change.
fn moved(text: &str, moves: &[(String, &String)]) -> String {
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let found = moves.iter().find_map(|(old, to)| {
            let after = rest
                .strip_prefix(old.as_str())
                .filter(|_| !old.is_empty())?;
            let ends = !after.starts_with(|c: char| c.is_ascii_digit());
            ends.then_some((*to, after))
        });
        if let Some((to, after)) = found {
            new.push_str(to);
            rest = after;
        } else {
            new.push(first);
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_move_to_new_ports_and_others_stay() {
        let (one, two) = ("http://127.0.0.1:4000", "http://127.0.0.1:5000");
        let (to_one, to_two) = (two.to_owned(), "http://127.0.0.1:6000".to_owned());
        let moves = [(one.to_owned(), &to_one), (two.to_owned(), &to_two)];
        let text = format!("{one}/a {two}/b {one}1/c ü");
        assert_eq!(
            moved(&text, &moves),
            "http://127.0.0.1:5000/a http://127.0.0.1:6000/b http://127.0.0.1:40001/c ü"
        );
        assert_eq!(moved("abc", &[(String::new(), &to_one)]), "abc");
    }
}
