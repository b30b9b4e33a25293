//! Repairs a document, so that the settings behind a fault can be checked.

use shared::base::setting_path::Step;
use shared::sources::{Refusal, settings};
use shared::webhook::preset::Preset;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::locate::Place;
use super::words::expected;
use super::{Search, neutral};

/// How many letters of a word may be wrong, so that the word is still replaced by a known one.
const TYPOS: usize = 2;

/// A change of a document.
enum Repair {
    Remove(Vec<Step>),
    Set(Vec<Step>, Spanned<DeValue<'static>>),
}

impl Search<'_> {
    /// Repairs the setting of a fault. Returns whether a repair was left to try.
    pub(super) fn repair(&mut self, refusal: &Refusal, place: &Place) -> bool {
        if place.path.is_empty() {
            return false;
        }
        if refusal.message.starts_with("unknown field") {
            return self.repair_key(refusal, place);
        }
        let tries = self.tries.entry(place.path.clone()).or_default();
        let tried = *tries;
        *tries += 1;
        if tried == 0
            && let Some(meant) = meant(refusal, place)
        {
            self.set(&place.path, neutral::string(&meant));
            return true;
        }
        self.names += 1;
        let name = format!("repaired-{}", self.names);
        let Some(repair) = repairs(&place.path, &name).nth(tried) else {
            return false;
        };
        match repair {
            Repair::Remove(path) => {
                self.remove(&path);
                self.repaired.insert(path);
            }
            Repair::Set(path, value) => {
                self.allow_host();
                self.set(&path, value);
                self.repaired.insert(path);
            }
        }
        true
    }

    /// Renames a misspelled key, or removes an unknown one.
    fn repair_key(&mut self, refusal: &Refusal, place: &Place) -> bool {
        let Some((Step::Key(wrong), parent)) = place.path.split_last() else {
            return false;
        };
        let known = expected(&refusal.message);
        let Some(table) = table_mut(&mut self.document, parent) else {
            return false;
        };
        let Some((key, value)) = table.remove_entry(wrong.as_ref()) else {
            return false;
        };
        let meant = similar(wrong, &known).filter(|meant| !table.contains_key(*meant));
        if let Some(meant) = meant {
            let key = Spanned::new(key.span(), meant.to_owned().into());
            table.insert(key, value);
        }
        true
    }

    fn remove(&mut self, path: &[Step]) {
        if let Some((Step::Key(key), parent)) = path.split_last()
            && let Some(table) = table_mut(&mut self.document, parent)
        {
            table.remove(key.as_ref());
        }
    }

    fn set(&mut self, path: &[Step], value: Spanned<DeValue<'static>>) {
        let Some((last, parent)) = path.split_last() else {
            return;
        };
        match last {
            Step::Key(key) => {
                if let Some(table) = table_mut(&mut self.document, parent) {
                    let old = table.remove_entry(key.as_ref());
                    let old = old.map(|(key, value)| (key, value.span()));
                    let (key, span) = old.unwrap_or_else(|| (neutral::key(key), value.span()));
                    table.insert(key, Spanned::new(span, value.into_inner()));
                }
            }
            Step::Index(index) => {
                let array = value_mut(&mut self.document, parent);
                if let Some(DeValue::Array(array)) = array.map(Spanned::get_mut)
                    && let Some(element) = array.get_mut(*index)
                {
                    *element = value;
                }
            }
            Step::Named(_) | Step::File => {}
        }
    }

    /// Allows the host of the values that replace invalid ones.
    fn allow_host(&mut self) {
        let root = self.document.get_mut();
        if !root.contains_key("forward") {
            let table = neutral::empty(DeValue::Table(DeTable::new()));
            root.insert(neutral::key("forward"), table);
        }
        let Some(DeValue::Table(forward)) = root.get_mut("forward").map(Spanned::get_mut) else {
            return;
        };
        if !forward.contains_key("allow_hosts") {
            let array = neutral::empty(DeValue::Array(DeArray::new()));
            forward.insert(neutral::key("allow_hosts"), array);
        }
        let hosts = forward.get_mut("allow_hosts").map(Spanned::get_mut);
        if let Some(DeValue::Array(hosts)) = hosts {
            hosts.push(neutral::string(neutral::HOST));
        }
    }
}

/// Returns the repairs of a setting, from the smallest one.
fn repairs<'p>(path: &'p [Step], name: &'p str) -> impl Iterator<Item = Repair> + 'p {
    let around = (1..=path.len()).rev().map(|length| &path[..length]);
    around.flat_map(move |path| {
        let (last, parent) = path.split_last().expect("at least one step");
        let (removed, value) = if let Step::Index(_) = last {
            (None, neutral::element(&settings::pattern(parent), name))
        } else {
            let value = neutral::value(&settings::pattern(path), name);
            (Some(Repair::Remove(path.to_vec())), value)
        };
        let set = value.map(|value| Repair::Set(path.to_vec(), value));
        removed.into_iter().chain(set)
    })
}

/// Returns the word that the file probably means with an unknown one.
fn meant(refusal: &Refusal, place: &Place) -> Option<String> {
    let word = place.word.as_deref()?;
    let message = refusal.message.as_str();
    let meant = if message.starts_with("unknown variant") {
        similar(word, &expected(message))
    } else if message.starts_with("unknown preset") {
        similar(word, &Preset::names().collect::<Vec<_>>())
    } else {
        None
    };
    meant.map(str::to_owned)
}

/// Returns the known word with the fewest different letters, if these are few.
fn similar<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let distance = |known: &&&str| strsim::damerau_levenshtein(word, known);
    let nearest = known.iter().min_by_key(distance)?;
    let typos = distance(&nearest);
    (typos <= TYPOS && typos * 2 < word.chars().count()).then_some(*nearest)
}

fn table_mut<'d, 't>(
    document: &'d mut Spanned<DeTable<'t>>,
    path: &[Step],
) -> Option<&'d mut DeTable<'t>> {
    if path.is_empty() {
        return Some(document.get_mut());
    }
    match value_mut(document, path)?.get_mut() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

fn value_mut<'d, 't>(
    document: &'d mut Spanned<DeTable<'t>>,
    path: &[Step],
) -> Option<&'d mut Spanned<DeValue<'t>>> {
    let (first, rest) = path.split_first()?;
    let Step::Key(key) = first else {
        return None;
    };
    let mut value = document.get_mut().get_mut(key.as_ref())?;
    for step in rest {
        value = match (step, value.get_mut()) {
            (Step::Key(key), DeValue::Table(table)) => table.get_mut(key.as_ref())?,
            (Step::Index(index), DeValue::Array(array)) => array.get_mut(*index)?,
            _ => return None,
        };
    }
    Some(value)
}
