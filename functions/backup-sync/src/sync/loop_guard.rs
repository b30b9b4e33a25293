//! What a run has been shown of a list.

use std::collections::BTreeSet;

use anyhow::anyhow;
use shared::webhook::event::Sha;

use super::fault::Fault;
use super::page::Listing;

/// What a run was shown, so that a list without an end is seen as one.
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
        let error = anyhow!("its next page is one that was shown before");
        Err(error.context(Fault::Repeats))
    }

    /// A provider that does not heed which page is asked for gives them all the same events.
    pub(super) fn check_events(&mut self, listing: &Listing) -> anyhow::Result<()> {
        if listing.items.is_empty() {
            return Ok(());
        }
        let raw: Vec<&[u8]> = listing.items.iter().map(|item| &item.raw[..]).collect();
        let events = Some(Sha::of(&raw.concat()));
        if self.events == events {
            let error = anyhow!("two pages, one after the other, have the same events");
            return Err(error.context(Fault::Repeats));
        }
        self.events = events;
        Ok(())
    }
}

/// A token may be long.
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
        // One came in between and pushed the list on.
        shown.check_events(&listing(&["2", "3"])).unwrap();
        shown.check_events(&listing(&[])).unwrap();
        shown.check_events(&listing(&[])).unwrap();
        let error = shown.check_events(&listing(&["2", "3"])).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&Fault::Repeats));
    }
}
