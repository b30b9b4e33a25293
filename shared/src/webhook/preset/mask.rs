//! Masks the tokens that some providers put into the body of a webhook. The stored body keeps them,
//! because Mitt verifies it again and compares its hash. A caller with such a token can send events.

use std::ops::Range;

use super::{Kind, Location, Preset};
use crate::base::json_path::span;

/// The JSON value that replaces a token.
const MASK: &[u8] = b"\"***\"";

impl Preset {
    /// Returns the body with a mask in place of each token, and the number of tokens. Returns `None`
    /// if the body contains none. All other bytes are unchanged.
    pub fn masked_body(&self, body: &[u8]) -> Option<(Vec<u8>, usize)> {
        let mut tokens: Vec<Range<usize>> = Vec::new();
        for location in self.token_locations() {
            let Location::Json(path) = location else {
                continue;
            };
            let values = path.all(body).unwrap_or_default();
            tokens.extend(values.into_iter().flatten().map(|raw| span(body, raw)));
        }
        tokens.sort_by_key(|token| token.start);
        // Two variants can have the same location.
        tokens.dedup();
        if tokens.is_empty() {
            return None;
        }
        let (mut masked, mut from) = (Vec::with_capacity(body.len()), 0);
        for token in &tokens {
            masked.extend_from_slice(body.get(from..token.start)?);
            masked.extend_from_slice(MASK);
            from = token.end;
        }
        masked.extend_from_slice(body.get(from..)?);
        Some((masked, tokens.len()))
    }

    /// The locations of tokens, in all variants: the source can have had another variant before.
    fn token_locations(&self) -> impl Iterator<Item = &Location> {
        let schemes = self.schemes.iter();
        let tokens = schemes.filter(|scheme| scheme.kind == Kind::Token);
        tokens.flat_map(|scheme| std::iter::once(&scheme.sig.from).chain(&scheme.sig.also))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn masked(preset: &str, body: &str) -> Option<(String, usize)> {
        let preset = Preset::embedded(preset, &BTreeMap::new()).unwrap();
        let (masked, count) = preset.masked_body(body.as_bytes())?;
        Some((String::from_utf8(masked).unwrap(), count))
    }

    #[test]
    fn only_the_token_is_masked() {
        let body = r#"{ "token":"s3cret-token", "data":{"token":"of the call"},"n":1.10 }"#;
        let shown = r#"{ "token":"***", "data":{"token":"of the call"},"n":1.10 }"#;
        assert_eq!(masked("aircall", body), Some((shown.to_owned(), 1)));
        let two = r#"{"value":[{"clientState":"a"},{"id":"x","clientState":"b"}]}"#;
        let shown = r#"{"value":[{"clientState":"***"},{"id":"x","clientState":"***"}]}"#;
        assert_eq!(masked("microsoft-graph", two), Some((shown.to_owned(), 2)));
        assert_eq!(masked("figma", r#"{"event_type":"PING"}"#), None);
        assert_eq!(masked("figma", "no json"), None);
        assert_eq!(masked("stripe", r#"{"token":"tok_1"}"#), None);
    }

    /// A token at another place in the body needs a mask of its own.
    #[test]
    fn every_token_in_a_body_can_be_masked() {
        for id in Preset::ids() {
            let preset = Preset::embedded(id, &BTreeMap::new()).unwrap();
            for location in preset.token_locations() {
                let is_known = matches!(
                    location,
                    Location::Json(_) | Location::Header(_) | Location::Query(_)
                );
                assert!(is_known, "{id}: {location}");
            }
        }
    }
}
