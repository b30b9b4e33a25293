use super::*;

/// 2030-03-17T17:46:40Z, which is not a whole minute.
const NOW: UnixMillis = UnixMillis(1_900_000_000_000);
const QUARTER: Duration = Duration::from_secs(900);

fn before(seconds: u64) -> UnixMillis {
    NOW - Duration::from_secs(seconds)
}

fn sighting(id: &str, happened: UnixMillis, webhook: Option<UnixMillis>) -> Sighting {
    Sighting {
        id: id.into(),
        kind: "k".into(),
        happened,
        webhook,
        kept: webhook.unwrap_or(happened + QUARTER),
    }
}

fn missed(id: &str, happened: UnixMillis) -> Sighting {
    sighting(id, happened, None)
}

/// Returns the counts that a run adds if it began at `started` and listed events since `from`.
fn add(
    from: UnixMillis,
    started: UnixMillis,
    events: &[Sighting],
    counted: &mut Option<UnixMillis>,
) -> Counts {
    let mut tally = Tally::new(Window::closed(from, started, QUARTER));
    for event in events {
        tally.saw(event.clone());
    }
    let mut sum = Counts::default();
    for day in tally.days() {
        if let Some(piece) = tally.piece(day, *counted) {
            *counted = Some(piece.to);
            sum.merge(piece.counts);
        }
    }
    sum
}

#[test]
fn a_day_has_a_name_and_two_ends() {
    let day = Day::of(NOW);
    assert_eq!(day.name(), "20300317");
    assert_eq!(Day::parse("20300317"), Some(day));
    assert_eq!(Day::parse("2030"), None);
    assert!(day.begins() <= NOW && NOW < day.ends());
    assert_eq!(Day::of(day.ends()).before(1), day);
}

#[test]
fn windows_of_runs_one_after_the_other_touch_and_never_overlap() {
    // The runs begin neither at whole minutes nor at equal intervals.
    let starts = [0, 901, 1799, 2777, 3600].map(|s| NOW + Duration::from_secs(s));
    let windows: Vec<Window> = starts
        .windows(2)
        .map(|pair| Window::closed(pair[0] - QUARTER, pair[1], QUARTER))
        .collect();
    for pair in windows.windows(2) {
        assert_eq!(pair[0].to, pair[1].from);
    }
}

#[test]
fn an_event_of_the_last_minutes_is_not_missed_yet() {
    let young = missed("young", before(600));
    let old = missed("old", before(1200));
    let events = [young, old];
    let counts = add(before(1800), NOW, &events, &mut None);
    assert_eq!(counts.sync, 1);
    assert_eq!(counts.gaps[0].id, "old");
    // Even without an overlap, recent events may still arrive by webhook.
    let window = Window::closed(before(900), NOW, Duration::ZERO);
    assert_eq!(NOW.since(window.to).as_secs() / 60, 4);
}

#[test]
fn runs_that_list_the_same_events_again_count_them_once() {
    let events: Vec<Sighting> = (0..60)
        .map(|n| missed(&n.to_string(), before(3600) + Duration::from_secs(n * 60)))
        .collect();
    let mut counted = None;
    let mut sum = 0;
    // Each run happens twice, because the first run crashes before it moves the cursor.
    let starts = [1800, 900, 0].map(before);
    let mut cursor = before(3600 + 900);
    for started in starts {
        for _ in 0..2 {
            sum += add(cursor - QUARTER, started, &events, &mut counted).sync;
        }
        cursor = started;
    }
    let settled = events.iter().filter(|e| Some(e.happened) < counted).count();
    assert_eq!(sum, settled as u64);
    assert!((44..=46).contains(&settled), "{settled}");
}

#[test]
fn of_two_runs_at_once_the_second_adds_what_the_first_could_not_know() {
    let events: Vec<Sighting> = (0..30)
        .map(|n| missed(&n.to_string(), before(3600) + Duration::from_secs(n * 60)))
        .collect();
    let mut counted = None;
    let from = before(3700);
    let first = add(from, before(1500), &events, &mut counted).sync;
    let second = add(from, before(900), &events, &mut counted).sync;
    let alone = add(from, before(900), &events, &mut None).sync;
    assert_eq!(first + second, alone);
    assert!(first > 0 && second > 0);
}

#[test]
fn midnight_parts_a_window_and_loses_nothing_of_it() {
    let midnight = Day::of(NOW).begins();
    let started = midnight + Duration::from_secs(1200);
    let mut tally = Tally::new(Window::closed(
        midnight - Duration::from_secs(600),
        started,
        QUARTER,
    ));
    for seconds in [0, 1, 299, 300] {
        let shift = Duration::from_secs(seconds);
        tally.saw(missed(&format!("a{seconds}"), midnight + shift));
        tally.saw(missed(
            &format!("b{seconds}"),
            midnight - shift - Duration::from_millis(1),
        ));
    }
    let pieces: Vec<Piece> = tally.days().filter_map(|d| tally.piece(d, None)).collect();
    assert_eq!(pieces.len(), 2);
    assert_eq!((pieces[0].to, pieces[1].from), (midnight, midnight));
    assert_eq!((pieces[0].minutes(), pieces[1].minutes()), (10, 5));
    assert_eq!((pieces[0].counts.sync, pieces[1].counts.sync), (4, 3));
}

#[test]
fn each_event_is_of_one_kind() {
    let at = before(1200);
    let by_webhook = sighting("1", at, Some(at + Duration::from_secs(2)));
    let late = Sighting {
        kept: at + Duration::from_secs(300),
        ..sighting("2", at, Some(at + Duration::from_secs(700)))
    };
    let events = [by_webhook.clone(), late, missed("3", at), by_webhook];
    let counts = add(before(1800), NOW, &events, &mut None);
    assert_eq!((counts.both, counts.late, counts.sync), (2, 1, 1));
    assert_eq!((counts.by_webhook.len(), counts.by_sync.len()), (2, 1));
    assert_eq!(counts.by_sync.longest(), Some(QUARTER));
}

#[test]
fn a_later_attempt_to_deliver_what_we_have_is_not_counted_again() {
    let at = before(1200);
    let again = Sighting {
        kept: at - Duration::from_secs(61),
        ..missed("1", at)
    };
    assert_eq!(add(before(1800), NOW, &[again], &mut None).all(), 0);
    // A smaller difference can be clock skew.
    let skewed = Sighting {
        kept: at - Duration::from_secs(59),
        ..missed("1", at)
    };
    assert_eq!(add(before(1800), NOW, &[skewed], &mut None).all(), 1);
}

#[test]
fn a_run_that_was_broken_off_goes_on_with_what_it_had_counted() {
    let window = Window::closed(before(1800), NOW, QUARTER);
    let mut first = Tally::new(window);
    first.saw(missed("1", before(1300)));
    let mut second = Tally::resumed(window, first.carried().clone());
    second.saw(missed("2", before(1200)));
    let day = Day::of(NOW);
    assert_eq!(second.piece(day, None).unwrap().counts.sync, 2);
    assert_eq!(second.carried()[&day].sync, 2);
    assert!(!second.is_whole());
    // Another run has counted a part of the window. This part cannot be separated.
    assert_eq!(second.piece(day, Some(before(1250))), None);
    // Another run has counted no part of the window, or the whole window.
    assert!(second.piece(day, Some(before(1900))).is_some());
    assert_eq!(second.piece(day, Some(window.to)), None);
}

#[test]
fn a_window_that_is_empty_has_no_day() {
    let window = Window::closed(NOW, NOW, QUARTER);
    assert!(window.is_empty());
    assert_eq!(Tally::new(window).days().count(), 0);
    let all = Window {
        from: UnixMillis(i64::MIN / 4),
        to: UnixMillis(i64::MIN / 4),
    };
    assert_eq!(all.days().count(), 0);
}
