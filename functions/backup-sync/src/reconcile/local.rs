//! Reads your own state, with which the provider's objects are compared.

mod endpoint;
mod table;

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use shared::monitoring::reconcile::{Side, Sides};
use shared::sources::{Local, Reconcile};

use crate::api::Api;
pub(super) use table::Table;

/// The location of your own state, with the client that reads it.
pub(super) enum Ours<'a> {
    Table(Table<'a>),
    Endpoint(Api<'a>),
}

/// All objects of your own state.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) sides: Sides,
    /// The keys of the items from which the objects were read.
    keys: HashMap<String, Key>,
}

/// The key of an item.
type Key = HashMap<String, AttributeValue>;

impl Ours<'_> {
    /// Lists all objects of your own state.
    pub(super) async fn list(&self, reconcile: &Reconcile) -> anyhow::Result<Listed> {
        match (self, &reconcile.local) {
            (Self::Table(table), Local::DynamoDb(at)) => table.list(at, reconcile).await,
            (Self::Endpoint(api), Local::Http(at)) => endpoint::list(api, at, reconcile).await,
            _ => {
                anyhow::bail!("internal error: the client does not match [source.reconcile.local]")
            }
        }
    }

    /// Reads the current state of an object. `there` is the provider's object, from which the key
    /// of the item is built.
    pub(super) async fn again(
        &self,
        reconcile: &Reconcile,
        id: &str,
        listed: &Listed,
        there: Option<&Bytes>,
    ) -> anyhow::Result<Option<Side>> {
        let known = listed.sides.get(id);
        if let Some(twice) = known.filter(|side| side.count > 1) {
            // A second read of one of the duplicates would not show whether the other still exists.
            return Ok(Some(twice.clone()));
        }
        match (self, &reconcile.local) {
            (Self::Table(table), Local::DynamoDb(at)) => {
                let made = || table::key(at, there?);
                let Some(key) = listed.keys.get(id).cloned().or_else(made) else {
                    return Ok(None);
                };
                table.again(at, reconcile, id, key).await
            }
            (Self::Endpoint(api), Local::Http(at)) => endpoint::again(api, at, reconcile, id).await,
            _ => {
                anyhow::bail!("internal error: the client does not match [source.reconcile.local]")
            }
        }
    }
}
