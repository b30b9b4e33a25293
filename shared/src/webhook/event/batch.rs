//! Batches, which are requests with several events.

use bytes::Bytes;

use super::{Event, EventKey, Item, Sha};
use crate::webhook::context::Account;

/// The batch that an event arrived in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The number of events in the batch.
    pub events: usize,
    /// The hash of the exact body of the request. A signature in a header covers this body, and not
    /// the body of one event.
    pub sha: Sha,
}

/// The values of one item of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) key: EventKey,
    pub(crate) content: Sha,
    pub(crate) account: Option<Account>,
    pub(crate) secret: Option<String>,
    pub(crate) once: Option<Sha>,
    /// The body of the request, reduced to this item.
    pub(crate) body: Bytes,
}

impl Batch {
    /// Formats the batch for storage: the number of events, and the hash in hex.
    pub(crate) fn written(&self) -> String {
        format!("{}|{}", self.events, self.sha.hex())
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let (events, sha) = text.split_once('|')?;
        Some(Self {
            events: events.parse().ok()?,
            sha: Sha(hex::decode(sha).ok()?.try_into().ok()?),
        })
    }
}

impl Event {
    /// Returns whether the request contains several events, each with its own key.
    pub fn is_batch(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Splits a batch into one event for each item. The key of an item does not depend on the
    /// batch, so the key is the same if the item arrives again alone or in another batch. The body
    /// of each event is the body of the request, reduced to its item. Returns an event that is not
    /// a batch unchanged.
    pub fn apart(&self) -> impl Iterator<Item = Self> {
        let alone = self.parts.is_empty().then(|| self.clone());
        let common = Self {
            items: Vec::new(),
            parts: Vec::new(),
            of: Some(Batch {
                events: self.parts.len(),
                sha: self.sha,
            }),
            ..self.clone()
        };
        let parts = self.parts.iter().zip(&self.items);
        let events = parts.map(move |(part, item)| part.event(item, &common));
        alone.into_iter().chain(events)
    }
}

impl Part {
    fn event(&self, item: &Item, common: &Event) -> Event {
        Event {
            key: self.key.clone(),
            kind: item.kind.clone(),
            items: vec![item.clone()],
            sha: Sha::of(&self.body),
            body: self.body.clone(),
            content: self.content,
            account: self.account.clone(),
            secret: self.secret.clone(),
            once: self.once,
            ..common.clone()
        }
    }
}
