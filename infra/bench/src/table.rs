//! A Markdown table whose columns are as wide as their content.

use std::fmt;

#[derive(Clone, Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: impl IntoIterator<Item: Into<String>>) -> Self {
        let mut table = Self { rows: Vec::new() };
        table.row(head);
        table
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item: Into<String>>) {
        let cells = cells.into_iter().map(Into::into);
        self.rows.push(cells.collect());
    }

    /// A row with a name in the first cell.
    pub(crate) fn named<T: Into<String>>(
        &mut self,
        name: &str,
        cells: impl IntoIterator<Item = T>,
    ) {
        let cells = cells.into_iter().map(Into::into);
        self.row([name.to_owned()].into_iter().chain(cells));
    }

    /// Columns of numbers are right-aligned.
    fn is_figures(&self, column: usize) -> bool {
        let cells = self.rows.iter().skip(1).filter_map(|row| row.get(column));
        let mut cells = cells.filter(|cell| !cell.is_empty()).peekable();
        cells.peek().is_some()
            && cells.all(|cell| {
                let first = cell.trim_start_matches('<').chars().next();
                let words = cell.split(' ').count();
                cell == "-" || (words <= 2 && first.is_some_and(|c| c.is_ascii_digit()))
            })
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
            .max(2)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.first().map_or(0, Vec::len);
        let shapes: Vec<(usize, bool)> = (0..columns)
            .map(|column| (self.width(column), self.is_figures(column)))
            .collect();
        for (at, row) in self.rows.iter().enumerate() {
            for (cell, &(width, right)) in row.iter().zip(&shapes) {
                if right {
                    write!(f, "| {cell:>width$} ")?;
                } else {
                    write!(f, "| {cell:<width$} ")?;
                }
            }
            writeln!(f, "|")?;
            if at == 0 {
                for &(width, right) in &shapes {
                    let end = if right { ":" } else { "-" };
                    write!(f, "|{}{end}", "-".repeat(width + 1))?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

pub(crate) fn usd(value: f64) -> String {
    if value > 0.0 && value < 0.005 {
        return "<0.01".to_owned();
    }
    format!("{value:.2}")
}

/// Formats a value with a suitable number of digits.
pub(crate) fn quantity(value: f64) -> String {
    match value {
        value if value >= 1_000.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value if value >= 0.001 => format!("{value:.4}"),
        value => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_at_the_left_and_figures_at_the_right() {
        let mut table = Table::new(["", "US$"]);
        table.named("ledger", [usd(4.5)]);
        table.named("logs", [usd(0.001)]);
        let expected =
            "|        |   US$ |\n|--------|------:|\n| ledger |  4.50 |\n| logs   | <0.01 |\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn small_and_large_quantities_keep_their_digits() {
        let texts = [2_628_000.0, 7.02, 0.25, 0.000_000_4].map(quantity);
        assert_eq!(texts, ["2628000", "7.02", "0.2500", "4.0e-7"]);
    }
}
