//! Runs the scenarios and prints what was found.

use std::process::ExitCode;

use simulation::run::run;
use simulation::scenario::Scenario;

#[expect(clippy::print_stdout, reason = "printing is its job")]
fn main() -> ExitCode {
    let began = std::time::Instant::now();
    let found = run(Scenario::rough(1, 2000));
    println!("{found:?} {:?}", began.elapsed());
    ExitCode::SUCCESS
}
