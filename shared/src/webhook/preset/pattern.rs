//! Analyzes which bytes the matches of a pattern can contain, and whether all matches have the same
//! length. The check that no bytes of a signed message can move uses this analysis.
//!
//! The analysis supports only the syntax that presets use. Mitt rejects a preset that needs the
//! analysis for a pattern with other syntax.

use std::iter::Peekable;
use std::str::Chars;

use anyhow::Context as _;
use regex_lite::Regex;
use serde::{Deserialize, Deserializer};

/// The maximum depth of nested groups. Mitt rejects a pattern with deeper groups.
const DEEPEST: usize = 8;

/// A set of bytes. All non-ASCII bytes count as one member of the set, because they are never
/// separators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes {
    ascii: u128,
    other: bool,
}

impl Bytes {
    pub(crate) const NONE: Self = Self {
        ascii: 0,
        other: false,
    };
    pub(crate) const ALL: Self = Self {
        ascii: u128::MAX,
        other: true,
    };

    /// The set of the bytes of a text.
    pub(crate) fn of(text: &str) -> Self {
        text.chars()
            .fold(Self::NONE, |bytes, c| bytes.and(Self::one(c)))
    }

    fn one(c: char) -> Self {
        if c.is_ascii() {
            Self {
                ascii: 1 << u32::from(c),
                other: false,
            }
        } else {
            Self {
                ascii: 0,
                other: true,
            }
        }
    }

    fn range(from: char, to: char) -> Self {
        (from..=to.min('\x7f')).fold(
            Self {
                ascii: 0,
                other: !to.is_ascii(),
            },
            |bytes, c| bytes.and(Self::one(c)),
        )
    }

    pub(crate) fn and(self, more: Self) -> Self {
        Self {
            ascii: self.ascii | more.ascii,
            other: self.other || more.other,
        }
    }

    pub(crate) fn without(self, less: Self) -> Self {
        Self {
            ascii: self.ascii & !less.ascii,
            other: self.other && !less.other,
        }
    }

    /// Returns whether the set contains this byte.
    pub(crate) fn has(self, byte: u8) -> bool {
        if byte.is_ascii() {
            self.ascii & (1 << byte) != 0
        } else {
            self.other
        }
    }

    /// Returns whether a text has a byte outside the set.
    pub(crate) fn lack_one_of(self, text: &str) -> bool {
        Self::of(text).without(self) != Self::NONE
    }
}

/// The properties that all matches of a pattern share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) bytes: Bytes,
    /// The length of each match, if it is the same for all.
    pub(crate) len: Option<usize>,
}

/// A pattern that matches whole texts: it begins with `^` and ends with `$`.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    reach: Reach,
}

impl Pattern {
    /// Parses a pattern of the supported syntax.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let regex = super::scheme::compiled(text)?;
        let reach = reach(text).with_context(|| {
            format!(
                "invalid pattern {text:?}: it must begin with ^, end with $ and consist of \
                 literals, classes, groups and repetitions"
            )
        })?;
        Ok(Self { regex, reach })
    }

    /// Returns whether the pattern matches the whole text.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The pattern as written in the preset.
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).map_err(|error| serde::de::Error::custom(format!("{error:#}")))
    }
}

fn reach(pattern: &str) -> Option<Reach> {
    let inner = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let mut rest = inner.chars().peekable();
    // `^a|b$` also matches parts of texts, so alternatives need a group.
    let reach = sequence(&mut rest, DEEPEST)?;
    rest.next().is_none().then_some(reach)
}

fn alternatives(rest: &mut Peekable<Chars<'_>>, depth: usize) -> Option<Reach> {
    let mut all = sequence(rest, depth)?;
    while rest.next_if_eq(&'|').is_some() {
        let next = sequence(rest, depth)?;
        all = Reach {
            bytes: all.bytes.and(next.bytes),
            len: all.len.filter(|len| Some(*len) == next.len),
        };
    }
    Some(all)
}

fn sequence(rest: &mut Peekable<Chars<'_>>, depth: usize) -> Option<Reach> {
    let mut whole = Reach {
        bytes: Bytes::NONE,
        len: Some(0),
    };
    while let Some(next) = rest.next_if(|c| !matches!(c, '|' | ')')) {
        let one = match next {
            '(' => {
                let inner = alternatives(rest, depth.checked_sub(1)?)?;
                rest.next_if_eq(&')')?;
                inner
            }
            '[' => single(class(rest)?),
            '\\' => single(escape(rest.next()?)?),
            '.' | '^' | '$' | '?' | '*' | '+' | '{' | '}' | ']' => return None,
            c => single(Bytes::one(c)),
        };
        let times = times(rest)?;
        let len = one.len.zip(times).map(|(len, times)| len * times);
        whole = Reach {
            bytes: whole.bytes.and(one.bytes),
            len: whole.len.zip(len).map(|(before, len)| before + len),
        };
    }
    Some(whole)
}

fn single(bytes: Bytes) -> Reach {
    Reach {
        bytes,
        // A non-ASCII character has more than one byte.
        len: (!bytes.other).then_some(1),
    }
}

/// Reads the number of repetitions of the previous part. The inner `None` means a variable number.
#[expect(
    clippy::option_option,
    reason = "the outer `None` means unsupported syntax"
)]
fn times(rest: &mut Peekable<Chars<'_>>) -> Option<Option<usize>> {
    match rest.peek() {
        Some('?' | '*' | '+') => {
            rest.next();
            Some(None)
        }
        Some('{') => {
            rest.next();
            let mut text = String::new();
            loop {
                match rest.next()? {
                    '}' => break,
                    c => text.push(c),
                }
            }
            let (least, most) = text.split_once(',').unwrap_or((&text, &text));
            let least: usize = least.parse().ok()?;
            let most: Option<usize> = match most {
                "" => None,
                most => Some(most.parse().ok()?),
            };
            Some(most.filter(|most| *most == least))
        }
        _ => Some(Some(1)),
    }
}

fn class(rest: &mut Peekable<Chars<'_>>) -> Option<Bytes> {
    let negated = rest.next_if_eq(&'^').is_some();
    let mut bytes = Bytes::NONE;
    let mut first = true;
    loop {
        let from = match rest.next()? {
            ']' if !first => break,
            '[' => return None,
            '\\' => {
                let next = rest.next()?;
                if matches!(next, 'd' | 'w') {
                    bytes = bytes.and(escape(next)?);
                    first = false;
                    continue;
                }
                escape(next)?;
                next
            }
            c => c,
        };
        first = false;
        let mut ahead = rest.clone();
        let ranges = ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']');
        if ranges {
            rest.next();
            let to = rest.next().filter(|to| *to != '\\' && *to >= from)?;
            bytes = bytes.and(Bytes::range(from, to));
        } else {
            bytes = bytes.and(Bytes::one(from));
        }
    }
    Some(if negated {
        Bytes::ALL.without(bytes)
    } else {
        bytes
    })
}

fn escape(c: char) -> Option<Bytes> {
    match c {
        'd' => Some(Bytes::range('0', '9')),
        'w' => Some(Bytes::of("_").and(Bytes::range('0', '9')).and(letters())),
        c if c.is_ascii_punctuation() => Some(Bytes::one(c)),
        _ => None,
    }
}

fn letters() -> Bytes {
    Bytes::range('a', 'z').and(Bytes::range('A', 'Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_length_of_a_pattern_are_known() {
        for (pattern, bytes, len) in [
            ("^[0-9]{4}-[0-9]{2}$", "0123456789-", Some(7)),
            ("^[A-C]+:?$", "ABC:", None),
            ("^(ab|cd)$", "abcd", Some(2)),
            ("^(ab|c)$", "abc", None),
            (r"^\d{2}\.[_x-]$", "0123456789._x-", Some(4)),
            ("^a{1,2}$", "a", None),
            ("^$", "", Some(0)),
        ] {
            let expected = Reach {
                bytes: Bytes::of(bytes),
                len,
            };
            assert_eq!(reach(pattern), Some(expected), "{pattern}");
        }
        let other = reach("^[^.]{1,9}$").unwrap();
        assert!(!other.bytes.has(b'.') && other.bytes.has(b':') && other.bytes.has(0xC3));
        assert_eq!(other.len, None);
    }

    #[test]
    fn a_pattern_that_is_not_whole_or_not_known_has_no_reach() {
        for pattern in [
            "abc",
            "^abc",
            "abc$",
            "^a|b$",
            "^.*$",
            "^a)$",
            "^(a$",
            "^[a$",
            r"^\S$",
            "^[[:alpha:]]$",
            "^a{x}$",
            "^(?i)a$",
        ] {
            assert_eq!(reach(pattern), None, "{pattern}");
        }
    }
}
