//! A body as it is stored: compressed, with the name of its encoding.

use std::io::Read as _;

use anyhow::bail;
use zstd::stream::read::Decoder;

use super::{Body, MissingBody};
use crate::inbox::ledger::{Item, dictionary, item};
use crate::webhook::event::{LARGEST_BODY, Sha};

/// The zstd compression level. It gives most of the possible compression at a low CPU cost.
pub(in crate::inbox::ledger) const LEVEL: i32 = 3;

/// The maximum size of a state row with its body, in bytes. It is one write unit minus 256 bytes
/// for the attributes that a claim and a settlement add.
const INLINE: usize = 1024 - 256;

/// How the stored bytes of a body are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Raw,
    Zstd,
    /// Compressed with the first dictionary.
    Zstd1,
}

impl Encoding {
    /// Returns the name of the encoding in a row.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zstd => "zstd",
            Self::Zstd1 => "zstd.1",
        }
    }

    /// Returns the encoding of an item, or `None` if this release does not know it.
    pub(crate) fn of(item: &Item) -> Option<Self> {
        let word = item::text(item, "enc")?;
        let all = [Self::Raw, Self::Zstd, Self::Zstd1];
        all.into_iter().find(|encoding| encoding.word() == word)
    }
}

/// A body as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) encoding: Encoding,
}

impl Packed {
    /// Compresses without a dictionary, so that any zstd tool can read the result.
    pub(crate) fn new(body: &[u8]) -> Self {
        Self::smaller(zstd::bulk::compress(body, LEVEL), Encoding::Zstd, body)
    }

    /// Compresses with the dictionary. Bodies in the table use it, because DynamoDB bills each KB.
    pub(in crate::inbox::ledger) fn for_row(body: &[u8]) -> Self {
        Self::smaller(dictionary::pack(body), Encoding::Zstd1, body)
    }

    fn smaller(packed: std::io::Result<Vec<u8>>, encoding: Encoding, body: &[u8]) -> Self {
        match packed {
            Ok(bytes) if bytes.len() < body.len() => Self { bytes, encoding },
            _ => Self {
                bytes: body.to_vec(),
                encoding: Encoding::Raw,
            },
        }
    }

    /// Adds the body and the request to the state row if all fit into one write unit. Returns
    /// whether they were added.
    pub(in crate::inbox::ledger) fn inline(&self, row: &mut Item, request: Option<&[u8]>) -> bool {
        let of_request = request.map_or(0, |request| request.len() + "rq".len());
        if item::size(row) + self.bytes.len() + "bencraw".len() + 8 + of_request > INLINE {
            return false;
        }
        row.extend(request.map(|request| ("rq".to_owned(), item::b(request))));
        row.insert("b".into(), item::b(self.bytes.as_slice()));
        row.insert("enc".into(), item::s(self.encoding.word()));
        row.insert("bref".into(), item::s("i"));
        true
    }
}

/// Reads the stored bytes and their encoding. Returns an error if the encoding is unknown, because
/// only a newer release can read the body.
pub(super) fn stored(item: &Item) -> anyhow::Result<Option<(Vec<u8>, Encoding)>> {
    let Some(bytes) = item::bytes(item, "b") else {
        return Ok(None);
    };
    match Encoding::of(item) {
        Some(encoding) => Ok(Some((bytes.to_vec(), encoding))),
        None => {
            bail!("unknown body encoding; read the body with the release that wrote it")
        }
    }
}

/// Decompresses and verifies a body. The output is limited to the recorded length, so that a
/// damaged body cannot exhaust the memory. The hash check detects a changed body.
pub(crate) fn unpack(
    bytes: Vec<u8>,
    encoding: Encoding,
    len: u64,
    sha: &Sha,
) -> Result<Body, MissingBody> {
    let capped = |reader: std::io::Result<Box<dyn std::io::Read + '_>>| {
        let mut out = Vec::new();
        let most = len.min(LARGEST_BODY as u64) + 1;
        let read = reader.and_then(|reader| reader.take(most).read_to_end(&mut out));
        read.map(|_| out).map_err(|_| MissingBody::Damaged)
    };
    let body = match encoding {
        Encoding::Raw => bytes,
        Encoding::Zstd => {
            capped(Decoder::new(bytes.as_slice()).map(|reader| Box::new(reader) as _))?
        }
        Encoding::Zstd1 => capped(dictionary::reader(&bytes).map(|reader| Box::new(reader) as _))?,
    };
    if Sha::of(&body) == *sha {
        Ok(Body(body.into()))
    } else {
        Err(MissingBody::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies() -> [Vec<u8>; 5] {
        let known = include_bytes!("../../../../dictionaries/1.txt");
        [
            b"".to_vec(),
            b"x".to_vec(),
            vec![0xff; 100_000],
            (0..=255).collect(),
            known[1_000..4_000].to_vec(),
        ]
    }

    #[test]
    fn any_body_comes_back_as_it_was() {
        for body in bodies() {
            let with_dictionary = Packed {
                bytes: dictionary::pack(&body).unwrap(),
                encoding: Encoding::Zstd1,
            };
            for packed in [Packed::new(&body), with_dictionary] {
                let (len, sha) = (body.len() as u64, Sha::of(&body));
                assert_eq!(
                    unpack(packed.bytes.clone(), packed.encoding, len, &sha),
                    Ok(Body(body.clone().into())),
                    "{:?}",
                    packed.encoding
                );
            }
        }
    }

    #[test]
    fn what_every_such_webhook_says_costs_next_to_nothing() {
        let [.., known] = bodies();
        let packed = dictionary::pack(&known).unwrap();
        assert!(packed.len() < 100, "{}", packed.len());
        assert!(Packed::new(&known).bytes.len() > 500);
    }

    #[test]
    fn a_bomb_and_a_changed_body_are_damage() {
        let bomb = zstd::bulk::compress(&vec![0; 64 * 1024 * 1024], 19).unwrap();
        let sha = Sha::of(b"small");
        for encoding in [Encoding::Zstd, Encoding::Zstd1] {
            let damaged = Err(MissingBody::Damaged);
            assert_eq!(unpack(bomb.clone(), encoding, 5, &sha), damaged);
            assert_eq!(unpack(bomb.clone(), encoding, u64::MAX, &sha), damaged);
            assert_eq!(unpack(b"no zstd".to_vec(), encoding, 5, &sha), damaged);
        }
        let raw = unpack(b"smell".to_vec(), Encoding::Raw, 5, &sha);
        assert_eq!(raw, Err(MissingBody::Damaged));
    }

    #[test]
    fn what_a_newer_release_wrote_is_not_taken_for_damage() {
        let row = |enc: &str| {
            let body = item::b(b"x".as_slice());
            Item::from([("b".to_owned(), body), ("enc".to_owned(), item::s(enc))])
        };
        for encoding in [Encoding::Raw, Encoding::Zstd, Encoding::Zstd1] {
            let found = stored(&row(encoding.word())).unwrap().unwrap();
            assert_eq!(found.1, encoding);
        }
        assert!(stored(&row("zstd.2")).is_err());
        assert!(stored(&Item::new()).unwrap().is_none());
    }
}
