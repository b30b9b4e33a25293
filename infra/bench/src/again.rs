//! How far this run is from the one before it.

use std::path::Path;

use anyhow::Context as _;

use crate::count::Figures;

/// A line about the greatest difference to what `file` has of another run, of counts and of ratios;
/// then the file has this one's.
pub(crate) fn compared(file: &Path, now: &(Figures, Figures)) -> anyhow::Result<String> {
    let before = std::fs::read(file).ok();
    let before = before.and_then(|text| serde_json::from_slice::<(Figures, Figures)>(&text).ok());
    std::fs::write(file, serde_json::to_vec_pretty(now)?).context("keep the figures")?;
    let Some(before) = before else {
        return Ok("There was no run before this one to compare it with.".to_owned());
    };
    let counts = farthest(&before.0, &now.0);
    let ratios = farthest(&before.1, &now.1);
    Ok(format!(
        "Against the run before: counts differ by at most {counts}, ratios by at most {ratios}."
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
