//! Checks that a signed message can be split into its parts in only one way. The checks use the
//! shapes of the preset, and rules for the URL, the body and form fields.

use super::{Reason, Rejected, unreadable};
use crate::webhook::envelope::{Envelope, form_fields};
use crate::webhook::preset::{EventAt, Location, Part, Place, Scheme, Unreadable};

/// Checks a request, or one item of it.
pub(super) fn check(scheme: &Scheme, place: Place<'_>) -> Result<(), Rejected> {
    shapes(scheme, place)?;
    if scheme.json_body && !is_json(&place.envelope.body) {
        return Err(Rejected(Reason::MalformedBody));
    }
    url_and_body(scheme, place.envelope)?;
    fields(scheme, place.envelope)
}

/// Checks a request, and each item that has its own signature.
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

/// Checks the shapes of the preset. Accepts an absent value, because the code that reads the value
/// reports it.
fn shapes(scheme: &Scheme, place: Place<'_>) -> Result<(), Rejected> {
    for shape in &scheme.shapes {
        let reason = match shape.from {
            Location::Json(_)
            | Location::Item(_)
            | Location::Form(_)
            | Location::FormXml(..)
            | Location::FormJson(..)
            | Location::MultipartJson(..) => Reason::MalformedBody,
            _ => Reason::MalformedSignature,
        };
        let value = match shape.from.find(place) {
            Ok(value) => value.filter(|value| !value.is_empty()),
            // If the body is not JSON, the code that reads the value reports it.
            Err(Unreadable::NoJson) => None,
            Err(error) => return Err(unreadable(error)),
        };
        if value.is_some_and(|value| !shape.allow.is_match(&value)) {
            return Err(Rejected(reason));
        }
    }
    Ok(())
}

/// Checks a URL and a body that are signed without a separator. An attacker must not be able to
/// move bytes between them.
///
/// If the URL has a query, the body must be a JSON object or array, which is not valid without its
/// first or last bytes. A form must not be empty. If the URL has no query, the URL is the fixed URL
/// of the source, and the body must not begin with `?`.
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

/// Returns whether the bytes are exactly one JSON object or array.
fn is_json(body: &[u8]) -> bool {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'['))
        && serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

/// Checks the fields of a form. With `only_fields`, each field must be in the list and occur once.
/// With `{form_sorted}`, no pair of name and value may occur twice, because the signature covers a
/// repeated pair only once.
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
        // The code that reads a field reports an absent field.
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

/// Checks that no form field with an attribute of the event is repeated. If a field is repeated, an
/// action could read another value than Mitt.
pub(super) fn event_fields(at: &EventAt, envelope: &Envelope) -> Result<(), Rejected> {
    let named = [&at.id, &at.kind, &at.account, &at.delivery]
        .into_iter()
        .flat_map(|locations| &locations.0)
        .chain(&at.composite);
    for location in named {
        let in_field = matches!(
            location,
            Location::Form(_)
                | Location::FormXml(..)
                | Location::FormJson(..)
                | Location::MultipartJson(..)
        );
        if in_field && location.find(envelope) == Err(Unreadable::RepeatedField) {
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
