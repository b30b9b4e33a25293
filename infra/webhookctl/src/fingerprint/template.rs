//! Computes the template of an error text: the text without its variable parts.

use std::net::{Ipv4Addr, SocketAddrV4};

/// The minimum length of an id. A shorter mix of letters and digits can be a word with a number,
/// such as `30s`.
const LONG: usize = 8;

/// Returns the text with its variable parts replaced, such as `timeout after <n>s calling
/// billing.internal`.
pub(crate) fn template(text: &str) -> String {
    pieces(text)
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) | Piece::Address(text) => text.as_str(),
            Piece::Place(name) => name,
        })
        .collect()
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// A variable part, with its placeholder.
    Place(&'static str),
    /// An IP address, with or without a port. It can vary, but it says which system failed.
    Address(String),
}

pub(super) fn pieces(text: &str) -> Vec<Piece> {
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

/// Returns the end of the first word. A word ends before a space, or before a quote that is not an
/// apostrophe.
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

    /// Writes one space for any number of spaces.
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
        if is_address(core) {
            self.0.push(Piece::Address(core.to_owned()));
        } else if is_time(core) {
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

    /// Splits a word at each character that is neither a letter nor a digit.
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

    /// Splits a number from the short word before or after it, as in `30s` or `v2`. Treats other
    /// mixes of letters and digits as ids.
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

/// `10.0.0.1`, `10.0.0.1:443`
fn is_address(core: &str) -> bool {
    core.parse::<SocketAddrV4>().is_ok() || core.parse::<Ipv4Addr>().is_ok()
}

/// A hash, a UUID, a token.
fn is_hash(core: &str) -> bool {
    let digits = core.bytes().any(|b| b.is_ascii_digit());
    let hex = core.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    digits && hex && core.len() >= 2 * LONG
}

/// An HTTP status, which stays because it describes the error best.
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
            ("10.0.0.1:443 refused", "10.0.0.1:443 refused"),
            (
                "10.0.0.1, port 8080, 1.2.3.4.5",
                "10.0.0.1, port <n>, <n>.<n>.<n>.<n>.<n>",
            ),
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
}
