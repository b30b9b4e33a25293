//! Writes a JSON document in other styles. Only white space and escapes change. Names, values and
//! their order remain the same.

use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use serde::de::IgnoredAny;

/// The largest document to write, in bytes. A larger document would take too much time.
const LARGEST: usize = 8 * 1024 * 1024;

/// The style in which a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    layout: Layout,
    slash: Form,
    /// Non-ASCII characters.
    other: Form,
    /// `<`, `>` and `&`.
    html: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    AsIs,
    Compact,
    /// A space after each comma and colon.
    Spaced,
    Indented(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    AsIs,
    Plain,
    Escaped,
    /// Escaped with upper-case hex digits.
    Upper,
}

/// Each layout, combined with the escapes of common encoders in PHP, Python, Go, Ruby and .NET.
pub(super) static STYLES: LazyLock<Vec<Style>> = LazyLock::new(|| {
    use Form::{AsIs, Escaped, Plain, Upper};
    let layouts = [
        Layout::AsIs,
        Layout::Compact,
        Layout::Indented("  "),
        Layout::Indented("    "),
        Layout::Indented("\t"),
        Layout::Spaced,
    ];
    let escapes = [
        (AsIs, AsIs, AsIs),
        (Escaped, AsIs, AsIs),
        (Plain, AsIs, AsIs),
        (AsIs, Escaped, AsIs),
        (AsIs, Upper, AsIs),
        (AsIs, Plain, AsIs),
        (AsIs, AsIs, Escaped),
        (AsIs, AsIs, Upper),
        (AsIs, AsIs, Plain),
        (Escaped, Escaped, AsIs),
        (Escaped, Plain, AsIs),
        (Plain, Escaped, AsIs),
        (Plain, Plain, AsIs),
        (Plain, Plain, Plain),
        (Plain, Plain, Escaped),
        (Plain, Escaped, Plain),
        (Plain, Upper, Upper),
    ];
    let style = |layout| {
        escapes.map(|(slash, other, html)| Style {
            layout,
            slash,
            other,
            html,
        })
    };
    layouts.into_iter().flat_map(style).collect()
});

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = match self.layout {
            Layout::AsIs => None,
            Layout::Compact => Some("written compactly".to_owned()),
            Layout::Spaced => Some("with a space after each comma and colon".to_owned()),
            Layout::Indented("\t") => Some("indented by tabs".to_owned()),
            Layout::Indented(by) => Some(format!("indented by {} spaces", by.len())),
        };
        let slash = match self.slash {
            Form::AsIs => None,
            Form::Plain => Some("/ not escaped"),
            Form::Escaped | Form::Upper => Some("/ written \\/"),
        };
        let other = match self.other {
            Form::AsIs => None,
            Form::Plain => Some("non-ASCII not escaped"),
            Form::Escaped | Form::Upper => Some("non-ASCII escaped"),
        };
        let html = match self.html {
            Form::AsIs => None,
            Form::Plain => Some("<, > and & not escaped"),
            Form::Escaped | Form::Upper => Some("<, > and & escaped"),
        };
        let escapes: Vec<&str> = [slash, other, html].into_iter().flatten().collect();
        let escapes = (!escapes.is_empty()).then(|| format!("with {}", escapes.join(", ")));
        let all: Vec<String> = [layout, escapes].into_iter().flatten().collect();
        f.write_str(&all.join(", "))
    }
}

/// Writes the document in this style. Returns `None` if the document is not JSON, or if the result
/// would be too large.
pub(super) fn rewritten(body: &[u8], style: &Style) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(body).ok()?;
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let mut writer = Writer {
        style,
        out: String::with_capacity(text.len()),
        depth: 0,
    };
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if writer.out.len() > LARGEST {
            return None;
        }
        let end = if first == '"' {
            end_of_string(rest)
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(end);
        writer.token(first, token, after);
        rest = after;
    }
    Some(writer.out.into_bytes())
}

/// Returns the length of a string, including its quotation marks. The caller has checked that the
/// document is valid JSON.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

struct Writer<'s> {
    style: &'s Style,
    out: String,
    depth: usize,
}

impl Writer<'_> {
    fn token(&mut self, first: char, token: &str, after: &str) {
        if first == '"' {
            self.string(token);
            return;
        }
        if self.style.layout == Layout::AsIs {
            self.out.push(first);
            return;
        }
        match first {
            ' ' | '\t' | '\r' | '\n' => {}
            '{' | '[' => {
                self.out.push(first);
                self.depth += 1;
                if !after.trim_ascii_start().starts_with(['}', ']']) {
                    self.line();
                }
            }
            '}' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                if !self.out.ends_with(['{', '[']) {
                    self.line();
                }
                self.out.push(first);
            }
            ',' => {
                self.out.push(',');
                match self.style.layout {
                    Layout::Spaced => self.out.push(' '),
                    _ => self.line(),
                }
            }
            ':' if self.style.layout == Layout::Compact => self.out.push(':'),
            ':' => self.out.push_str(": "),
            _ => self.out.push(first),
        }
    }

    fn line(&mut self) {
        if let Layout::Indented(by) = self.style.layout {
            self.out.push('\n');
            self.out.push_str(&by.repeat(self.depth));
        }
    }

    fn string(&mut self, token: &str) {
        let mut rest = token;
        while let Some(c) = rest.chars().next() {
            let (meant, len) = if c == '\\' {
                unescaped(rest)
            } else {
                (Some(c), c.len_utf8())
            };
            let (written, after) = rest.split_at(len);
            self.character(meant, written);
            rest = after;
        }
    }

    /// Writes a character in its original form, or in the form of this style.
    fn character(&mut self, meant: Option<char>, written: &str) {
        let (c, form) = match meant {
            Some('/') => ('/', self.style.slash),
            Some(c @ ('<' | '>' | '&')) => (c, self.style.html),
            Some(c) if !c.is_ascii() => (c, self.style.other),
            _ => ('\0', Form::AsIs),
        };
        match form {
            Form::AsIs => self.out.push_str(written),
            Form::Plain => self.out.push(c),
            Form::Escaped | Form::Upper if c == '/' => self.out.push_str("\\/"),
            Form::Escaped | Form::Upper => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a `String` cannot fail.
                    let _ = match form {
                        Form::Upper => write!(self.out, "\\u{unit:04X}"),
                        _ => write!(self.out, "\\u{unit:04x}"),
                    };
                }
            }
        }
    }
}

/// Returns the character of a `\/` or `\u` escape, and the length of the escape in bytes. For other
/// escapes, returns no character, because they have only one form.
fn unescaped(text: &str) -> (Option<char>, usize) {
    if text.starts_with("\\/") {
        return (Some('/'), 2);
    }
    let Some(first) = unit(text) else {
        return (None, 2.min(text.len()));
    };
    if let Some(Ok(c)) = char::decode_utf16([first]).next() {
        return (Some(c), 6);
    }
    let second = text.get(6..).and_then(unit);
    let pair = second.and_then(|second| char::decode_utf16([first, second]).next());
    match pair {
        Some(Ok(c)) => (Some(c), 12),
        _ => (None, 6),
    }
}

/// Returns the code unit of `\uXXXX`.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: &str, layout: Layout, [slash, other, html]: [Form; 3]) -> String {
        let style = Style {
            layout,
            slash,
            other,
            html,
        };
        String::from_utf8(rewritten(json.as_bytes(), &style).unwrap()).unwrap()
    }

    #[test]
    fn layouts_are_those_of_common_encoders() {
        let json = " {\"a\":[1, 2.50,{}],\n\"b\" : \"x, {y}: \\\"z\\\"\",\"c\":[ ]}\n";
        let as_is = [Form::AsIs; 3];
        assert_eq!(written(json, Layout::AsIs, as_is), json);
        let compact = r#"{"a":[1,2.50,{}],"b":"x, {y}: \"z\"","c":[]}"#;
        assert_eq!(written(json, Layout::Compact, as_is), compact);
        let spaced = r#"{"a": [1, 2.50, {}], "b": "x, {y}: \"z\"", "c": []}"#;
        assert_eq!(written(json, Layout::Spaced, as_is), spaced);
        let indented = "{\n  \"a\": [\n    1,\n    2.50,\n    {}\n  ],\n  \"b\": \"x, {y}: \
                        \\\"z\\\"\",\n  \"c\": []\n}";
        assert_eq!(written(json, Layout::Indented("  "), as_is), indented);
    }

    #[test]
    fn escapes_come_and_go_and_the_value_stays() {
        let plain = "[\"a/b é 😀 <&>\"]";
        let escaped = "[\"a\\/b \\u00e9 \\ud83d\\ude00 \\u003c\\u0026\\u003e\"]";
        let upper = "[\"a\\/b \\u00E9 \\uD83D\\uDE00 \\u003C\\u0026\\u003E\"]";
        for from in [plain, escaped, upper] {
            for (form, to) in [
                (Form::Plain, plain),
                (Form::Escaped, escaped),
                (Form::Upper, upper),
                (Form::AsIs, from),
            ] {
                assert_eq!(written(from, Layout::AsIs, [form; 3]), to);
            }
        }
        // Characters with only one form do not change.
        let fixed = r#"["\u0000 \n \ud83d \\ \" \u0022"]"#;
        assert_eq!(written(fixed, Layout::AsIs, [Form::Plain; 3]), fixed);
    }

    #[test]
    fn what_is_no_json_is_not_written() {
        for body in [&b"{"[..], b"", b"a=1", b"\"\xff\"", b"{} x"] {
            assert_eq!(rewritten(body, &STYLES[0]), None);
        }
    }

    #[test]
    fn each_style_says_what_it_is() {
        let said: Vec<String> = STYLES.iter().map(ToString::to_string).collect();
        assert!(said.contains(&"written compactly".to_owned()), "{said:?}");
        assert_eq!(said.iter().filter(|said| said.is_empty()).count(), 1);
    }
}
