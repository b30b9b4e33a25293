//! Groups errors of the same kind.
//!
//! Two thousand failures often have only three causes. The CLI computes the fingerprint from the
//! error text in the row. It does not store the fingerprint, because no index could use it, and
//! because it would increase the size of each failed row. Also, after a change of the algorithm,
//! old rows would be in separate groups.

mod template;

use std::fmt;

use sha2::{Digest, Sha256};
use shared::inbox::ledger::Row;

pub(crate) use template::template;
use template::{Piece, pieces};

/// The minimum number of hex digits that identify an error. If several errors have the same prefix,
/// more digits are shown.
const SHORT: usize = 6;

/// The number of characters that the fingerprint uses. A row stores the first 256 bytes of the
/// text, so the length of the ids in the text changes where the stored text ends.
const COUNTED: usize = 160;

/// Returns the fingerprint of an error text. It is equal for texts that differ only in numbers,
/// IP addresses, ids, hashes, quotes and times.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fingerprint(String);

impl Fingerprint {
    pub(crate) fn of(text: &str) -> Self {
        let counted: String = pieces(text)
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.as_str(),
                // The kind of the part is ignored: an id that has only digits and an id with
                // letters belong to the same error.
                Piece::Place(_) | Piece::Address(_) => "#",
            })
            .collect();
        let counted: String = counted.chars().take(COUNTED).collect();
        Self(hex::encode(&Sha256::digest(counted)[..16]))
    }

    /// Returns the fingerprint of the last error of a row, or of the reason for its state.
    pub(crate) fn of_row(row: &Row) -> Option<Self> {
        error_text(row).map(Self::of)
    }

    pub(crate) fn short(&self) -> &str {
        self.first(SHORT)
    }

    pub(crate) fn first(&self, digits: usize) -> &str {
        self.0.get(..digits).unwrap_or(&self.0)
    }

    /// Returns whether the text is a prefix of the fingerprint, with at least four digits.
    pub(crate) fn is_named_by(&self, text: &str) -> bool {
        is_a_name(text) && self.0.starts_with(&text.to_ascii_lowercase())
    }

    /// Returns the number of digits that distinguishes these fingerprints.
    pub(crate) fn digits<'f>(all: impl IntoIterator<Item = &'f Self>) -> usize {
        let mut all: Vec<&str> = all.into_iter().map(|one| one.0.as_str()).collect();
        all.sort_unstable();
        all.dedup();
        let common = |pair: &[&str]| match pair {
            [a, b] => a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count(),
            _ => 0,
        };
        let longest = all.windows(2).map(common).max().unwrap_or(0);
        SHORT.max(longest + 1)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

/// Returns whether the text could be a fingerprint.
pub(crate) fn is_a_name(text: &str) -> bool {
    (4..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns the error of an event. Without an error, returns the reason for its state.
pub(crate) fn error_text(row: &Row) -> Option<&str> {
    row.error.as_deref().or(row.reason.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_kind_share_a_fingerprint() {
        let same = |a: &str, b: &str| Fingerprint::of(a) == Fingerprint::of(b);
        let text = |id: &str| format!("GitHub API 502 during issue creation, request {id}");
        for id in [
            "1c9d22aa",
            "12345678",
            "abcdef12",
            "8f14e45fceea467fa0e641a2cf7e64c5",
        ] {
            assert!(same(&text("8f14e45f"), &text(id)), "{id}");
        }
        assert!(same("10.0.0.1:443 refused", "10.0.3.17:443 refused"));
        assert!(!same("GitHub API 502", "GitHub API 403"));
        assert!(!same("connection refused", "connection reset"));
        // The row cuts the text at a position that depends on the length of the ids.
        let cut =
            |id: &str| format!("order {id}: {}", "so it went on ".repeat(30))[..256].to_owned();
        assert!(same(&cut("1"), &cut("1234567890")));
    }

    #[test]
    fn nothing_that_is_written_makes_it_fail() {
        for text in [
            "\u{1b}]0;\u{7}",
            "ä1ö2 €_3",
            "'",
            "''",
            "\"\"\"",
            "____",
            "\u{202e}9:9",
            "é'é' '",
        ] {
            let _ = (template(text), Fingerprint::of(text));
        }
    }

    #[test]
    fn a_prefix_names_it_and_a_longer_one_tells_two_apart() {
        let (one, two) = (
            Fingerprint("c41f09aa".into()),
            Fingerprint("c41f09ab".into()),
        );
        assert!(one.is_named_by("c41f") && one.is_named_by("C41F09") && !one.is_named_by("c41"));
        assert!(!one.is_named_by("c41g") && !one.is_named_by("c41f09ab"));
        assert_eq!(Fingerprint::digits([&one]), 6);
        assert_eq!(Fingerprint::digits([&one, &two, &one]), 8);
        assert_eq!(one.first(8), "c41f09aa");
    }
}
