//! Fits the columns of a table into the width of the terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Align, Canvas, Head, Room, Weight};

const GAP: usize = 2;

/// The visible columns: index, header, width.
pub(super) struct Layout<'a> {
    columns: Vec<(usize, &'a Head, usize)>,
}

impl<'a> Layout<'a> {
    /// Returns all columns with their natural widths.
    pub(super) fn whole(heads: &'a [Head], rows: &[Vec<String>]) -> Self {
        let widths = natural(heads, rows);
        let columns = heads.iter().zip(widths).enumerate();
        let columns = columns.map(|(index, (head, width))| (index, head, width));
        Self {
            columns: columns.collect(),
        }
    }

    /// Returns the columns that fit into the canvas.
    pub(super) fn fit(heads: &'a [Head], rows: &[Vec<String>], canvas: Canvas) -> Self {
        let Self { mut columns } = Self::whole(heads, rows);
        columns.retain(|(_, head, _)| canvas.wide || head.weight > Weight::Extra);
        let Some(width) = canvas.width.filter(|_| !canvas.wide) else {
            return Self { columns };
        };
        for (shorten, drop) in [
            (Weight::Main, Weight::Lesser),
            (Weight::Essential, Weight::Main),
        ] {
            loop {
                let fitted = shortened(&columns, width, shorten);
                if total(&fitted) <= width {
                    return Self { columns: fitted };
                }
                // After a column is dropped, there is more space for the text that was shortened.
                let Some(goes) = lightest(&columns, drop) else {
                    break;
                };
                columns.remove(goes);
            }
        }
        // The columns that must not be shortened do not fit, so the terminal wraps the lines.
        Self {
            columns: shortened(&columns, width, Weight::Essential),
        }
    }

    pub(super) fn line(
        &self,
        row: &[String],
        mut finish: impl FnMut(&Head, String) -> String,
    ) -> String {
        let mut line = String::new();
        for (place, (index, head, width)) in self.columns.iter().enumerate() {
            if place > 0 {
                line += &" ".repeat(GAP);
            }
            let cell = fit_cell(row.get(*index).map_or("", String::as_str), *width);
            let pad = " ".repeat(width - cell.width().min(*width));
            let last = place + 1 == self.columns.len();
            line += &match head.align {
                Align::Right => pad + &finish(head, cell),
                Align::Left if last => finish(head, cell),
                Align::Left => finish(head, cell) + &pad,
            };
        }
        line.truncate(line.trim_end_matches(' ').len());
        line
    }
}

fn natural(heads: &[Head], rows: &[Vec<String>]) -> Vec<usize> {
    let cell_width =
        |row: &Vec<String>, index: usize| row.get(index).map_or(0, |cell| cell.width());
    heads
        .iter()
        .enumerate()
        .map(|(index, head)| {
            let cells = rows.iter().map(|row| cell_width(row, index));
            cells.chain([head.name.width()]).max().unwrap_or(0)
        })
        .collect()
}

fn total(columns: &[(usize, &Head, usize)]) -> usize {
    let widths: usize = columns.iter().map(|(_, _, width)| width).sum();
    widths + GAP * columns.len().saturating_sub(1)
}

/// Shortens text columns up to this weight until the table fits: the least important first, and
/// among equals the rightmost.
fn shortened<'a>(
    columns: &[(usize, &'a Head, usize)],
    width: usize,
    upto: Weight,
) -> Vec<(usize, &'a Head, usize)> {
    let mut columns = columns.to_vec();
    let mut excess = total(&columns).saturating_sub(width);
    let mut order: Vec<usize> = (0..columns.len()).rev().collect();
    order.sort_by_key(|place| columns[*place].1.weight);
    for place in order {
        let (_, head, width) = &mut columns[place];
        if let Room::Text(least) = head.room
            && head.weight <= upto
        {
            let cut = excess.min(width.saturating_sub(least.max(head.name.width())));
            *width -= cut;
            excess -= cut;
        }
    }
    columns
}

fn lightest(columns: &[(usize, &Head, usize)], upto: Weight) -> Option<usize> {
    let candidates = columns.iter().enumerate().rev();
    candidates
        .filter(|(_, (_, head, _))| head.weight <= upto)
        .min_by_key(|(_, (_, head, _))| head.weight)
        .map(|(place, _)| place)
}

fn fit_cell(cell: &str, width: usize) -> String {
    if cell.width() <= width {
        return cell.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let mut short: String = cell
        .chars()
        .take_while(|c| {
            let wide = c.width().unwrap_or(0);
            let fits = wide <= room;
            room = room.saturating_sub(wide);
            fits
        })
        .collect();
    short.push('…');
    short
}
