//! What is the same in errors of one kind.
//!
//! Two thousand failures are three errors. Which one it is, is computed from the text that the row
//! keeps, wherever it is asked for, and is not stored beside it: no index could find it there, it
//! would cost bytes in each row that fails, and what tells errors apart better one day would leave
//! old rows in groups of their own.

use std::fmt;

use sha2::{Digest, Sha256};
use shared::ledger::Row;

/// Hex digits that name an error where no other begins alike.
const SHORT: usize = 6;

/// Characters of a text that count. A row keeps 256 bytes of it: what stands further back is there
/// or not as the ids before it are short or long.
const COUNTED: usize = 160;

/// From this length on, letters and digits in one word are an id, not a word with a number.
const LONG: usize = 8;

/// Names an error: equal for texts that differ only in numbers, ids, hashes, quotes and times.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(String);

impl Fingerprint {
    pub fn of(text: &str) -> Self {
        let counted: String = pieces(text)
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.as_str(),
                // An id of digits only is no other kind of error than one with letters.
                Piece::Place(_) => "#",
            })
            .collect();
        let counted: String = counted.chars().take(COUNTED).collect();
        Self(hex::encode(&Sha256::digest(counted)[..16]))
    }

    /// Of what stands in a row: its last error, or why it is where it is.
    pub fn of_row(row: &Row) -> Option<Self> {
        error_text(row).map(Self::of)
    }

    pub fn short(&self) -> &str {
        self.first(SHORT)
    }

    pub fn first(&self, digits: usize) -> &str {
        self.0.get(..digits).unwrap_or(&self.0)
    }

    /// Whether a person means it: by so many of its digits as they give, at least four.
    pub fn is_named_by(&self, text: &str) -> bool {
        is_a_name(text) && self.0.starts_with(&text.to_ascii_lowercase())
    }

    /// So many digits tell these apart.
    pub fn digits<'f>(all: impl IntoIterator<Item = &'f Self>) -> usize {
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

/// Whether it could name an error.
pub fn is_a_name(text: &str) -> bool {
    (4..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The error of an event, or else why it is where it is.
pub fn error_text(row: &Row) -> Option<&str> {
    row.error.as_deref().or(row.reason.as_deref())
}

/// The text with what varies replaced: `timeout after <n>s calling billing.internal`.
pub fn template(text: &str) -> String {
    pieces(text)
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Place(name) => name,
        })
        .collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// What varies.
    Place(&'static str),
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Pieces::default();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let after = rest.get(next.len_utf8()..).unwrap_or_default();
        let quoted = matches!(next, '"' | '\'' | '`')
            .then(|| after.find(next))
            .flatten();
        if let Some(end) = quoted {
            pieces.place("<s>");
            rest = after.get(end + 1..).unwrap_or_default();
        } else if next.is_whitespace() {
            pieces.space();
            rest = after;
        } else {
            let end = end_of_word(rest);
            pieces.word(rest.get(..end).unwrap_or_default());
            rest = rest.get(end..).unwrap_or_default();
        }
    }
    pieces.0
}

/// A word ends before a space, or before a quote that is no apostrophe.
fn end_of_word(text: &str) -> usize {
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let quote = matches!(c, '"' | '\'' | '`') && !before.is_alphanumeric();
        if at > 0 && (c.is_whitespace() || quote) {
            return at;
        }
        before = c;
    }
    text.len()
}

#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(Piece::Text(before)) => before.push_str(text),
            _ => self.0.push(Piece::Text(text.to_owned())),
        }
    }

    fn place(&mut self, name: &'static str) {
        self.0.push(Piece::Place(name));
    }

    /// One space for any number of them.
    fn space(&mut self) {
        if !matches!(self.0.last(), Some(Piece::Text(before)) if before.ends_with(' ')) {
            self.text(" ");
        }
    }

    fn word(&mut self, word: &str) {
        let core = word.trim_matches(|c: char| !c.is_alphanumeric());
        let Some(at) = word.find(core).filter(|_| !core.is_empty()) else {
            return self.text(word);
        };
        self.text(word.get(..at).unwrap_or_default());
        if is_time(core) {
            self.place("<time>");
        } else if is_hash(core) {
            self.place("<id>");
        } else if is_status(core) {
            self.text(core);
        } else {
            self.runs(core);
        }
        self.text(word.get(at + core.len()..).unwrap_or_default());
    }

    /// The parts of a word, between whatever is neither letter nor digit.
    fn runs(&mut self, core: &str) {
        let (mut start, mut behind) = (0, "");
        for (at, c) in core.char_indices().chain([(core.len(), ' ')]) {
            if c.is_alphanumeric() {
                continue;
            }
            let run = core.get(start..at).unwrap_or_default();
            self.run(run, behind);
            let end = (at + c.len_utf8()).min(core.len());
            let between = core.get(at..end).unwrap_or_default();
            self.text(between);
            behind = core.get(..end).unwrap_or_default();
            start = end;
        }
    }

    fn run(&mut self, run: &str, behind: &str) {
        let has = |test: fn(&char) -> bool| run.chars().any(|c| test(&c));
        let digits = has(char::is_ascii_digit);
        let cases = has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase);
        let numbered = |name: &str| behind.to_ascii_lowercase().ends_with(name);
        if is_status(run)
            && ["status=", "status:", "code=", "code:", "http/"]
                .iter()
                .any(|n| numbered(n))
        {
            self.text(run);
        } else if behind.ends_with('_') && (digits || cases && run.len() > LONG) {
            self.place("<id>");
        } else if !digits {
            self.text(run);
        } else if run.bytes().all(|b| b.is_ascii_digit()) {
            self.place("<n>");
        } else if run.len() >= LONG {
            self.place("<id>");
        } else {
            self.with_number(run);
        }
    }

    /// `30s`, `v2`: a number before or behind a short word. All else is an id.
    fn with_number(&mut self, run: &str) {
        let digit = |c: char| c.is_ascii_digit();
        let letters = |text: &str| !text.is_empty() && !text.contains(digit);
        let (unit, word) = (run.trim_start_matches(digit), run.trim_end_matches(digit));
        if letters(unit) {
            self.place("<n>");
            self.text(unit);
        } else if letters(word) {
            self.text(word);
            self.place("<n>");
        } else {
            self.place("<id>");
        }
    }
}

/// `2026-11-20…`, `09:12…`
fn is_time(core: &str) -> bool {
    let shape: String = core
        .chars()
        .take(10)
        .map(|c| if c.is_ascii_digit() { '9' } else { c })
        .collect();
    let rest = |c: char| c.is_ascii_digit() || "T:.Z+-".contains(c);
    (shape.starts_with("9999-99-99") || shape.starts_with("99:99")) && core.chars().all(rest)
}

/// A hash, a UUID, a token.
fn is_hash(core: &str) -> bool {
    let digits = core.bytes().any(|b| b.is_ascii_digit());
    let hex = core.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    digits && hex && core.len() >= 2 * LONG
}

/// What says most of an error of HTTP, so that it stays.
fn is_status(word: &str) -> bool {
    word.len() == 3
        && word
            .parse()
            .is_ok_and(|status: u16| (300..600).contains(&status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_is_replaced_and_the_rest_stays() {
        for (text, expected) in [
            (
                "GitHub API 502 during issue creation",
                "GitHub API 502 during issue creation",
            ),
            (
                "timeout after 30s calling billing.internal",
                "timeout after <n>s calling billing.internal",
            ),
            (
                "no customer cus_NffrFeUfNVxHib (404)",
                "no customer cus_<id> (404)",
            ),
            ("no customer cus_9 (404)", "no customer cus_<id> (404)"),
            (
                "POST /repos/acme/app/issues/17: \"Unicorn!\"",
                "POST /repos/acme/app/issues/<n>: <s>",
            ),
            ("at 2026-11-20T09:12:04.118Z, 09:12:05", "at <time>, <time>"),
            (
                "request 8f14e45f-ceea-467f-a0e6-41a2cf7e64c5.",
                "request <id>.",
            ),
            ("10.0.0.1:443 refused", "<n>.<n>.<n>.<n>:<n> refused"),
            ("it doesn't 'like  it' `at all`", "it doesn't <s> <s>"),
            ("status=503 in 1500 ms", "status=503 in <n> ms"),
            (
                "the destination answered 301; redirects",
                "the destination answered 301; redirects",
            ),
            ("v2 of s3  answered", "v<n> of s<n> answered"),
            ("attempts_exhausted", "attempts_exhausted"),
            ("a \" alone", "a \" alone"),
            ("", ""),
        ] {
            assert_eq!(template(text), expected, "{text}");
        }
    }

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
        assert!(!same("GitHub API 502", "GitHub API 403"));
        assert!(!same("connection refused", "connection reset"));
        // What is cut off at the end of the row's text decides nothing.
        let long = |id: &str, end: usize| {
            format!(
                "{} {id} {}",
                "so it went on and on ".repeat(9),
                "x".repeat(end)
            )
        };
        assert!(same(&long("1", 20), &long("1234", 17)));
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
