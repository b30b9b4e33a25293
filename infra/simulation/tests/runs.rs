//! Small runs. `make simulate` runs the large ones.

use simulation::run::{Found, run};
use simulation::scenario::Scenario;

fn found(scenario: Scenario) -> Found {
    let began = std::time::Instant::now();
    let found = run(scenario).unwrap();
    println!("{found:?} in {:?}", began.elapsed());
    found
}

#[test]
fn nothing_goes_wrong_where_nothing_goes_wrong() {
    let figures = found(Scenario::calm(1, 1_000)).figures;
    assert_eq!((figures.acknowledged, figures.done), (1_000, 1_000));
    assert_eq!((figures.sent, figures.needed), (1_000, 1_000));
}

#[test]
fn rough() {
    found(Scenario::rough(1, 1_000));
}
