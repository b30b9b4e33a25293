//! Tests how a refused put is read, and the size of a row.

use super::*;
use crate::inbox::ledger::Packed;

fn event(body: &'static [u8], via: Via) -> Event {
    let mut event = Event::fetched(crate::webhook::event::Fetched {
        source: "s",
        provider: "p",
        preset: "p",
        id: "1",
        kind: "k",
        body: body.into(),
        now: UnixMillis(1_000_000),
        via,
        config: "c",
    });
    event.via = via;
    event
}

fn row(event: &Event, state: State) -> Item {
    let new = New::Received(FoundBy::WorkIndex);
    let mut row = state_row(event, 0, new, "first", event.received_at, Partition::OfDay);
    row.insert("st".into(), item::s(state.as_str()));
    row.insert("bref".into(), item::s("i"));
    row
}

#[test]
fn a_refused_put_is_read_from_what_stands_there() {
    let (one, two) = (event(b"one", Via::Webhook), event(b"two", Via::Webhook));
    let (now, later) = (UnixMillis(1_000_000), UnixMillis(1_010_000));
    let open = row(&one, State::Received);
    assert_eq!(refusal(&open, &one, "first", now), Refusal::Own);
    let repeated = Some(Repetition::Repeated);
    let known = |silent| Refusal::Known(Received::Open { silent, run: 0 }, repeated);
    assert_eq!(refusal(&open, &one, "second", now), known(false));
    assert_eq!(refusal(&open, &one, "second", later), known(true));
    assert_eq!(refusal(&open, &two, "second", now), Refusal::OtherBody);
    let done = row(&one, State::Done);
    assert_eq!(
        refusal(&done, &one, "second", now),
        Refusal::Known(Received::Settled, repeated)
    );
}

#[test]
fn what_the_api_lists_and_what_was_posted_are_one_event() {
    let (posted, listed) = (event(b"{}", Via::Webhook), event(b"{ }", Via::BackupSync));
    for (first, second) in [(&posted, &listed), (&listed, &posted)] {
        let old = row(first, State::Done);
        assert_eq!(
            refusal(&old, second, "x", UnixMillis(0)),
            Refusal::Known(Received::Settled, None)
        );
    }
}

#[test]
fn a_small_event_with_its_body_fits_one_write_unit() {
    let mut small = row(&event(b"{\"id\":\"evt_1\"}", Via::Webhook), State::Received);
    assert!(Packed::new(b"{\"id\":\"evt_1\"}").inline(&mut small, None));
    assert!(item::size(&small) <= 1024, "{}", item::size(&small));
}
