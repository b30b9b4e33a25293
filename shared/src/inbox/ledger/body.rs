//! Bodies of events. All but small bodies are stored apart from the state rows: DynamoDB bills an
//! update by the size of the whole item, and a state row is updated several times.

use std::io::Read as _;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use zstd::stream::read::Decoder;

use super::{BodyAt, Item, Ledger, Row, dictionary, item};
use crate::base::clock::UnixMillis;
use crate::webhook::event::LARGEST_BODY;
use crate::webhook::event::{Event, EventKey, Sha};

/// The largest item that holds state row and body: one write unit, less 256 bytes for the
/// attributes that a claim and a settlement add.
const INLINE: usize = 1024 - 256;

/// The largest compressed body that is stored in the table. Larger bodies go to the bucket.
const LARGEST_ROW: usize = 32 * 1024;

/// The largest body that is compressed with the dictionary. In larger bodies, repetitions within
/// the body save more than the dictionary does.
const LARGEST_WITH_DICTIONARY: usize = 64 * 1024;

/// The zstd compression level: most of the possible gain at little CPU cost.
pub(super) const LEVEL: i32 = 3;

/// How the stored bytes of a body are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Raw,
    Zstd,
    /// Compressed with the first dictionary.
    Zstd1,
}

impl Encoding {
    /// The name of the encoding in a row.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zstd => "zstd",
            Self::Zstd1 => "zstd.1",
        }
    }

    /// The encoding of an item; `None` if only a newer release knows it.
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

/// A body that is ready for its row: small enough for the table, or durable in the bucket.
#[derive(Clone, Debug)]
pub struct StoredBody {
    /// Length of the received body in bytes.
    pub(crate) len: usize,
    pub(crate) at: BodyLocation,
}

impl StoredBody {
    pub(crate) fn is_in_bucket(&self) -> bool {
        matches!(self.at, BodyLocation::Bucket(_))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum BodyLocation {
    Table(Packed),
    /// The key of the object.
    Bucket(String),
}

/// The exact bytes of a received body, verified against their hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body(pub Bytes);

/// Why an event has no readable body. Its row still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingBody {
    /// The body expired or was erased.
    Gone,
    /// The stored body differs from the received one.
    Damaged,
}

impl Packed {
    /// Compresses without a dictionary, so that any zstd tool can read the result.
    pub(crate) fn new(body: &[u8]) -> Self {
        Self::smaller(zstd::bulk::compress(body, LEVEL), Encoding::Zstd, body)
    }

    /// Compresses with the dictionary, for the table, where each KB costs.
    pub(super) fn for_row(body: &[u8]) -> Self {
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

    /// Adds the body to the state row if both fit one write unit. Returns whether it did.
    pub(super) fn inline(&self, row: &mut Item) -> bool {
        if item::size(row) + self.bytes.len() + "bencraw".len() + 8 > INLINE {
            return false;
        }
        row.insert("b".into(), item::b(self.bytes.as_slice()));
        row.insert("enc".into(), item::s(self.encoding.word()));
        row.insert("bref".into(), item::s("i"));
        true
    }
}

impl Ledger {
    /// Adds the body to the state row, or stores it in a separate row that the state row refers to.
    /// A separate body is durable before the state row is written, so that no state row refers to
    /// a missing body. A `held` body does not expire.
    pub(super) async fn put_body(
        &self,
        event: &Event,
        placed: &StoredBody,
        row: &mut Item,
        held: bool,
        now: UnixMillis,
    ) -> anyhow::Result<()> {
        let packed = match &placed.at {
            BodyLocation::Bucket(key) => {
                if held {
                    Box::pin(self.hold_object(key)).await?;
                }
                row.insert("bref".into(), item::s(format!("s3:{key}")));
                return Ok(());
            }
            BodyLocation::Table(packed) => packed,
        };
        if packed.inline(row) {
            return Ok(());
        }
        let expires = now + self.retention(event.key.source()).bodies;
        let mut body = Item::from([
            ("pk".to_owned(), item::s(event.key.pk())),
            ("sk".to_owned(), item::s(body_sk(&event.sha))),
            ("b".to_owned(), item::b(packed.bytes.as_slice())),
            ("enc".to_owned(), item::s(packed.encoding.word())),
            ("n".to_owned(), item::n(placed.len)),
        ]);
        // A second delivery must not give a held body an expiry time. It must not hold an expiring
        // body either: the state row may already be settled.
        let condition = if held {
            body.insert("held".into(), item::n(1));
            "attribute_not_exists(pk)"
        } else {
            body.insert("ttl".into(), item::n(expires.secs()));
            "attribute_not_exists(held)"
        };
        let condition = (condition, Item::new());
        self.put("put the body into the ledger", body, Some(condition))
            .await?;
        row.insert("bref".into(), item::s("d"));
        Ok(())
    }

    /// Prepares the body for its row. A body that is too large for a row is durable in the bucket
    /// when this returns.
    pub async fn store_body(&self, event: &Event) -> anyhow::Result<StoredBody> {
        let len = event.body.len();
        if len <= LARGEST_WITH_DICTIONARY {
            let packed = Packed::for_row(&event.body);
            if packed.bytes.len() <= LARGEST_ROW {
                let at = BodyLocation::Table(packed);
                return Ok(StoredBody { len, at });
            }
        }
        let packed = Packed::new(&event.body);
        if packed.bytes.len() <= LARGEST_ROW {
            let at = BodyLocation::Table(packed);
            return Ok(StoredBody { len, at });
        }
        let (s3, bucket) = self
            .bodies
            .as_ref()
            .context("a large body, but no bucket is configured")?;
        let key = bucket_key(&event.key, &event.sha, packed.encoding);
        let put = s3
            .put_object()
            .bucket(bucket)
            .key(&key)
            .content_encoding(packed.encoding.word())
            .tagging(self.body_tag(event.key.source()))
            .body(packed.bytes.into())
            .send();
        // Boxed: otherwise the future grows by 10 KB for small bodies, too.
        let put = Box::pin(put).await;
        put.context("put the body into the bucket")?;
        let at = BodyLocation::Bucket(key);
        Ok(StoredBody { len, at })
    }

    /// Whether a bucket for large bodies is configured.
    pub fn has_bucket(&self) -> bool {
        self.bodies.is_some()
    }

    /// Reads the body of an event from its state row, its own row or the bucket.
    pub async fn body(
        &self,
        row: &Row,
        state_row: &Item,
    ) -> anyhow::Result<Result<Body, MissingBody>> {
        let Some(sha) = row.sha.filter(|_| row.erased_at.is_none()) else {
            return Ok(Err(MissingBody::Gone));
        };
        let packed = match &row.body_at {
            BodyAt::Inline => stored(state_row)?,
            BodyAt::Row => {
                let body = self.immutable(&row.key.pk(), &body_sk(&sha)).await;
                let body = body.context("read a body")?;
                body.as_ref().map(stored).transpose()?.flatten()
            }
            BodyAt::Bucket(key) => self.bucket_body(key).await?,
        };
        Ok(packed
            .ok_or(MissingBody::Gone)
            .and_then(|(bytes, encoding)| unpack(bytes, encoding, row.body_len, &sha)))
    }

    /// The body of an event that has no row yet, if it is in the bucket.
    pub(super) async fn stored_body(
        &self,
        placed: &StoredBody,
        sha: &Sha,
    ) -> anyhow::Result<Option<Body>> {
        let BodyLocation::Bucket(key) = &placed.at else {
            return Ok(None);
        };
        let packed = self.bucket_body(key).await?;
        let len = u64::try_from(placed.len)?;
        Ok(packed.and_then(|(bytes, encoding)| unpack(bytes, encoding, len, sha).ok()))
    }

    async fn bucket_body(&self, key: &str) -> anyhow::Result<Option<(Vec<u8>, Encoding)>> {
        let (s3, bucket) = self
            .bodies
            .as_ref()
            .context("a large body, but no bucket is configured")?;
        let object = match s3.get_object().bucket(bucket).key(key).send().await {
            Ok(object) => object,
            Err(error)
                if error.as_service_error().is_some_and(
                    aws_sdk_s3::operation::get_object::GetObjectError::is_no_such_key,
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error).context("read a body from the bucket"),
        };
        let bytes = object
            .body
            .collect()
            .await
            .context("read a body from the bucket")?
            .to_vec();
        let encoding = if key.ends_with(ZSTD) {
            Encoding::Zstd
        } else {
            Encoding::Raw
        };
        Ok(Some((bytes, encoding)))
    }
}

/// Returns an error if the encoding is unknown: a newer release wrote the body and can read it.
fn stored(item: &Item) -> anyhow::Result<Option<(Vec<u8>, Encoding)>> {
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

pub(super) fn body_sk(sha: &Sha) -> String {
    format!("B#{}", &sha.hex()[..16])
}

/// The suffix of an object key whose body is compressed. The bytes cannot tell: an uncompressed
/// body may begin with the same bytes as a compressed one.
const ZSTD: &str = ".zst";

fn bucket_key(key: &EventKey, sha: &Sha, encoding: Encoding) -> String {
    let ending = match encoding {
        Encoding::Raw => "",
        Encoding::Zstd | Encoding::Zstd1 => ZSTD,
    };
    format!("{}{}{ending}", bucket_folder(key), sha.hex())
}

/// The folder with every body received under this key, so that an erasure finds all of them. The
/// name has no date, because a second delivery may arrive on another day.
pub(super) fn bucket_folder(key: &EventKey) -> String {
    let pk = Sha::of(key.pk().as_bytes()).hex();
    format!("bodies/{}/{}/", key.source(), &pk[..32])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies() -> [Vec<u8>; 5] {
        let known = include_bytes!("../../../dictionaries/1.txt");
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
