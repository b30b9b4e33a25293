//! Detects a list that repeats itself.

use std::collections::BTreeSet;

use anyhow::anyhow;
use shared::webhook::event::Sha;

use super::fault::Fault;
use super::page::Listing;

/// The pages that a run has read. They show whether the list repeats itself.
#[derive(Default)]
pub(super) struct LoopGuard {
    tokens: BTreeSet<String>,
    events: Option<Sha>,
}

impl LoopGuard {
    pub(super) fn new(token: Option<&str>) -> Self {
        Self {
            tokens: token.map(fingerprint).into_iter().collect(),
            events: None,
        }
    }

    pub(super) fn check_page(&mut self, next: &str) -> anyhow::Result<()> {
        if self.tokens.insert(fingerprint(next)) {
            return Ok(());
        }
        let error = anyhow!("the sync has already read the next page");
        Err(error.context(Fault::Repeats))
    }

    /// Returns an error if two consecutive pages have the same events. This is the case if the
    /// provider ignores the token of the page.
    pub(super) fn check_events(&mut self, listing: &Listing) -> anyhow::Result<()> {
        if listing.items.is_empty() {
            return Ok(());
        }
        let raw: Vec<&[u8]> = listing.items.iter().map(|item| &item.raw[..]).collect();
        let events = Some(Sha::of(&raw.concat()));
        if self.events == events {
            let error = anyhow!("two consecutive pages have the same events");
            return Err(error.context(Fault::Repeats));
        }
        self.events = events;
        Ok(())
    }
}

/// Returns the hash of a token, because tokens can be long.
fn fingerprint(token: &str) -> String {
    Sha::of(token.as_bytes()).hex()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use shared::webhook::preset::Preset;

    use super::*;
    use crate::sync::item::Item;

    fn listing(ids: &[&str]) -> Listing {
        let preset = Preset::embedded("stripe", &std::collections::BTreeMap::new()).unwrap();
        let sync = preset.sync("default").unwrap();
        let item = |id: &&str| {
            let json = format!(r#"{{"id":"{id}","type":"a.b","created":1}}"#);
            Item::read(sync, &RawValue::from_string(json).unwrap()).unwrap()
        };
        Listing {
            items: ids.iter().map(item).collect(),
            next: None,
            mark: None,
        }
    }

    #[test]
    fn a_list_that_leads_back_to_any_page_that_was_shown_repeats() {
        let mut shown = LoopGuard::new(Some("a"));
        shown.check_page("b").unwrap();
        shown.check_page("c").unwrap();
        for seen in ["a", "b", "c"] {
            let error = shown.check_page(seen).unwrap_err();
            assert_eq!(error.downcast_ref(), Some(&Fault::Repeats), "{seen}");
        }
        assert!(LoopGuard::new(None).check_page("a").is_ok());
    }

    #[test]
    fn pages_that_share_some_events_do_not_repeat() {
        let mut shown = LoopGuard::new(None);
        shown.check_events(&listing(&["1", "2"])).unwrap();
        // A new event arrived in between and shifted the items by one.
        shown.check_events(&listing(&["2", "3"])).unwrap();
        shown.check_events(&listing(&[])).unwrap();
        shown.check_events(&listing(&[])).unwrap();
        let error = shown.check_events(&listing(&["2", "3"])).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&Fault::Repeats));
    }
}
