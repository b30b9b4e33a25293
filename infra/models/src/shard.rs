//! One part of the index of open rows, of which a sweep reads the first so many, and so many more
//! as long as it can do nothing about some of them.
//!
//! Some rows are none that this code can work on: newer code wrote them, or they cannot be read.
//! They must not keep the others waiting.

use crate::case::{Case, Expect};
use crate::checker::{Model, Steps};
use crate::property::Property;

const MODEL: &str = "shard";

/// Rows that a sweep reads at once; the code reads 500.
const READ: usize = 2;

/// Rows that can be open at once.
const ROWS: usize = 5;

#[derive(Clone, Copy, Debug)]
struct Shard {
    /// How often it reads in one sweep; the code reads as long as there is time.
    pages: usize,
}

/// All configurations.
pub fn cases() -> Vec<Case> {
    let of = |pages| Shard { pages };
    let ends = Property::EveryEventEnds;
    vec![
        Case::new(MODEL, "as it is", Expect::Holds, of(3)),
        Case::new(
            MODEL,
            "nothing is read behind rows that are left",
            Expect::Breaks(ends),
            of(1),
        ),
        Case::new(
            MODEL,
            "more rows are left than a sweep reads",
            Expect::Limit(ends),
            of(2),
        ),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row {
    /// This code can work on it.
    Known,
    Foreign,
}

/// The open rows, in the order of the time at which they are to be looked at.
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
                    steps.sure("sweep", "rings for a row, and its work is done", to);
                }
            }
            // Those that it can work on are gone when it comes again.
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
