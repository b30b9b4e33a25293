//! Requests that bring several events at once.

use bytes::Bytes;

use super::{Event, EventKey, Item, Sha};

/// The request that an event came in with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// How many events were in it.
    pub events: usize,
    /// The hash of its exact body, which is what a signature beside the body was over.
    pub sha: Sha,
}

/// An item of a batch, and what it has to itself.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) key: EventKey,
    pub(crate) content: Sha,
    pub(crate) secret: Option<String>,
    pub(crate) once: Option<Sha>,
    /// The request's body as if it held nothing else.
    pub(crate) body: Bytes,
}

impl Batch {
    /// As it is stored: the number, and the hash in hex.
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
    /// Takes a batch apart: one event for each item, with the key that the item has when it comes
    /// alone or in another batch, and with the request's body as if it held nothing else. An
    /// event that is no batch is the only one.
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
            secret: self.secret.clone(),
            once: self.once,
            ..common.clone()
        }
    }
}
