//! Prints tables without borders, which are easy to paste and to read with `awk`.
//!
//! In a narrow terminal, the layout first shortens less important text, then drops the least
//! important columns, and shortens important text last. Ids, statuses and counts are never
//! shortened.

mod layout;

use super::safe::capped;
use super::style;
use layout::Layout;

/// The maximum length of a cell. A sender can choose the text of a cell.
const CELL_CAP: usize = 1000;

/// How a column is laid out.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub name: &'static str,
    pub align: Align,
    pub room: Room,
    pub weight: Weight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Never shortened.
    Whole,
    /// Never shortened, and coloured by its status.
    Status,
    /// Can be shortened to this width.
    Text(usize),
}

/// The importance of a column. The layout shortens or drops the least important columns first, and
/// among equals the rightmost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    /// Shown by `-o wide` only.
    Extra,
    /// Dropped before important text is shortened.
    Lesser,
    /// Dropped only after important text is shortened.
    Main,
    /// Never dropped.
    Essential,
}

/// The space for the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Canvas {
    /// `None`: unlimited.
    pub width: Option<usize>,
    /// Whether to show every column, including those for `-o wide`.
    pub wide: bool,
    pub colour: bool,
}

/// Returns the table with its header row. Makes the cells safe to print.
pub(crate) fn render(heads: &[Head], rows: &[Vec<String>], canvas: Canvas) -> String {
    let rows = safe_cells(rows);
    let layout = Layout::fit(heads, &rows, canvas);
    let names: Vec<String> = heads.iter().map(|head| head.name.to_owned()).collect();

    let mut text = style::paint(
        canvas.colour,
        style::HEAD,
        &layout.line(&names, |_, cell| cell),
    );
    text.push('\n');
    for row in &rows {
        text += &layout.line(row, |head, cell| match head.room {
            Room::Status => style::paint(canvas.colour, style::of_status(&cell), &cell),
            _ => cell,
        });
        text.push('\n');
    }
    text
}

/// Returns rows without a header row, each with its style on the first column. Makes the cells safe
/// to print.
pub(crate) fn headless(
    heads: &[Head],
    rows: &[Vec<String>],
    canvas: Canvas,
    styles: &[style::Style],
) -> String {
    let rows = safe_cells(rows);
    let layout = Layout::fit(heads, &rows, canvas);
    let mut text = String::new();
    for (row, style) in rows.iter().zip(styles) {
        let mut first = true;
        text += &layout.line(row, |_, cell| {
            let of_first = std::mem::replace(&mut first, false);
            style::paint(canvas.colour && of_first, *style, &cell)
        });
        text.push('\n');
    }
    text
}

/// Aligns rows without a header and without a width limit, for the sections of one event.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let rows = safe_cells(rows);
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let head = Head {
        name: "",
        align: Align::Left,
        room: Room::Whole,
        weight: Weight::Essential,
    };
    let heads = vec![head; columns];
    let layout = Layout::whole(&heads, &rows);
    rows.iter()
        .map(|row| layout.line(row, |_, cell| cell) + "\n")
        .collect()
}

/// A list of facts: a name and a value on each line.
#[derive(Default)]
pub(crate) struct Facts(Vec<Vec<String>>);

impl Facts {
    pub(crate) fn add(&mut self, name: &str, value: impl Into<String>) {
        self.0.push(vec![format!("  {name}"), value.into()]);
    }

    /// Adds a line if there is a value.
    pub(crate) fn maybe(&mut self, name: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// Adds a line for each value. Only the first line has the name.
    pub(crate) fn all(&mut self, name: &str, values: impl IntoIterator<Item = String>) {
        for (index, value) in values.into_iter().enumerate() {
            self.add(if index == 0 { name } else { "" }, value);
        }
    }

    pub(crate) fn text(&self) -> String {
        aligned(&self.0)
    }
}

fn safe_cells(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let safe = |cell: &String| capped(cell, CELL_CAP).into_owned();
    let rows = rows.iter().map(|row| row.iter().map(safe).collect());
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::super::safe::tests::corpus;
    use super::*;

    fn heads() -> Vec<Head> {
        let head = |name, align, room, weight| Head {
            name,
            align,
            room,
            weight,
        };
        vec![
            head("AGE", Align::Right, Room::Whole, Weight::Main),
            head("ID", Align::Left, Room::Whole, Weight::Essential),
            head("TYPE", Align::Left, Room::Text(16), Weight::Main),
            head("VIA", Align::Left, Room::Text(3), Weight::Lesser),
            head("STATUS", Align::Left, Room::Status, Weight::Essential),
            head(
                "NEXT ACTION",
                Align::Left,
                Room::Text(12),
                Weight::Essential,
            ),
            head("KEY", Align::Left, Room::Whole, Weight::Extra),
        ]
    }

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 7]| cells.map(String::from).to_vec();
        vec![
            row([
                "3s",
                "evt_01M7W76WNHE",
                "payment_intent.succeeded",
                "webhook",
                "processing",
                "check downstream, effect unknown",
                "pi_1",
            ]),
            row([
                "36m20s",
                "evt_01M7W54EPFH",
                "日本語",
                "sync",
                "done",
                "none",
                "pi_2",
            ]),
        ]
    }

    fn at(width: usize) -> String {
        render(
            &heads(),
            &rows(),
            Canvas {
                width: Some(width),
                wide: false,
                colour: false,
            },
        )
    }

    #[test]
    fn with_room_nothing_is_cut() {
        let free = Canvas {
            width: None,
            wide: false,
            colour: false,
        };
        assert_eq!(
            render(&heads(), &rows(), free),
            "   AGE  ID               TYPE                      VIA      STATUS      NEXT ACTION\n    \
             3s  evt_01M7W76WNHE  payment_intent.succeeded  webhook  processing  \
             check downstream, effect unknown\n\
             36m20s  evt_01M7W54EPFH  日本語                    sync     done        none\n"
        );
    }

    #[test]
    fn lesser_text_is_shortened_then_columns_go_then_important_text() {
        let head = |width| at(width).lines().next().unwrap().to_owned();
        assert!(at(92).contains("payment_intent.…"));
        assert!(head(92).contains("VIA"));
        assert!(!head(88).contains("VIA"));
        assert!(head(88).contains("TYPE"));
        assert!(at(80).contains("check downstream, eff"));
        assert!(at(80).contains('…'));
        assert!(!head(56).contains("TYPE"));
        assert!(head(56).contains("AGE"));
        assert!(!head(48).contains("AGE"));
    }

    #[test]
    fn ids_and_statuses_stay_whole_at_any_width() {
        for width in 0..130 {
            let text = at(width);
            assert!(
                text.contains("evt_01M7W76WNHE") && text.contains("processing"),
                "{width}"
            );
            let widest = text
                .lines()
                .map(unicode_width::UnicodeWidthStr::width)
                .max()
                .unwrap();
            assert!(widest <= width.max(41), "{widest} at {width}:\n{text}");
        }
    }

    #[test]
    fn wide_shows_every_column_whole() {
        let wide = Canvas {
            width: Some(20),
            wide: true,
            colour: false,
        };
        let text = render(&heads(), &rows(), wide);
        assert!(text.contains("pi_2") && text.contains("payment_intent.succeeded"));
    }

    #[test]
    fn hostile_cells_keep_to_their_row() {
        let heads = &heads()[1..3];
        let rows: Vec<Vec<String>> = corpus()
            .into_iter()
            .map(|c| vec!["evt".into(), c])
            .collect();
        let canvas = Canvas {
            width: Some(60),
            wide: false,
            colour: false,
        };
        let text = render(heads, &rows, canvas);
        assert_eq!(text.lines().count(), rows.len() + 1);
        assert!(text.lines().all(super::super::safe::tests::is_inert));
        assert!(text.len() < 100_000);
    }

    #[test]
    fn colour_is_added_outside_of_the_padding() {
        let canvas = Canvas {
            width: None,
            wide: false,
            colour: true,
        };
        let text = render(&heads(), &rows(), canvas);
        assert!(
            text.contains("\x1b[36mprocessing\x1b[0m  check"),
            "{text:?}"
        );
    }
}
