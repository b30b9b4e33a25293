//! Bodies of events. Only a small body is stored in its state row. DynamoDB bills an update by the
//! size of the whole item, and a state row is updated several times.

mod packed;
mod stored_row;

use anyhow::Context as _;
use bytes::Bytes;

use super::{BodyAt, InRow, Item, Ledger, Row, item, request};
use crate::base::clock::UnixMillis;
use crate::webhook::event::{Event, EventKey, Sha};
pub(super) use packed::LEVEL;
use packed::stored;
pub(crate) use packed::{Encoding, Packed, unpack};
pub use stored_row::Content;

/// The largest compressed body that is stored in the table. Larger bodies go to the bucket.
const LARGEST_ROW: usize = 32 * 1024;

/// The largest body that is compressed with the dictionary. In larger bodies, repetitions within
/// the body save more than the dictionary does.
const LARGEST_WITH_DICTIONARY: usize = 64 * 1024;

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
    /// The stored body differs from the received body.
    Damaged,
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
        let in_row = InRow {
            headers: &event.headers,
            content_type: event.content_type.as_deref(),
        };
        let request = event.request.as_deref();
        let request = request.map(|request| request::pack(request, in_row));
        let mut body = Item::from([
            ("pk".to_owned(), item::s(event.key.pk())),
            ("sk".to_owned(), item::s(body_sk(&event.sha))),
        ]);
        match &placed.at {
            BodyLocation::Bucket(key) => {
                if held {
                    Box::pin(self.hold_object(key)).await?;
                }
                row.insert("bref".into(), item::s(format!("s3:{key}")));
                if request.is_none() {
                    return Ok(());
                }
            }
            BodyLocation::Table(packed) => {
                if packed.inline(row, request.as_deref()) {
                    return Ok(());
                }
                body.insert("b".into(), item::b(packed.bytes.as_slice()));
                body.insert("enc".into(), item::s(packed.encoding.word()));
                body.insert("n".into(), item::n(placed.len));
                row.insert("bref".into(), item::s("d"));
            }
        }
        body.extend(request.map(|request| ("rq".to_owned(), item::b(request))));
        self.put_body_row(event, body, held, now).await
    }

    /// Prepares the body for its row. If the body is too large for a row, it is durable in the
    /// bucket when this method returns.
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
            .context("the body does not fit into the table, and no bucket is configured; set MITT_BODY_BUCKET")?;
        let key = bucket_key(&event.key, &event.sha, packed.encoding);
        let put = s3
            .put_object()
            .bucket(bucket)
            .key(&key)
            .content_encoding(packed.encoding.word())
            .tagging(self.body_tag(event.key.source()))
            .body(packed.bytes.into())
            .send();
        // Without the box, the future would grow by 10 KB even for small bodies.
        let put = Box::pin(put).await;
        put.context("put the body into the bucket")?;
        let at = BodyLocation::Bucket(key);
        Ok(StoredBody { len, at })
    }

    /// Returns whether a bucket for large bodies is configured.
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
        let body_row = match &row.body_at {
            BodyAt::Row => self.body_row(row, &sha).await?,
            BodyAt::Inline | BodyAt::Bucket(_) => None,
        };
        self.stored_or_bucket(row, &sha, state_row, body_row.as_ref())
            .await
    }

    /// The body, from the rows that are already read or from the bucket.
    async fn stored_or_bucket(
        &self,
        row: &Row,
        sha: &Sha,
        state_row: &Item,
        body_row: Option<&Item>,
    ) -> anyhow::Result<Result<Body, MissingBody>> {
        let packed = match &row.body_at {
            BodyAt::Inline => stored(state_row)?,
            BodyAt::Row => body_row.map(stored).transpose()?.flatten(),
            BodyAt::Bucket(key) => self.bucket_body(key).await?,
        };
        Ok(packed
            .ok_or(MissingBody::Gone)
            .and_then(|(bytes, encoding)| unpack(bytes, encoding, row.body_len, sha)))
    }

    async fn body_row(&self, row: &Row, sha: &Sha) -> anyhow::Result<Option<Item>> {
        let body = self.immutable(&row.key.pk(), &body_sk(sha)).await;
        body.context("read a body")
    }

    /// Returns the body of an event that has no row yet, if the body is in the bucket.
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
        let (s3, bucket) = self.bodies.as_ref().context(
            "the body is in the bucket, but no bucket is configured; set MITT_BODY_BUCKET",
        )?;
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

pub(super) fn body_sk(sha: &Sha) -> String {
    format!("B#{}", &sha.hex()[..16])
}

/// The suffix of the key of an object that contains a compressed body. The bytes do not show
/// whether they are compressed, because an uncompressed body can begin with the same bytes as a
/// compressed one.
const ZSTD: &str = ".zst";

fn bucket_key(key: &EventKey, sha: &Sha, encoding: Encoding) -> String {
    let ending = match encoding {
        Encoding::Raw => "",
        Encoding::Zstd | Encoding::Zstd1 => ZSTD,
    };
    format!("{}{}{ending}", bucket_folder(key), sha.hex())
}

/// Returns the folder of all bodies that were received under this key. An erasure uses it to find
/// the bodies. The name has no date, because a second delivery may arrive on another day.
pub(super) fn bucket_folder(key: &EventKey) -> String {
    let pk = Sha::of(key.pk().as_bytes()).hex();
    format!("bodies/{}/{}/", key.source(), &pk[..32])
}
