//! The sync in virtual time, with a list that lags, fails and throttles, and with runs that crash
//! at each of their pages. The sync must find every event, and request few pages twice. If one of
//! its rules is broken, it loses events.
//!
//! `MITT_SYNC_EVENTS=100000 cargo test --profile simulation -p simulation --test sync` makes the
//! large run.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backup_sync::{BackupSync, SyncRequest, Task};
use bytes::Bytes;
use serde_json::json;
use shared::aws::outbound::{Answer, Inside};
use shared::webhook::event::EventKey;
use simulation::clock;
use simulation::rng::Dice;
use simulation::sandbox::{SOURCE, Sandbox, Sandboxes};
use simulation::scenario::Scenario;
use simulation::wire::dynamodb::Weakness;
use simulation::world::Shared;
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio::time::sleep;

/// The number of events in the small run.
const EVENTS: u64 = 2_000;

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
overlap = "{overlap}"
"#;

/// A provider like Stripe, in whose list an event appears up to ten minutes late.
struct Provider {
    /// The time at which each event happened and the time at which it appears in the list, in the
    /// order of their ids.
    events: Vec<(u64, u64)>,
    page: usize,
    dice: Dice,
    calls: usize,
    /// The pages that were requested, without repetition.
    pages: BTreeSet<String>,
    /// The number of answered pages since the run began, and the number at which the run crashes.
    served: usize,
    kills_at: Option<usize>,
    /// Whether the list leaves out events of the first requested second.
    is_exclusive: bool,
}

impl Provider {
    fn new(events: u64, seed: u64, lag: RangeInclusive<u64>) -> Self {
        let mut dice = Dice::new(seed, 0x7379_6e63);
        let began = u64::try_from(clock::true_ms()).unwrap();
        let mut times: Vec<u64> = (0..events).map(|_| began + dice.between(0, DAY)).collect();
        times.sort_unstable();
        let lag = |at: u64, dice: &mut Dice| at + dice.between(*lag.start(), *lag.end());
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
            is_exclusive: false,
        }
    }

    /// Returns the page after an event: the events since a second, newest first.
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
        let since = since + u64::from(self.is_exclusive);
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

fn inside(provider: &Arc<Mutex<Provider>>, dies: &Arc<Notify>, takes: Duration) -> Inside {
    let (provider, dies) = (provider.clone(), dies.clone());
    Arc::new(move |request| {
        let query = request.url().query_pairs().into_owned().collect();
        let (provider, dies) = (provider.clone(), dies.clone());
        Box::pin(async move {
            sleep(takes).await;
            Ok(provider.lock().unwrap().answer(&query, &dies))
        })
    })
}

#[expect(clippy::disallowed_methods, reason = "the caller chooses the size")]
fn size() -> u64 {
    let size = std::env::var("MITT_SYNC_EVENTS").ok();
    size.map_or(EVENTS, |size| size.parse().unwrap())
}

#[test]
fn no_event_is_missed_by_runs_that_die_at_each_page_of_a_list_that_lags_and_breaks() {
    let seen = Day::default().live(size());
    assert_eq!(seen.missed, 0);
    assert!(seen.deaths >= 15, "{seen:?}");
    let Seen { calls, pages, .. } = seen;
    assert!(calls * 10 <= pages * 13, "{calls} calls for {pages} pages");
}

/// Runs that take a long time, with a list whose lag is just below the overlap.
const TIGHT: Day = Day {
    overlap: "10m 2s",
    lag: 10 * MINUTE..=10 * MINUTE,
    takes: Duration::from_millis(800),
    dies: false,
    flaw: None,
};

#[test]
fn a_cursor_set_to_the_end_of_the_run_loses_events() {
    assert_eq!(TIGHT.live(EVENTS).missed, 0);
    let flaw = Some(Flaw::CursorAtTheEnd);
    assert!(Day { flaw, ..TIGHT }.live(EVENTS).missed > 0);
}

#[test]
fn a_list_without_its_first_moment_loses_events() {
    let day = Day {
        overlap: "10m",
        takes: Duration::from_millis(80),
        ..TIGHT
    };
    assert_eq!(day.clone().live(3 * EVENTS).missed, 0);
    let flaw = Some(Flaw::Exclusive);
    assert!(Day { flaw, ..day }.live(3 * EVENTS).missed > 0);
}

#[test]
fn a_cursor_moved_before_the_puts_loses_events_in_a_crash() {
    let flaw = Some(Flaw::AdvanceBeforePuts);
    let day = Day {
        flaw,
        ..Day::default()
    };
    assert!(day.live(EVENTS).missed > 0);
}

#[test]
fn an_overlap_shorter_than_the_lag_loses_what_is_listed_late() {
    let day = Day {
        overlap: "5m",
        ..TIGHT
    };
    assert!(day.live(EVENTS).missed > 0);
}

/// The lease only avoids unnecessary calls. Two parallel runs are safe without it.
#[test]
fn without_the_lease_more_is_asked_and_nothing_lost() {
    let alone = Day::default().live(EVENTS);
    let flaw = Some(Flaw::NoLease);
    let both = Day {
        flaw,
        ..Day::default()
    }
    .live(EVENTS);
    assert_eq!((alone.missed, both.missed), (0, 0));
    assert!(both.calls > alone.calls, "{both:?} {alone:?}");
}

/// A rule of the sync that is violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// The cursor is set to the time at the end of a run.
    CursorAtTheEnd,
    /// The list leaves out the events of the first requested second.
    Exclusive,
    /// The cursor moves when the first page has arrived.
    AdvanceBeforePuts,
    /// A run does not check whether another run is active, and there are two runs.
    NoLease,
}

/// A day of events, with a run every 15 minutes.
#[derive(Clone, Debug)]
struct Day {
    overlap: &'static str,
    /// The time until an event appears in the list, in milliseconds.
    lag: RangeInclusive<u64>,
    /// The time that a page takes.
    takes: Duration,
    /// Whether two of three runs crash, each at a different page.
    dies: bool,
    flaw: Option<Flaw>,
}

/// The results of the day.
#[derive(Debug)]
struct Seen {
    missed: u64,
    calls: usize,
    pages: usize,
    deaths: usize,
}

impl Default for Day {
    fn default() -> Self {
        Self {
            overlap: "15m",
            lag: 0..=10 * MINUTE,
            takes: Duration::from_millis(80),
            dies: true,
            flaw: None,
        }
    }
}

impl Day {
    fn live(self, events: u64) -> Seen {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, self.pass(events))
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    async fn pass(self, events: u64) -> Seen {
        clock::begin();
        let world = Shared::new(Scenario {
            latency_ms: 2,
            weakness: self.is(Flaw::NoLease).then_some(Weakness::NoLease),
            ..Scenario::calm(1, 1)
        });
        let secret = (SOURCE.to_owned(), "key".to_owned());
        world.lock().secrets.extend([secret]);
        let sandboxes = Sandboxes::new(&world).unwrap();
        let mut provider = Provider::new(events, 1, self.lag.clone());
        provider.is_exclusive = self.is(Flaw::Exclusive);
        let provider = Arc::new(Mutex::new(provider));
        let dies = Arc::new(Notify::new());
        let sources = SOURCES.replace("{overlap}", self.overlap);
        let make = || {
            let inside = inside(&provider, &dies, self.takes);
            sandboxes.backup_sync_of(&sources, inside).unwrap()
        };
        let mut deaths = BTreeSet::new();
        let mut function = None;
        // The runs cover a day of events, and some time in which the last events appear in the list
        // and are found.
        for run in 0..100 {
            sleep(EVERY).await;
            // Two of three runs crash, each at a different page. The last runs do not crash.
            let kills_at = (self.dies && run % 3 != 0 && run < 96).then_some(1 + run / 3);
            {
                let mut provider = provider.lock().unwrap();
                provider.served = 0;
                provider.kills_at = kills_at;
            }
            let sandbox = function.take().unwrap_or_else(&make);
            let other = self.is(Flaw::NoLease).then(&make);
            let work = sync(&sandbox, other.as_deref());
            if self.survives(work, &world, &provider, &dies).await {
                if self.is(Flaw::CursorAtTheEnd) {
                    set_cursor(&world);
                }
                function = Some(sandbox);
            } else {
                deaths.extend(kills_at);
            }
        }
        let ledger = sandboxes.ledger().unwrap();
        let mut missed = 0;
        for id in 0..events {
            let key = EventKey::new(SOURCE, &format!("evt_{id:06}"));
            missed += u64::from(!ledger.has(&key).await.unwrap());
        }
        let unknown = world.lock().unknown.clone();
        assert_eq!(unknown, Vec::<String>::new());
        let provider = provider.lock().unwrap();
        let seen = Seen {
            missed,
            calls: provider.calls,
            pages: provider.pages.len(),
            deaths: deaths.len(),
        };
        eprintln!("{:?}: {events} events, {seen:?}", self.flaw);
        seen
    }

    /// Runs the sync until it ends or crashes. Returns whether it ended.
    async fn survives(
        &self,
        work: impl Future<Output = ()>,
        world: &Shared,
        provider: &Mutex<Provider>,
        dies: &Notify,
    ) -> bool {
        let early = async {
            while provider.lock().unwrap().served == 0 {
                sleep(Duration::from_millis(1)).await;
            }
            set_cursor(world);
            std::future::pending::<()>().await;
        };
        let death = async {
            dies.notified().await;
            // The run crashes during the puts of the page, or after them.
            let after = provider.lock().unwrap().dice.between(0, 400);
            sleep(Duration::from_millis(after)).await;
        };
        tokio::select! {
            // A run can fail, for example because a page failed six times. The next run continues.
            () = work => true,
            () = death => false,
            () = early, if self.is(Flaw::AdvanceBeforePuts) => false,
        }
    }
}

/// Runs the sync alone, or in parallel with another run.
async fn sync(one: &Sandbox<BackupSync>, other: Option<&Sandbox<BackupSync>>) {
    let task = || Task::Sync(SyncRequest::default());
    let run = one.function.run(task());
    if let Some(other) = other {
        let _ = tokio::join!(run, other.function.run(task()));
    } else {
        let _ = run.await;
    }
}

/// Sets the cursor to the current time, which the production code never does.
fn set_cursor(world: &Shared) {
    let now = clock::true_ms();
    let write = json!({
        "TableName": "inbox",
        "Key": {"pk": {"S": format!("SYNC#{SOURCE}")}, "sk": {"S": "CURSOR"}},
        "UpdateExpression": "SET cur = :now",
        "ExpressionAttributeValues": {":now": {"N": now.to_string()}},
    });
    let mut world = world.lock();
    let write = write.to_string();
    let written = world.table.answer("UpdateItem", write.as_bytes(), now);
    written.unwrap_or_else(|refusal| panic!("{}", refusal.body()));
}
