//! Stores the events sent last, and which of them the user has selected.

use std::collections::VecDeque;

use super::deliver::Item;

/// The maximum number of events from which the user can select.
const MOST: usize = 100;

#[derive(Default)]
pub(super) struct Sent {
    /// The sent events, newest last.
    items: VecDeque<Item>,
    /// The number of events newer than the selected one.
    back: usize,
}

impl Sent {
    /// Adds a sent event. If the user has selected an earlier event, it stays selected.
    pub(super) fn add(&mut self, item: Item) {
        if item.again {
            return;
        }
        self.items.push_back(item);
        if self.back > 0 {
            self.back += 1;
        }
        if self.items.len() > MOST {
            self.items.pop_front();
            self.back = self.back.min(MOST - 1);
        }
    }

    /// Returns the selected event. Without a selection, this is the last event.
    pub(super) fn meant(&self) -> Option<&Item> {
        self.items.iter().rev().nth(self.back)
    }

    /// Selects the next older event.
    pub(super) fn older(&mut self) -> Option<&Item> {
        self.back = (self.back + 1).min(self.items.len().saturating_sub(1));
        self.meant()
    }

    /// Selects the next newer event. If this is the last event, later events become selected as
    /// they are sent.
    pub(super) fn newer(&mut self) -> Option<&Item> {
        self.back = self.back.saturating_sub(1);
        self.meant()
    }
}
