//! Flags that operators set: a source is paused, or a secret is being rotated.
//!
//! | pk | sk | |
//! |---|---|---|
//! | `SYS` | `PAUSE#{source}`, `ROTATION#{secret}` | `nid` (id), `who` (operator), `why`, `at` (time) and `doc` (details). Without `nid`, no flag is set |
//!
//! Each item holds one flag at a time. A command clears only the flag that it has read. If two
//! operators set a flag at the same time, the second one gets the flag of the first.

use std::collections::BTreeMap;
use std::ops::Deref;

use anyhow::Context as _;

use super::transition::operator_flag as transition;
use super::{Cost, Item, Ledger, Write, item};
use crate::base::clock::UnixMillis;
use crate::webhook::event::EventKey;

/// A flag, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorFlag {
    /// Random and unique for each flag.
    pub id: String,
    pub who: String,
    pub why: String,
    pub at: UnixMillis,
    /// Details, in the format of the code that sets the flag.
    pub doc: String,
}

/// The source or the secret that a flag applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind<'n> {
    /// This source is paused, so its events wait.
    Pause(&'n str),
    /// The secret with this name has a new value in addition to the old ones.
    Rotation(&'n str),
}

/// The result of setting a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagResult {
    Set,
    /// This flag is already set.
    AlreadySet(OperatorFlag),
}

impl OperatorFlag {
    pub fn new(
        who: impl Into<String>,
        why: impl Into<String>,
        doc: impl Into<String>,
        now: UnixMillis,
    ) -> anyhow::Result<Self> {
        let mut id = [0; 8];
        crate::base::random::fill(&mut id)?;
        Ok(Self {
            id: hex::encode(id),
            who: who.into(),
            why: why.into(),
            at: now,
            doc: doc.into(),
        })
    }

    fn read(stored: &Item) -> Option<Self> {
        let text = |name| item::text(stored, name).unwrap_or_default().to_owned();
        Some(Self {
            id: item::text(stored, "nid")?.to_owned(),
            who: text("who"),
            why: text("why"),
            at: item::time(stored, "at").unwrap_or_default(),
            doc: text("doc"),
        })
    }
}

impl FlagKind<'_> {
    fn sk(self) -> String {
        match self {
            Self::Pause(source) => format!("PAUSE#{source}"),
            Self::Rotation(secret) => format!("ROTATION#{secret}"),
        }
    }
}

/// Records of operators and schedules: audit log, flags, heartbeats.
#[derive(Clone, Copy, Debug)]
pub struct Operations<'l>(&'l Ledger);

impl Ledger {
    /// Records of operators and schedules: audit log, flags, heartbeats.
    pub fn operations(&self) -> Operations<'_> {
        Operations(self)
    }
}

impl Deref for Operations<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        self.0
    }
}

impl Operations<'_> {
    /// Returns the flag, or `None` if it is not set.
    pub async fn flag(self, about: FlagKind<'_>) -> anyhow::Result<Option<OperatorFlag>> {
        let stored = self.get("SYS", &about.sk()).await;
        let stored = stored.context("read an operator flag")?;
        Ok(stored.as_ref().and_then(OperatorFlag::read))
    }

    /// Returns the flags of all sources by source, or of all secrets by secret.
    pub async fn flags(
        self,
        kind: FlagKind<'_>,
    ) -> anyhow::Result<(BTreeMap<String, OperatorFlag>, Cost)> {
        let of_all = match kind {
            FlagKind::Pause(_) => FlagKind::Pause(""),
            FlagKind::Rotation(_) => FlagKind::Rotation(""),
        };
        let prefix = of_all.sk();
        let (items, cost) = self.items_below("SYS", &prefix).await?;
        let flags = items.iter().filter_map(|stored| {
            let name = item::text(stored, "sk")?.strip_prefix(&prefix)?;
            Some((name.to_owned(), OperatorFlag::read(stored)?))
        });
        Ok((flags.collect(), cost))
    }

    /// Sets a flag unless one is already set.
    pub async fn set_flag(
        self,
        about: FlagKind<'_>,
        flag: &OperatorFlag,
    ) -> anyhow::Result<FlagResult> {
        let change = transition::set(flag);
        let stored = match self.change_item("SYS", &about.sk(), change).await? {
            Write::Applied(_) => return Ok(FlagResult::Set),
            Write::Refused(stored) => stored
                .context("DynamoDB reported that the flag is set, but did not return the flag")?,
        };
        let current = OperatorFlag::read(&stored)
            .context("a flag is already set, but its item is invalid")?;
        // Our own write was applied, but its response was lost.
        if current.id == flag.id {
            return Ok(FlagResult::Set);
        }
        Ok(FlagResult::AlreadySet(current))
    }

    /// Clears a flag. Returns `true` also if no flag is set, and `false` if another flag is set.
    pub async fn clear_flag(
        self,
        about: FlagKind<'_>,
        flag: &OperatorFlag,
    ) -> anyhow::Result<bool> {
        let change = transition::clear(&flag.id);
        let answer = self.change_item("SYS", &about.sk(), change).await?;
        Ok(match answer {
            Write::Applied(_) => true,
            Write::Refused(stored) => stored.as_ref().and_then(OperatorFlag::read).is_none(),
        })
    }

    /// Makes the next sweep check an open event that waits only for the sweep. Returns `false` if a
    /// worker is processing the event, if its retry is not due, or if its check time is no longer
    /// `seen`.
    pub async fn look_now(
        self,
        key: &EventKey,
        seen: UnixMillis,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        let change = transition::look_now(seen, now);
        Ok(matches!(
            self.change(&key.pk(), change).await?,
            Write::Applied(_)
        ))
    }
}
