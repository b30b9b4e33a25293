//! The sync of many sources. Some of their providers are slow, throttle requests or never answer.
//! Each source has its turn, and each run ends before Lambda ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use backup_sync::{Report, SyncReport, SyncRequest, Task};
use bytes::Bytes;
use serde_json::json;
use shared::aws::outbound::{Answer, Inside};
use shared::base::clock::UnixMillis;
use shared::base::timing::{BACKUP_SYNC, SYNC_EVERY};
use simulation::clock;
use tokio::time::{Instant, sleep, timeout};

use super::world::{SECOND, World, live, now};

/// How a provider answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Well,
    /// The provider answers 429, with a `Retry-After` of 70 s.
    Throttles,
    /// The provider takes a minute for each answer.
    Slow,
    /// The list has this many pages, and each takes a second.
    Long(usize),
}

struct Providers {
    manners: BTreeMap<String, Manner>,
    /// The number of requests for each source.
    asked: Mutex<BTreeMap<String, usize>>,
}

impl Providers {
    async fn answer(&self, source: &str) -> Answer {
        let before = {
            let mut asked = self.asked.lock().unwrap();
            let count = asked.entry(source.to_owned()).or_default();
            *count += 1;
            *count - 1
        };
        let mut more = false;
        match self.manners[source] {
            Manner::Well => sleep(SECOND / 5).await,
            Manner::Slow => sleep(60 * SECOND).await,
            Manner::Throttles => {
                return Answer {
                    status: 429,
                    retry_after: Some(70 * SECOND),
                    body: Some(Bytes::new()),
                    ..Answer::default()
                };
            }
            Manner::Long(pages) => {
                more = before + 1 < pages;
                sleep(SECOND).await;
            }
        }
        let at = clock::true_ms() / 1_000;
        let event = json!({"id": format!("evt_{source}_{before}"), "created": at, "type": "a.b"});
        let body = json!({"object": "list", "data": [event], "has_more": more}).to_string();
        Answer {
            status: 200,
            body: Some(body.into()),
            ..Answer::default()
        }
    }

    fn take(&self) -> BTreeMap<String, usize> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// Sources whose providers answer in these ways, in this order.
struct Sources<'w> {
    world: &'w World,
    text: String,
    providers: Arc<Providers>,
}

impl<'w> Sources<'w> {
    fn of(world: &'w World, manners: &[(&str, Manner)]) -> Self {
        let mut text = "schema = 1\n".to_owned();
        for (name, _) in manners {
            let _ = write!(
                text,
                "[[source]]\nname = \"{name}\"\npreset = \"stripe\"\n[[source.action]]\nkind = \"keep\"\n[source.sync]\n"
            );
            let key = ((*name).to_owned(), format!("key-of-{name}"));
            world.stores.lock().secrets.extend([key]);
        }
        let manners = manners
            .iter()
            .map(|(name, manner)| ((*name).to_owned(), *manner));
        let providers = Arc::new(Providers {
            manners: manners.collect(),
            asked: Mutex::default(),
        });
        Self {
            world,
            text,
            providers,
        }
    }

    /// Makes one run as its schedule starts it. Returns the result, and the number of requests for
    /// each source.
    async fn sync(&self) -> (anyhow::Result<Vec<SyncReport>>, BTreeMap<String, usize>) {
        let providers = self.providers.clone();
        let inside: Inside = Arc::new(move |request| {
            let key = request.headers()["authorization"].to_str().unwrap();
            let source = key.strip_prefix("Bearer key-of-").unwrap().to_owned();
            let providers = providers.clone();
            Box::pin(async move { Ok(providers.answer(&source).await) })
        });
        let sandbox = self
            .world
            .sandboxes
            .backup_sync_of(&self.text, inside)
            .unwrap();
        let run = timeout(
            BACKUP_SYNC,
            sandbox.function.run(Task::Sync(SyncRequest::default())),
        )
        .await;
        let report = run.expect("it was killed").map(|report| match report {
            Report::Sync { sources, .. } => sources,
            _ => panic!("another task"),
        });
        (report, self.providers.take())
    }

    async fn is_noted(&self) -> bool {
        let beats = self.world.ledger.operations().heartbeats().await.unwrap();
        beats
            .get("sync")
            .is_some_and(|at| now().since(*at) < SYNC_EVERY)
    }

    /// Returns the sources whose lease is still held.
    async fn held(&self) -> Vec<String> {
        let mut held = Vec::new();
        for source in self.providers.manners.keys() {
            let state = self.world.ledger.sync().sync_state(source).await.unwrap();
            if state.is_some_and(|state| state.lease.is_some()) {
                held.push(source.clone());
            }
        }
        held
    }
}

#[test]
fn a_throttled_provider_keeps_no_other_from_its_turn() {
    live(async |world| {
        let throttles = Manner::Throttles;
        let sources = [("a", throttles), ("b", throttles), ("c", Manner::Well)];
        let sources = Sources::of(&world, &sources);
        let began = Instant::now();
        let (report, asked) = sources.sync().await;
        assert!(asked.contains_key("c"), "{asked:?}");
        let report = report.unwrap();
        let c = report.iter().find(|one| one.source == "c").unwrap();
        assert!(c.complete && c.found == 1, "{c:?}");
        assert!(began.elapsed() < BACKUP_SYNC);
        assert_eq!(sources.held().await, [""; 0]);
        assert!(sources.is_noted().await);
    });
}

#[test]
fn each_of_many_slow_sources_has_its_turn() {
    live(async |world| {
        let names: Vec<String> = (0..30).map(|n| format!("s{n:02}")).collect();
        let slow = names.iter().map(|name| (name.as_str(), Manner::Slow));
        let slow: Vec<_> = slow.chain([("well", Manner::Well)]).collect();
        let sources = Sources::of(&world, &slow);
        let mut asked = BTreeSet::new();
        // A turn takes at least 20 s, and a run has 240 s, so it has twelve turns.
        for _ in 0..3 {
            let began = Instant::now();
            let (report, now) = sources.sync().await;
            assert!(
                report.is_err(),
                "the error reports that a provider did not answer"
            );
            asked.extend(now.into_keys());
            assert_eq!(sources.held().await, [""; 0]);
            assert!(sources.is_noted().await);
            sleep(SYNC_EVERY.saturating_sub(began.elapsed())).await;
        }
        assert_eq!(asked.len(), 31, "{asked:?}");
    });
}

#[test]
fn what_time_is_left_is_for_those_with_more_to_list() {
    live(async |world| {
        let sources = [
            ("long", Manner::Long(200)),
            ("a", Manner::Well),
            ("b", Manner::Well),
        ];
        let sources = Sources::of(&world, &sources);
        let (report, asked) = sources.sync().await;
        let report = report.unwrap();
        let long = report.iter().find(|one| one.source == "long").unwrap();
        // A third of 240 s is enough for 80 pages.
        assert!(long.complete && long.pages == 200, "{long:?} {asked:?}");
        assert_eq!(report.len(), 3, "each is reported once");
    });
}

#[test]
fn the_source_that_was_served_longest_ago_comes_first() {
    live(async |world| {
        let slow = Manner::Slow;
        let sources: Vec<_> = ["a", "b", "c"].map(|name| (name, slow)).into();
        let sources = Sources::of(&world, &sources);
        for (source, ago) in [("a", 100), ("b", 900), ("c", 500)] {
            let at = UnixMillis(now().0 - ago * 1_000);
            let lease = world
                .ledger
                .sync()
                .sync_lease(source, "before", at, SECOND)
                .await;
            world
                .ledger
                .sync()
                .sync_release(lease.unwrap().unwrap())
                .await
                .unwrap();
        }
        let _ = sources.sync().await;
        let mut served = Vec::new();
        for source in ["a", "b", "c"] {
            served.push((
                world.ledger.sync().sync_served(source).await.unwrap(),
                source,
            ));
        }
        served.sort_unstable();
        let served: Vec<_> = served.into_iter().map(|(_, source)| source).collect();
        assert_eq!(served, ["b", "c", "a"]);
    });
}

#[test]
fn silent_sources_are_looked_for_after_the_slowest_sync() {
    live(async |world| {
        let sources = [
            ("a", Manner::Slow),
            ("b", Manner::Slow),
            ("c", Manner::Slow),
        ];
        let sources = Sources::of(&world, &sources);
        let _ = sources.sync().await;
        for source in ["a", "b", "c"] {
            let rhythm = world.ledger.statistics().rhythm(source).await.unwrap();
            assert!(rhythm.looked.is_some(), "{source}");
        }
    });
}
