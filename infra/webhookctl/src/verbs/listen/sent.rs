//! What was sent lately, and which of it a person means.

use std::collections::VecDeque;

use super::deliver::Item;

/// So many can be chosen from.
const MOST: usize = 100;

#[derive(Default)]
pub(super) struct Sent {
    /// The newest last.
    items: VecDeque<Item>,
    /// How many are newer than the one that is meant.
    back: usize,
}

impl Sent {
    /// One that was chosen stays chosen, whatever comes behind it.
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

    /// The one that is chosen, or else the last.
    pub(super) fn meant(&self) -> Option<&Item> {
        self.items.iter().rev().nth(self.back)
    }

    /// Chooses the one before.
    pub(super) fn older(&mut self) -> Option<&Item> {
        self.back = (self.back + 1).min(self.items.len().saturating_sub(1));
        self.meant()
    }

    /// Chooses the one behind; behind the last, whichever is the last.
    pub(super) fn newer(&mut self) -> Option<&Item> {
        self.back = self.back.saturating_sub(1);
        self.meant()
    }
}
