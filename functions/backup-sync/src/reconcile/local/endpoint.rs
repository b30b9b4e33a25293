//! Reads your own state from an HTTP endpoint that lists it as JSON.

use anyhow::{Context as _, ensure};
use shared::monitoring::reconcile::{Side, Sides, add};
use shared::sources::{LocalEndpoint, Reconcile};

use super::super::provider::{items, values};
use super::super::{few_enough, in_time};
use super::Listed;
use crate::api::Api;

pub(super) async fn list(
    api: &Api<'_>,
    at: &LocalEndpoint,
    reconcile: &Reconcile,
) -> anyhow::Result<Listed> {
    let mut listed = Listed::default();
    let mut cursor = None::<String>;
    loop {
        in_time((api.clock)(), api.ends, api.what)?;
        let query: Vec<_> = cursor
            .iter()
            .map(|cursor| ("cursor".to_owned(), cursor.clone()))
            .collect();
        let body = api.list(&at.url, &query, Ok).await?;
        take(&body, at, reconcile, &mut listed.sides)?;
        few_enough(listed.sides.len(), api.what)?;
        let next = at.next.scalar(&body).ok().flatten();
        let next = next.filter(|next| !next.is_empty());
        ensure!(
            next.is_none() || next != cursor,
            "the list of {} does not continue: its next page is the same page",
            api.what
        );
        if next.is_none() {
            return Ok(listed);
        }
        cursor = next;
    }
}

pub(super) async fn again(
    api: &Api<'_>,
    at: &LocalEndpoint,
    reconcile: &Reconcile,
    id: &str,
) -> anyhow::Result<Option<Side>> {
    let query = [("id".to_owned(), id.to_owned())];
    let Some(body) = api.get(&at.url, &query).await? else {
        return Ok(None);
    };
    let mut sides = Sides::new();
    take(&body, at, reconcile, &mut sides)?;
    Ok(sides.remove(id))
}

/// Adds the objects of a page.
fn take(
    body: &[u8],
    at: &LocalEndpoint,
    reconcile: &Reconcile,
    sides: &mut Sides,
) -> anyhow::Result<()> {
    let items = items(Some(&at.items), body).context("your endpoint")?;
    for item in &items {
        let json = item.get().as_bytes();
        let id = at.id.scalar(json).ok().flatten();
        let id = id.with_context(|| format!("an object from your endpoint has no {}", at.id))?;
        let fields = reconcile.fields.iter();
        let side = Side {
            values: fields.map(|field| values(&field.here, json)).collect(),
            ..Side::default()
        };
        add(sides, id, side);
    }
    Ok(())
}
