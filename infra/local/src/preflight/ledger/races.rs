//! Checks concurrent writes to one item.

use anyhow::{Context, bail, ensure};
use aws_sdk_dynamodb::Client;
use futures::future::try_join_all;

use super::{get, item, number, put};
use crate::preflight::Races;

pub(super) async fn race_puts(client: &Client, table: &str, races: Races) -> anyhow::Result<()> {
    for round in 0..races.rounds {
        let pk = format!("put#{round}");
        let race = (0..races.racers).map(|racer| put(client, table, &pk, racer));
        let winner = only_winner(&try_join_all(race).await?)?;
        let kept = get(client, table, &pk)
            .await?
            .context("the item of the successful call is missing")?;
        ensure!(
            kept["racer"] == number(winner),
            "the item is not from the successful call"
        );
    }
    Ok(())
}

pub(super) async fn race_updates(client: &Client, table: &str, races: Races) -> anyhow::Result<()> {
    for round in 0..races.rounds {
        let pk = format!("update#{round}");
        let request = client.put_item().table_name(table);
        let fresh = item(&pk, &[("epoch", number(0))]);
        request
            .set_item(Some(fresh))
            .send()
            .await
            .context("put an item")?;
        let race = (0..races.racers).map(|racer| claim(client, table, &pk, racer));
        let winner = only_winner(&try_join_all(race).await?)?;
        let kept = get(client, table, &pk)
            .await?
            .context("the item is missing")?;
        ensure!(
            kept["epoch"] == number(1),
            "the epoch increased more than once"
        );
        ensure!(
            kept["winner"] == number(winner),
            "the item is not from the successful call"
        );
    }
    Ok(())
}

pub(super) async fn increments(client: &Client, table: &str, races: Races) -> anyhow::Result<()> {
    let add = || {
        client
            .update_item()
            .table_name(table)
            .set_key(Some(item("counter", &[])))
            .update_expression("ADD added :one")
            .expression_attribute_values(":one", number(1))
            .send()
    };
    try_join_all((0..races.racers * 10).map(|_| add()))
        .await
        .context("increment the counter")?;
    let total = get(client, table, "counter")
        .await?
        .context("the counter is missing")?;
    ensure!(
        total["added"] == number(races.racers * 10),
        "the counter is {:?} after all increments",
        total["added"]
    );
    Ok(())
}

/// Returns whether the conditional update succeeded.
async fn claim(client: &Client, table: &str, pk: &str, racer: usize) -> anyhow::Result<bool> {
    let update = client
        .update_item()
        .table_name(table)
        .set_key(Some(item(pk, &[])))
        .update_expression("SET epoch = epoch + :one, winner = :me")
        .condition_expression("epoch = :seen")
        .expression_attribute_values(":one", number(1))
        .expression_attribute_values(":seen", number(0))
        .expression_attribute_values(":me", number(racer))
        .send()
        .await;
    match update {
        Ok(_) => Ok(true),
        Err(error) => {
            let error = error.into_service_error();
            if error.is_conditional_check_failed_exception() {
                Ok(false)
            } else {
                Err(error.into())
            }
        }
    }
}

/// Returns the index of the successful call. Fails unless exactly one call succeeded.
fn only_winner(won: &[bool]) -> anyhow::Result<usize> {
    let winners: Vec<_> = won.iter().enumerate().filter(|(_, won)| **won).collect();
    match winners.as_slice() {
        [(winner, _)] => Ok(*winner),
        _ => bail!(
            "{} of {} concurrent calls succeeded; exactly 1 must succeed",
            winners.len(),
            won.len()
        ),
    }
}
