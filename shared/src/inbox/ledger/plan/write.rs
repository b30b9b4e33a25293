//! Writes a new plan: its events first, the plan item last.

use super::Plans;
use std::fmt::Write as _;

use super::{KEEP_PLAN, Plan, PlanEvent, PlanLeftOut, pk, text};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, Write, item};

/// The version of plans that this code writes.
pub(super) const VERSION: u32 = 1;

/// The number of events in one item. The item is far smaller than 400 KB, even with long keys.
const CHUNK: usize = 500;

/// Returns the text line of one event. Its parts are separated by spaces, and a key never contains
/// a space.
pub(super) fn event_line(event: &PlanEvent) -> String {
    let until = event.until.map_or("-".to_owned(), |at| at.0.to_string());
    let (epoch, run, at) = (event.epoch, event.run, event.received_at.0);
    format!("{epoch} {run} {until} {at} {}", event.key.pk())
}

pub(super) fn left_out_line(left: &PlanLeftOut) -> String {
    format!("{} {} {}", left.why, left.received_at.0, left.key.pk())
}

impl Plans<'_> {
    /// Stores a plan. Returns `false` if a plan with this id already exists.
    pub async fn make_plan(
        self,
        plan: &Plan,
        events: &[PlanEvent],
        left_out: &[PlanLeftOut],
    ) -> anyhow::Result<bool> {
        // This check comes first, so that no item of another plan is overwritten.
        if self.plan(&plan.id).await?.is_some() {
            return Ok(false);
        }
        let expires = plan.made_at + KEEP_PLAN;
        let lines: Vec<String> = events.iter().map(event_line).collect();
        self.put_chunks(&plan.id, 'C', &lines, expires).await?;
        let lines: Vec<String> = left_out.iter().map(left_out_line).collect();
        self.put_chunks(&plan.id, 'L', &lines, expires).await?;
        let keys: Vec<_> = events
            .iter()
            .map(|event| (event.key.clone(), event.epoch))
            .collect();
        self.plan_events(&plan.id, &keys, expires).await?;
        self.put("list a plan", listed(plan, expires), None).await?;
        let condition = ("attribute_not_exists(pk)", Item::new());
        let row = row(plan, expires)?;
        let written = self.put("store a plan", row, Some(condition)).await?;
        Ok(match written {
            Write::Applied(_) => true,
            // An earlier try of this write succeeded, but its response was lost. No other caller
            // makes the same plan at the same time.
            Write::Refused(old) => old
                .and_then(|old| super::read::plan(&old).ok())
                .is_some_and(|old| old.made_at == plan.made_at && old.facts == plan.facts),
        })
    }

    async fn put_chunks(
        self,
        id: &str,
        kind: char,
        lines: &[String],
        expires: UnixMillis,
    ) -> anyhow::Result<()> {
        for (number, chunk) in lines.chunks(CHUNK).enumerate() {
            let mut text = String::new();
            for line in chunk {
                let _ = writeln!(text, "{line}");
            }
            let chunk = Item::from([
                ("pk".to_owned(), item::s(pk(id))),
                ("sk".to_owned(), item::s(format!("{kind}#{number:05}"))),
                ("e".to_owned(), item::s(text)),
                ("ttl".to_owned(), item::n(expires.secs())),
            ]);
            self.put("store the events of a plan", chunk, None).await?;
        }
        Ok(())
    }
}

fn row(plan: &Plan, expires: UnixMillis) -> anyhow::Result<Item> {
    Ok(Item::from([
        ("pk".to_owned(), item::s(pk(&plan.id))),
        ("sk".to_owned(), item::s("M")),
        ("sv".to_owned(), item::n(VERSION)),
        ("st".to_owned(), item::s(plan.state.as_str())),
        ("doc".to_owned(), item::s(text(&plan.facts)?)),
        ("at".to_owned(), item::ms(plan.made_at)),
        ("good".to_owned(), item::ms(plan.good_until)),
        ("n".to_owned(), item::n(plan.count)),
        ("next".to_owned(), item::n(plan.next)),
        ("epoch".to_owned(), item::n(0)),
        ("ttl".to_owned(), item::n(expires.secs())),
    ]))
}

fn listed(plan: &Plan, expires: UnixMillis) -> Item {
    let sk = format!("{:013}#{}", plan.made_at.0, plan.id);
    Item::from([
        ("pk".to_owned(), item::s(month(plan.made_at))),
        ("sk".to_owned(), item::s(sk)),
        ("ttl".to_owned(), item::n(expires.secs())),
    ])
}

/// Returns the partition key of the list of a month's plans.
pub(super) fn month(at: UnixMillis) -> String {
    let hour = at.hour();
    format!("PLANS#{}", hour.get(..6).unwrap_or(&hour))
}
