//! The versions of the sources that operators apply at run time.
//!
//! | pk | sk | |
//! |---|---|---|
//! | `CFG` | `CURRENT` | the version in force: `v` (number), `hash`, `at`, `by`, `why`, and for a small file also `b` |
//! | same | `V#{number, 6 digits}` | a version: `b` (the text of the file, compressed with zstd), `hash`, `prev` (number of the version before), `at`, `by`, `why`; `ttl` once newer versions have replaced it |
//!
//! A version never changes. One transaction writes a version, the pointer and the entry of the
//! audit log. It fails if another operator has moved the pointer in the meantime. No function can
//! write these items. Without a pointer, the built-in file is in force. The pointer contains the text
//! of a small file, so a function that starts reads one item.

mod write;

use anyhow::{Context as _, bail, ensure};
use zstd::stream::read::Decoder;

use super::item::{self, Item};
use super::ledger::{Ledger, NEWEST_SCHEMA};
use super::table::Table;
use crate::aws::TableClient;
use crate::base::clock::UnixMillis;
use crate::sources::Config;
pub use write::{Applied, NewVersion};

const PK: &str = "CFG";
const CURRENT: &str = "CURRENT";

/// The number of versions that are kept.
pub const KEPT: u64 = 50;

/// The largest version number. Numbers are compared as text with six digits.
const LAST: u64 = 999_999;

/// The maximum size of a file, in bytes.
pub const LARGEST: usize = 2 * 1024 * 1024;

/// The maximum size of a compressed file, in bytes. It leaves space for the other attributes in an
/// item of 400 KB.
const LARGEST_PACKED: usize = 300 * 1024;

/// The maximum size of a compressed file in the pointer, in bytes. With the other attributes, the
/// pointer stays below 4 KB, so each read costs half a read unit.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html>
const LARGEST_IN_POINTER: usize = 3 * 1024;

/// The versions of the sources in the table of an inbox.
#[derive(Clone, Debug)]
pub struct SourceVersions {
    table: Table,
}

/// A version without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionFacts {
    pub version: u64,
    /// The hash that event rows store.
    pub hash: String,
    pub at: UnixMillis,
    /// The AWS identity of the operator.
    pub by: String,
    pub why: String,
}

/// A version with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceVersion {
    pub facts: VersionFacts,
    /// The content of the sources file.
    pub text: String,
}

/// The consistency of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// Costs half as much, and can miss a write of the last second.
    Eventual,
    Strong,
}

impl SourceVersions {
    pub fn new(dynamodb: impl Into<TableClient>, table: impl Into<String>) -> Self {
        Self {
            table: Table::new(dynamodb, table),
        }
    }

    /// Returns the versions in the table of a ledger.
    pub fn beside(ledger: &Ledger) -> Self {
        Self {
            table: ledger.table().clone(),
        }
    }

    /// Returns the version in force, or `None` if no operator has applied a version.
    pub async fn current(&self, consistency: Consistency) -> anyhow::Result<Option<VersionFacts>> {
        let pointer = self.pointer(consistency).await?;
        let facts = pointer.as_ref().map(pointed);
        facts.transpose()
    }

    /// Returns the version in force with its text, unless `is_known`. Returns the facts alone for a
    /// known version, and `None` if no operator has applied a version.
    pub async fn newer(
        &self,
        consistency: Consistency,
        is_known: impl Fn(&VersionFacts) -> bool,
    ) -> anyhow::Result<Option<(VersionFacts, Option<String>)>> {
        let Some(pointer) = self.pointer(consistency).await? else {
            return Ok(None);
        };
        let facts = pointed(&pointer)?;
        if is_known(&facts) {
            return Ok(Some((facts, None)));
        }
        // A pointer without a text, or with the text of another version, has a large file.
        if let Ok(text) = text(&pointer)
            && Config::hash_of(&text) == facts.hash
        {
            return Ok(Some((facts, Some(text))));
        }
        let version = facts.version;
        let stored = self.version(version).await?;
        let stored = stored.with_context(|| format!("version {version} does not exist"))?;
        Ok(Some((facts, Some(stored.text))))
    }

    async fn pointer(&self, consistency: Consistency) -> anyhow::Result<Option<Item>> {
        let (what, key) = ("read the current version of the sources", (PK, CURRENT));
        match consistency {
            Consistency::Eventual => self.table.get_eventually(what, key, None).await,
            Consistency::Strong => self.table.get(what, key).await,
        }
    }

    /// Returns a version with its text, or `None` if it does not exist.
    pub async fn version(&self, version: u64) -> anyhow::Result<Option<SourceVersion>> {
        let (what, sk) = ("read a version of the sources", sk(version));
        let mut stored = self
            .table
            .get_eventually(what, (PK, sk.as_str()), None)
            .await?;
        if stored.is_none() {
            stored = self.table.get(what, (PK, sk.as_str())).await?;
        }
        let Some(stored) = stored else {
            return Ok(None);
        };
        let read = || {
            let facts = facts(&stored, version)?;
            let text = text(&stored)?;
            let hash = Config::hash_of(&text);
            ensure!(
                hash == facts.hash,
                "the text has the hash {hash}, but {} is stored; the item is damaged",
                facts.hash
            );
            anyhow::Ok(SourceVersion { facts, text })
        };
        let read = read().with_context(|| format!("read version {version} of the sources"));
        read.map(Some)
    }

    /// Returns the newest versions, newest first. Leaves out versions that cannot be read.
    pub async fn history(&self, most: usize) -> anyhow::Result<Vec<VersionFacts>> {
        let answer = self
            .table
            .query()
            .key_condition_expression("pk = :pk AND begins_with(sk, :sk)")
            .expression_attribute_values(":pk", item::s(PK))
            .expression_attribute_values(":sk", item::s("V#"))
            .projection_expression("sk, sv, #hash, #at, #by, why")
            .expression_attribute_names("#hash", "hash")
            .expression_attribute_names("#at", "at")
            .expression_attribute_names("#by", "by")
            .scan_index_forward(false)
            .limit(i32::try_from(most).unwrap_or(i32::MAX))
            .send()
            .await
            .context("read the versions of the sources")?;
        let versions = answer.items().iter().filter_map(|stored| {
            let number = item::text(stored, "sk")?.strip_prefix("V#")?;
            facts(stored, number.parse().ok()?).ok()
        });
        Ok(versions.collect())
    }
}

fn sk(version: u64) -> String {
    format!("V#{version:06}")
}

fn pointed(pointer: &Item) -> anyhow::Result<VersionFacts> {
    let version = item::number(pointer, "v").unwrap_or(0);
    facts(pointer, version).context("read CFG/CURRENT")
}

fn facts(stored: &Item, version: u64) -> anyhow::Result<VersionFacts> {
    let schema: u32 = item::number(stored, "sv").unwrap_or(0);
    ensure!(
        (1..=NEWEST_SCHEMA).contains(&schema),
        "the item has version {schema}, which is not supported; deploy a newer release"
    );
    ensure!(
        (1..=LAST).contains(&version),
        "the item has no valid version number"
    );
    let text = |name| item::text(stored, name).unwrap_or_default().to_owned();
    let hash = text("hash");
    ensure!(!hash.is_empty(), "the item has no hash");
    Ok(VersionFacts {
        version,
        hash,
        at: item::time(stored, "at").unwrap_or_default(),
        by: text("by"),
        why: text("why"),
    })
}

/// Decompresses the text. The size is limited, so that a damaged item cannot exhaust the memory.
fn text(stored: &Item) -> anyhow::Result<String> {
    use std::io::Read as _;
    let packed = item::bytes(stored, "b").context("the item has no text")?;
    let mut text = Vec::new();
    let most = LARGEST as u64 + 1;
    let unpacked = Decoder::new(packed).and_then(|it| it.take(most).read_to_end(&mut text));
    if unpacked.is_err() {
        bail!("the text cannot be decompressed");
    }
    ensure!(
        text.len() <= LARGEST,
        "the text is larger than {LARGEST} bytes"
    );
    String::from_utf8(text)
        .ok()
        .context("the text is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(b: Vec<u8>) -> Item {
        Item::from([("b".to_owned(), item::b(b))])
    }

    #[test]
    fn a_damaged_text_is_an_error() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap();
        let latin = zstd::bulk::compress(&[0xff, 0xfe], 3).unwrap();
        for (packed, said) in [
            (bomb, "larger than"),
            (latin, "not UTF-8"),
            (b"no zstd".to_vec(), "cannot be decompressed"),
        ] {
            let error = text(&stored(packed)).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
        assert!(text(&Item::new()).is_err());
        let fine = zstd::bulk::compress(b"schema = 1", 3).unwrap();
        assert_eq!(text(&stored(fine)).unwrap(), "schema = 1");
    }

    #[test]
    fn an_item_of_a_newer_release_is_an_error() {
        let of = |sv: u32| {
            let stored = Item::from([
                ("sv".to_owned(), item::n(sv)),
                ("hash".to_owned(), item::s("01234567")),
            ]);
            facts(&stored, 3)
        };
        assert_eq!(of(1).unwrap().version, 3);
        let error = of(NEWEST_SCHEMA + 1).unwrap_err().to_string();
        assert!(error.contains("deploy a newer release"), "{error}");
        assert!(facts(&Item::new(), 3).is_err());
    }
}
