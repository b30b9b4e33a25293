//! Invalid responses of a provider: each fault has a name, is counted, and loses no event.

use std::time::Duration;

use shared::base::clock::UnixMillis;

use super::inbox::Inbox;
use super::play::{Happened, Play};
use super::plays;

/// Runs a successful sync, and then adds events that are not delivered.
async fn before(play: Play) -> (Inbox, usize) {
    let inbox = Inbox::start(play).await;
    assert_eq!(inbox.sync().await["complete"], true);
    let count = inbox.play().size * 2 + 1;
    for n in 0..count {
        inbox.happen(n, count);
    }
    (inbox, count)
}

/// Checks that a run fails with this name and a metric, and does not move the cursor. Then checks
/// that the next run finds the remaining events.
async fn fails_and_recovers((inbox, count): (Inbox, usize), name: &str, kept: usize) {
    let cursor = inbox.cursor().await;
    assert!(cursor.is_some());
    let error = inbox.sync_error().await;
    assert!(error.contains(&format!("{name}: ")), "{error}");
    assert!(error.len() < 1_000, "{} bytes of error", error.len());
    assert_eq!(inbox.faults(), [name]);
    assert_eq!(inbox.cursor().await, cursor);
    assert_eq!(inbox.events().await, kept);

    inbox.stand_in().recover();
    let report = inbox.sync().await;
    assert_eq!(report["found"], count - kept, "{report}");
    assert_eq!(report["complete"], true);
    assert_eq!(inbox.events().await, count);
    assert!(inbox.cursor().await > cursor);
    inbox.end().await;
}

#[tokio::test]
async fn html_in_place_of_json() {
    let world = before(plays::stripe()).await;
    world.0.stand_in().misspeak(|answer| {
        answer.body = "<!doctype html><title>Be right back</title>".to_owned();
    });
    fails_and_recovers(world, "sync.unreadable", 0).await;
}

#[tokio::test]
async fn a_page_that_repeats_for_ever() {
    let world = before(plays::stripe()).await;
    let size = world.0.play().size;
    world.0.stand_in().mishear(|request| {
        request.query.remove("starting_after");
    });
    fails_and_recovers(world, "sync.repeats", size).await;
}

/// The same with numbered pages, where the page number would increase without end.
#[tokio::test]
async fn a_page_that_repeats_for_ever_under_new_numbers() {
    let world = before(plays::fireflies()).await;
    let size = world.0.play().size;
    world.0.stand_in().mishear(|request| {
        let mut body = request.json();
        body["variables"]["skip"] = 0.into();
        request.body = body.to_string();
    });
    fails_and_recovers(world, "sync.repeats", size).await;
}

#[tokio::test]
async fn a_next_page_at_another_host() {
    let world = before(plays::mailgun()).await;
    let size = world.0.play().size;
    world
        .0
        .stand_in()
        .point_elsewhere("http://localhost:9/v3/events?page=2");
    fails_and_recovers(world, "sync.elsewhere", size).await;
}

/// The sync stores the other events, and the cursor waits for this one.
#[tokio::test]
async fn an_id_of_a_megabyte() {
    let world = before(plays::stripe()).await;
    let kept = world.1 - 1;
    world.0.stand_in().misspeak(|answer| {
        answer.body = answer.body.replace("evt-0000", &"x".repeat(1 << 20));
    });
    fails_and_recovers(world, "sync.too_long", kept).await;
}

/// The sync stores every event, and the cursor follows the clock of the inbox.
#[tokio::test]
async fn a_clock_in_the_future() {
    let (inbox, count) = before(plays::stripe()).await;
    let now = UnixMillis::now();
    let then = now + Duration::from_secs(3 * 24 * 3600);
    inbox.stand_in().happen(Happened {
        id: "evt-9999".to_owned(),
        number: 79_999,
        at: UnixMillis::from_secs(then.secs()),
        status: 502,
    });
    let before = inbox.cursor().await;
    let error = inbox.sync_error().await;
    assert!(error.contains("sync.future: "), "{error}");
    assert_eq!(inbox.faults(), ["sync.future"]);
    assert_eq!(inbox.events().await, count + 1);
    let cursor = inbox.cursor().await;
    assert!(
        cursor > before && cursor <= Some(UnixMillis::now()),
        "{cursor:?}"
    );

    inbox.stand_in().undo_after(now);
    inbox.happen(count, count);
    assert_eq!(inbox.sync().await["found"], 1);
    inbox.end().await;
}
