//! The order in which the events of an entity are processed.
//!
//! A worker holds the *lock* of an entity while it processes one of its events. The *guard* is the
//! newest version that was processed. In strict order, the *order entry* of an event is stored
//! before its row, so that later events see every acknowledged event. The entry is removed when the
//! event is settled. An entry does not block other events if its row was never written, or if its
//! row is settled.

mod line;

use std::ops::Deref;
use std::time::Duration;

use anyhow::Context as _;

use super::transition::{Fence, order as transition};
use super::{Ledger, Write, item};
use crate::base::clock::UnixMillis;
use crate::sources::ordering::{Entity, Place, Version};
use crate::webhook::event::EventKey;
pub use line::{OrderEntry, Predecessor};

/// The right to process events of an entity until the lock expires.
#[derive(Debug)]
pub struct EntityLock {
    entity: Entity,
    owner: String,
    epoch: u64,
}

/// The result of an update of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionCheck {
    /// No newer version was processed.
    Newest,
    /// A newer version was processed.
    Stale,
}

impl EntityLock {
    fn fence(&self) -> Fence<'_> {
        Fence {
            epoch: self.epoch,
            owner: &self.owner,
        }
    }
}

/// Keeps the events of one entity in order with a lock, the newest version and order entries.
#[derive(Clone, Copy, Debug)]
pub struct EntityOrder<'l>(&'l Ledger);

impl Ledger {
    /// Returns the operations that keep the events of one entity in order.
    pub fn entities(&self) -> EntityOrder<'_> {
        EntityOrder(self)
    }
}

impl Deref for EntityOrder<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        self.0
    }
}

impl EntityOrder<'_> {
    /// Takes the lock of an entity for `lease` from `now`. Returns `None` if another worker holds
    /// the lock. `owner` must be unique for each claim.
    pub async fn lock_entity(
        self,
        entity: &Entity,
        owner: &str,
        now: UnixMillis,
        lease: Duration,
    ) -> anyhow::Result<Option<EntityLock>> {
        let change = transition::lock(owner, now, now + lease);
        let item = match self.change_item(&entity.pk(), "L", change).await? {
            Write::Applied(Some(item)) => item,
            // An earlier try of this write took the lock, but its response was lost.
            Write::Refused(Some(item)) if item::text(&item, "own") == Some(owner) => item,
            Write::Applied(None) | Write::Refused(_) => return Ok(None),
        };
        Ok(Some(EntityLock {
            entity: entity.clone(),
            owner: owner.to_owned(),
            epoch: item::number(&item, "epoch").context("the lock of an entity has no epoch")?,
        }))
    }

    /// Releases a lock. Returns `false` if another worker has taken it over.
    pub async fn unlock_entity(self, lock: EntityLock) -> anyhow::Result<bool> {
        let change = transition::unlock(lock.fence());
        let answer = self.change_item(&lock.entity.pk(), "L", change).await?;
        Ok(match answer {
            Write::Applied(_) => true,
            // An earlier try of this write succeeded, but its response was lost. No worker has
            // taken the lock since.
            Write::Refused(item) => item.is_some_and(|item| {
                item::number(&item, "epoch") == Some(lock.epoch) && !item.contains_key("own")
            }),
        })
    }

    /// Records the version that the worker is about to process, unless a newer version was
    /// processed. An equal version is not stale. Many providers use a time in whole seconds, so two
    /// events can have the same version.
    ///
    /// The worker makes this write before the effect. If the write came after the effect, a worker
    /// could crash in between, and an older event would still run. The retry of the newer event
    /// would not repair the destination. The destination knows the idempotency key of the newer
    /// event, so it ignores the retry and keeps the older state.
    pub async fn advance_version(
        self,
        entity: &Entity,
        version: &Version,
        event: &EventKey,
        now: UnixMillis,
    ) -> anyhow::Result<VersionCheck> {
        let change = transition::advance_version(version, &event.pk(), now);
        Ok(match self.change_item(&entity.pk(), "V", change).await? {
            Write::Applied(_) => VersionCheck::Newest,
            Write::Refused(_) => VersionCheck::Stale,
        })
    }

    /// Returns whether a newer version of the entity was processed, so that a worker would skip
    /// this event. The method writes nothing.
    pub async fn is_overtaken(self, place: &Place) -> anyhow::Result<bool> {
        let Some(version) = &place.version else {
            return Ok(false);
        };
        let newest = self.get(&place.entity.pk(), "V").await?;
        let newest = newest.as_ref().and_then(|newest| item::text(newest, "ver"));
        Ok(newest.is_some_and(|newest| newest > version.sorted()))
    }

    /// Returns the event with the newest processed version of the entity, or `None` if no version
    /// is stored.
    pub async fn newest_of(self, entity: &Entity) -> anyhow::Result<Option<EventKey>> {
        let newest = self.get(&entity.pk(), "V").await?;
        let newest = newest.as_ref().and_then(|newest| item::text(newest, "ek"));
        Ok(newest.and_then(EventKey::from_pk))
    }
}
