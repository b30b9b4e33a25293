//! One part of the index of open rows, of which a sweep reads only the first so many.
//!
//! Some rows are none that this code can work on: newer code wrote them, or they cannot be read.
//! They must not keep the others waiting.

use crate::case::{Case, Expect};
use crate::checker::{Model, Steps};
use crate::property::Property;

const MODEL: &str = "shard";

/// Rows that a sweep reads; the code reads 500.
const READ: usize = 2;

/// Rows that can be open at once.
const ROWS: usize = 5;

#[derive(Clone, Copy, Debug)]
struct Shard {
    /// A row that is left is looked at later again. Otherwise it keeps its place in the index.
    left_rows_move: bool,
}

/// All configurations.
pub fn cases() -> Vec<Case> {
    let of = |left_rows_move| Shard { left_rows_move };
    let fault = Expect::Fault(Property::EveryEventEnds);
    vec![
        Case::new(
            MODEL,
            "rows that are left keep their place",
            fault,
            of(false),
        ),
        Case::new(MODEL, "rows that are left, mended", Expect::Holds, of(true)),
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
        for (place, row) in line.iter().enumerate().take(READ) {
            match row {
                Some(Row::Known) => {
                    let to = without(*line, place);
                    steps.sure("sweep", "rings for a row, and its work is done", to);
                }
                Some(Row::Foreign) if self.left_rows_move => {
                    let to = with_last(without(*line, place), Row::Foreign);
                    steps.sure("sweep", "leaves a row, and looks again later", to);
                }
                Some(Row::Foreign) | None => {}
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
