//! Makes text from outside inert, so that it is safe to print.
//!
//! The sender of a webhook chooses event types, ids and error texts. Printed unchanged, they could
//! move the cursor, rename the window, hide or reverse other text, or run as a formula in a
//! spreadsheet.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the text on one line, without characters that a terminal would interpret or hide.
///
/// Replaces C0 controls with their symbols (`␛`, `␊`). Replaces other characters that are invisible
/// or reorder text with their code point (`<U+202E>`). Does not copy clean text.
pub fn safe(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(is_hostile) else {
        return Cow::Borrowed(text);
    };
    let mut shown = String::with_capacity(text.len() + 16);
    shown.push_str(&text[..first]);
    for c in text[first..].chars() {
        push_inert(&mut shown, c);
    }
    Cow::Owned(shown)
}

/// Like [`safe`], for bytes that may not be UTF-8: invalid bytes become `<0x9B>`.
pub(crate) fn safe_bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown.push_str(&safe(chunk.valid()));
        for byte in chunk.invalid() {
            let _ = write!(shown, "<0x{byte:02X}>");
        }
    }
    shown
}

/// Like [`safe`], but returns at most about `max` characters and the number of omitted characters.
///
/// The limit counts characters and not columns, because a million combining marks have no width.
pub(crate) fn capped(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        None => safe(text),
        Some((end, _)) => {
            let left_out = text[end..].chars().count();
            Cow::Owned(format!("{}… (+{left_out} more)", safe(&text[..end])))
        }
    }
}

/// Returns a CSV cell that no spreadsheet runs as a formula. Puts a `'` before a text that looks
/// like a formula.
pub(crate) fn defused(cell: &str) -> Cow<'_, str> {
    let starts = |c| {
        matches!(
            c,
            '=' | '+' | '-' | '@' | '\t' | '\r' | '\n' | '＝' | '＋' | '－' | '＠'
        )
    };
    // Some programs trim a cell before they parse it.
    let trimmed = cell.trim_start_matches(|c: char| c == '\0' || (c.is_whitespace() && !starts(c)));
    if trimmed.starts_with(starts) {
        Cow::Owned(format!("'{cell}"))
    } else {
        Cow::Borrowed(cell)
    }
}

/// Returns the same JSON document, but escapes every character that a terminal would interpret.
///
/// JSON itself escapes only C0 controls. Other hostile characters can only occur in strings, so
/// `\uXXXX` can replace them without a change of meaning.
pub(crate) fn inert_json(json: String) -> String {
    let hostile = |c: char| !c.is_ascii_control() && is_hostile(c) || c == '\x7f';
    if !json.contains(hostile) {
        return json;
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if hostile(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

fn push_inert(shown: &mut String, c: char) {
    match c {
        '\0'..='\x1f' => shown.extend(char::from_u32(0x2400 + u32::from(c))),
        '\x7f' => shown.push('␡'),
        c if is_hostile(c) => {
            let _ = write!(shown, "<U+{:04X}>", u32::from(c));
        }
        c => shown.push(c),
    }
}

fn is_hostile(c: char) -> bool {
    c.is_control() || is_unseen(c)
}

/// Format characters, fillers and selectors: they are invisible, or change how their neighbours
/// are displayed. (Unicode's `Default_Ignorable_Code_Point`, `Cf`, `Zl` and `Zp`.)
fn is_unseen(c: char) -> bool {
    matches!(u32::from(c),
        0x00AD // soft hyphen
        | 0x034F
        | 0x0600..=0x0605 | 0x061C | 0x06DD | 0x070F | 0x0890..=0x0891 | 0x08E2
        | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F
        | 0x200B..=0x200F // zero width, left-to-right and right-to-left marks
        | 0x2028..=0x202E // separators of lines and paragraphs, embeddings, overrides
        | 0x2060..=0x206F // joiners, invisible operators, isolates
        | 0x3164
        | 0xFDD0..=0xFDEF // not characters
        | 0xFE00..=0xFE0F // variation selectors
        | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB
        | 0x1_10BD | 0x1_10CD | 0x1_3430..=0x1_343F | 0x1_BCA0..=0x1_BCA3
        | 0x1_D173..=0x1_D17A
        | 0xE_0000..=0xE_0FFF // tags, and more variation selectors
    ) || u32::from(c) & 0xFFFE == 0xFFFE // the last two of each plane are not characters
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hostile values of webhook fields. Some were seen in practice, and others are possible.
    pub(crate) fn corpus() -> Vec<String> {
        let mut corpus: Vec<String> = [
            "\x1b]0;owned\x07",
            "\x1b[2J\x1b[1;1Hroot# ",
            "\x1b[31mred\x1b[0m",
            "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
            "\x1b]52;c;cm0gLXJmIH4=\x07",
            "\x1bP+q544e\x1b\\",
            "\u{9b}31m C1 \u{9d}0;x\u{9c}",
            "invoice\u{202e}dip.\u{202c}paid",
            "\u{2066}isolate\u{2069}\u{061c}",
            "zero\u{200b}width\u{200d}\u{feff}",
            "tag\u{e0001}\u{e0041}\u{e007f}",
            "variation\u{fe0f}\u{e0100}",
            "NUL\0in it",
            "two\nlines\r\nand\ttab",
            "\u{2028}line\u{2029}paragraph",
            "\u{7f}\u{8}\u{8}\u{8}back",
            "=cmd|' /C calc'!A0",
            "+1+1",
            "-2+3",
            "@SUM(A1)",
            "\t=1+1",
            "\r=1+1",
            " =1+1",
            "＝1+1",
            "a;=1+1",
            "quote\"comma,",
            "a\u{fffe}\u{fdd0}",
            "日本語 🦀 e\u{301}",
            "",
        ]
        .map(String::from)
        .into();
        corpus.push("x".repeat(1 << 20));
        corpus.push("\u{301}".repeat(1 << 19));
        corpus.push("\x1b[5m".repeat(1 << 18));
        corpus
    }

    /// Checks the text with different code than the functions above, so that the check does not
    /// repeat an error of those functions.
    pub(crate) fn is_inert(text: &str) -> bool {
        !text.chars().any(|c| {
            c.is_control()
                || ('\u{200b}'..='\u{200f}').contains(&c)
                || ('\u{2028}'..='\u{202e}').contains(&c)
                || ('\u{2060}'..='\u{206f}').contains(&c)
                || ('\u{fe00}'..='\u{fe0f}').contains(&c)
                || ('\u{e0000}'..='\u{e01ef}').contains(&c)
                || c == '\u{61c}'
                || c == '\u{feff}'
                || c == '\u{ad}'
        })
    }

    #[test]
    fn a_title_escape_is_shown_and_not_obeyed() {
        assert_eq!(safe("\x1b]0;owned\x07"), "␛]0;owned␇");
        assert_eq!(safe("a\u{202e}b"), "a<U+202E>b");
        assert_eq!(safe("\u{9b}31m"), "<U+009B>31m");
        assert_eq!(safe("\u{e0041}"), "<U+E0041>");
        assert_eq!(safe("\x7f"), "␡");
    }

    #[test]
    fn clean_text_is_not_copied() {
        assert!(matches!(
            safe("payment_intent.succeeded 日本語 é"),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn the_whole_corpus_becomes_inert() {
        for text in corpus() {
            assert!(is_inert(&safe(&text)), "{text:?}");
            assert!(is_inert(&safe_bytes(text.as_bytes())), "{text:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_are_spelled_out() {
        assert_eq!(safe_bytes(b"a\x9b31m\xff"), "a<0x9B>31m<0xFF>");
    }

    #[test]
    fn a_megabyte_is_cut_and_says_so() {
        assert_eq!(capped(&"x".repeat(1 << 20), 3), "xxx… (+1048573 more)");
        assert_eq!(capped("xxx", 3), "xxx");
        assert!(capped(&"\u{301}".repeat(1 << 19), 100).chars().count() < 130);
    }

    #[test]
    fn formulas_get_an_apostrophe_and_other_cells_do_not() {
        for cell in [
            "=1", "+1", "-1", "@a", "\t=1", "\r=1", "\n=1", " =1", "\0=1", "＝1",
        ] {
            assert_eq!(defused(cell), format!("'{cell}"));
        }
        for cell in ["", "a=1", "evt_1", "1-2", " a"] {
            assert_eq!(defused(cell), cell);
        }
    }

    proptest! {
        #[test]
        fn any_text_becomes_inert_and_stays_as_it_is(text in any::<String>()) {
            let once = safe(&text).into_owned();
            prop_assert!(is_inert(&once));
            prop_assert_eq!(safe(&once), once.as_str());
        }

        #[test]
        fn any_bytes_become_inert(bytes in any::<Vec<u8>>()) {
            prop_assert!(is_inert(&safe_bytes(&bytes)));
        }

        #[test]
        fn a_cap_is_a_cap(text in any::<String>(), max in 0usize..40) {
            let shown = capped(&text, max);
            prop_assert!(is_inert(&shown));
            // A single character can become `<U+10FFFF>`.
            prop_assert!(shown.chars().count() <= max * 10 + 32);
        }

        #[test]
        fn escaping_json_keeps_its_meaning(text in any::<String>()) {
            let json = inert_json(serde_json::to_string(&text).unwrap());
            prop_assert!(is_inert(&json));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }

        #[test]
        fn no_cell_starts_a_formula(text in any::<String>()) {
            let cell = defused(&text);
            prop_assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']));
        }
    }
}
