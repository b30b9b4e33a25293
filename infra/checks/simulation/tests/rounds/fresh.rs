//! The sweep with recent events. It sends a message for each event whose message is missing, also
//! if the index shows the event late, if a request fails, or if the source is no longer configured.

use backup_sync::Task;
use shared::base::calendar::Hour;
use simulation::sandbox::SOURCE;
use tokio::time::{sleep, timeout};

use super::world::{HOUR, MINUTE, SECOND, live, now, sweeper};

#[test]
fn what_nobody_rang_for_is_rung_for_two_minutes_later() {
    live(async |world| {
        let key = world.comes("evt_1").await;
        sleep(MINUTE).await;
        assert_eq!(world.sweep().await.checked, 0);
        sleep(MINUTE + SECOND).await;
        let report = world.sweep().await;
        assert_eq!((report.checked, report.sent, report.failed), (1, 1, 0));
        assert!(world.is_indexed(&key).await);
        assert_eq!(world.stores.lock().queues.work_messages.sent, 1);
        // From this time on, the event is swept through the `work` index like every other event,
        // and not by its time of receipt.
        let more = world.sweeps_for(HOUR).await;
        assert_eq!(more, 0, "its message waits");
    });
}

#[test]
fn what_the_index_shows_late_is_found_when_its_hour_is_over() {
    live(async |world| {
        world.stores.lock().table.index_lag_ms = 20 * 60_000;
        let key = world.comes("evt_1").await;
        world.stores.lock().table.index_lag_ms = 800;
        assert_eq!(world.sweeps_for(HOUR / 2).await, 0);
        assert!(!world.is_indexed(&key).await);
        assert!(world.sweeps_for(2 * HOUR).await > 0);
        assert!(world.is_indexed(&key).await);
    });
}

#[test]
fn the_first_sweeps_of_an_inbox_may_all_be_killed() {
    live(async |world| {
        let key = world.comes("evt_1").await;
        for _ in 0..36 {
            sleep(5 * MINUTE).await;
            let sandbox = sweeper(&world.sandboxes, SOURCE);
            let sweep = sandbox.function.run(Task::Sweep);
            assert!(timeout(SECOND / 500, sweep).await.is_err());
        }
        assert!(!world.is_indexed(&key).await);
        world.sweep().await;
        assert!(world.is_indexed(&key).await);
    });
}

#[test]
fn what_is_put_long_after_it_was_received_is_found_too() {
    live(async |world| {
        let at = now();
        assert_eq!(world.sweeps_for(HOUR / 4).await, 0);
        world.came("evt_1", at).await;
        assert_eq!(world.sweeps_for(HOUR / 4).await, 0);
        assert!(world.sweeps_for(2 * HOUR).await > 0);
    });
}

#[test]
fn an_hour_of_which_all_was_seen_is_not_gone_over_again() {
    live(async |world| {
        world.sweep().await;
        for n in 0..50 {
            let key = world.comes(&format!("evt_{n}")).await;
            let claim = world.ledger.claim(&key, "worker", now(), MINUTE, 10).await;
            let shared::inbox::ledger::Claim::Leased(lease) = claim.unwrap() else {
                panic!("not leased");
            };
            let done = shared::inbox::ledger::Settlement::Done;
            world.ledger.settle(*lease, done, &[], now()).await.unwrap();
        }
        let report = world.sweeps_for(3 * HOUR).await;
        assert_eq!(report, 0);
        let batches = world.stores.lock().table.batches;
        assert_eq!(batches, 1, "one for the partition of the day");
    });
}

#[test]
fn the_checkpoint_has_the_number_of_the_events_that_the_sweep_has_seen() {
    live(async |world| {
        world.sweep().await;
        let hour = Hour::of(now()).next();
        sleep(hour.begins().since(now())).await;
        let arrived = async |hour| {
            let checkpoint = world.ledger.sweep().sweep_checkpoint().await;
            checkpoint.unwrap().unwrap().arrived(SOURCE, hour)
        };
        for n in 0..100 {
            world.comes(&format!("evt_{n}")).await;
        }
        sleep(10 * MINUTE).await;
        world.comes("evt_100").await;
        world.sweep().await;
        assert_eq!(arrived(hour).await, Some(100));
        world.sweeps_for(3 * MINUTE).await;
        assert_eq!(arrived(hour).await, Some(101));
        world.sweeps_for(HOUR).await;
        assert_eq!(arrived(hour).await, Some(101), "the hour before");
        assert_eq!(arrived(hour.next()).await, Some(0));
        // After ten minutes, the sweep passes an event that it cannot read.
        world.comes("evt_101").await;
        world.stores.lock().table.batches_to_refuse = 100;
        world.sweeps_for(25 * MINUTE).await;
        assert_eq!(arrived(hour.next()).await, None);
    });
}

#[test]
fn what_cannot_be_looked_at_is_tried_again_and_the_rest_goes_on() {
    live(async |world| {
        world.sweep().await;
        let key = world.comes("evt_1").await;
        sleep(2 * MINUTE + SECOND).await;
        world.stores.lock().table.batches_to_refuse = 1;
        let report = world.sweep().await;
        assert_eq!((report.failed, report.sent), (1, 0));
        sleep(MINUTE).await;
        let report = world.sweep().await;
        assert_eq!((report.failed, report.sent), (0, 1));
        assert!(world.is_indexed(&key).await);
    });
}

#[test]
fn a_source_that_is_configured_no_more_is_still_looked_at() {
    live(async |mut world| {
        world.sweep().await;
        let key = world.comes("evt_1").await;
        world.sweeper = sweeper(&world.sandboxes, "another");
        world.sweeps_for(4 * MINUTE).await;
        assert!(world.is_indexed(&key).await);
    });
}

#[test]
fn a_sweep_that_was_down_for_a_day_finds_all_of_it() {
    live(async |world| {
        world.sweep().await;
        let mut keys = Vec::new();
        for n in 0..24 {
            keys.push(world.comes(&format!("evt_{n}")).await);
            sleep(HOUR).await;
        }
        let report = world.sweep().await;
        assert_eq!((report.sent, report.failed), (24, 0));
        for key in keys {
            assert!(world.is_indexed(&key).await, "{key}");
        }
    });
}

#[test]
fn sweeps_that_are_killed_still_move_the_checkpoint() {
    live(async |world| {
        world.sweep().await;
        let mut keys = Vec::new();
        for n in 0..24 {
            keys.push(world.comes(&format!("evt_{n}")).await);
            sleep(HOUR).await;
        }
        let mut killed = 0;
        for _ in 0..30 {
            sleep(MINUTE).await;
            let sandbox = sweeper(&world.sandboxes, SOURCE);
            let sweep = sandbox.function.run(Task::Sweep);
            killed += u32::from(timeout(SECOND / 10, sweep).await.is_err());
        }
        assert!(killed > 3, "no sweep has the time for all hours: {killed}");
        for key in keys {
            assert!(world.is_indexed(&key).await, "{key}");
        }
    });
}
