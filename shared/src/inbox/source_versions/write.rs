//! Applies a new version of the sources.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use aws_sdk_dynamodb::types::{Put, TransactWriteItem, Update};

use super::{
    CURRENT, Consistency, KEPT, LARGEST, LARGEST_IN_POINTER, LARGEST_PACKED, LAST, PK,
    SourceVersions, VersionFacts, sk,
};
use crate::base::clock::UnixMillis;
use crate::inbox::item::{self, Item};
use crate::inbox::ledger::transition::source_versions::{self as transition, Pointed};
use crate::inbox::ledger::{AuditAction, SCHEMA, audit_entry};
use crate::inbox::table::{Change, Returns, Transaction};
use crate::sources::Config;

/// The zstd compression level.
const LEVEL: i32 = 9;

/// The number of tries if another write to the pointer is in progress.
const TRIES: u32 = 5;

/// A version that an operator applies.
#[derive(Clone, Debug)]
pub struct NewVersion<'a> {
    /// The content of the sources file.
    pub text: &'a str,
    /// The version that the operator has seen in force; 0 if there was none.
    pub seen: u64,
    /// The entry for the audit log. Its operator and its reason are also stored in the version.
    pub audit: AuditAction,
}

/// The result of applying a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The version with this number is in force.
    Version(u64),
    /// Another operator has applied this version in the meantime; `None` if the pointer was
    /// removed.
    Overtaken(Option<VersionFacts>),
}

impl SourceVersions {
    /// Writes a version, moves the pointer to it and records the change, in one transaction. Writes
    /// nothing if the pointer is no longer at the version that the operator has seen.
    pub async fn apply(&self, new: &NewVersion<'_>, now: UnixMillis) -> anyhow::Result<Applied> {
        let version = new.seen + 1;
        ensure!(
            version <= LAST,
            "the table has version {LAST} of the sources, and larger numbers are not supported"
        );
        for _ in 0..TRIES {
            let writes = self.writes(new, version, now)?;
            let done = self.table.transact("apply the sources", writes);
            match done.await? {
                Transaction::Applied => {
                    self.expire_old(version, now).await;
                    return Ok(Applied::Version(version));
                }
                Transaction::Refused(_) => return self.overtaken(new.seen).await,
                Transaction::Conflict => {}
            }
            let wait = 1.0 + 4.0 * crate::base::backoff::jitter();
            tokio::time::sleep(Duration::from_millis(20).mul_f64(wait)).await;
        }
        self.overtaken(new.seen)
            .await
            .context("other writes to the sources were in progress; try again")
    }

    /// Returns the version of the other operator.
    async fn overtaken(&self, seen: u64) -> anyhow::Result<Applied> {
        let current = self.current(Consistency::Strong).await?;
        let found = current.as_ref().map_or(0, |facts| facts.version);
        if found == seen {
            bail!(
                "DynamoDB refused version {} of the sources, but version {seen} is still in \
                 force; an item CFG/{} may exist that no transaction wrote",
                seen + 1,
                sk(seen + 1)
            );
        }
        Ok(Applied::Overtaken(current))
    }

    fn writes(
        &self,
        new: &NewVersion<'_>,
        version: u64,
        now: UnixMillis,
    ) -> anyhow::Result<Vec<TransactWriteItem>> {
        let (hash, packed) = (Config::hash_of(new.text), packed(new.text)?);
        let AuditAction { who, why, .. } = &new.audit;
        let pointed = Pointed {
            version,
            hash: &hash,
            by: who,
            why,
            at: now,
            packed: Some(&packed[..]).filter(|packed| packed.len() <= LARGEST_IN_POINTER),
        };
        let version = version_item(new.seen, &packed, pointed);
        Ok(vec![
            self.put(version, Some("attribute_not_exists(pk)"))?,
            self.update(CURRENT, transition::point(pointed, new.seen))?,
            self.put(audit_entry(&new.audit, now)?, None)?,
        ])
    }

    fn put(&self, item: Item, condition: Option<&str>) -> anyhow::Result<TransactWriteItem> {
        let put = Put::builder()
            .table_name(self.table.name())
            .set_item(Some(item))
            .set_condition_expression(condition.map(str::to_owned))
            .build()?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    fn update(&self, sk: &str, change: Change) -> anyhow::Result<TransactWriteItem> {
        let update = Update::builder()
            .table_name(self.table.name())
            .key("pk", item::s(PK))
            .key("sk", item::s(sk))
            .update_expression(change.update)
            .condition_expression(change.condition)
            .set_expression_attribute_values(Some(change.values))
            .set_expression_attribute_names(Some(change.names))
            .build()?;
        Ok(TransactWriteItem::builder().update(update).build())
    }

    /// Lets DynamoDB delete the version that is no longer among the kept ones. If this fails, the
    /// table keeps one version more.
    async fn expire_old(&self, version: u64, now: UnixMillis) {
        let Some(old) = version.checked_sub(KEPT).filter(|old| *old > 0) else {
            return;
        };
        let (sk, expire) = (sk(old), transition::expire(now));
        let expired = self.table.update((PK, &sk), expire, Returns::Nothing);
        if let Err(error) = expired.await {
            tracing::warn!(
                error = format!("{error:#}"),
                "could not expire version {old} of the sources"
            );
        }
    }
}

/// Compresses the text of a file.
fn packed(text: &str) -> anyhow::Result<Vec<u8>> {
    ensure!(
        text.len() <= LARGEST,
        "the file is larger than {LARGEST} bytes"
    );
    let packed = zstd::bulk::compress(text.as_bytes(), LEVEL).context("compress the file")?;
    ensure!(
        packed.len() <= LARGEST_PACKED,
        "the compressed file has {} bytes, more than {LARGEST_PACKED}",
        packed.len()
    );
    Ok(packed)
}

fn version_item(seen: u64, packed: &[u8], of: Pointed<'_>) -> Item {
    Item::from([
        ("pk".to_owned(), item::s(PK)),
        ("sk".to_owned(), item::s(sk(of.version))),
        ("sv".to_owned(), item::n(SCHEMA)),
        ("b".to_owned(), item::b(packed)),
        ("hash".to_owned(), item::s(of.hash)),
        ("prev".to_owned(), item::n(seen)),
        ("by".to_owned(), item::s(of.by)),
        ("why".to_owned(), item::s(of.why)),
        ("at".to_owned(), item::ms(of.at)),
    ])
}
