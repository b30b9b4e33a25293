//! Checks the condition of a write, and applies the write to the table and the indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::evaluate::Bindings;
use super::expression::{Condition, Update};
use super::request::Request;
use super::{Changed, Item, Refusal, Table, Value, key, key_of, value};

/// A write whose condition holds.
pub(super) struct Write {
    pk: String,
    sk: String,
    pub(super) old: Option<Item>,
    pub(super) new: Option<Item>,
    pub(super) shows: Option<String>,
}

impl Table {
    pub(super) fn prepare_put(&mut self, request: Request) -> Result<Write, Refusal> {
        let shows_old = request.shows_old()?;
        let item = value::checked(request.item.ok_or_else(|| Refusal::invalid("no item"))?)?;
        let (pk, sk) = key_of(&item)?;
        let bindings = bindings(
            request.expression_attribute_values,
            request.expression_attribute_names,
        )?;
        let old = self.item(&pk, &sk).cloned();
        self.check(
            request.condition_expression.as_deref(),
            &bindings,
            &sk,
            old.as_ref(),
            shows_old,
        )?;
        Ok(Write {
            pk,
            sk,
            old,
            new: Some(item),
            shows: request.return_values,
        })
    }

    pub(super) fn prepare_update(&mut self, request: Request) -> Result<Write, Refusal> {
        let shows_old = request.shows_old()?;
        let (pk, sk) = key(request.key.as_ref())?;
        let bindings = bindings(
            request.expression_attribute_values,
            request.expression_attribute_names,
        )?;
        let text = request.update_expression.unwrap_or_default();
        let update = self.parsed_update(&text)?;
        bindings.note_update(&update);
        if self.weakness.is_some() {
            // The placeholders in the parts that the weakness removed count as used.
            bindings.note_update(&Update::parse(&text)?);
        }
        let tally = |day: &str| self.item(day, "N").cloned();
        if self
            .weakness
            .is_some_and(|weakness| weakness.is_spent(&pk, &sk, tally))
        {
            return Err(Refusal::Condition(None));
        }
        let old = self.item(&pk, &sk).cloned();
        self.check(
            request.condition_expression.as_deref(),
            &bindings,
            &sk,
            old.as_ref(),
            shows_old,
        )?;
        let fresh = || {
            Item::from([
                ("pk".to_owned(), Value::S(pk.clone())),
                ("sk".to_owned(), Value::S(sk.clone())),
            ])
        };
        let new = bindings.updated(&update, &old.clone().unwrap_or_else(fresh))?;
        if key_of(&new)? != (pk.clone(), sk.clone()) {
            return Err(Refusal::invalid("an update must not change the key"));
        }
        Ok(Write {
            pk,
            sk,
            old,
            new: Some(new),
            shows: request.return_values,
        })
    }

    pub(super) fn prepare_delete(&mut self, request: Request) -> Result<Write, Refusal> {
        let shows_old = request.shows_old()?;
        let (pk, sk) = key(request.key.as_ref())?;
        let bindings = bindings(
            request.expression_attribute_values,
            request.expression_attribute_names,
        )?;
        let old = self.item(&pk, &sk).cloned();
        self.check(
            request.condition_expression.as_deref(),
            &bindings,
            &sk,
            old.as_ref(),
            shows_old,
        )?;
        Ok(Write {
            pk,
            sk,
            old,
            new: None,
            shows: request.return_values,
        })
    }

    fn check(
        &mut self,
        text: Option<&str>,
        bindings: &Bindings,
        sk: &str,
        old: Option<&Item>,
        shows_old: bool,
    ) -> Result<(), Refusal> {
        let Some(text) = text else {
            return bindings.check();
        };
        let condition = self.parsed_condition(text)?;
        bindings.note_condition(&condition);
        bindings.check()?;
        let weak = self
            .weakness
            .map(|weakness| weakness.weaken(&condition, sk));
        let empty = Item::new();
        if bindings.holds(weak.as_ref().unwrap_or(&condition), old.unwrap_or(&empty))? {
            return Ok(());
        }
        let shown = old.filter(|_| shows_old).cloned();
        Err(Refusal::Condition(match self.weakness {
            Some(weakness) => weakness.shown(shown),
            None => shown,
        }))
    }

    pub(super) fn parsed_condition(&mut self, text: &str) -> Result<Arc<Condition>, Refusal> {
        if let Some(condition) = self.conditions.get(text) {
            return Ok(condition.clone());
        }
        let condition = Arc::new(Condition::parse(text)?);
        self.conditions.insert(text.to_owned(), condition.clone());
        Ok(condition)
    }

    fn parsed_update(&mut self, text: &str) -> Result<Arc<Update>, Refusal> {
        if let Some(update) = self.updates.get(text) {
            return Ok(update.clone());
        }
        let mut update = Update::parse(text)?;
        if let Some(weakness) = self.weakness {
            weakness.weaken_update(&mut update);
        }
        let update = Arc::new(update);
        self.updates.insert(text.to_owned(), update.clone());
        Ok(update)
    }

    pub(super) fn apply(&mut self, write: Write, now: i64) -> Result<(), Refusal> {
        let mut places = Vec::with_capacity(self.indexes.len());
        for index in &self.indexes {
            let place =
                |item: &Option<Item>| item.as_ref().map_or(Ok(None), |item| index.place(item));
            places.push((place(&write.old)?, place(&write.new)?));
        }
        for (index, (old, new)) in self.indexes.iter_mut().zip(places) {
            index.change(old, new, now + self.index_lag_ms);
        }
        self.open_rows += usize::from(is_open(&write.sk, write.new.as_ref()));
        self.open_rows -= usize::from(is_open(&write.sk, write.old.as_ref()));
        let items = self.items.entry(write.pk.clone()).or_default();
        match &write.new {
            Some(new) => items.insert(write.sk.clone(), new.clone()),
            None => items.remove(&write.sk),
        };
        self.changed.push(Changed {
            pk: write.pk,
            sk: write.sk,
            old: write.old,
            new: write.new,
        });
        Ok(())
    }
}

pub(super) fn bindings(values: Item, names: BTreeMap<String, String>) -> Result<Bindings, Refusal> {
    Ok(Bindings::new(value::checked(values)?, names))
}

fn is_open(sk: &str, item: Option<&Item>) -> bool {
    let state = item.and_then(|item| item.get("st")).and_then(Value::text);
    sk == "M" && matches!(state, Some("received" | "processing" | "failed"))
}
