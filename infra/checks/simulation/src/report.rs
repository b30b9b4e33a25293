//! Formats the results as text.

use std::fmt::Write as _;

use crate::cases::{Ablation, Case, Figure};
use crate::observer::Figures;

/// A case with its figures over all seeds.
#[derive(Clone, Debug)]
pub struct Line {
    pub case: Case,
    pub figures: Figures,
}

/// An ablation with its figures.
#[derive(Clone, Debug)]
pub struct Tooth {
    pub ablation: Ablation,
    pub figures: Figures,
}

impl Tooth {
    /// Returns whether the figure is violated without the protection, as it must be.
    pub fn bites(&self) -> bool {
        !self
            .ablation
            .figure
            .holds(&self.ablation.case, &self.figures)
    }
}

impl Line {
    pub fn holds(&self) -> bool {
        self.figures.events > 0
            && self
                .case
                .figures
                .iter()
                .all(|figure| figure.holds(&self.case, &self.figures))
    }
}

/// Returns one row for each figure of each case, and then the ablations.
pub fn table(lines: &[Line], teeth: &[Tooth]) -> String {
    let mut table = String::new();
    for line in lines {
        let figures = &line.figures;
        let _ = writeln!(
            table,
            "{}: {} events, {} acknowledged, {} spilled, {} done, {} dead letters; {} messages, {} \
             of them moved to the backlog queue; {} calls to stores",
            line.case.name,
            figures.events,
            figures.acknowledged,
            figures.spilled,
            figures.done,
            figures.dead,
            figures.sent,
            figures.moved,
            figures.calls
        );
        for figure in line.case.figures {
            let verdict = if figure.holds(&line.case, figures) {
                "ok"
            } else {
                "BROKEN"
            };
            let _ = writeln!(
                table,
                "  {:36} {:>8}   at most {:<5} {verdict}",
                figure.name(),
                number(*figure, figures),
                figure.most(&line.case)
            );
        }
        table.push('\n');
    }
    if !teeth.is_empty() {
        let _ = writeln!(table, "broken without this protection:");
    }
    for tooth in teeth {
        let figure = tooth.ablation.figure;
        let verdict = if tooth.bites() {
            "ok"
        } else {
            "BREAKS NOTHING"
        };
        let _ = writeln!(
            table,
            "  {:40} {:36} {:>8}   {verdict}",
            tooth.ablation.without,
            figure.name(),
            number(figure, &tooth.figures)
        );
    }
    table
}

fn number(figure: Figure, figures: &Figures) -> String {
    let value = figure.of(figures);
    if figure == Figure::Amplification {
        format!("{value:.3}")
    } else {
        format!("{value}")
    }
}
