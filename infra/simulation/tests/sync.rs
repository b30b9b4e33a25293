//! The sync in virtual time, against a list that lags, breaks and is asked too often, by runs that
//! die at each of their pages: nothing is missed, and little is asked twice.
//!
//! `MITT_SYNC_EVENTS=100000 cargo test --profile simulation -p simulation --test sync` is the large
//! one.

#![expect(clippy::unwrap_used, reason = "in tests, a panic is the answer")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backup_sync::{Order, Task};
use bytes::Bytes;
use serde_json::json;
use shared::event::EventKey;
use shared::outbound::{Answer, Inside};
use simulation::clock;
use simulation::dice::Dice;
use simulation::sandbox::{SOURCE, Sandboxes};
use simulation::scenario::Scenario;
use simulation::world::Shared;
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio::time::sleep;

/// What the small run has.
const EVENTS: u64 = 4_000;

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

/// The schedule of the sync.
const EVERY: Duration = Duration::from_secs(15 * 60);

const SOURCES: &str = r#"
schema = 1
[[source]]
name = "stripe-main"
preset = "stripe"
[[source.action]]
kind = "keep"
[source.sync]
first_lookback = "24h"
"#;

/// A provider like Stripe, whose list is behind by up to ten minutes.
struct Provider {
    /// When each happened and when the list has it, in the order of their ids.
    events: Vec<(u64, u64)>,
    page: usize,
    dice: Dice,
    calls: usize,
    /// The pages that were asked for, each once.
    pages: BTreeSet<String>,
    /// Answered pages since the run began, and the one that kills it.
    served: usize,
    kills_at: Option<usize>,
}

impl Provider {
    fn new(events: u64, seed: u64) -> Self {
        let mut dice = Dice::new(seed, 0x7379_6e63);
        let began = u64::try_from(clock::true_ms()).unwrap();
        let mut times: Vec<u64> = (0..events).map(|_| began + dice.between(0, DAY)).collect();
        times.sort_unstable();
        let lag = |at: u64, dice: &mut Dice| at + dice.between(0, 10 * MINUTE);
        Self {
            events: times
                .into_iter()
                .map(|at| (at, lag(at, &mut dice)))
                .collect(),
            page: usize::try_from(events / 1_000).unwrap().clamp(1, 100),
            dice,
            calls: 0,
            pages: BTreeSet::new(),
            served: 0,
            kills_at: None,
        }
    }

    /// Newest first, from a second on, behind an event.
    fn answer(&mut self, query: &BTreeMap<String, String>, dies: &Notify) -> Answer {
        self.calls += 1;
        self.pages.insert(format!("{query:?}"));
        if self.dice.hits(300) {
            return Answer {
                status: 429,
                retry_after: Some(Duration::from_secs(3)),
                body: Some(Bytes::new()),
                ..Answer::default()
            };
        }
        let now = u64::try_from(clock::true_ms()).unwrap();
        let since: u64 = query["created[gte]"].parse().unwrap();
        let after = query.get("starting_after").map(|id| number(id));
        let listed = self.events.iter().enumerate().rev();
        let mut listed = listed.filter(|(id, (at, shown))| {
            at / 1_000 >= since && *shown <= now && after.is_none_or(|after| *id < after)
        });
        let data: Vec<_> = (&mut listed)
            .take(self.page)
            .map(|(id, (at, _))| json!({"id": format!("evt_{id:06}"), "created": at / 1_000, "type": "a.b"}))
            .collect();
        let body = json!({"object": "list", "data": data, "has_more": listed.next().is_some()});
        let mut body = body.to_string();
        if self.dice.hits(1_000) {
            body.truncate(body.len() / 2);
        } else {
            self.served += 1;
            if self.kills_at == Some(self.served) {
                dies.notify_one();
            }
        }
        Answer {
            status: 200,
            body: Some(body.into()),
            ..Answer::default()
        }
    }
}

fn number(id: &str) -> usize {
    id.strip_prefix("evt_").unwrap().parse().unwrap()
}

fn inside(provider: &Arc<Mutex<Provider>>, dies: &Arc<Notify>) -> Inside {
    let (provider, dies) = (provider.clone(), dies.clone());
    Arc::new(move |request| {
        let query = request.url().query_pairs().into_owned().collect();
        let (provider, dies) = (provider.clone(), dies.clone());
        Box::pin(async move {
            sleep(Duration::from_millis(80)).await;
            Ok(provider.lock().unwrap().answer(&query, &dies))
        })
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the size is the caller's to choose"
)]
fn size() -> u64 {
    let size = std::env::var("MITT_SYNC_EVENTS").ok();
    size.map_or(EVENTS, |size| size.parse().unwrap())
}

#[test]
fn no_event_is_missed_by_runs_that_die_at_each_page_of_a_list_that_lags_and_breaks() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let local = LocalSet::new();
    local.block_on(&runtime, a_day(size()));
}

async fn a_day(events: u64) {
    clock::begin();
    let world = Shared::new(Scenario {
        latency_ms: 2,
        ..Scenario::calm(1, 1)
    });
    world
        .lock()
        .secrets
        .insert(SOURCE.to_owned(), "key".to_owned());
    let sandboxes = Sandboxes::new(&world).unwrap();
    let provider = Arc::new(Mutex::new(Provider::new(events, 1)));
    let dies = Arc::new(Notify::new());
    let mut deaths = BTreeSet::new();
    let mut function = None;
    // A day of events, and an hour for the last of them to be listed and found.
    for run in 0..100 {
        sleep(EVERY).await;
        // Two runs of three die, each at another page; the last ones live.
        let kills_at = (run % 3 != 0 && run < 96).then_some(1 + run / 3);
        {
            let mut provider = provider.lock().unwrap();
            provider.served = 0;
            provider.kills_at = kills_at;
        }
        let sandbox = match function.take() {
            Some(sandbox) => sandbox,
            None => sandboxes
                .backup_sync_of(SOURCES, inside(&provider, &dies))
                .unwrap(),
        };
        let work = sandbox.function.run(Task::Sync(Order::default()));
        let death = async {
            dies.notified().await;
            // Somewhere among the puts of the page, or after them.
            let after = provider.lock().unwrap().dice.between(0, 400);
            sleep(Duration::from_millis(after)).await;
        };
        let lived = tokio::select! {
            // A run may fail, as when a page broke six times; the next one goes on.
            _ = work => true,
            () = death => false,
        };
        if lived {
            function = Some(sandbox);
        } else {
            deaths.extend(kills_at);
        }
    }
    let (calls, pages) = {
        let provider = provider.lock().unwrap();
        (provider.calls, provider.pages.len())
    };
    let ledger = sandboxes.ledger().unwrap();
    let mut missed = 0;
    for id in 0..events {
        let key = EventKey::new(SOURCE, &format!("evt_{id:06}"));
        missed += u64::from(!ledger.has(&key).await.unwrap());
    }
    let unknown = world.lock().unknown.clone();
    eprintln!(
        "{events} events, {calls} calls for {pages} pages, {} deaths, {missed} missed",
        deaths.len()
    );
    assert_eq!(unknown, Vec::<String>::new());
    assert_eq!(missed, 0);
    assert!(deaths.len() >= 15, "{deaths:?}");
    assert!(calls * 10 <= pages * 13, "{calls} calls for {pages} pages");
}
