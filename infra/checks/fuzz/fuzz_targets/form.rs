//! Compares a field of an urlencoded body with the result of the URL standard's parser. A body that
//! repeats the field must be rejected. The first line of the input is the name of the field.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shared::webhook::envelope::{Envelope, Headers};
use shared::webhook::preset::{Location, Unreadable};

fuzz_target!(|data: &[u8]| {
    let Some((name, body)) = fuzz::line(data) else {
        return;
    };
    let text = String::from_utf8_lossy(body);
    let envelope = Envelope {
        method: "POST".into(),
        url: format!("https://in.example.test/in/s?{text}"),
        headers: Headers::default(),
        body: body.to_vec().into(),
        received_at: fuzz::NOW,
    };
    let named = |(key, value): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
        (key == name).then(|| value.into_owned())
    };
    let found = Location::Form(name.into()).find(&envelope);
    let mut values = form_urlencoded::parse(body).filter_map(named);
    let (expected, another) = (values.next(), values.next());
    // The comparison skips text that is not UTF-8.
    let exact = |text: &String| !text.contains('\u{fffd}');
    if !name.contains('\u{fffd}') && expected.as_ref().is_none_or(exact) {
        let expected = match another {
            Some(_) => Err(Unreadable::RepeatedField),
            None => Ok(expected),
        };
        assert_eq!(found, expected);
    }
    let found = Location::Query(name.into()).find(&envelope);
    let query = text.split('#').next().unwrap_or_default();
    if query == text {
        let expected = form_urlencoded::parse(text.as_bytes()).find_map(named);
        assert_eq!(found, Ok(expected));
    }
});
