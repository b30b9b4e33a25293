//! The backlog queue. Its messages go to the work queue while few messages wait there, and none is
//! lost.

use std::collections::BTreeSet;
use std::time::Duration;

use shared::base::timing::{BACKLOG_BATCH, DRAIN, LARGEST_BACKLOG_BATCH};
use shared::inbox::queue::WorkMessage;
use shared::webhook::event::EventKey;
use simulation::sandbox::SOURCE;
use simulation::wire::sqs::Queue;
use tokio::time::{Instant, sleep};

use super::world::{HOUR, SECOND, World, live, now};

pub(crate) fn bell(id: u64) -> String {
    let key = EventKey::new(SOURCE, &format!("evt_{id}"));
    WorkMessage { key, run: 0 }.to_message()
}

pub(crate) fn ring(queue: &mut Queue, bells: std::ops::Range<u64>) {
    let now = now().0;
    for id in bells {
        queue.send(bell(id), now, now);
    }
}

impl World {
    pub(crate) fn waiting(&self) -> (u64, u64) {
        let stores = &mut *self.stores.lock();
        let now = now().0;
        let [live, old] = [&mut stores.queues.work_messages, &mut stores.queues.backlog];
        (live.depth(now) as u64, old.depth(now) as u64)
    }

    /// Receives at most `most` messages of the work queue, and deletes them.
    pub(crate) fn hear(&self, most: usize) -> Vec<String> {
        let stores = &mut *self.stores.lock();
        let queue = &mut stores.queues.work_messages;
        let heard = queue.receive(most, now().0, 360_000, &mut stores.dice);
        for message in &heard {
            queue.delete(message);
        }
        heard.into_iter().map(|message| message.body).collect()
    }
}

#[test]
fn what_is_old_goes_over_and_none_of_it_is_lost() {
    live(async |world| {
        ring(&mut world.stores.lock().queues.backlog, 0..730);
        let heard = async {
            let mut heard = Vec::new();
            while heard.len() < 730 {
                sleep(SECOND / 2).await;
                heard.extend(world.hear(100));
            }
            heard
        };
        let (report, heard) = tokio::join!(world.drain(), heard);
        assert_eq!(report.promoted, 730);
        let wanted: BTreeSet<String> = (0..730).map(bell).collect();
        assert_eq!(heard.into_iter().collect::<BTreeSet<_>>(), wanted);
        assert!(world.stores.lock().queues.are_empty());
    });
}

#[test]
fn those_of_now_never_wait_behind_more_than_a_dose() {
    live(async |world| {
        ring(&mut world.stores.lock().queues.backlog, 0..500);
        let began = Instant::now();
        let deepest = async {
            let (mut deepest, mut heard) = (0, 0);
            while began.elapsed() < DRAIN {
                deepest = deepest.max(world.waiting().0);
                sleep(Duration::from_millis(100)).await;
                heard += world.hear(1).len();
            }
            (deepest, heard)
        };
        let (report, (deepest, heard)) = tokio::join!(world.drain(), deepest);
        assert!(
            (BACKLOG_BATCH / 2..=BACKLOG_BATCH).contains(&deepest),
            "{deepest}"
        );
        assert_eq!(heard, 500, "ten messages a second");
        assert_eq!(report.promoted, 500);
    });
}

#[test]
fn while_those_of_now_wait_nothing_old_goes_over() {
    live(async |world| {
        ring(
            &mut world.stores.lock().queues.work_messages,
            0..BACKLOG_BATCH,
        );
        ring(&mut world.stores.lock().queues.backlog, 1_000..1_020);
        assert_eq!(world.drain().await.promoted, 0);
        assert_eq!(world.waiting(), (BACKLOG_BATCH, 20));
        assert_eq!(world.hear(1).len(), 1);
        assert_eq!(
            world.drain().await.promoted,
            1,
            "the work queue has capacity for one message"
        );
        assert_eq!(world.waiting(), (BACKLOG_BATCH, 19));
    });
}

#[test]
fn a_run_ends_in_time_and_the_next_one_goes_on() {
    live(async |world| {
        ring(
            &mut world.stores.lock().queues.work_messages,
            0..2 * BACKLOG_BATCH,
        );
        ring(&mut world.stores.lock().queues.backlog, 1_000..1_001);
        let began = Instant::now();
        assert_eq!(world.drain().await.promoted, 0);
        assert!(began.elapsed() <= DRAIN, "{:?}", began.elapsed());
        assert_eq!(world.hear(200).len() as u64, 2 * BACKLOG_BATCH);
        assert_eq!(world.drain().await.promoted, 1);
        assert_eq!(world.hear(10), [bell(1_000)]);
    });
}

#[test]
fn an_invalid_message_is_moved_as_it_is() {
    live(async |world| {
        let at = now().0;
        let text = r#"{"v":9,"about":{}}"#;
        world
            .stores
            .lock()
            .queues
            .backlog
            .send(text.to_owned(), at, at);
        assert_eq!(world.drain().await.promoted, 1);
        assert_eq!(world.hear(10), [text]);
    });
}

#[test]
fn an_empty_backlog_is_asked_for_its_depth_and_nothing_else() {
    live(async |world| {
        let began = Instant::now();
        world.drain().await;
        let calls = world.stores.lock().calls;
        world.drain().await;
        let more = world.stores.lock().calls - calls;
        // One call reads the depth of the spill queue, and one the depth of the backlog queue.
        assert_eq!(more, 2);
        assert!(began.elapsed() < SECOND);
        sleep(HOUR).await;
        assert_eq!(world.waiting(), (0, 0));
    });
}

#[test]
fn doses_grow_while_each_is_heard_within_a_second() {
    live(async |world| {
        ring(&mut world.stores.lock().queues.backlog, 0..10_000);
        let began = Instant::now();
        let hearing = async {
            let (mut deepest, mut heard) = (0, 0);
            while heard < 10_000 {
                sleep(SECOND / 10).await;
                deepest = deepest.max(world.waiting().0);
                heard += world.hear(100).len();
            }
            (deepest, began.elapsed())
        };
        let (report, (deepest, took)) = tokio::join!(world.drain(), hearing);
        assert_eq!(report.promoted, 10_000);
        // With a batch of 50 messages a second, this would take 200 s.
        assert!(took < 40 * SECOND, "{took:?}");
        assert!(deepest <= LARGEST_BACKLOG_BATCH, "{deepest}");
    });
}
