//! Reads plans, their events and their ids.

use super::Plans;
use anyhow::Context as _;
use aws_sdk_dynamodb::types::AttributeValue;

use super::write::{VERSION, month};
use super::{KEEP_PLAN, Plan, PlanEvent, PlanLeftOut, PlanState, pk};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Cost, Item, item};
use crate::webhook::event::EventKey;

impl Plans<'_> {
    /// Returns the plan with this full id, if it exists.
    pub async fn plan(self, id: &str) -> anyhow::Result<Option<Plan>> {
        let row = self.get(&pk(id), "M").await?;
        row.map(|row| plan(&row)).transpose()
    }

    /// Returns the plans with these full ids, in the order of the ids. The read is eventually
    /// consistent. An id without a plan is left out.
    pub async fn plans(self, ids: &[String]) -> anyhow::Result<(Vec<Plan>, Cost)> {
        let key = |id: &String| {
            Item::from([
                ("pk".to_owned(), item::s(pk(id))),
                ("sk".to_owned(), item::s("M")),
            ])
        };
        let keys: Vec<Item> = ids.iter().map(key).collect();
        let (rows, cost) = self.items(&keys, None).await?;
        let plans = rows.iter().map(plan);
        let mut plans = plans.collect::<anyhow::Result<Vec<Plan>>>()?;
        plans.sort_by_key(|plan| ids.iter().position(|id| *id == plan.id));
        Ok((plans, cost))
    }

    /// Returns at most `limit` ids of plans that were made from `since` to `now`, newest first.
    pub async fn plan_ids(
        self,
        since: UnixMillis,
        now: UnixMillis,
        limit: usize,
    ) -> anyhow::Result<Vec<String>> {
        let oldest = since.max(now - KEEP_PLAN);
        let mut found = Vec::new();
        for month in months(oldest, now) {
            let mut place: Option<Item> = None;
            loop {
                let answer = self
                    .table
                    .query()
                    .key_condition_expression("pk = :month AND sk >= :since")
                    .expression_attribute_values(":month", item::s(&month))
                    .expression_attribute_values(":since", item::s(format!("{:013}", oldest.0)))
                    .scan_index_forward(false)
                    .set_exclusive_start_key(place)
                    .send()
                    .await
                    .context("list the plans of a month")?;
                let ids = answer.items().iter().filter_map(|listed| {
                    let (_, id) = item::text(listed, "sk")?.split_once('#')?;
                    Some(id.to_owned())
                });
                found.extend(ids);
                place = answer.last_evaluated_key;
                if place.is_none() || found.len() >= limit {
                    break;
                }
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Returns the events of a plan, in the order of the plan.
    pub async fn plan_order(self, id: &str) -> anyhow::Result<Vec<PlanEvent>> {
        let lines = self.plan_lines(id, "C#").await?;
        lines.iter().map(|line| event(line)).collect()
    }

    /// Returns the events that were selected but are not part of the plan, with the reasons.
    pub async fn plan_left_out(self, id: &str) -> anyhow::Result<Vec<PlanLeftOut>> {
        let lines = self.plan_lines(id, "L#").await?;
        lines.iter().map(|line| left_out(line)).collect()
    }

    async fn plan_lines(self, id: &str, kind: &str) -> anyhow::Result<Vec<String>> {
        let items = self.plan_items(id, kind).await?;
        let texts = items.iter().filter_map(|chunk| item::text(chunk, "e"));
        Ok(texts.flat_map(str::lines).map(str::to_owned).collect())
    }

    async fn plan_items(self, id: &str, kind: &str) -> anyhow::Result<Vec<Item>> {
        let (mut items, mut place) = (Vec::new(), None);
        loop {
            let answer = self
                .table
                .query()
                .key_condition_expression("pk = :pk AND begins_with(sk, :kind)")
                .expression_attribute_values(":pk", item::s(pk(id)))
                .expression_attribute_values(":kind", item::s(kind))
                .consistent_read(true)
                .set_exclusive_start_key(place)
                .send()
                .await
                .context("read the events of a plan")?;
            items.extend(answer.items.unwrap_or_default());
            place = answer.last_evaluated_key;
            if place.is_none() {
                return Ok(items);
            }
        }
    }
}

/// Returns the partition keys of the months from one time to another, newest first.
fn months(from: UnixMillis, to: UnixMillis) -> Vec<String> {
    let day = std::time::Duration::from_secs(24 * 3600);
    let mut months = Vec::new();
    let mut at = to;
    while at >= from {
        months.push(month(at));
        at = at - day;
    }
    months.push(month(from));
    months.dedup();
    months
}

pub(super) fn plan(row: &Item) -> anyhow::Result<Plan> {
    let id = item::text(row, "pk")
        .and_then(|pk| pk.strip_prefix("R#"))
        .context("a plan has no id")?;
    let facts = || format!("plan {id} is damaged");
    let version: u32 = item::number(row, "sv").with_context(facts)?;
    anyhow::ensure!(
        version == VERSION,
        "plan {id} has unsupported version {version} (expected {VERSION}); use the release that made the plan"
    );
    let document = item::text(row, "doc").with_context(facts)?;
    let runs = row.get("runs").and_then(|runs| runs.as_l().ok());
    let runs = runs.into_iter().flatten().filter_map(as_text);
    Ok(Plan {
        id: id.to_owned(),
        facts: serde_json::from_str(document).with_context(facts)?,
        state: item::text(row, "st")
            .and_then(PlanState::parse)
            .with_context(facts)?,
        made_at: item::time(row, "at").with_context(facts)?,
        good_until: item::time(row, "good").with_context(facts)?,
        count: item::number(row, "n").with_context(facts)?,
        next: item::number(row, "next").with_context(facts)?,
        runs: runs
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .with_context(facts)?,
        lease: item::text(row, "own")
            .map(str::to_owned)
            .zip(item::time(row, "lu")),
        outcome: item::text(row, "out")
            .map(serde_json::from_str)
            .transpose()
            .with_context(facts)?,
        cancelled_by: item::text(row, "cby").map(str::to_owned),
        ended_at: item::time(row, "ended"),
    })
}

fn as_text(value: &AttributeValue) -> Option<&str> {
    value.as_s().ok().map(String::as_str)
}

fn event(line: &str) -> anyhow::Result<PlanEvent> {
    let mut parts = line.split(' ');
    let mut read = || {
        let (epoch, run) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let until = match parts.next()? {
            "-" => None,
            at => Some(UnixMillis(at.parse().ok()?)),
        };
        Some(PlanEvent {
            received_at: UnixMillis(parts.next()?.parse().ok()?),
            key: EventKey::from_pk(parts.next()?)?,
            epoch,
            run,
            until,
        })
    };
    read().context("an event in a stored plan is invalid")
}

fn left_out(line: &str) -> anyhow::Result<PlanLeftOut> {
    let mut parts = line.split(' ');
    let mut read = || {
        Some(PlanLeftOut {
            why: parts.next()?.to_owned(),
            received_at: UnixMillis(parts.next()?.parse().ok()?),
            key: EventKey::from_pk(parts.next()?)?,
        })
    };
    read().context("a left-out event in a stored plan is invalid")
}

#[cfg(test)]
mod tests {
    use super::super::write::{event_line, left_out_line};
    use super::*;

    #[test]
    fn events_are_read_as_they_were_written() {
        for until in [None, Some(UnixMillis(9))] {
            let written = PlanEvent {
                key: EventKey::new("stripe-main", "evt_1"),
                received_at: UnixMillis(7),
                epoch: 3,
                run: 1,
                until,
            };
            assert_eq!(event(&event_line(&written)).unwrap(), written);
        }
        let written = PlanLeftOut {
            key: EventKey::new("stripe-main", "a b"),
            received_at: UnixMillis(7),
            why: "done".to_owned(),
        };
        assert_eq!(left_out(&left_out_line(&written)).unwrap(), written);
        for line in ["", "1 2 3", "x 0 - 1 E#s#1", "1 0 - 1 nonsense"] {
            assert!(event(line).is_err(), "{line}");
        }
    }

    #[test]
    fn each_month_of_a_span_is_asked_once() {
        // 2026-11-20 and 2027-01-03.
        let (from, to) = (UnixMillis(1_795_169_681_000), UnixMillis(1_798_934_400_000));
        let months = months(from, to);
        assert_eq!(months, ["PLANS#202701", "PLANS#202612", "PLANS#202611"]);
    }
}
