//! Reads a field of a `multipart/form-data` body. <https://www.rfc-editor.org/rfc/rfc7578>
//!
//! The reader accepts only the form in which every parser finds the same fields: no text before the
//! first boundary or after the last one, one plain name for each field, and no transfer encoding.

use std::ops::Range;

use super::Unreadable;
use crate::webhook::envelope::Envelope;

/// The longest boundary, in bytes. <https://www.rfc-editor.org/rfc/rfc2046#section-5.1.1>
const LONGEST_BOUNDARY: usize = 70;

/// The maximum number of fields.
const MOST_FIELDS: usize = 128;

/// Returns where the body contains the value of a field. Returns `None` if the body is not
/// `multipart/form-data`, or if it does not have the field.
pub(crate) fn field(envelope: &Envelope, name: &str) -> Result<Option<Range<usize>>, Unreadable> {
    let content_type = envelope.headers.one("content-type");
    let content_type = content_type.map_err(|_| Unreadable::RepeatedHeader)?;
    let Some(parameters) = content_type.and_then(form_data) else {
        return Ok(None);
    };
    let boundary = boundary(parameters).ok_or(Unreadable::NoJson)?;
    let fields = fields(&envelope.body, boundary).ok_or(Unreadable::NoJson)?;
    let mut named = fields.into_iter().filter(|(field, _)| *field == name);
    let first = named.next();
    if named.next().is_some() {
        return Err(Unreadable::RepeatedField);
    }
    Ok(first.map(|(_, range)| range))
}

/// Returns the parameters of the media type.
fn form_data(content_type: &str) -> Option<&str> {
    let (media_type, parameters) = content_type.split_once(';')?;
    let is_form = media_type
        .trim()
        .eq_ignore_ascii_case("multipart/form-data");
    is_form.then_some(parameters)
}

fn boundary(parameters: &str) -> Option<&str> {
    let mut found = parameters.split(';').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let is_boundary = name.trim().eq_ignore_ascii_case("boundary");
        is_boundary.then_some(value.trim())
    });
    let (first, second) = (found.next()?, found.next());
    let text = match first.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"')?,
        None => first,
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(&b);
    let fits = (1..=LONGEST_BOUNDARY).contains(&text.len()) && text.bytes().all(plain);
    (second.is_none() && fits).then_some(text)
}

/// Returns the name of each field, and the range of its value. Returns `None` if the body has
/// another form.
fn fields<'b>(body: &'b [u8], boundary: &str) -> Option<Vec<(&'b str, Range<usize>)>> {
    let mut fields = Vec::new();
    let delimiter = format!("\r\n--{boundary}");
    let mut at = boundary.len() + 2;
    if !body.starts_with(delimiter.as_bytes().get(2..)?) {
        return None;
    }
    loop {
        let rest = body.get(at..)?;
        if rest == b"--" || rest == b"--\r\n" {
            return Some(fields);
        }
        if !rest.starts_with(b"\r\n") || fields.len() >= MOST_FIELDS {
            return None;
        }
        let headers_end = find(body, at, b"\r\n\r\n")?;
        let name = name(body.get(at + 2..headers_end)?)?;
        let start = headers_end + 4;
        let end = find(body, start, delimiter.as_bytes())?;
        fields.push((name, start..end));
        at = end + delimiter.len();
    }
}

/// Returns the name in the headers of a field.
fn name(headers: &[u8]) -> Option<&str> {
    let mut name = None;
    for line in std::str::from_utf8(headers).ok()?.split("\r\n") {
        let (header, value) = line.split_once(':')?;
        if header.eq_ignore_ascii_case("content-transfer-encoding") {
            return None;
        }
        if !header.eq_ignore_ascii_case("content-disposition") {
            continue;
        }
        let mut parameters = value.split(';').map(str::trim);
        let is_field = parameters.next()?.eq_ignore_ascii_case("form-data");
        let names: Vec<&str> = parameters
            .filter(|parameter| parameter.to_ascii_lowercase().starts_with("name"))
            .collect();
        let [only] = names.as_slice() else {
            return None;
        };
        let quoted = only.get(4..)?.strip_prefix("=\"")?.strip_suffix('"')?;
        let plain = |b: u8| b.is_ascii_graphic() && !b"\"\\%;".contains(&b);
        let is_plain = !quoted.is_empty() && quoted.bytes().all(plain);
        if !is_field || !is_plain || name.replace(quoted).is_some() {
            return None;
        }
    }
    name
}

fn find(body: &[u8], from: usize, text: &[u8]) -> Option<usize> {
    let rest = body.get(from..)?;
    let at = rest.windows(text.len()).position(|part| part == text)?;
    Some(from + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::UnixMillis;

    fn value(content_type: &str, body: &str) -> Result<Option<String>, Unreadable> {
        let envelope = Envelope {
            method: "POST".into(),
            url: "https://in.test/in/a".into(),
            headers: [("content-type", content_type)].into_iter().collect(),
            body: body.to_owned().into(),
            received_at: UnixMillis(0),
        };
        let range = field(&envelope, "json")?;
        Ok(range.map(|range| body[range].to_owned()))
    }

    const TYPE: &str = "multipart/form-data; boundary=b1";

    fn part(name: &str, text: &str) -> String {
        format!("--b1\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
    }

    #[test]
    fn a_field_is_found_among_others() {
        let is = |text: &str| Ok(Some(text.to_owned()));
        let body = format!("{}{}--b1--\r\n", part("a", "1"), part("json", "{\r\n}"));
        assert_eq!(value(TYPE, &body), is("{\r\n}"));
        assert_eq!(value(TYPE, &format!("{}--b1--", part("json", ""))), is(""));
        let quoted = "Multipart/Form-Data; charset=utf-8; Boundary=\"b1\"";
        assert_eq!(value(quoted, &body), is("{\r\n}"));
        let file = "--b1\r\nContent-Type: application/json\r\nContent-Disposition: form-data; \
                    name=\"json\"; filename=\"a\"\r\n\r\n1\r\n--b1--";
        assert_eq!(value(TYPE, file), is("1"));
        assert_eq!(value(TYPE, &format!("{}--b1--", part("a", "1"))), Ok(None));
        assert_eq!(value("application/json", &body), Ok(None));
    }

    #[test]
    fn a_body_that_can_be_read_in_two_ways_is_refused() {
        let json = part("json", "1");
        let twice = format!("{json}{json}--b1--");
        assert_eq!(value(TYPE, &twice), Err(Unreadable::RepeatedField));
        for body in [
            String::new(),
            "--b1--".replace("b1", "b2"),
            json.clone(),
            format!("before\r\n{json}--b1--"),
            format!("{json}--b1--\r\nafter"),
            format!("{json}--b1--{json}--b1--"),
            format!("{}--b1--", json.replace("\"json\"", "json")),
            format!("{}--b1--", json.replace("name=", "name*=")),
            format!(
                "{}--b1--",
                json.replace("name=\"json\"", "name=\"a\"; name=\"json\"")
            ),
            format!("{}--b1--", json.replace("form-data", "attachment")),
            format!(
                "{}--b1--",
                json.replace("\r\n\r\n", "\r\nContent-Transfer-Encoding: base64\r\n\r\n")
            ),
            format!("{}--b1--", json.replace("\r\n", "\n")),
            "--b1\r\n\r\n1\r\n--b1--".to_owned(),
        ] {
            assert_eq!(value(TYPE, &body), Err(Unreadable::NoJson), "{body:?}");
        }
        for content_type in [
            "multipart/form-data; a=b",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary=b1; boundary=b2",
            "multipart/form-data; boundary=\"b1",
            "multipart/form-data; boundary=b 1",
        ] {
            let body = format!("{json}--b1--");
            assert_eq!(
                value(content_type, &body),
                Err(Unreadable::NoJson),
                "{content_type}"
            );
        }
    }
}
