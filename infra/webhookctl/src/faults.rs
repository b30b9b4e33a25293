//! Finds every fault of a sources file, each with its position, the setting and a fix.
//!
//! The parser of the settings stops at the first fault. This module repairs this fault in the parsed
//! document, and checks the document again until it is valid. It reports no fault that only a repair
//! has caused.

mod locate;
mod neutral;
mod repair;
mod report;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use shared::base::setting_path::Step;
use shared::sources::{Bounds, Config, Refusal};
use toml::Spanned;
use toml::de::DeTable;

use locate::Place;
pub(crate) use report::{invalid, of_faults};

/// The most repairs. A file with more faults shows the first ones.
const MOST: usize = 300;

/// A fault of a sources file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    /// The line and the column of the key, the value or the table, from 1.
    pub line: usize,
    pub column: usize,
    /// The setting, such as `source[0].retry.attempts`. Empty for a fault of the syntax.
    pub path: String,
    pub message: String,
    pub fix: String,
}

impl Fault {
    /// Returns the fault as one line of text.
    pub(crate) fn text(&self) -> String {
        let Self { line, column, .. } = self;
        let mut text = format!("line {line}, column {column}: ");
        if !self.path.is_empty() {
            text.extend([&self.path, ": "]);
        }
        text.push_str(&self.message);
        if !self.fix.is_empty() {
            text.extend(["; ", &self.fix]);
        }
        text
    }
}

/// Returns the faults of a file, in the order of their positions. The list is empty if the file is
/// valid. `dev` accepts URLs of this machine.
pub(crate) fn find(text: &str, dev: bool) -> Vec<Fault> {
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => return vec![words::of_syntax(&error, text)],
    };
    let mut search = Search::new(text, document);
    for _ in 0..MOST {
        let document = search.document.clone();
        let Err(refusal) = Config::of_document(document, text, dev) else {
            break;
        };
        if !search.take(&refusal) {
            break;
        }
    }
    search.found.sort_by_key(|fault| (fault.line, fault.column));
    search.found
}

/// Returns what the limits of a deployment do not allow in a valid file.
pub(crate) fn within(config: &Config, bounds: &Bounds, text: &str) -> Vec<Fault> {
    let Ok(document) = DeTable::parse(text) else {
        return Vec::new();
    };
    let search = Search::new(text, document);
    let refusals = config.refusals_within(bounds, text);
    let fault = |refusal: &Refusal| search.fault(refusal, &search.place(refusal));
    refusals.iter().map(fault).collect()
}

/// A document under repair.
struct Search<'t> {
    text: &'t str,
    document: Spanned<DeTable<'t>>,
    /// The settings whose values are no longer those of the file.
    repaired: BTreeSet<Vec<Step>>,
    /// How often a setting had a fault.
    tries: BTreeMap<Vec<Step>, usize>,
    /// The number of names that repairs have made.
    names: usize,
    found: Vec<Fault>,
}

impl<'t> Search<'t> {
    fn new(text: &'t str, document: Spanned<DeTable<'t>>) -> Self {
        Self {
            text,
            document,
            repaired: BTreeSet::new(),
            tries: BTreeMap::new(),
            names: 0,
            found: Vec::new(),
        }
    }

    /// Reports the fault and repairs it. Returns whether the document could be repaired.
    fn take(&mut self, refusal: &Refusal) -> bool {
        let place = self.place(refusal);
        if !self.is_consequence(refusal, &place) {
            let fault = self.fault(refusal, &place);
            self.found.push(fault);
        }
        self.repair(refusal, &place)
    }

    fn place(&self, refusal: &Refusal) -> Place {
        locate::place(&self.document, refusal)
    }

    /// Returns whether the fault may exist only because of a repair.
    fn is_consequence(&self, refusal: &Refusal, place: &Place) -> bool {
        let of_repair = |path: &[Step]| self.repaired.iter().any(|it| path.starts_with(it));
        let others = refusal.paths.iter().skip(1);
        let mut others = others.map(|path| locate::with_indexes(&self.document, path));
        of_repair(&place.path)
            || others.any(|path| {
                of_repair(&path) || self.repaired.iter().any(|it| it.starts_with(&path))
            })
    }

    fn fault(&self, refusal: &Refusal, place: &Place) -> Fault {
        let (line, column) = words::position(self.text, place.at);
        let (message, fix) = words::said(refusal, place);
        Fault {
            line,
            column,
            path: words::path(&place.path),
            message,
            fix,
        }
    }
}

#[cfg(test)]
mod tests;
