//! Makes one run: the faults start, the providers deliver, the faults end, every event finishes,
//! and the judge checks the history.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shared::base::backoff::CRASHES;
use shared::base::clock::UnixMillis;

use crate::cells;
use crate::downstream::Downstream;
use crate::evolution::Deployer;
use crate::fault_schedule::{Protection, Sky, Weather};
use crate::history::{History, Verdict};
use crate::inbox::{ATTEMPTS, Inbox};
use crate::killer::Killer;
use crate::load::Load;
use crate::sender::Canaries;
use crate::stranger::Stranger;

/// The maximum time in which the catcher answers, whatever the stores do.
const ANSWER: Duration = Duration::from_millis(2_800);

/// The maximum time in which an event finishes after the faults end, or after its last retry was
/// due. The message that a killed worker received becomes visible again after six minutes. A poison
/// event then kills two more workers, and each time waits until a lease ends and the sweep sends the
/// next message.
const RECOVERY: Duration = Duration::from_secs(360 + 2 * 60);

/// A time that is longer than any request waits in a proxy or at the destination.
const LAST_ECHO: Duration = Duration::from_secs(7);

pub(crate) struct Run;

impl Run {
    pub(crate) async fn of(name: &str, weather: Weather) -> Verdict {
        eprintln!("{name}: SEED={}", weather.seed);
        let began = Instant::now();
        let sky = Arc::new(Sky::new(weather));
        let history = Arc::new(History::new(name));
        let canaries = Canaries::new(&sky.dice);
        let downstream = Downstream::start(&sky, &history).await;
        let inbox = Inbox::start(&sky, &history, &canaries, &downstream).await;
        let killer = Killer::new(&sky, &inbox.stack, &history);
        let load = Load::new(&sky, &history, &canaries, inbox.stack.front_url());

        let stranger = Stranger {
            sky: &sky,
            load: &load,
            canaries: &canaries,
        };
        let calm_at = Cell::new(UnixMillis::now());
        let story = async {
            // A stopped process continues before the faults end, and before the judge runs.
            let delivering = async {
                if sky.weather.cells {
                    cells::visit(&sky, &load, &inbox).await;
                } else if let Some(previous) = &sky.weather.previous {
                    Deployer {
                        previous,
                        sky: &sky,
                        inbox: &inbox,
                        history: &history,
                    }
                    .take_turns(&load)
                    .await;
                } else {
                    tokio::join!(load.deliver_all(), stranger.disturb());
                }
                eprintln!("{name}: delivered after {} s", began.elapsed().as_secs());
                sky.clear_up();
                calm_at.set(UnixMillis::now());
            };
            tokio::join!(delivering, killer.stop(), killer.kill_while_stormy());
            if sky.weather.cells || sky.weather.faults > 0.0 {
                tokio::time::sleep(LAST_ECHO).await;
            }
            let mut rest = inbox.comes_to_rest(sky.weather.patience).await;
            stranger.post_again().await;
            rest &= inbox.comes_to_rest(sky.weather.patience).await;
            let took = began.elapsed().as_secs();
            eprintln!("{name}: at rest: {rest}, after {took} s");
        };
        let schedules = async {
            if sky.is_without(Protection::Sweep) {
                std::future::pending::<()>().await;
            }
            let every = if sky.weather.cells { 100 } else { 1_000 };
            inbox.keep_schedules(Duration::from_millis(every)).await;
        };
        tokio::select! {
            () = story => {}
            () = schedules => unreachable!("schedules do not end"),
        }
        let run = Self::summary(&sky, &canaries, began.elapsed(), calm_at.get());
        history.end(&inbox.stack, &run).await
    }
    /// Returns the data that the judge needs in addition to the history.
    fn summary(sky: &Sky, canaries: &Canaries, took: Duration, calm_at: UnixMillis) -> Value {
        let mut secret = canaries.all().to_vec();
        if sky.is_without(Protection::Silence) {
            secret.push("github-main");
        }
        json!({
            "seed": sky.weather.seed,
            "took_s": took.as_secs(),
            "attempts": ATTEMPTS,
            "crashes": CRASHES,
            "answer_ms": ANSWER.as_millis(),
            "calm_at": calm_at.0,
            "recover_ms": RECOVERY.as_millis(),
            "actions": {
                "github-main": ["http"], "stripe-main": ["http"], "standard-main": ["http", "open-issue"],
                "woo-main": ["http"], "x-main": ["http"], "mailgun-main": ["http"],
            },
            "canaries": secret,
            "must_be_empty": ["SpillQueue"],
            "done_to_it": sky.counted(),
        })
    }
}
