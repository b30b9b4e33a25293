//! Masks the parts of a request, so that operators can paste them into a ticket.

use shared::webhook::verify::{Message, Show};

use crate::output::safe::safe_bytes;

/// The maximum number of characters of the signed text in the output.
const SHORT: usize = 50;
const LONG: usize = 1000;

/// Returns the first and the last characters of a signature. They are enough to distinguish two
/// signatures.
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

/// Returns a URL without its query, because operators and providers also put secrets into the
/// query.
pub(super) fn url(url: &str, reveal: bool) -> String {
    match url.split_once('?') {
        Some((path, _)) if !reveal => format!("{path}?…"),
        _ => url.to_owned(),
    }
}

/// Returns the signed text. Placeholders replace the hidden parts.
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

/// Returns a header's name in the provider's spelling.
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
