//! The global secondary indexes of the inbox table. A write appears in them after a delay.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::refusal::Refusal;
use super::value::{Item, Value};

/// The indexes of the template: name, partition key and sort key.
pub const INDEXES: [(&str, &str, &str); 2] = [("work", "gpk", "gsk"), ("time", "tpk", "tsk")];

/// A sort key, in DynamoDB's order of its type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    Number(i128),
    Text(String),
}

/// Sort key of the index, followed by the key of the table.
pub(super) type Place = (Sort, String, String);

#[derive(Debug)]
pub(super) struct Index {
    pub name: &'static str,
    pub partition: &'static str,
    pub sort: &'static str,
    numbers: bool,
    partitions: BTreeMap<String, BTreeSet<Place>>,
    /// Changes that are not visible yet, with the times at which they become visible.
    late: VecDeque<(i64, bool, String, Place)>,
}

impl Index {
    pub(super) fn all() -> Vec<Self> {
        INDEXES
            .into_iter()
            .map(|(name, partition, sort)| Self {
                name,
                partition,
                sort,
                numbers: sort == "gsk",
                partitions: BTreeMap::new(),
                late: VecDeque::new(),
            })
            .collect()
    }

    /// Returns the entry of an item in the index, or `None` without both keys.
    pub(super) fn place(&self, item: &Item) -> Result<Option<(String, Place)>, Refusal> {
        let (Some(partition), Some(sort)) = (item.get(self.partition), item.get(self.sort)) else {
            return self.checked_alone(item).map(|()| None);
        };
        let wrong = || {
            Refusal::Invalid(format!(
                "a key of the index {} is of the wrong type",
                self.name
            ))
        };
        let partition = partition
            .text()
            .filter(|text| !text.is_empty())
            .ok_or_else(wrong)?;
        let sort = match sort {
            Value::N(digits) if self.numbers => {
                let unsupported = || Refusal::unknown(format!("the key {digits}"));
                Sort::Number(sort.number().ok_or_else(unsupported)?)
            }
            Value::S(text) if !self.numbers && !text.is_empty() => Sort::Text(text.clone()),
            _ => return Err(wrong()),
        };
        let key = |name: &str| {
            item.get(name)
                .and_then(Value::text)
                .unwrap_or_default()
                .to_owned()
        };
        Ok(Some((partition.to_owned(), (sort, key("pk"), key("sk")))))
    }

    /// An item can have only one of the two keys, but not with a wrong type.
    fn checked_alone(&self, item: &Item) -> Result<(), Refusal> {
        let wrong = match (item.get(self.partition), item.get(self.sort)) {
            (Some(partition), _) => partition.text().is_none_or(str::is_empty),
            (_, Some(sort)) => matches!(sort, Value::N(_)) != self.numbers,
            (None, None) => false,
        };
        if wrong {
            return Err(Refusal::Invalid(format!(
                "a key of the index {} is of the wrong type",
                self.name
            )));
        }
        Ok(())
    }

    /// Records a change that becomes visible in the index at `seen_at`.
    pub(super) fn change(
        &mut self,
        old: Option<(String, Place)>,
        new: Option<(String, Place)>,
        seen_at: i64,
    ) {
        if old == new {
            return;
        }
        self.late
            .extend(old.map(|(partition, place)| (seen_at, false, partition, place)));
        self.late
            .extend(new.map(|(partition, place)| (seen_at, true, partition, place)));
    }

    /// Returns the entries of a partition that are visible at a time, in order.
    pub(super) fn at(&mut self, partition: &str, now: i64) -> Option<&BTreeSet<Place>> {
        self.catch_up(now);
        self.partitions.get(partition)
    }

    pub(super) fn catch_up(&mut self, now: i64) {
        while self
            .late
            .front()
            .is_some_and(|(seen_at, ..)| *seen_at <= now)
        {
            let Some((_, is_there, partition, place)) = self.late.pop_front() else {
                return;
            };
            let places = self.partitions.entry(partition).or_default();
            if is_there {
                places.insert(place);
            } else {
                places.remove(&place);
            }
        }
    }

    /// Returns the attributes in the index, which are only the keys.
    pub(super) fn projected(&self, partition: &str, place: &Place) -> Item {
        let (sort, pk, sk) = place;
        let sort = match sort {
            Sort::Number(number) => Value::N(number.to_string()),
            Sort::Text(text) => Value::S(text.clone()),
        };
        Item::from([
            ("pk".to_owned(), Value::S(pk.clone())),
            ("sk".to_owned(), Value::S(sk.clone())),
            (self.partition.to_owned(), Value::S(partition.to_owned())),
            (self.sort.to_owned(), sort),
        ])
    }
}
