//! Models one part of the index of open rows. A sweep reads a page of the part. It reads further
//! pages as long as a page contains rows that it cannot handle.
//!
//! The code cannot handle some rows, because newer code wrote them or because they cannot be read.
//! These rows must not delay the others.

use crate::case::{Case, Expect};
use crate::checker::{Model, Steps};
use crate::property::Property;

const MODEL: &str = "shard";

/// The number of rows in a page of a sweep. The code reads 500.
const READ: usize = 2;

/// Maximum number of open rows.
const ROWS: usize = 5;

#[derive(Clone, Copy, Debug)]
struct Shard {
    /// The maximum number of pages in one sweep. The code reads pages as long as time is left.
    pages: usize,
}

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    let of = |pages| Shard { pages };
    let ends = Property::EveryEventEnds;
    vec![
        Case::new(MODEL, "the protocol", Expect::Holds, of(3)),
        Case::new(
            MODEL,
            "one page, with rows that the sweep cannot handle",
            Expect::Breaks(ends),
            of(1),
        ),
        Case::new(
            MODEL,
            "more rows that the sweep cannot handle than it reads",
            Expect::Limit(ends),
            of(2),
        ),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row {
    /// A row that this code can handle.
    Known,
    Foreign,
}

/// The open rows, sorted by the time at which they are due.
type Line = [Option<Row>; ROWS];

impl Model for Shard {
    type State = Line;

    fn start(&self) -> Vec<Line> {
        vec![[None; ROWS]]
    }

    fn steps(&self, line: &Line, steps: &mut Steps<Line>) {
        if line[ROWS - 1].is_none() {
            let arrives = |row| with_last(*line, row);
            steps.maybe("catcher", "puts a row", arrives(Row::Known));
            steps.maybe("newer code", "puts a row", arrives(Row::Foreign));
        }
        for page in line.chunks(READ).enumerate().take(self.pages) {
            let (number, rows) = page;
            for (place, row) in rows.iter().enumerate() {
                if *row == Some(Row::Known) {
                    let to = without(*line, number * READ + place);
                    steps.sure(
                        "sweep",
                        "sends a message for a row, and a worker processes it",
                        to,
                    );
                }
            }
            // If the sweep can handle every row of the page, these rows are no longer there at the
            // next sweep.
            if !rows.contains(&Some(Row::Foreign)) {
                break;
            }
        }
    }

    fn broken(&self, _: &Line) -> Option<Property> {
        None
    }

    fn at_rest(&self, line: &Line) -> bool {
        !line.contains(&Some(Row::Known))
    }
}

fn with_last(mut line: Line, row: Row) -> Line {
    if let Some(free) = line.iter_mut().find(|place| place.is_none()) {
        *free = Some(row);
    }
    line
}

fn without(mut line: Line, place: usize) -> Line {
    line[place] = None;
    line[place..].rotate_left(1);
    line
}
