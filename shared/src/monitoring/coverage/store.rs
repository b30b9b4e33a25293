//! Stores the counts of the sync by source and day, and the progress of a run.

use crate::monitoring::hours::Statistics;
use std::collections::BTreeMap;

use anyhow::Context as _;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::base::calendar::Day;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::transition::coverage as change;
use crate::inbox::ledger::{Item, SCHEMA, Write, item};
use crate::monitoring::coverage::{Comparison, Counts, DayCount, Delays, Gap, Piece};

/// The maximum number of attempts to write the counts of a day while other runs write them first.
const TRIES: usize = 8;

impl Statistics<'_> {
    /// Returns the counts of a day. They are empty if no counts are stored.
    pub async fn day_count(self, source: &str, day: Day) -> anyhow::Result<DayCount> {
        let item = self.get(&pk(source), &sk(day)).await?;
        Ok(item.map_or_else(|| DayCount::empty(day), |item| read(day, &item)))
    }

    /// Returns the counts of a source from one day to another, both inclusive. Omits days without
    /// counts.
    pub async fn day_counts(
        self,
        source: &str,
        from: Day,
        to: Day,
    ) -> anyhow::Result<Vec<DayCount>> {
        let mut found = Vec::new();
        let mut start: Option<Item> = None;
        loop {
            let answer = self
                .table
                .query()
                .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
                .expression_attribute_values(":pk", item::s(pk(source)))
                .expression_attribute_values(":from", item::s(sk(from)))
                .expression_attribute_values(":to", item::s(sk(to)))
                .set_exclusive_start_key(start)
                .send()
                .await
                .context("read the daily counts of a source")?;
            found.extend(answer.items().iter().filter_map(|item| {
                let day = Day::parse(item::text(item, "sk")?.strip_prefix("DAY#")?)?;
                Some(read(day, item))
            }));
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(found);
            }
        }
    }

    /// Adds the counts of a run to a day, unless the day already contains them. Returns the part
    /// and the new sum, or `None` if nothing was added.
    ///
    /// `piece` receives the time up to which the events of the day are counted, and returns the
    /// part to add. This function calls `piece` again if another run writes first.
    pub async fn count_day(
        self,
        source: &str,
        day: Day,
        mut piece: impl AsyncFnMut(Option<UnixMillis>) -> Option<(Piece, Comparison)>,
    ) -> anyhow::Result<Option<(Piece, DayCount)>> {
        let owner = crate::inbox::ledger::receive::write_id()?;
        for _ in 0..TRIES {
            let known = self.day_count(source, day).await?;
            let Some((piece, comparison)) = piece(known.counted).await else {
                return Ok(None);
            };
            let sum = known.with(&piece, comparison);
            let expires = day.ends() + self.keep_figures(source);
            let written = change::count_day(known.counted, &owner, write(&sum), expires);
            match self.change_item(&pk(source), &sk(day), written).await? {
                Write::Applied(_) => return Ok(Some((piece, sum))),
                // This is our own write. Its response was lost.
                Write::Refused(Some(item)) if item::text(&item, "wid") == Some(&owner) => {
                    return Ok(Some((piece, sum)));
                }
                Write::Refused(_) => {}
            }
        }
        anyhow::bail!(
            "could not store the counts of a day, because other runs of the sync changed them during each try"
        )
    }

    /// Stores the counts of a run up to its next page, and the counts up to the page before it. If
    /// a run crashes before it has stored its next page, it continues with the page before.
    pub async fn keep_tally(
        self,
        source: &str,
        started: UnixMillis,
        places: [Option<&(String, BTreeMap<Day, Counts>)>; 2],
    ) -> anyhow::Result<()> {
        let mut tally = Item::from([
            ("pk".to_owned(), item::s(pk(source))),
            ("sk".to_owned(), item::s("TALLY")),
            ("sv".to_owned(), item::n(SCHEMA)),
            ("start".to_owned(), item::ms(started)),
        ]);
        for (name, place) in ["now", "was"].into_iter().zip(places) {
            let Some((page, days)) = place else { continue };
            let days = days.iter();
            let days =
                days.map(|(day, counts)| (day.name(), AttributeValue::M(counts_item(counts))));
            tally.insert(format!("page_{name}"), item::s(page));
            tally.insert(format!("days_{name}"), AttributeValue::M(days.collect()));
        }
        self.put("store the counts of the sync", tally, None)
            .await?;
        Ok(())
    }

    /// Returns the counts of the run that began at `started`, up to this page. Returns `None` if
    /// they are no longer stored.
    pub async fn kept_tally(
        self,
        source: &str,
        started: UnixMillis,
        page: &str,
    ) -> anyhow::Result<Option<BTreeMap<Day, Counts>>> {
        let Some(tally) = self.get(&pk(source), "TALLY").await? else {
            return Ok(None);
        };
        if item::time(&tally, "start") != Some(started) {
            return Ok(None);
        }
        let is_of = |name: &&str| item::text(&tally, &format!("page_{name}")) == Some(page);
        let Some(name) = ["now", "was"].into_iter().find(is_of) else {
            return Ok(None);
        };
        let Some(AttributeValue::M(days)) = tally.get(&format!("days_{name}")) else {
            return Ok(None);
        };
        let days = days
            .iter()
            .filter_map(|(day, counts)| Some((Day::parse(day)?, counts_of(counts.as_m().ok()?))));
        Ok(Some(days.collect()))
    }
}

fn pk(source: &str) -> String {
    format!("SYNC#{source}")
}

fn sk(day: Day) -> String {
    format!("DAY#{}", day.name())
}

pub(crate) fn read(day: Day, item: &Item) -> DayCount {
    DayCount {
        day,
        counted: item::time(item, "upto"),
        minutes: item::number(item, "mins").unwrap_or(0),
        compared: item::number(item, "cmp").unwrap_or(0),
        counts: counts_of(item),
    }
}

/// Returns the attributes of the item for a day, without its key.
fn write(day: &DayCount) -> Item {
    let mut item = counts_item(&day.counts);
    item.insert("sv".into(), item::n(SCHEMA));
    item.insert("mins".into(), item::n(day.minutes));
    item.insert("cmp".into(), item::n(day.compared));
    item.extend(day.counted.map(|at| ("upto".to_owned(), item::ms(at))));
    item
}

fn counts_item(counts: &Counts) -> Item {
    let gaps = counts.gaps.iter().map(|gap| item::s(gap.written()));
    Item::from([
        ("n_web".to_owned(), item::n(counts.webhook)),
        ("n_both".to_owned(), item::n(counts.both)),
        ("n_late".to_owned(), item::n(counts.late)),
        ("n_sync".to_owned(), item::n(counts.sync)),
        ("d_web".to_owned(), numbers(&counts.by_webhook)),
        ("d_sync".to_owned(), numbers(&counts.by_sync)),
        ("gaps".to_owned(), AttributeValue::L(gaps.collect())),
    ])
}

fn counts_of(item: &Item) -> Counts {
    let number = |name| item::number(item, name).unwrap_or(0);
    let delays = |name: &str| {
        let list = item.get(name).and_then(|list| list.as_l().ok());
        let numbers = list.into_iter().flatten();
        let numbers: Vec<u64> = numbers
            .filter_map(|number| number.as_n().ok()?.parse().ok())
            .collect();
        Delays::of_numbers(&numbers)
    };
    let gaps = item.get("gaps").and_then(|list| list.as_l().ok());
    let gaps = gaps.into_iter().flatten();
    Counts {
        webhook: number("n_web"),
        both: number("n_both"),
        late: number("n_late"),
        sync: number("n_sync"),
        by_webhook: delays("d_web"),
        by_sync: delays("d_sync"),
        gaps: gaps.filter_map(|gap| Gap::read(gap.as_s().ok()?)).collect(),
    }
}

fn numbers(delays: &Delays) -> AttributeValue {
    AttributeValue::L(delays.numbers().into_iter().map(item::n).collect())
}
