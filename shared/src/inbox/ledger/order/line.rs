//! The line of an entity in strict order, which consists of the order entries of its events.

use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_dynamodb::types::AttributeValue;
use sha2::{Digest as _, Sha256};

use super::EntityOrder;
use crate::base::clock::UnixMillis;
use crate::base::timing::{KEEP_ORDER, ORDER_ENTRY_GRACE};
use crate::inbox::ledger::transition::order as transition;
use crate::inbox::ledger::{BadRow, Body, Item, Row, State, StoredBody, item};
use crate::sources::ordering::{Entity, Stored, Version};
use crate::webhook::event::{Event, EventKey};

/// The number of order entries that one request reads.
const PAGE: i32 = 25;

/// The maximum number of requests for order entries in one attempt. The next attempt removes the
/// order entries that remain.
const PAGES: u32 = 20;

/// The delay before the second event in the line is tried again. The end of the first event wakes
/// the second one, so this delay matters only if the wake-up is lost.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The extra delay for each further place in the line. `LATEST` is the maximum extra delay. For a
/// later place, the delay matters only if several wake-ups are lost.
const LATER_BY_PLACE: Duration = Duration::from_secs(60);
const LATEST: Duration = Duration::from_secs(15 * 60);

/// The place of an event in the line of its entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderEntry {
    pub entity: Entity,
    pub event: EventKey,
    sk: String,
}

/// An event that must be processed before another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// `None` if the event has an order entry but no row yet.
    pub event: Option<EventKey>,
    /// When the waiting event checks again.
    pub until: UnixMillis,
}

/// Whether an order entry blocks the later events in the line.
#[derive(Debug, PartialEq, Eq)]
enum EntryState {
    /// The order entry blocks no event. Its event is settled, has no row, or is the waiting event
    /// itself.
    Gone,
    Waits(Predecessor),
}

impl OrderEntry {
    pub fn new(entity: Entity, version: &Version, event: &EventKey) -> Self {
        // A space sorts before every character of a version, so a version sorts before the longer
        // versions that begin with it.
        let hash = hex::encode(&Sha256::digest(event.pk())[..8]);
        Self {
            sk: format!("P#{} {hash}", version.sorted()),
            entity,
            event: event.clone(),
        }
    }
}

impl Predecessor {
    /// Returns the same predecessor, with a later check time. `others` is the number of events
    /// between the predecessor and the waiting event.
    fn behind(self, others: usize) -> Self {
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        Self {
            until: self.until + LATER_BY_PLACE.saturating_mul(others).min(LATEST),
            ..self
        }
    }
}

impl EntityOrder<'_> {
    /// Returns the place of an event in the line of its entity, if its source has strict order.
    pub(in crate::inbox::ledger) fn order_entry(self, event: &Event) -> Option<OrderEntry> {
        let policies = self.policies.now();
        let order = policies.strict.get(event.key.source())?;
        let source = event.key.source();
        let stored = Stored {
            headers: &event.headers,
            content_type: event.content_type.as_deref(),
            body: &event.body,
        };
        let place = order.place(source, stored, event.received_at)?;
        Some(OrderEntry::new(place.entity, &place.version?, &event.key))
    }

    /// Like `order_entry`, but reads the body from the bucket if the event came from the spill
    /// queue without its body.
    pub(in crate::inbox::ledger) async fn order_entry_of(
        self,
        event: &Event,
        placed: &StoredBody,
    ) -> anyhow::Result<Option<OrderEntry>> {
        let has_line = self.policies.now().strict.contains_key(event.key.source());
        if !has_line || !event.body.is_empty() {
            return Ok(self.order_entry(event));
        }
        let body = self.stored_body(placed, &event.sha).await?;
        // An event without a body is not processed, so no event has to wait for it.
        Ok(body.and_then(|Body(body)| {
            self.order_entry(&Event {
                body,
                ..event.clone()
            })
        }))
    }

    /// Adds an event to the line of its entity. An event that is already in the line keeps its
    /// place.
    pub async fn enter_order(self, pointer: &OrderEntry, now: UnixMillis) -> anyhow::Result<()> {
        let written = Item::from([
            ("pk".to_owned(), item::s(pointer.entity.pk())),
            ("sk".to_owned(), item::s(&pointer.sk)),
            ("ek".to_owned(), item::s(pointer.event.pk())),
            ("at".to_owned(), item::ms(now)),
            ("ttl".to_owned(), item::n((now + KEEP_ORDER).secs())),
        ]);
        let condition = ("attribute_not_exists(pk)", Item::new());
        self.put(
            "store the order entry of an event",
            written,
            Some(condition),
        )
        .await?;
        Ok(())
    }

    /// Removes an event from the line.
    pub async fn leave_order(self, pointer: &OrderEntry) -> anyhow::Result<()> {
        self.forget(&pointer.entity, &pointer.sk).await
    }

    /// Returns the event that must be processed before this one, if there is one. The caller must
    /// hold the lock.
    pub async fn predecessor(
        self,
        pointer: &OrderEntry,
        now: UnixMillis,
    ) -> anyhow::Result<Option<Predecessor>> {
        for _ in 0..PAGES {
            let page = self
                .order_entries(&pointer.entity, &pointer.sk, PAGE)
                .await?;
            let mut stands = false;
            for (place, (sk, event, at)) in page.iter().enumerate() {
                if *sk == pointer.sk {
                    stands = true;
                } else if let EntryState::Waits(ahead) =
                    self.read_entry_state(pointer, event, *at, now).await?
                {
                    // Later events in the line must see the order entry of a waiting event.
                    self.enter_order(pointer, now).await?;
                    let between = page.iter().skip(place + 1);
                    let between = between.filter(|(sk, ..)| *sk != pointer.sk);
                    return Ok(Some(ahead.behind(between.count())));
                } else {
                    self.forget(&pointer.entity, sk).await?;
                }
            }
            if stands {
                return Ok(None);
            }
            if page.len() < usize::try_from(PAGE).unwrap_or(0) {
                // The event has no order entry, because it is replayed, or because its source got
                // strict order after the event arrived.
                self.enter_order(pointer, now).await?;
                return Ok(None);
            }
        }
        let until = now + LOOK_AGAIN;
        Ok(Some(Predecessor { event: None, until }))
    }

    /// Wakes the first event in the line of an entity and returns its key. If the event was
    /// deferred, it becomes due now.
    pub async fn wake_next(
        self,
        entity: &Entity,
        now: UnixMillis,
    ) -> anyhow::Result<Option<EventKey>> {
        // `P$` sorts after every order entry.
        let first = self.order_entries(entity, "P$", 1).await?;
        let Some((_, event, _)) = first.into_iter().next() else {
            return Ok(None);
        };
        self.change(&event.pk(), transition::wake(now)).await?;
        Ok(Some(event))
    }

    async fn read_entry_state(
        self,
        mine: &OrderEntry,
        event: &EventKey,
        at: UnixMillis,
        now: UnixMillis,
    ) -> anyhow::Result<EntryState> {
        if *event == mine.event {
            // This is an old order entry of the same event, with another version.
            return Ok(EntryState::Gone);
        }
        match self.event(event).await {
            Ok(row) => Ok(entry_state(row.as_ref(), at, now)),
            // Later events in the line wait until an operator repairs this row. The wait does not
            // count as an attempt.
            Err(error) if error.is::<BadRow>() => {
                tracing::error!(event.key = %event, error = format!("{error:#}"), "cannot read the row of {event}; later events of the same entity wait until an operator repairs the row");
                Ok(EntryState::Waits(Predecessor {
                    event: None,
                    until: now + LOOK_AGAIN,
                }))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the order entries up to and including a sort key, in ascending order.
    async fn order_entries(
        self,
        entity: &Entity,
        to: &str,
        limit: i32,
    ) -> anyhow::Result<Vec<(String, EventKey, UnixMillis)>> {
        let values = Item::from([
            (":pk".to_owned(), item::s(entity.pk())),
            (":from".to_owned(), item::s("P#")),
            (":to".to_owned(), AttributeValue::S(to.to_owned())),
        ]);
        let answer = self
            .table
            .query()
            .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
            .set_expression_attribute_values(Some(values))
            .consistent_read(true)
            .limit(limit)
            .send()
            .await
            .context("read the order of an entity")?;
        let pointers = answer.items().iter().filter_map(|item| {
            let event = EventKey::from_pk(item::text(item, "ek")?)?;
            let sk = item::text(item, "sk")?.to_owned();
            Some((sk, event, item::time(item, "at")?))
        });
        Ok(pointers.collect())
    }

    async fn forget(self, entity: &Entity, sk: &str) -> anyhow::Result<()> {
        let key = (&*entity.pk(), sk);
        self.table
            .delete("remove the order entry of an event", key)
            .await
    }
}

/// Returns the state of an order entry that was written at `at`. `row` is the row of its event.
fn entry_state(row: Option<&Row>, at: UnixMillis, now: UnixMillis) -> EntryState {
    let soon = now + LOOK_AGAIN;
    match row {
        // The row is written immediately after the order entry. If that write fails, the event is
        // not acknowledged, and is delivered again.
        None if now.since(at) < ORDER_ENTRY_GRACE => EntryState::Waits(Predecessor {
            event: None,
            until: soon,
        }),
        None => EntryState::Gone,
        Some(row) if !row.is_open() => EntryState::Gone,
        Some(row) => EntryState::Waits(Predecessor {
            event: Some(row.key.clone()),
            until: match (row.state, row.due) {
                (State::Failed, Some(due)) => soon.max(due + Duration::from_secs(1)),
                _ => soon,
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::preset::Compare;

    #[test]
    fn the_line_is_in_the_order_of_the_versions() {
        let pointer = |version: &str, compare| {
            let version = Version::read(version, compare).unwrap();
            OrderEntry::new(
                Entity::new("s", "e"),
                &version,
                &EventKey::new("s", version.sorted()),
            )
            .sk
        };
        for (compare, versions) in [
            (Compare::Number, ["0", "9", "10", "10.5", "11"]),
            (Compare::Text, ["a", "a!", "aa", "ab", "b"]),
        ] {
            let sorted: Vec<_> = versions.iter().map(|v| pointer(v, compare)).collect();
            assert!(sorted.is_sorted(), "{sorted:?}");
            assert!(sorted.iter().all(|sk| sk.as_str() < "P$"));
        }
    }

    #[test]
    fn the_last_of_a_long_line_looks_again_all_the_same() {
        let ahead = |others| {
            let first = Predecessor {
                event: None,
                until: UnixMillis(0),
            };
            first.behind(others).until
        };
        let minutes = |count: i64| UnixMillis(count * 60_000);
        for (others, after) in [(0, 0), (1, 1), (15, 15), (16, 15), (usize::MAX, 15)] {
            assert_eq!(ahead(others), minutes(after), "{others}");
        }
    }

    #[test]
    fn a_pointer_without_a_row_stands_for_a_while() {
        let at = UnixMillis(1_000_000);
        let waits = |now: UnixMillis| matches!(entry_state(None, at, now), EntryState::Waits(_));
        assert!(waits(at) && waits(at + ORDER_ENTRY_GRACE - Duration::from_millis(1)));
        assert!(!waits(at + ORDER_ENTRY_GRACE));
        // The clock of the function that wrote the order entry may be ahead.
        assert!(waits(at - Duration::from_secs(3)));
    }
}
