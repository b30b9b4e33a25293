//! Checks that no byte of a signed message can move from one part to another.
//!
//! A signature covers the joined parts of a message. If the end of a part is ambiguous, an attacker
//! can split the same bytes in another way, and a captured signature is still valid. For example,
//! the id could include the beginning of the type, or the query could include the end of the body.
//! Therefore all parts except one must have an unambiguous end. A part has an unambiguous end if it
//! has a fixed length, or a shape that does not match the separator. A preset that breaks this rule
//! must explain in `ambiguity` which risk remains and what limits the risk.

use anyhow::bail;

use super::pattern::{Bytes, Reach};
use super::{Location, Part, Scheme, Timestamp, Unit};

/// A part with a value from the request, and the literal before it.
struct Open<'s> {
    part: &'s Part,
    before: String,
}

/// A placeholder in a literal. It replaces fixed text that this check does not know, such as the
/// secret.
const UNKNOWN: char = '\u{0}';

/// Rejects a scheme in which bytes can move between parts, unless the scheme explains the risk in
/// `ambiguity`.
pub(super) fn check(scheme: &Scheme) -> anyhow::Result<()> {
    let open = open(scheme);
    let first_free = (0..open.len()).find(|index| !ends_certainly(scheme, &open, *index));
    let Some(first_free) = first_free else {
        return Ok(());
    };
    let begins = |index: &usize| !begins_certainly(scheme, &open, *index);
    let last_free = (0..open.len()).rev().find(begins);
    if last_free.is_none_or(|last_free| last_free <= first_free) || scheme.ambiguity.is_some() {
        return Ok(());
    }
    let (Some(part), Some(next)) = (open.get(first_free), open.get(first_free + 1)) else {
        return Ok(());
    };
    bail!(
        "in the message {}, bytes can move between {} and {}. Add a shape for {} that does not \
         match {:?}, or explain in `ambiguity` which risk remains and what limits the risk",
        scheme.message,
        part.part,
        next.part,
        part.part,
        next.before
    )
}

/// The parts with values from the request.
fn open(scheme: &Scheme) -> Vec<Open<'_>> {
    fn collect<'s>(parts: &'s [Part], open: &mut Vec<Open<'s>>, literal: &mut String) {
        for part in parts {
            match part {
                Part::Literal(text) => literal.push_str(text),
                Part::Optional(inner) => collect(inner, open, literal),
                Part::Secret | Part::PublicUrl | Part::At(Location::Const(_)) => {
                    literal.push(UNKNOWN);
                }
                part => open.push(Open {
                    part,
                    before: std::mem::take(literal),
                }),
            }
        }
    }
    let (mut open, mut literal) = (Vec::new(), String::new());
    collect(&scheme.message.0, &mut open, &mut literal);
    open
}

/// Returns whether the end of a part is unambiguous if the message is read from its start.
fn ends_certainly(scheme: &Scheme, open: &[Open<'_>], index: usize) -> bool {
    // After the last part, the message ends or a literal follows.
    let (Some(this), Some(next)) = (open.get(index), open.get(index + 1)) else {
        return true;
    };
    let reach = reach(scheme, this.part);
    if is_date(scheme, this.part) || is_json_end(scheme, this, next) {
        return true;
    }
    // A time without its zone ends with digits, and the next byte cannot continue it.
    let time_end = |byte: u8| !b"0123456789.+-Zz".contains(&byte);
    if is_iso8601(scheme, this.part) && next.before.bytes().next().is_some_and(time_end) {
        return true;
    }
    match next.before.bytes().next().filter(|byte| *byte != 0) {
        Some(byte) => !reach.bytes.has(byte),
        None => {
            reach.len.is_some()
                || checked_at_once(this.part, next.part)
                || *this.part == Part::Method && is_url(next.part)
                // The first colon of an RFC 3339 time is its 14th character, so the start of the
                // time is unambiguous.
                || is_rfc3339(scheme, next.part) && !reach.bytes.has(b':')
        }
    }
}

/// Returns whether the start of a part is unambiguous if the message is read from its end.
fn begins_certainly(scheme: &Scheme, open: &[Open<'_>], index: usize) -> bool {
    let Some(this) = open.get(index) else {
        return true;
    };
    let Some(before) = index.checked_sub(1).and_then(|before| open.get(before)) else {
        return true;
    };
    let reach = reach(scheme, this.part);
    if is_date(scheme, this.part) || is_json_end(scheme, before, this) {
        return true;
    }
    match this.before.bytes().last().filter(|byte| *byte != 0) {
        Some(byte) => !reach.bytes.has(byte),
        None => reach.len.is_some() || checked_at_once(before.part, this.part),
    }
}

/// Returns whether `verify::joined` checks both parts together.
fn checked_at_once(one: &Part, next: &Part) -> bool {
    matches!(
        (one, next),
        (Part::Url, Part::Body) | (Part::Body, Part::Url)
    )
}

/// Returns whether one of two adjacent parts is a body that must be one JSON object or array. No
/// beginning and no end of such a body is a JSON object or array, apart from white space, which the
/// other part must not contain. The proof is in `verify::joined`.
fn is_json_end(scheme: &Scheme, one: &Open<'_>, next: &Open<'_>) -> bool {
    let space = Bytes::of(" \t\r\n");
    let (other, edge) = match (one.part, next.part) {
        (Part::Body, other) => (other, next.before.bytes().next()),
        (other, Part::Body) => (other, next.before.bytes().last()),
        _ => return false,
    };
    let has_space = |bytes: Bytes| bytes.without(space) != bytes;
    scheme.json_body
        && match edge {
            Some(byte) => byte != 0 && !space.has(byte),
            None => !has_space(reach(scheme, other).bytes),
        }
}

fn is_iso8601(scheme: &Scheme, part: &Part) -> bool {
    let iso = |ts: &Timestamp| ts.unit == Unit::Iso8601Utc;
    *part == Part::Timestamp && scheme.ts.as_ref().is_some_and(iso)
}

fn is_url(part: &Part) -> bool {
    matches!(part, Part::Url | Part::Path | Part::PathEncoded)
}

/// Returns whether the part is a date. A date begins with a four-digit year or the name of a day,
/// and ends with its time zone, so its start and end are unambiguous.
fn is_date(scheme: &Scheme, part: &Part) -> bool {
    let dated = |ts: &Timestamp| matches!(ts.unit, Unit::Rfc3339 | Unit::HttpDate);
    *part == Part::Timestamp && scheme.ts.as_ref().is_some_and(dated)
}

fn is_rfc3339(scheme: &Scheme, part: &Part) -> bool {
    *part == Part::Timestamp
        && scheme
            .ts
            .as_ref()
            .is_some_and(|ts| ts.unit == Unit::Rfc3339)
}

fn reach(scheme: &Scheme, part: &Part) -> Reach {
    let any = |bytes: Bytes| Reach { bytes, len: None };
    let fixed = |bytes: &str, len: usize| Reach {
        bytes: Bytes::of(bytes),
        len: Some(len),
    };
    let line = Bytes::ALL.without(Bytes::of("\r\n\0"));
    match part {
        Part::Timestamp => timestamp(scheme.ts.as_ref()),
        Part::BodySha256Hex => fixed("0123456789abcdef", 64),
        Part::BodyCrc32 => any(Bytes::of("0123456789")),
        Part::Method => any(Bytes::of("ABCDEFGHIJKLMNOPQRSTUVWXYZ")),
        Part::Url | Part::Path | Part::PathEncoded => any(line.without(Bytes::of(" "))),
        // Verification rejects header names that contain a dot.
        Part::SigRaw(key)
            if scheme
                .message
                .any(&|p| *p == Part::SignedHeaders(key.clone())) =>
        {
            any(line.without(Bytes::of(".")))
        }
        Part::SigRaw(_) | Part::SignedHeaders(_) | Part::SignedHeadersKv(_) => any(line),
        Part::At(location) | Part::Lower(location) => {
            let shape = scheme.shapes.iter().find(|shape| shape.from == *location);
            match (shape, location) {
                (Some(shape), _) => shape.allow.reach(),
                (None, Location::Header(_)) => any(line),
                (None, _) => any(Bytes::ALL),
            }
        }
        _ => any(Bytes::ALL),
    }
}

/// If the window is enforced, a numeric timestamp has a fixed length until the year 2286. Such a
/// timestamp is near the current time and has no leading zeros.
fn timestamp(ts: Option<&Timestamp>) -> Reach {
    let len = ts.filter(|ts| ts.enforce).and_then(|ts| match ts.unit {
        Unit::S => Some(10),
        Unit::Ms => Some(13),
        _ => None,
    });
    let dated =
        ts.is_some_and(|ts| matches!(ts.unit, Unit::Rfc3339 | Unit::HttpDate | Unit::Iso8601Utc));
    Reach {
        bytes: if dated {
            Bytes::ALL.without(Bytes::of("\r\n\0"))
        } else {
            Bytes::of("0123456789")
        },
        len,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::Preset;

    /// Parses a preset with this message and additional lines in its `[[verify]]` table.
    fn read(message: &str, more: &str) -> Result<Preset, String> {
        let text = format!(
            "schema = 1\nid = \"a\"\nname = \"A\"\ndocs = \"https://a.test\"\nchecked = \"2026-11\"\n\
             [[verify]]\nkind = \"hmac\"\nmessage = '''{message}'''\n\
             sig = {{ from = \"header:x-sig\" }}\n{more}\n[event]\n"
        );
        Preset::parse(&text, &BTreeMap::new()).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_message_whose_parts_end_certainly_is_accepted() {
        let ts = "ts = { from = \"header:x-time\" }";
        let date = "ts = { from = \"header:x-time\", unit = \"rfc3339\" }";
        let iso = "ts = { from = \"header:x-time\", unit = \"iso8601-utc\" }";
        let loose = "ts = { from = \"header:x-time\", enforce = false }";
        let id = |allow: &str| {
            format!("{ts}\nshapes = [{{ from = \"header:x-id\", allow = '{allow}' }}]")
        };
        for (message, more) in [
            ("{body}", String::new()),
            ("{ts}.{body}", ts.to_owned()),
            ("{ts}{body}", ts.to_owned()),
            ("{body}{ts}", ts.to_owned()),
            ("{body}{ts}", date.to_owned()),
            ("{ts}{body}", format!("{loose}\njson_body = true")),
            (
                "{header:x-id}{ts}{body}",
                format!("{}\njson_body = true", id("^[0-9a-z-]+$")),
            ),
            ("{body}.{header:x-id}.{ts}", id("^[0-9a-z]+$")),
            (
                "{body}{header:x-id}",
                format!("{}\njson_body = true", id("^[0-9a-z]+$")),
            ),
            ("v1:{ts}:{body}", iso.to_owned()),
            ("{url}{body}", String::new()),
            ("{body}{url}", String::new()),
            ("{method}{url}{body}{ts}", ts.to_owned()),
            ("{header:x-id}.{ts}.{body}", id("^[^.]{1,64}$")),
            ("{header:x-id}{body}", id("^[0-9a-f]{32}$")),
            ("{header:x-id}\n{header:x-other}\n{body}", String::new()),
            (
                "{json:a}:{json:b}:{ts}",
                format!("{ts}\nshapes = [{{ from = \"json:a\", allow = '^[0-9]+$' }}]"),
            ),
        ] {
            assert_eq!(read(message, &more).err(), None, "{message}");
        }
    }

    #[test]
    fn a_message_whose_bytes_can_move_is_refused() {
        let ts = "ts = { from = \"header:x-time\" }";
        let loose = "ts = { from = \"header:x-time\", enforce = false }";
        for (message, more, named) in [
            ("{header:x-id}.{body}", "", "{header:x-id}"),
            ("{header:x-id}{ts}{body}", ts, "{header:x-id}"),
            ("{ts}{body}", loose, "{ts}"),
            (
                "{ts}{body}",
                "ts = { from = \"header:x-time\", unit = \"iso8601-utc\" }",
                "{ts}",
            ),
            // White space could move between the body and the id.
            ("{body}{header:x-id}", "json_body = true", "{body}"),
            ("{body}{header:x-time}", "", "{body}"),
            ("{url}{form_sorted}", "", "{url}"),
            ("{json:a}:{json:b}:{json:c}", "", "{json:a}"),
            (
                "{header:x-id}.{body}",
                "shapes = [{ from = \"header:x-id\", allow = '^[a-z.]+$' }]",
                "{header:x-id}",
            ),
        ] {
            let error = read(message, more).unwrap_err();
            assert!(
                error.contains("bytes can move") && error.contains(named),
                "{message}: {error}"
            );
            let said = format!("{more}\nambiguity = \"the id may end at any dot\"");
            assert_eq!(read(message, &said).err(), None, "{message}");
        }
    }
}
