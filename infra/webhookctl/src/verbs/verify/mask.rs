//! The parts of a request that can be pasted into a ticket.

use shared::webhook::verify::{Message, Show};

use crate::output::safe::safe_bytes;

/// Maximum number of displayed characters of the signed text.
const SHORT: usize = 50;
const LONG: usize = 1000;

/// The first and last characters of a signature, enough to tell two signatures apart.
pub(super) fn signature(text: &str, reveal: bool) -> String {
    let characters: Vec<char> = text.chars().collect();
    match characters.as_slice() {
        _ if reveal => text.to_owned(),
        [first @ .., _, _, _, _] if first.len() >= 20 => {
            let last = &characters[first.len()..];
            let (first, last): (String, String) =
                (first.iter().take(8).collect(), last.iter().collect());
            format!("{first}…{last}")
        }
        _ => "…".to_owned(),
    }
}

pub(super) fn hash(hex: &str) -> String {
    signature(hex, false)
}

/// A URL without its query, because operators and providers also put secrets there.
pub(super) fn url(url: &str, reveal: bool) -> String {
    match url.split_once('?') {
        Some((path, _)) if !reveal => format!("{path}?…"),
        _ => url.to_owned(),
    }
}

/// The signed text, with placeholders for hidden parts.
pub(super) fn message(message: &Message, reveal: bool) -> String {
    let shown = message.pieces.iter().map(|piece| match piece.show {
        Show::Hidden => piece.part.clone(),
        Show::WhoAsks if !reveal => piece.part.clone(),
        Show::Url => url(&safe_bytes(&piece.bytes), reveal),
        _ => safe_bytes(&piece.bytes),
    });
    let shown: String = shown.collect();
    let most = if reveal { LONG } else { SHORT };
    match shown.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

/// A header's name in the providers' spelling.
pub(super) fn header(name: &str) -> String {
    let word = |word: &str| {
        let mut characters = word.chars();
        let first = characters.next().map(|c| c.to_ascii_uppercase());
        first.into_iter().chain(characters).collect::<String>()
    };
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_keeps_its_ends_and_a_short_one_nothing() {
        let hex = "953fafbb0000000000000000000000000000000000000000000000000000f6ea3";
        assert_eq!(signature(hex, false), "953fafbb…6ea3");
        assert_eq!(signature(hex, true), hex);
        assert_eq!(signature("my-short-token", false), "…");
        assert_eq!(header("x-hub-signature-256"), "X-Hub-Signature-256");
        assert_eq!(url("https://a/b?token=1", false), "https://a/b?…");
    }
}
