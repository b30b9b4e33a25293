//! Shortens the text of an answer, and masks sensitive values in it.

use std::fmt::Write as _;

use super::{cut, masked};

/// The part of a body that is searched for a title, in bytes.
const LOOKED_AT: usize = 8 * 1024;

/// The largest part of a body that is masked, in bytes. It is larger than a text, because masks
/// make a text shorter.
const MASKED: usize = 2 * 1024;

/// The longest text, in bytes.
const LONGEST: usize = 512;

/// The longest part of the text in an error, in characters.
const IN_ERROR: usize = 120;

/// The text of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// At most 512 bytes.
    pub text: String,
    /// The part that the error of the event contains, at most 120 characters. For an HTML page, it
    /// is the title.
    pub in_error: Option<String>,
}

/// Returns the text of an answer, if its content type is text.
pub fn excerpt(content_type: Option<&str>, body: &[u8]) -> Option<Excerpt> {
    let kind = content_type.map(|text| {
        let kind = text.split(';').next().unwrap_or_default();
        kind.trim().to_ascii_lowercase()
    });
    if !kind.as_deref().is_none_or(is_text) {
        return None;
    }
    let body = String::from_utf8_lossy(body.get(..LOOKED_AT).unwrap_or(body));
    let text = plain(whole_words(&body, MASKED));
    let text = masked(&text);
    if text.is_empty() {
        return None;
    }
    let in_error = if is_page(kind.as_deref(), &body) {
        title(&body).map(|title| masked(&plain(whole_words(title, MASKED))))
    } else {
        Some(text.clone())
    };
    let in_error = in_error.map(|text| text.chars().take(IN_ERROR).collect::<String>());
    Some(Excerpt {
        in_error: in_error
            .map(|text| text.trim().to_owned())
            .filter(|text| says_something(text)),
        text: cut(&text, LONGEST).to_owned(),
    })
}

fn is_text(kind: &str) -> bool {
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(
            kind,
            "" | "application/json"
                | "application/xml"
                | "application/problem"
                | "application/x-www-form-urlencoded"
        )
}

/// Whether a text explains an error. An empty JSON value does not.
fn says_something(text: &str) -> bool {
    text != "null" && text.contains(char::is_alphanumeric)
}

fn is_page(kind: Option<&str>, body: &str) -> bool {
    let start = body.trim_start().get(..14).unwrap_or_default();
    let start = start.to_ascii_lowercase();
    matches!(kind, Some("text/html" | "application/xhtml+xml"))
        || start.starts_with("<!doctype html")
        || start.starts_with("<html")
}

/// The title of a page.
fn title(page: &str) -> Option<&str> {
    // ASCII lower case keeps the length, so a position is valid in both texts.
    let lower = page.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower.get(start..)?.find('>')? + 1;
    let end = start + lower.get(start..)?.find("</title")?;
    page.get(start..end)
}

/// Returns the beginning of a text. Omits a word that is cut, because a part of a secret may not be
/// recognized.
fn whole_words(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let text = cut(text, most);
    text.rfind(char::is_whitespace)
        .map_or(text, |end| &text[..end])
}

/// Returns the text as one line, with spaces for white space and codes for other control characters.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.trim().chars() {
        if c.is_whitespace() {
            if !plain.ends_with(' ') {
                plain.push(' ');
            }
        } else if c.is_control() {
            let _ = write!(plain, "\\u{:04x}", u32::from(c));
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, body: &str) -> Option<Excerpt> {
        excerpt(Some(kind), body.as_bytes())
    }

    #[test]
    fn only_text_is_kept() {
        for kind in [
            "text/plain; charset=utf-8",
            "TEXT/CSV",
            "application/json",
            "application/problem+json",
            "application/soap+xml",
            "application/x-www-form-urlencoded",
            "",
        ] {
            assert!(of(kind, "no such route").is_some(), "{kind}");
        }
        assert!(excerpt(None, b"no such route").is_some());
        for kind in [
            "image/png",
            "application/octet-stream",
            "application/pdf",
            "x",
        ] {
            assert_eq!(of(kind, "no such route"), None, "{kind}");
        }
        assert_eq!(of("text/plain", " \r\n\t "), None);
        assert_eq!(excerpt(None, b""), None);
    }

    #[test]
    fn the_text_is_one_short_line() {
        let said = of("text/plain", " a\r\n\tb \u{1b}[31m\u{7}c ").unwrap();
        assert_eq!(said.text, "a b \\u001b[31m\\u0007c");
        let said = of("text/plain", &"é ".repeat(5_000)).unwrap();
        assert!(said.text.len() <= LONGEST);
        assert_eq!(said.in_error.unwrap().chars().count(), IN_ERROR - 1);
        let bytes: Vec<u8> = (0..=255).cycle().take(20_000).collect();
        assert!(excerpt(None, &bytes).unwrap().text.len() <= LONGEST);
    }

    #[test]
    fn of_a_page_the_error_has_the_title() {
        let page = "<!DOCTYPE html>\n<html><head><TITLE lang=en>\n502 Bad\nGateway </title></head>";
        for kind in ["text/html", "text/html; charset=utf-8", ""] {
            let said = of(kind, page).unwrap();
            assert_eq!(said.in_error.as_deref(), Some("502 Bad Gateway"), "{kind}");
            assert!(said.text.starts_with("<!DOCTYPE html>"));
        }
        for page in [
            "<html><p>x",
            "<html><title>x",
            "<html><title",
            "<html><title></title>",
        ] {
            assert_eq!(of("text/html", page).unwrap().in_error, None, "{page}");
        }
        let hidden = of("text/html", "<title>token=sk_live_51Habcdefgh</title>").unwrap();
        assert_eq!(hidden.in_error.as_deref(), Some("token=***"));
    }

    #[test]
    fn an_empty_value_is_not_part_of_an_error() {
        for body in ["null", " null\n", "{}", "[]", "\"\"", "--"] {
            let said = of("application/json", body).unwrap();
            assert_eq!((said.text.as_str(), said.in_error), (body.trim(), None));
        }
        let said = of("application/json", "[\"é\"]").unwrap();
        assert_eq!(said.in_error.as_deref(), Some("[\"é\"]"));
    }

    #[test]
    fn a_secret_at_the_end_of_what_is_masked_is_left_out() {
        let mut body = "sk_live_51Habcdefgh ".repeat(102);
        body.truncate(MASKED - 6);
        body.push_str(" sk_live_51Habcdefgh");
        let said = of("text/plain", &body).unwrap();
        assert!(!said.text.contains("sk_l"), "{}", said.text);
    }
}
