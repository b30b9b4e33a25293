//! What the verification asks of a request so that its signed message can be read in one way only,
//! beside the shapes of its preset.

use super::{Reason, Rejected, unreadable};
use crate::webhook::envelope::{Envelope, form_fields};
use crate::webhook::preset::{EventAt, Location, Part, Place, Scheme, Unreadable};

/// Looks at a request, or at one item of it.
pub(super) fn check(scheme: &Scheme, place: Place<'_>) -> Result<(), Rejected> {
    shapes(scheme, place)?;
    url_and_body(scheme, place.envelope)?;
    fields(scheme, place.envelope)
}

/// The same for a request and for each item of it that is signed by itself.
pub(super) fn check_all(scheme: &Scheme, envelope: &Envelope) -> Result<(), Rejected> {
    let place = Place::from(envelope);
    check(scheme, place)?;
    let items = scheme
        .for_each
        .as_ref()
        .map(|path| path.all(&envelope.body));
    let items = items.and_then(Result::ok).into_iter().flatten();
    let mut places = items.map(|item| Place { item, ..place });
    places.try_for_each(|place| check(scheme, place))
}

/// A value that is absent is missed where it is read.
fn shapes(scheme: &Scheme, place: Place<'_>) -> Result<(), Rejected> {
    for shape in &scheme.shapes {
        let reason = match shape.from {
            Location::Json(_) | Location::Item(_) | Location::Form(_) | Location::FormXml(..) => {
                Reason::MalformedBody
            }
            _ => Reason::MalformedSignature,
        };
        let value = match shape.from.find(place) {
            Ok(value) => value.filter(|value| !value.is_empty()),
            // Where the body is no JSON, the value is missed where it is read.
            Err(Unreadable::NoJson) => None,
            Err(error) => return Err(unreadable(error)),
        };
        if value.is_some_and(|value| !shape.allow.is_match(&value)) {
            return Err(Rejected(reason));
        }
    }
    Ok(())
}

/// Where URL and body are signed without anything between them, the end of one must not be the
/// beginning of the other. A part of a JSON object or array is never one itself, so that with a
/// query the body has to be one. Without a query the URL is that of the source.
fn url_and_body(scheme: &Scheme, envelope: &Envelope) -> Result<(), Rejected> {
    let joined = scheme.message.0.windows(2).any(|pair| {
        matches!(
            pair,
            [Part::Url, Part::Body | Part::FormSorted] | [Part::Body, Part::Url]
        )
    });
    if !joined {
        return Ok(());
    }
    let body = &envelope.body;
    let good = if envelope.url.contains('?') {
        let form = scheme.message.0.contains(&Part::FormSorted);
        let bodiless = body.is_empty() && envelope.method != "POST";
        bodiless
            || if form {
                !body.is_empty()
            } else {
                is_json(body)
            }
    } else {
        !body.starts_with(b"?")
    };
    if good {
        Ok(())
    } else {
        Err(Rejected(Reason::MalformedBody))
    }
}

/// Whether the bytes are one JSON object or array.
fn is_json(body: &[u8]) -> bool {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'['))
        && serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

/// The fields of a form: all that are named, each once, and no other; and none that is there twice
/// where the signature sees it once.
fn fields(scheme: &Scheme, envelope: &Envelope) -> Result<(), Rejected> {
    let sorted = scheme.message.0.contains(&Part::FormSorted);
    if scheme.only_fields.is_empty() && !sorted {
        return Ok(());
    }
    let mut fields = form_fields(&envelope.body);
    if !scheme.only_fields.is_empty() {
        let mut names: Vec<&[u8]> = fields.iter().map(|(name, _)| name.as_slice()).collect();
        let mut only: Vec<&[u8]> = scheme.only_fields.iter().map(String::as_bytes).collect();
        names.sort_unstable();
        only.sort_unstable();
        // One that is absent is missed where it is read.
        let known = names.iter().all(|name| only.contains(name));
        let once = names.windows(2).all(|pair| pair.first() != pair.last());
        if !(known && once) {
            return Err(Rejected(Reason::MalformedBody));
        }
    }
    fields.sort_unstable();
    if sorted && fields.windows(2).any(|pair| pair.first() == pair.last()) {
        return Err(Rejected(Reason::MalformedBody));
    }
    Ok(())
}

/// What an event is read from stands in a form once: of two, the handler may read the other.
pub(super) fn event_fields(at: &EventAt, envelope: &Envelope) -> Result<(), Rejected> {
    let named = [&at.id, &at.kind, &at.account, &at.delivery]
        .into_iter()
        .flat_map(|locations| &locations.0)
        .chain(&at.composite);
    for location in named {
        if matches!(location, Location::Form(_) | Location::FormXml(..))
            && location.find(envelope) == Err(Unreadable::RepeatedField)
        {
            return Err(unreadable(Unreadable::RepeatedField));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_json_object_is_a_json_object() {
        let body = br#"{"a":"b{","c":["{",":[",""],"d":"{\"x\":1}","e":{"":"}"}}"#;
        assert!(is_json(body));
        for at in 1..body.len() {
            let (before, after) = body.split_at(at);
            assert!(!is_json(before) && !is_json(after), "{at}");
        }
        for other in ["", " ", "1", "\"a\"", "null", "{}x", "x{}"] {
            assert!(!is_json(other.as_bytes()), "{other}");
        }
    }
}
