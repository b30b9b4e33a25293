//! The request of an event as a body row stores it, in the attribute `rq`.
//!
//! The first byte is the encoding: `0` for text, `1` for text that is compressed with the first
//! dictionary of requests. The lines of the text are:
//!
//! | line | meaning |
//! |---|---|
//! | `METHOD TARGET` | the first line; the target is the path with the query |
//! | `name: value` | a header |
//! | `-name` | a header that the row has for verification, and that the source does not keep |
//! | `: n` | how many headers were not kept because of a limit |
//!
//! Headers that the state row has in `hdr` and `ct` are not stored twice.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::{self, Read as _};
use std::sync::LazyLock;

use zstd::bulk::Compressor;
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::stream::read::Decoder;

use super::body::LEVEL;
use crate::webhook::context::{KeptRequest, RequestContext};

/// Requests of providers in their documented shape, with made-up values. Like the dictionary of
/// bodies, it never changes: a better one gets its own number.
const FIRST: &[u8] = include_bytes!("../../../dictionaries/requests-1.txt");

static PACKING: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(FIRST, LEVEL));
static UNPACKING: LazyLock<DecoderDictionary<'static>> =
    LazyLock::new(|| DecoderDictionary::copy(FIRST));

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

const TEXT: u8 = 0;
const FIRST_DICTIONARY: u8 = 1;

/// The longest text of a request, in bytes. The catcher keeps at most 4 KB.
const LONGEST: u64 = 16 * 1024;

/// Why a stored request cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadableRequest {
    /// Only a newer release knows the encoding.
    UnknownEncoding(u8),
    Damaged,
}

impl fmt::Display for UnreadableRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownEncoding(encoding) => write!(
                f,
                "the stored request has the unknown encoding {encoding}; read it with the release \
                 that wrote it"
            ),
            Self::Damaged => f.write_str("the stored request is damaged"),
        }
    }
}

impl std::error::Error for UnreadableRequest {}

/// The headers of a state row.
#[derive(Clone, Copy)]
pub(crate) struct InRow<'r> {
    pub(crate) headers: &'r BTreeMap<String, String>,
    pub(crate) content_type: Option<&'r str>,
}

impl InRow<'_> {
    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.as_str()));
        let of_type = self.content_type.map(|value| ("content-type", value));
        headers
            .filter(|(name, _)| *name != "content-type")
            .chain(of_type)
    }

    fn get(&self, name: &str) -> Option<&str> {
        if name == "content-type" {
            return self.content_type;
        }
        self.headers.get(name).map(String::as_str)
    }
}

/// The bytes of `rq`.
pub(crate) fn pack(kept: &KeptRequest, row: InRow<'_>) -> Vec<u8> {
    let text = written(kept, row);
    match compressed(text.as_bytes()) {
        Ok(packed) if packed.len() < text.len() => [&[FIRST_DICTIONARY], &packed[..]].concat(),
        _ => [&[TEXT], text.as_bytes()].concat(),
    }
}

/// Like [`pack`], but without a dictionary, which another release may not have.
pub(crate) fn pack_as_text(kept: &KeptRequest, row: InRow<'_>) -> Vec<u8> {
    [&[TEXT], written(kept, row).as_bytes()].concat()
}

/// Reads the bytes of `rq`, and adds the headers of the state row.
pub(crate) fn unpack(bytes: &[u8], row: InRow<'_>) -> Result<KeptRequest, UnreadableRequest> {
    let damaged = UnreadableRequest::Damaged;
    let (encoding, stored) = bytes.split_first().ok_or(damaged)?;
    let mut text = String::new();
    match *encoding {
        TEXT => stored.take(LONGEST).read_to_string(&mut text),
        FIRST_DICTIONARY => Decoder::with_prepared_dictionary(stored, &UNPACKING)
            .and_then(|reader| reader.take(LONGEST).read_to_string(&mut text)),
        encoding => return Err(UnreadableRequest::UnknownEncoding(encoding)),
    }
    .map_err(|_| damaged)?;
    let is_whole = u64::try_from(text.len()).is_ok_and(|len| len < LONGEST);
    let kept = is_whole.then(|| read(&text, row)).flatten();
    kept.ok_or(damaged)
}

fn compressed(text: &[u8]) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(compressor) => compressor.compress(text),
        None => kept
            .insert(Compressor::with_prepared_dictionary(&PACKING)?)
            .compress(text),
    })
}

fn written(kept: &KeptRequest, row: InRow<'_>) -> String {
    let RequestContext {
        method,
        path,
        query,
        headers,
    } = &kept.context;
    let mut text = format!("{method} {path}");
    if let Some(query) = query {
        text.push('?');
        text.push_str(query);
    }
    text.push('\n');
    // Writing to a `String` never fails.
    for (name, value) in headers.iter() {
        let alone = headers.all(name).nth(1).is_none();
        if !(alone && row.get(name) == Some(value)) {
            let _ = writeln!(text, "{name}: {value}");
        }
    }
    let in_request = |name: &str| headers.all(name).next().is_some();
    for (name, _) in row.iter().filter(|(name, _)| !in_request(name)) {
        let _ = writeln!(text, "-{name}");
    }
    if kept.dropped > 0 {
        let _ = writeln!(text, ": {}", kept.dropped);
    }
    text
}

fn read(text: &str, row: InRow<'_>) -> Option<KeptRequest> {
    let mut lines = text.lines();
    let (method, target) = lines.next()?.split_once(' ')?;
    let (path, query) = target
        .split_once('?')
        .map_or((target, None), |(path, query)| (path, Some(query)));
    let (mut headers, mut left_out, mut dropped) = (Vec::new(), Vec::new(), 0);
    for line in lines {
        match line.split_once(": ") {
            Some(("", number)) => dropped = number.parse().ok()?,
            Some(header) => headers.push(header),
            None => left_out.push(line.strip_prefix('-')?),
        }
    }
    let stored = headers.len();
    for (name, value) in row.iter() {
        let mut known = headers.iter().take(stored);
        if !left_out.contains(&name) && !known.any(|(known, _)| *known == name) {
            headers.push((name, value));
        }
    }
    headers.sort_by_key(|(name, _)| *name);
    Some(KeptRequest {
        context: RequestContext {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.map(str::to_owned),
            headers: headers.into_iter().collect(),
        },
        dropped,
    })
}

#[cfg(test)]
mod tests;
