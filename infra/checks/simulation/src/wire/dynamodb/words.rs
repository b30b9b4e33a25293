//! Splits expressions into tokens.

use super::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// An attribute, a function or a keyword.
    Name(String),
    /// `#n`
    Placeholder(String),
    /// `:v`
    Value(String),
    Sign(&'static str),
}

const SIGNS: [&str; 11] = ["<>", "<=", ">=", "=", "<", ">", "(", ")", ",", "+", "-"];

/// The tokens of an expression, and the current position.
pub(super) struct Words {
    words: Vec<Word>,
    at: usize,
}

impl Words {
    pub(super) fn of(text: &str) -> Result<Self, Refusal> {
        let mut words = Vec::new();
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = |from: &str| from.find(|c| !is_part(c)).unwrap_or(from.len());
            let taken = if first == '#' || first == ':' {
                let taken = 1 + length(&rest[1..]);
                let word = rest[..taken].to_owned();
                words.push(if first == '#' {
                    Word::Placeholder(word)
                } else {
                    Word::Value(word)
                });
                taken
            } else if is_part(first) {
                let taken = length(rest);
                words.push(Word::Name(rest[..taken].to_owned()));
                taken
            } else if first == '.' {
                words.push(Word::Sign("."));
                1
            } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                words.push(Word::Sign(sign));
                sign.len()
            } else {
                return Err(Refusal::unknown(format!(
                    "{first:?} in the expression {text:?}"
                )));
            };
            rest = rest[taken..].trim_start();
        }
        Ok(Self { words, at: 0 })
    }

    pub(super) fn peek(&self) -> Option<&Word> {
        self.words.get(self.at)
    }

    pub(super) fn next(&mut self) -> Option<Word> {
        let word = self.words.get(self.at).cloned();
        self.at += 1;
        word
    }

    /// Consumes the sign if it is next.
    pub(super) fn sign(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Word::Sign(next)) if *next == sign);
        self.at += usize::from(is_next);
        is_next
    }

    /// Consumes the keyword if it is next. The keyword can be in upper or lower case.
    pub(super) fn keyword(&mut self, keyword: &str) -> bool {
        let is_next =
            matches!(self.peek(), Some(Word::Name(next)) if next.eq_ignore_ascii_case(keyword));
        self.at += usize::from(is_next);
        is_next
    }

    pub(super) fn expect(&mut self, sign: &str) -> Result<(), Refusal> {
        if self.sign(sign) {
            return Ok(());
        }
        Err(Refusal::invalid(format!(
            "{sign:?} is missing before {:?}",
            self.peek()
        )))
    }

    pub(super) fn ends(&self) -> Result<(), Refusal> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(Refusal::unknown(format!(
                "{word:?} at the end of an expression"
            ))),
        }
    }
}
