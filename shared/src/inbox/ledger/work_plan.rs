//! What a worker outside of Lambda declares about an effect, and how it is kept while it waits for an
//! approval.
//!
//! | pk | sk | |
//! |---|---|---|
//! | `E#{source}#{event id}` | `P#{effect}#{hash}` | `pl`: the plan in JSON; `at`: the time of the hold; `ttl` |
//!
//! A model that is asked twice writes two plans. So the plan that an operator approved is handed out
//! to the next worker, which does exactly that. The item is written before the hold that names it. Its
//! sort key has the hash of the plan, so a worker that lost its lease cannot replace another plan.

use anyhow::Context as _;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Hold, Item, Ledger, Row, item};
use crate::base::clock::UnixMillis;
use crate::inbox::table::{Change, Returns};

/// The sort keys of plans begin with this.
pub(super) const PLAN_PREFIX: &str = "P#";

/// The number of hex digits of a plan's hash.
const HASH_DIGITS: usize = 32;

/// What a worker declares about an effect before it causes it. All fields are optional, and none of
/// them is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkPlan {
    /// A sentence for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What the effect is about, such as the address of a mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// A number, as the worker wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
    /// The hash of the request that the worker would send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The whole plan, in a form that only the worker has to understand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full: Option<String>,
}

impl WorkPlan {
    /// Returns the hash of the plan for an effect. Each field is a part of it, so an approval is for
    /// exactly what the operator saw.
    pub fn hash(&self, effect: &str) -> String {
        let mut hash = Sha256::new();
        let mut add = |part: &str| {
            // The length keeps two lists of parts with the same text apart.
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        };
        add("work");
        add(effect);
        let fields = [
            ("summary", &self.summary),
            ("target", &self.target),
            ("amount", &self.amount),
            ("sha256", &self.sha256),
            ("full", &self.full),
        ];
        for (name, field) in fields {
            if let Some(text) = field {
                add(name);
                add(text);
            }
        }
        hex::encode(hash.finalize())[..HASH_DIGITS].to_owned()
    }

    /// Returns whether the worker declared nothing but the name of the effect.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns a text for a list of held events. A hold keeps only the beginning of a long text, so the
    /// amount and the target are before what the worker says.
    pub fn summary(&self) -> String {
        let parts = [
            self.amount
                .as_ref()
                .map(|amount| format!("amount {amount}")),
            self.target
                .as_ref()
                .map(|target| format!("target {target}")),
            self.summary.clone(),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match parts.as_slice() {
            [] if self.is_empty() => "the worker declared no plan".to_owned(),
            [] => "a plan without a summary".to_owned(),
            parts => parts.join(", "),
        }
    }
}

impl Ledger {
    /// Keeps the plan of a worker for a hold that is about to be written. A repeated call changes
    /// nothing.
    pub async fn keep_work_plan(
        &self,
        row: &Row,
        plan: &WorkPlan,
        hold: &Hold,
        now: UnixMillis,
    ) -> anyhow::Result<()> {
        let text = serde_json::to_string(plan).context("write a plan as JSON")?;
        // After the approval, the plan is needed until a worker takes the event.
        let expires = hold.expires + self.retention(row.key.source()).bodies;
        let change = Change::new(
            "keep the plan of a worker",
            "",
            "SET pl = :plan, #at = :at, #ttl = :ttl",
        )
        .named("#at", "at")
        .named("#ttl", "ttl")
        .with(":plan", AttributeValue::S(text))
        .with(":at", item::ms(now))
        .with(":ttl", item::n(expires.secs()));
        let (pk, sk) = (row.key.pk(), sk(&hold.effect, &hold.plan));
        let table = self.table();
        table.update((&pk, &sk), change, Returns::Nothing).await?;
        Ok(())
    }

    /// Returns the kept plan of an effect. `None` if there is none with this hash, because the effect
    /// is of an action, or because the plan expired.
    pub async fn work_plan(
        &self,
        row: &Row,
        effect: &str,
        hash: &str,
    ) -> anyhow::Result<Option<WorkPlan>> {
        if row.erased_at.is_some() {
            return Ok(None);
        }
        let stored = self.immutable(&row.key.pk(), &sk(effect, hash)).await;
        let stored = stored.context("read the plan of a worker")?;
        Ok(stored.and_then(|stored| read(&stored, effect, hash)))
    }
}

fn sk(effect: &str, hash: &str) -> String {
    format!("{PLAN_PREFIX}{effect}#{hash}")
}

/// Reads a plan. A plan with another hash is not the one that the hold names.
fn read(stored: &Item, effect: &str, hash: &str) -> Option<WorkPlan> {
    let plan: WorkPlan = serde_json::from_str(item::text(stored, "pl")?).ok()?;
    (plan.hash(effect) == hash).then_some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> WorkPlan {
        let text = |text: &str| Some(text.to_owned());
        WorkPlan {
            summary: text("refund the order"),
            target: text("cus_1"),
            amount: text("74.00"),
            sha256: text(&"a".repeat(64)),
            full: text("{\"order\": 7}"),
        }
    }

    #[test]
    fn a_hash_depends_on_each_field_and_on_the_effect() {
        let hash = plan().hash("refund");
        assert_eq!(hash.len(), HASH_DIGITS);
        // Rows keep this hash, so it must never change.
        assert_eq!(hash, "e6f899870e7dc42818ed7115194c1f7c");
        assert_ne!(plan().hash("refund-2"), hash);
        let changes: [fn(&mut WorkPlan, Option<String>); 5] = [
            |plan, text| plan.summary = text,
            |plan, text| plan.target = text,
            |plan, text| plan.amount = text,
            |plan, text| plan.sha256 = text,
            |plan, text| plan.full = text,
        ];
        for change in changes {
            for text in [None, Some(String::new()), Some("other".to_owned())] {
                let mut other = plan();
                change(&mut other, text.clone());
                assert_ne!(other.hash("refund"), hash, "{text:?}");
            }
        }
        let of = |summary: &str, target: &str| WorkPlan {
            summary: Some(summary.to_owned()),
            target: Some(target.to_owned()),
            ..WorkPlan::default()
        };
        assert_ne!(of("ab", "c").hash("x"), of("a", "bc").hash("x"));
    }

    #[test]
    fn only_the_plan_with_the_hash_is_read() {
        let stored = |text: &str| Item::from([("pl".to_owned(), item::s(text))]);
        let text = serde_json::to_string(&plan()).unwrap();
        let hash = plan().hash("refund");
        assert_eq!(read(&stored(&text), "refund", &hash), Some(plan()));
        for (text, effect) in [(text.as_str(), "other"), ("{}", "refund"), ("[", "refund")] {
            assert_eq!(read(&stored(text), effect, &hash), None, "{text}");
        }
        assert_eq!(read(&Item::new(), "refund", &hash), None);
    }

    #[test]
    fn a_summary_names_what_the_worker_declared() {
        assert_eq!(
            plan().summary(),
            "amount 74.00, target cus_1, refund the order"
        );
        assert_eq!(WorkPlan::default().summary(), "the worker declared no plan");
        let full = WorkPlan {
            full: plan().full,
            ..WorkPlan::default()
        };
        assert_eq!(full.summary(), "a plan without a summary");
    }
}
