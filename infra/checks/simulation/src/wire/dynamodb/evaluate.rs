//! Evaluates expressions over an item.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::expression::{Compare, Condition, Operand, Part, Path, Source, Update};
use super::refusal::Refusal;
use super::value::{Item, Value};

/// The values of a request's placeholders, and which of them were used.
pub(super) struct Bindings {
    values: Item,
    names: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
}

impl Bindings {
    pub(super) fn new(values: Item, names: BTreeMap<String, String>) -> Self {
        Self {
            values,
            names,
            used: RefCell::default(),
        }
    }

    fn value(&self, name: &str) -> Result<&Value, Refusal> {
        self.values
            .get(name)
            .ok_or_else(|| Refusal::invalid(format!("the value {name} is not defined")))
    }

    fn name<'b>(&'b self, part: &'b Part) -> Result<&'b str, Refusal> {
        match part {
            Part::Name(name) => Ok(name),
            Part::Placeholder(name) => self
                .names
                .get(name)
                .map(String::as_str)
                .ok_or_else(|| Refusal::invalid(format!("the name {name} is not defined"))),
        }
    }

    /// Returns the string of an operand, if it is a value of the request.
    pub(super) fn text(&self, operand: &Operand) -> Result<Option<String>, Refusal> {
        match operand {
            Operand::Path(_) => Ok(None),
            Operand::Value(name) => Ok(self.value(name)?.text().map(str::to_owned)),
        }
    }

    fn note(&self, placeholder: &str) {
        self.used.borrow_mut().insert(placeholder.to_owned());
    }

    fn note_path(&self, path: &Path) {
        for part in path {
            if let Part::Placeholder(name) = part {
                self.note(name);
            }
        }
    }

    fn note_operand(&self, operand: &Operand) {
        match operand {
            Operand::Path(path) => self.note_path(path),
            Operand::Value(name) => self.note(name),
        }
    }

    /// Checks that every defined placeholder is used, and that every used placeholder is defined.
    /// DynamoDB rejects other requests before it reads the item.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let used = self.used.borrow();
        let mut defined = self.values.keys().chain(self.names.keys());
        if let Some(name) = defined.find(|name| !used.contains(*name)) {
            return Err(Refusal::invalid(format!("{name} is defined but not used")));
        }
        let is_defined =
            |name: &String| self.values.contains_key(name) || self.names.contains_key(name);
        match used.iter().find(|name| !is_defined(name)) {
            None => Ok(()),
            Some(name) => Err(Refusal::invalid(format!("{name} is used but not defined"))),
        }
    }

    /// Records every placeholder of a condition, including those in parts that are not evaluated.
    pub(super) fn note_condition(&self, condition: &Condition) {
        match condition {
            Condition::Always => {}
            Condition::Compare(one, _, two) => {
                self.note_operand(one);
                self.note_operand(two);
            }
            Condition::Between(one, two, three) => {
                self.note_operand(one);
                self.note_operand(two);
                self.note_operand(three);
            }
            Condition::In(one, list) => {
                self.note_operand(one);
                for other in list {
                    self.note_operand(other);
                }
            }
            Condition::Exists(path) | Condition::Missing(path) => self.note_path(path),
            Condition::HasType(path, operand) | Condition::BeginsWith(path, operand) => {
                self.note_path(path);
                self.note_operand(operand);
            }
            Condition::Not(inner) => self.note_condition(inner),
            Condition::And(one, two) | Condition::Or(one, two) => {
                self.note_condition(one);
                self.note_condition(two);
            }
        }
    }

    pub(super) fn note_update(&self, update: &Update) {
        for (path, source) in &update.set {
            self.note_path(path);
            match source {
                Source::Operand(operand) => self.note_operand(operand),
                Source::IfMissing(path, operand) => {
                    self.note_path(path);
                    self.note_operand(operand);
                }
                Source::Sum(one, two) | Source::Difference(one, two) => {
                    self.note_operand(one);
                    self.note_operand(two);
                }
            }
        }
        update.remove.iter().for_each(|path| self.note_path(path));
        for (path, value) in &update.add {
            self.note_path(path);
            self.note(value);
        }
    }

    fn find<'i>(&self, path: &Path, item: &'i Item) -> Result<Option<&'i Value>, Refusal> {
        let mut map = Some(item);
        let mut found = None;
        for part in path {
            let name = self.name(part)?;
            found = map.and_then(|map| map.get(name));
            map = match found {
                Some(Value::M(inner)) => Some(inner),
                _ => None,
            };
        }
        Ok(found)
    }

    fn get<'i>(&'i self, operand: &Operand, item: &'i Item) -> Result<Option<&'i Value>, Refusal> {
        match operand {
            Operand::Path(path) => self.find(path, item),
            Operand::Value(name) => self.value(name).map(Some),
        }
    }

    /// Returns whether a condition holds for an item. A missing item has no attributes.
    pub(super) fn holds(&self, condition: &Condition, item: &Item) -> Result<bool, Refusal> {
        Ok(match condition {
            Condition::Always => true,
            Condition::Compare(one, compare, two) => {
                compares(self.get(one, item)?, *compare, self.get(two, item)?)
            }
            Condition::Between(value, low, high) => {
                let value = self.get(value, item)?;
                compares(value, Compare::GreaterOrEqual, self.get(low, item)?)
                    && compares(value, Compare::LessOrEqual, self.get(high, item)?)
            }
            Condition::In(one, list) => {
                let one = self.get(one, item)?;
                let mut any = false;
                for other in list {
                    any |= compares(one, Compare::Equal, self.get(other, item)?);
                }
                any
            }
            Condition::Exists(path) => self.find(path, item)?.is_some(),
            Condition::Missing(path) => self.find(path, item)?.is_none(),
            Condition::HasType(path, kind) => {
                let kind = self.get(kind, item)?.and_then(Value::text);
                self.find(path, item)?
                    .is_some_and(|value| Some(value.kind()) == kind)
            }
            Condition::BeginsWith(path, start) => {
                let start = self.get(start, item)?.and_then(Value::text);
                let text = self.find(path, item)?.and_then(Value::text);
                matches!((text, start), (Some(text), Some(start)) if text.starts_with(start))
            }
            Condition::Not(inner) => !self.holds(inner, item)?,
            Condition::And(one, two) => self.holds(one, item)? && self.holds(two, item)?,
            Condition::Or(one, two) => self.holds(one, item)? || self.holds(two, item)?,
        })
    }

    /// Returns the item after an update. The values of an update are read from the item before the
    /// update.
    pub(super) fn updated(&self, update: &Update, old: &Item) -> Result<Item, Refusal> {
        let mut new = old.clone();
        for (path, source) in &update.set {
            let value = self.source(source, old)?;
            *self.place(path, &mut new)? = value;
        }
        for path in &update.remove {
            let (last, parents) = split(path)?;
            if let Some(map) = self.map(parents, &mut new)? {
                map.remove(self.name(last)?);
            }
        }
        for (path, value) in &update.add {
            let more = whole(Some(self.value(value)?))?;
            let sum = match self.find(path, &new)? {
                None => more,
                some => whole(some)? + more,
            };
            *self.place(path, &mut new)? = Value::N(sum.to_string());
        }
        Ok(new)
    }

    fn source(&self, source: &Source, old: &Item) -> Result<Value, Refusal> {
        let value = match source {
            Source::Operand(operand) => self.get(operand, old)?,
            Source::IfMissing(path, operand) => match self.find(path, old)? {
                None => self.get(operand, old)?,
                some => some,
            },
            Source::Sum(one, two) => {
                let sum = whole(self.get(one, old)?)? + whole(self.get(two, old)?)?;
                return Ok(Value::N(sum.to_string()));
            }
            Source::Difference(one, two) => {
                let difference = whole(self.get(one, old)?)? - whole(self.get(two, old)?)?;
                return Ok(Value::N(difference.to_string()));
            }
        };
        value
            .cloned()
            .ok_or_else(|| Refusal::invalid("an attribute of an update is missing"))
    }

    fn map<'i>(&self, path: &[Part], item: &'i mut Item) -> Result<Option<&'i mut Item>, Refusal> {
        let mut map = item;
        for part in path {
            match map.get_mut(self.name(part)?) {
                Some(Value::M(inner)) => map = inner,
                _ => return Ok(None),
            }
        }
        Ok(Some(map))
    }

    /// Returns the location of a value to write. The parent maps must exist.
    fn place<'i>(&self, path: &Path, item: &'i mut Item) -> Result<&'i mut Value, Refusal> {
        let (last, parents) = split(path)?;
        let map = self
            .map(parents, item)?
            .ok_or_else(|| Refusal::invalid("the document path of an update is invalid"))?;
        Ok(map
            .entry(self.name(last)?.to_owned())
            .or_insert(Value::Null(true)))
    }
}

fn split(path: &Path) -> Result<(&Part, &[Part]), Refusal> {
    path.split_last()
        .ok_or_else(|| Refusal::invalid("a path is empty"))
}

fn whole(value: Option<&Value>) -> Result<i128, Refusal> {
    match value {
        Some(Value::N(digits)) => {
            let number = value.and_then(Value::number);
            number.ok_or_else(|| Refusal::unknown(format!("a sum with {digits}")))
        }
        _ => Err(Refusal::invalid("an operand of an update is not a number")),
    }
}

fn compares(one: Option<&Value>, compare: Compare, two: Option<&Value>) -> bool {
    let order = || one?.order(two?);
    match compare {
        Compare::Equal => one.is_some() && one == two,
        Compare::Unequal => one != two || one.is_none(),
        Compare::Less => order() == Some(Ordering::Less),
        Compare::LessOrEqual => order().is_some_and(Ordering::is_le),
        Compare::Greater => order() == Some(Ordering::Greater),
        Compare::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
    }
}
