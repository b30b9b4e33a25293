//! The zstd dictionary for stored bodies: the text that documented webhooks have in common.
//!
//! A dictionary never changes, because bodies that were compressed with it cannot be read without
//! it. A better dictionary gets a new number. A release does not compress with a dictionary that
//! the previous release does not know.

use std::cell::RefCell;
use std::io;
use std::sync::LazyLock;

use zstd::bulk::Compressor;
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::stream::read::Decoder;

use super::body::LEVEL;

/// Example webhooks of some providers, in the documented format and with made-up values. The file
/// has one example of each type, on one line or indented, as the provider sends it.
const FIRST: &[u8] = include_bytes!("../../../dictionaries/1.txt");

/// The dictionary is prepared once per process, because the preparation takes longer than
/// compressing a body.
static PACKING: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(FIRST, LEVEL));
static UNPACKING: LazyLock<DecoderDictionary<'static>> =
    LazyLock::new(|| DecoderDictionary::copy(FIRST));

thread_local! {
    /// The compressor is reused, because its tables are as large as a hundred bodies.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

pub(super) fn pack(body: &[u8]) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(compressor) => compressor.compress(body),
        None => kept
            .insert(Compressor::with_prepared_dictionary(&PACKING)?)
            .compress(body),
    })
}

pub(super) fn reader(packed: &[u8]) -> io::Result<impl io::Read> {
    Decoder::with_prepared_dictionary(packed, &UNPACKING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::event::Sha;

    #[test]
    fn the_dictionary_is_what_stored_bodies_were_packed_with() {
        assert_eq!(
            Sha::of(FIRST).hex(),
            "0a1ba0e8dfb9898ac71679dd05ed1cb1bddf7eb46671a406246bdfd225da8780",
            "do not change this dictionary; add another with its own number"
        );
    }
}
