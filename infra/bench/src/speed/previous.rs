//! Compares this run with the previous run.

use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::speed::count::Figures;

/// Figures that should be the same in another run.
#[derive(Deserialize, Serialize)]
pub(crate) struct Repeatable {
    pub(crate) counts: Figures,
    /// Ratios of processor time and memory.
    pub(crate) work: Figures,
    /// Ratios of elapsed times. These times are longer if the machine has other load.
    pub(crate) waits: Figures,
}

/// Returns a line about the largest differences from the previous run in `file`, and writes this
/// run to the file.
pub(crate) fn compared(file: &Path, now: &Repeatable) -> anyhow::Result<String> {
    let before = std::fs::read(file).ok();
    let before = before.and_then(|text| serde_json::from_slice::<Repeatable>(&text).ok());
    std::fs::write(file, serde_json::to_vec_pretty(now)?).context("write the figures")?;
    let Some(before) = before else {
        return Ok("There is no previous run for comparison.".to_owned());
    };
    let counts = farthest(&before.counts, &now.counts);
    let work = farthest(&before.work, &now.work);
    let waits = farthest(&before.waits, &now.waits);
    Ok(format!(
        "Compared with the previous run: counts differ by at most {counts}, ratios of processor \
        time and memory by at most {work}, ratios of elapsed times by at most {waits}."
    ))
}

fn farthest(before: &Figures, now: &Figures) -> String {
    let apart = now.iter().filter_map(|(name, now)| {
        let before = before.get(name)?;
        let apart = (now - before).abs() / before.abs().max(f64::MIN_POSITIVE);
        Some((apart, name))
    });
    let farthest = apart.max_by(|(one, _), (two, _)| one.total_cmp(two));
    farthest.map_or("nothing".to_owned(), |(apart, name)| {
        format!("{:.1} % ({name})", apart * 100.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farthest_figure_is_named() {
        let figures = |a: f64, b: f64| Figures::from([("a".to_owned(), a), ("b".to_owned(), b)]);
        let said = farthest(&figures(100.0, 0.0), &figures(97.0, 0.0));
        assert_eq!(said, "3.0 % (a)");
    }
}
