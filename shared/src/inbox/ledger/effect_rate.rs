//! Counts the effects that a rule with a rate allows.
//!
//! | pk | sk | |
//! |---|---|---|
//! | `SYS` | `CAP#{source}#{rule}#{seconds of the window}#{who}#{window}` | number `n` of effects in the window; `ttl` |
//!
//! An effect is counted before its intent is written. A repeated write counts an effect twice, so there
//! can be fewer effects in a window than the rate allows, and never more.

use std::time::Duration;

use super::{Ledger, item};
use crate::base::clock::UnixMillis;
use crate::inbox::table::{Change, Returns, Write};
use crate::sources::rules::EffectRate;

/// How long the item of a window is kept after its end.
const KEEP: Duration = Duration::from_secs(3600);

/// Whose effects are counted together: those of a rule of a source, and of a role or a type.
#[derive(Clone, Copy, Debug)]
pub struct CountedEffects<'c> {
    pub source: &'c str,
    pub rule: &'c str,
    pub who: &'c str,
}

impl Ledger {
    /// Counts an effect in the current window. Returns `false` if the window is full: the effect is
    /// then not counted.
    pub async fn count_effect(
        &self,
        counted: CountedEffects<'_>,
        rate: EffectRate,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        let change = Change::new(
            "count an effect for a rule",
            "attribute_not_exists(n) OR n < :most",
            "SET #ttl = :ttl ADD n :one",
        )
        .named("#ttl", "ttl")
        .with(":most", item::n(rate.most))
        .with(":ttl", item::n((now + rate.window + KEEP).secs()))
        .with(":one", item::n(1));
        let sk = sk(counted, rate, now);
        let count = self.table().update(("SYS", &sk), change, Returns::Nothing);
        Ok(matches!(count.await?, Write::Applied(_)))
    }
}

fn sk(counted: CountedEffects<'_>, rate: EffectRate, now: UnixMillis) -> String {
    let CountedEffects { source, rule, who } = counted;
    let secs = rate.window.as_secs();
    let window = i64::try_from(secs).map_or(0, |secs| now.secs().div_euclid(secs.max(1)));
    format!("CAP#{source}#{rule}#{secs}#{who}#{window}")
}
