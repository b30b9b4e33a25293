//! The `traceparent` that a provider sent. No signature covers it, so it is only a link.

use serde::Serialize;

/// The span of the sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Link {
    pub(super) trace_id: String,
    pub(super) span_id: String,
}

impl Link {
    /// Parses the header. Returns `None` if it is invalid.
    /// <https://www.w3.org/TR/trace-context/#traceparent-header-field-values>
    pub(super) fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let mut next = |length| parts.next().filter(|part| is_hex(part, length));
        let (version, trace, span, _) = (next(2)?, next(32)?, next(16)?, next(2)?);
        let is_known = version == "00";
        let is_valid = version != "ff" && (!is_known || parts.next().is_none());
        let is_zero = |id: &str| id.bytes().all(|digit| digit == b'0');
        (is_valid && !is_zero(trace) && !is_zero(span)).then(|| Self {
            trace_id: trace.to_owned(),
            span_id: span.to_owned(),
        })
    }
}

fn is_hex(part: &str, length: usize) -> bool {
    let is_digit = |digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    part.len() == length && part.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_traceparent_is_a_link() {
        let [trace, span] = ["4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"];
        let link = Link {
            trace_id: trace.into(),
            span_id: span.into(),
        };
        for valid in [
            format!("00-{trace}-{span}-01"),
            format!("00-{trace}-{span}-00"),
            format!("01-{trace}-{span}-01-later"),
        ] {
            assert_eq!(Link::parse(&valid), Some(link.clone()), "{valid}");
        }
        for invalid in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{trace}x-{span}-01"),
            format!("00-{trace}\u{1b}-{span}-01"),
        ] {
            assert_eq!(Link::parse(&invalid), None, "{invalid}");
        }
    }
}
