//! Our side: the state that the provider's objects are compared with. It is only ever read.

mod endpoint;
mod table;

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use shared::monitoring::reconcile::{Side, Sides};
use shared::sources::{Local, Reconcile};

use crate::api::Api;
pub(super) use table::Table;

/// Where it is, and how it is reached.
pub(super) enum Ours<'a> {
    Table(Table<'a>),
    Endpoint(Api<'a>),
}

/// All that we have.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) sides: Sides,
    /// The keys of the items that they were read from.
    keys: HashMap<String, Key>,
}

/// The key of an item.
type Key = HashMap<String, AttributeValue>;

impl Ours<'_> {
    /// All of our objects.
    pub(super) async fn list(&self, reconcile: &Reconcile) -> anyhow::Result<Listed> {
        match (self, &reconcile.local) {
            (Self::Table(table), Local::DynamoDb(at)) => table.list(at, reconcile).await,
            (Self::Endpoint(api), Local::Http(at)) => endpoint::list(api, at, reconcile).await,
            _ => anyhow::bail!("our side is reached in another way than it is configured"),
        }
    }

    /// What we have of an object by now. `there` is the provider's, by which its key is made.
    pub(super) async fn again(
        &self,
        reconcile: &Reconcile,
        id: &str,
        listed: &Listed,
        there: Option<&Bytes>,
    ) -> anyhow::Result<Option<Side>> {
        let known = listed.sides.get(id);
        if let Some(twice) = known.filter(|side| side.count > 1) {
            // One look at one of them would not tell.
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
            _ => anyhow::bail!("our side is reached in another way than it is configured"),
        }
    }
}
