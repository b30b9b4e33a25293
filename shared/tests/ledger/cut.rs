//! Removes a clause from a condition on its way to DynamoDB, to check that a test fails.
//!
//! `infra/tests/clauses.py` removes each clause of each condition in turn. `MITT_SEEN` names a
//! file. This module appends each condition to the file, with the name of the test that sent the
//! condition. `MITT_CUT` names a file with two lines, which are a condition and its replacement.

use std::collections::{BTreeSet, HashMap};
use std::io::Write as _;
use std::sync::{Mutex, OnceLock, PoisonError};

use aws_sdk_dynamodb::config::interceptors::BeforeSerializationInterceptorContextMut;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::put_item::PutItemInput;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsInput;
use aws_sdk_dynamodb::operation::update_item::UpdateItemInput;
use shared::base::env::env_var;

#[derive(Debug)]
pub(crate) struct Cut;

impl Intercept for Cut {
    fn name(&self) -> &'static str {
        "cut"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let input = context.input_mut();
        if let Some(update) = input.downcast_mut::<UpdateItemInput>() {
            let rest = update.update_expression.clone().unwrap_or_default();
            let (names, values) = (
                &mut update.expression_attribute_names,
                &mut update.expression_attribute_values,
            );
            cut(&mut update.condition_expression, &rest, names, values);
        } else if let Some(put) = input.downcast_mut::<PutItemInput>() {
            let (names, values) = (
                &mut put.expression_attribute_names,
                &mut put.expression_attribute_values,
            );
            cut(&mut put.condition_expression, "", names, values);
        } else if let Some(writes) = input.downcast_mut::<TransactWriteItemsInput>() {
            for write in writes.transact_items.iter_mut().flatten() {
                let Some(update) = &mut write.update else {
                    continue;
                };
                let rest = update.update_expression.clone();
                let (names, values) = (
                    &mut update.expression_attribute_names,
                    &mut update.expression_attribute_values,
                );
                cut(&mut update.condition_expression, &rest, names, values);
            }
        }
        Ok(())
    }
}

fn cut<V>(
    condition: &mut Option<String>,
    rest: &str,
    names: &mut Option<HashMap<String, String>>,
    values: &mut Option<HashMap<String, V>>,
) {
    static CUT: OnceLock<Option<(String, String)>> = OnceLock::new();
    let Some(whole) = condition.clone() else {
        return;
    };
    note(&whole);
    let Some((of, to)) = CUT.get_or_init(asked) else {
        return;
    };
    if whole != *of {
        return;
    }
    *condition = Some(to.clone()).filter(|to| !to.is_empty());
    // DynamoDB rejects a request with values that no expression uses.
    let used = used(&format!("{to} {rest}"));
    keep(names, &used);
    keep(values, &used);
}

fn keep<V>(map: &mut Option<HashMap<String, V>>, used: &BTreeSet<String>) {
    if let Some(entries) = map {
        entries.retain(|name, _| used.contains(name));
    }
    map.take_if(|entries| entries.is_empty());
}

/// Returns the placeholders in an expression.
fn used(text: &str) -> BTreeSet<String> {
    let part_of_one = |c: char| c == ':' || c == '#' || c == '_' || c.is_ascii_alphanumeric();
    let words = text.split(|c| !part_of_one(c));
    words
        .filter(|word| word.starts_with([':', '#']))
        .map(str::to_owned)
        .collect()
}

fn asked() -> Option<(String, String)> {
    let text = std::fs::read_to_string(env_var("MITT_CUT")?)
        .expect("MITT_CUT names a file that can be read");
    let (of, to) = text
        .split_once('\n')
        .expect("the file of MITT_CUT has two lines");
    Some((of.to_owned(), to.trim_end_matches('\n').to_owned()))
}

/// Appends the condition to the file. The name of the thread is the name of the test.
fn note(condition: &str) {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let Some(path) = env_var("MITT_SEEN") else {
        return;
    };
    let thread = std::thread::current();
    let line = format!("{}\t{condition}", thread.name().unwrap_or_default());
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.insert(line.clone()) {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .expect("MITT_SEEN is writable");
        writeln!(file, "{line}").expect("MITT_SEEN is writable");
    }
}
