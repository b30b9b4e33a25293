//! Runs small simulations. `make simulate` runs the large ones.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use simulation::cases::{
    AGENTS, Ablation, Figure, LATEST, MONTH, ROUGH, STRANGER, STRANGER_AMID_TROUBLE, STRICT,
    ablations,
};
use simulation::report::{Line, Tooth};
use simulation::run::{Found, run};
use simulation::scenario::Scenario;

const EVENTS: usize = 300;

fn found(scenario: Scenario) -> Found {
    run(scenario).unwrap()
}

#[test]
fn nothing_goes_wrong_where_nothing_goes_wrong() {
    let figures = found(Scenario::calm(1, EVENTS)).figures;
    let all = EVENTS as u64;
    assert_eq!((figures.acknowledged, figures.done), (all, all));
    assert_eq!((figures.sent, figures.needed), (all, all));
}

#[test]
fn the_zeros_are_zero_with_trouble_at_every_step() {
    let figures = found(Scenario::rough(1, EVENTS)).figures;
    let line = Line {
        case: ROUGH,
        figures,
    };
    assert!(line.holds(), "{figures:?}");
    // With fewer calls, there would have been no faults.
    assert!(figures.calls > 6 * figures.events, "{figures:?}");
}

#[test]
fn a_destination_missing_for_five_minutes_ends_no_event() {
    const FIVE_MINUTES_MS: u64 = 5 * 60_000;
    for seed in [1, 2] {
        let figures = found(Scenario {
            arrive_in_ms: FIVE_MINUTES_MS,
            missing_for_ms: FIVE_MINUTES_MS,
            ..Scenario::calm(seed, 1_000)
        })
        .figures;
        assert_eq!(figures.acknowledged, 1_000);
        assert_eq!((figures.done, figures.dead), (1_000, 0), "{figures:?}");
    }
}

#[test]
fn a_month_with_outages_leaves_nothing_open() {
    let figures = found((MONTH.scenario)(1, EVENTS)).figures;
    assert!(
        ROUGH
            .figures
            .iter()
            .all(|figure| figure.holds(&MONTH, &figures)),
        "{figures:?}"
    );
}

#[test]
fn versions_that_come_shuffled_leave_the_newest_state() {
    for case in [LATEST, STRICT] {
        let figures = found((case.scenario)(1, EVENTS)).figures;
        let line = Line { case, figures };
        assert!(line.holds(), "{}: {figures:?}", case.name);
    }
}

/// Each of seven sources has fifteen events. The key of one source changes in the middle.
#[test]
fn a_stranger_costs_genuine_senders_nothing() {
    for case in [STRANGER, STRANGER_AMID_TROUBLE] {
        let figures = found((case.scenario)(1, 105)).figures;
        let line = Line { case, figures };
        assert!(
            line.holds(),
            "{}: {}: {figures:?}",
            case.name,
            case.broken(&figures)
        );
    }
}

#[test]
fn workers_outside_of_lambda_open_each_ticket_once() {
    let figures = found(Scenario {
        // Second deliveries arrive days later.
        duplicates: 0,
        ..(AGENTS.scenario)(1, 90)
    })
    .figures;
    let line = Line {
        case: AGENTS,
        figures,
    };
    let broken = AGENTS.broken(&figures);
    assert!(line.holds(), "{broken}: {figures:?}");
    // One in ten held events is forgotten.
    assert!(figures.dead > 0 && figures.done > 60, "{figures:?}");
}

#[test]
fn one_seed_is_one_run() {
    let of = |seed| found(Scenario::rough(seed, 60));
    assert_eq!(of(7), of(7));
    assert_ne!(of(7).trace, of(8).trace);
}

/// If no ablation violates a figure, the simulation cannot detect a violation of it.
#[test]
fn every_figure_is_broken_by_something() {
    let ablations = ablations();
    // Dead letters without a cause are left out, because more than one protection prevents them.
    let alone = |figure: &Figure| *figure != Figure::Unexplained;
    for figure in Figure::ALL.into_iter().filter(alone) {
        assert!(
            ablations.iter().any(|ablation| ablation.figure == figure),
            "{figure:?}"
        );
    }
}

/// The ablations that take less than a minute. `make simulate` runs all of them.
#[test]
fn without_a_protection_its_figure_does_not_hold() {
    let quick = [
        Figure::DoubleEffects,
        Figure::Stale,
        Figure::Inversions,
        Figure::Forged,
        Figure::Refused,
        Figure::Unfetched,
    ];
    // Its scenario takes three minutes with any number of events.
    let slow = "the handshake guard";
    // So do those with workers, which wait for hours.
    let is_slow = |one: &Ablation| one.without == slow || one.case.name == AGENTS.name;
    let all = ablations().into_iter();
    for ablation in all.filter(|one| quick.contains(&one.figure) && !is_slow(one)) {
        let events = EVENTS.min(ablation.events);
        let mut scenario = (ablation.case.scenario)(3, events);
        (ablation.change)(&mut scenario);
        let tooth = Tooth {
            ablation,
            figures: found(scenario).figures,
        };
        assert!(tooth.bites(), "{}: {:?}", ablation.without, tooth.figures);
    }
}
