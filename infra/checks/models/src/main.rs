//! Checks all cases on all cores, prints the results, and fails if a result is unexpected.

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::Instant;

use models::case::Case;
use models::report::{self, Line};

#[expect(clippy::print_stdout, reason = "the program prints its results")]
fn main() -> ExitCode {
    let began = Instant::now();
    let mut lines = check_all(models::cases());
    // Prints the lines in the order of the models, regardless of the order in which the cases end.
    lines.sort_by_key(|line| line.place);
    println!("{}", report::table(&lines));
    println!("{}", report::ways(&lines));
    println!("{}", report::summary(&lines, began.elapsed()));
    if lines.iter().all(Line::is_as_expected) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn check_all(cases: Vec<Case>) -> Vec<Line> {
    let mut queue: Vec<(usize, Case)> = cases.into_iter().enumerate().collect();
    // The large cases start first, so that no large case runs alone at the end.
    queue.sort_by_key(|(_, case)| !case.large);
    let queue = Mutex::new(queue.into_iter());
    let work = || {
        let mut lines = Vec::new();
        while let Some((place, case)) = next(&queue) {
            let began = Instant::now();
            let finding = case.check();
            lines.push(Line::new(place, case, finding, began.elapsed()));
        }
        lines
    };
    let cores = available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let lines = threads.into_iter().map(thread::ScopedJoinHandle::join);
        lines
            .flat_map(|lines| lines.expect("no check panics"))
            .collect()
    })
}

fn next(queue: &Mutex<impl Iterator<Item = (usize, Case)>>) -> Option<(usize, Case)> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).next()
}
