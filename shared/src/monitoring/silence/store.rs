//! Stores the gaps between the webhooks of a source.

use crate::monitoring::hours::Statistics;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::base::clock::UnixMillis;
use crate::inbox::ledger::transition::coverage as change;
use crate::inbox::ledger::{Item, Write, item};
use crate::monitoring::silence::ArrivalGaps;

impl Statistics<'_> {
    /// Returns the stored gaps of a source, or the default if there are none.
    pub async fn rhythm(self, source: &str) -> anyhow::Result<ArrivalGaps> {
        let item = self.get(&pk(source), "RHYTHM").await?.unwrap_or_default();
        Ok(ArrivalGaps::read(&item))
    }

    /// Stores new gaps. They must be computed from the stored gaps with the given `looked`. Returns
    /// `false` if another process has already counted the same webhooks.
    pub async fn keep_rhythm(
        self,
        source: &str,
        looked: Option<UnixMillis>,
        rhythm: &ArrivalGaps,
    ) -> anyhow::Result<bool> {
        let gaps = rhythm.gaps.iter().map(item::n).collect();
        let mut facts = Item::from([("gaps".to_owned(), AttributeValue::L(gaps))]);
        facts.extend(rhythm.last.map(|at| ("last_web".to_owned(), item::ms(at))));
        facts.extend(rhythm.looked.map(|at| ("looked".to_owned(), item::ms(at))));
        let change = change::rhythm(looked, facts);
        let answer = self.change_item(&pk(source), "RHYTHM", change).await?;
        Ok(matches!(answer, Write::Applied(_)))
    }
}

impl ArrivalGaps {
    pub(crate) fn read(item: &Item) -> Self {
        let gaps = item.get("gaps").and_then(|gaps| gaps.as_l().ok());
        let gaps = gaps.into_iter().flatten();
        Self {
            last: item::time(item, "last_web"),
            looked: item::time(item, "looked"),
            gaps: gaps
                .filter_map(|gap| gap.as_n().ok()?.parse().ok())
                .collect(),
        }
    }
}

fn pk(source: &str) -> String {
    format!("SYNC#{source}")
}
