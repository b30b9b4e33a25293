//! What operators have put up: that a source is paused, that a secret is being rotated.
//!
//! | pk | sk | |
//! |---|---|---|
//! | `SYS` | `PAUSE#{source}`, `ROTATION#{secret}` | `nid` names the notice, `who` put it up, `why` and when; `doc` says more. Without `nid` none is up |
//!
//! One is up at a time, and only the one that was read is taken down: of two operators at once the
//! second is told of the first.

use std::ops::Deref;

use anyhow::Context as _;

use super::transition::operator_flag as transition;
use super::{Item, Ledger, Write, item};
use crate::base::clock::UnixMillis;
use crate::webhook::event::EventKey;

/// The notice itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorFlag {
    /// Random: no two notices share it.
    pub id: String,
    pub who: String,
    pub why: String,
    pub at: UnixMillis,
    /// What there is to know beside that, as its writer writes it.
    pub doc: String,
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind<'n> {
    /// The events of this source wait.
    Pause(&'n str),
    /// The secret of this name has a new value beside the old ones.
    Rotation(&'n str),
}

/// What became of a notice that was to be put up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagResult {
    Set,
    /// This one is up already.
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

/// What operators and schedules did: audit log, flags, heartbeats.
#[derive(Clone, Copy, Debug)]
pub struct Operations<'l>(&'l Ledger);

impl Ledger {
    /// What operators and schedules did: audit log, flags, heartbeats.
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
    /// The notice that is up.
    pub async fn flag(self, about: FlagKind<'_>) -> anyhow::Result<Option<OperatorFlag>> {
        let stored = self.get("SYS", &about.sk()).await;
        let stored = stored.context("read a notice")?;
        Ok(stored.as_ref().and_then(OperatorFlag::read))
    }

    /// Puts a notice up where none is.
    pub async fn set_flag(
        self,
        about: FlagKind<'_>,
        notice: &OperatorFlag,
    ) -> anyhow::Result<FlagResult> {
        let change = transition::set(notice);
        let stored = match self.change_item("SYS", &about.sk(), change).await? {
            Write::Applied(_) => return Ok(FlagResult::Set),
            Write::Refused(stored) => stored.context("a notice is up and cannot be seen")?,
        };
        let up = OperatorFlag::read(&stored).context("a notice is up and cannot be read")?;
        // Our own write, its answer lost.
        if up.id == notice.id {
            return Ok(FlagResult::Set);
        }
        Ok(FlagResult::AlreadySet(up))
    }

    /// Takes a notice down. `false`: another one is up in its place. Who finds none up has nothing
    /// left to do.
    pub async fn clear_flag(
        self,
        about: FlagKind<'_>,
        notice: &OperatorFlag,
    ) -> anyhow::Result<bool> {
        let change = transition::clear(&notice.id);
        let answer = self.change_item("SYS", &about.sk(), change).await?;
        Ok(match answer {
            Write::Applied(_) => true,
            Write::Refused(stored) => stored.as_ref().and_then(OperatorFlag::read).is_none(),
        })
    }

    /// Has the next sweep look at an open event, where it has nothing to wait for but a look.
    /// `false` when somebody is at work on it, its retry is not due, or it was moved on since
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
