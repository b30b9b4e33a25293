//! Runs two releases with one table and one queue: the functions of the previous release and of
//! this one. The test deploys them alternately while webhooks arrive, as in an upgrade, a gradual
//! deployment and a rollback.
//!
//! `make evolution` builds the previous release.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::base::env::env_var;

use self::Release::{Before, Ours};
use crate::fault_schedule::{self, Sky, Weather};
use crate::history::History;
use crate::inbox::Inbox;
use crate::load::Load;
use crate::run::Run;

const FUNCTIONS: [&str; 3] = ["Catcher", "Processor", "BackupSync"];

/// How long requests run before a deployment, so that the deployment interrupts some of them.
const UNDER_WAY: Duration = Duration::from_millis(100);

/// The interval between two searches for rows to write into.
const BETWEEN: Duration = Duration::from_millis(200);

/// An attribute that neither release knows. A newer release may write it into any row, and expects
/// that it is not removed.
const UNKNOWN: &str = "later_code";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the previous release: make evolution"]
async fn this_release_and_the_previous_one_share_an_inbox() {
    let deliveries = fault_schedule::number("MITT_DELIVERIES").unwrap_or(5_000);
    let weather = Weather {
        previous: Some(Previous::from_env()),
        // A stranger's request that only the previous release accepts is no fault of this release.
        stranger: false,
        // Because of the failures, one release has to continue the work of the other.
        downstream_faults: 0.1,
        kills: Some((Duration::from_millis(500), Duration::from_millis(1_500))),
        patience: Duration::from_secs(240),
        ..Weather::calm(deliveries)
    };
    let verdict = Run::of("evolution", weather).await;
    assert!(verdict.is_sound(), "see {}", verdict.folder.display());
}

/// The folder into which `make evolution` writes the previous release: its source and its binaries.
#[derive(Clone, Debug)]
pub(crate) struct Previous {
    folder: PathBuf,
}

impl Previous {
    fn from_env() -> Self {
        let folder = env_var("MITT_PREVIOUS").expect("MITT_PREVIOUS is set by `make evolution`");
        let folder = Path::new(&folder).canonicalize();
        let folder = folder.expect("MITT_PREVIOUS is filled by `make evolution`");
        Self { folder }
    }

    /// Returns the release that an executable belongs to.
    pub(crate) fn release_of(&self, executable: &Path) -> Release {
        if executable.starts_with(&self.folder) {
            Before
        } else {
            Ours
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    Before,
    Ours,
}

impl Release {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Ours => "ours",
        }
    }
}

/// The release that each function runs for some time.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// One release for each function, in the order of the functions.
    Of([Release; 3]),
    /// The releases alternate within each function.
    Mixed,
}

const TURNS: [Turn; 8] = [
    Turn::Of([Before, Before, Before]),
    Turn::Of([Ours, Before, Before]),
    Turn::Of([Before, Ours, Before]),
    Turn::Of([Before, Before, Ours]),
    Turn::Mixed,
    Turn::Of([Ours, Ours, Ours]),
    // A rollback of this release, and then its second deployment.
    Turn::Of([Before, Before, Before]),
    Turn::Of([Ours, Ours, Ours]),
];

/// Deploys the releases alternately.
pub(crate) struct Deployer<'a> {
    pub(crate) previous: &'a Previous,
    pub(crate) sky: &'a Sky,
    pub(crate) inbox: &'a Inbox,
    pub(crate) history: &'a History,
}

impl Deployer<'_> {
    /// Runs all turns, while webhooks arrive and a task writes the unknown attribute.
    pub(crate) async fn take_turns(&self, load: &Load) {
        let events = self.sky.weather.deliveries * 10 / 13 / TURNS.len();
        let delivering = async {
            for (number, turn) in TURNS.into_iter().enumerate() {
                eprintln!("{turn:?}");
                tokio::select! {
                    () = load.deliver(number * events..(number + 1) * events) => {}
                    () = self.play(turn) => unreachable!("a turn lasts as long as its webhooks"),
                }
            }
        };
        // At the start of the run, all functions have the previous release.
        for function in FUNCTIONS {
            self.deploy(function, Before);
        }
        tokio::select! {
            () = delivering => {}
            () = self.plant() => unreachable!("the task that writes into rows does not end"),
        }
    }

    async fn play(&self, turn: Turn) {
        tokio::time::sleep(UNDER_WAY).await;
        let Turn::Of(releases) = turn else {
            return self.mix().await;
        };
        for (function, release) in FUNCTIONS.into_iter().zip(releases) {
            self.deploy(function, release);
        }
        std::future::pending::<()>().await;
    }

    async fn mix(&self) {
        let dice = &self.sky.dice;
        loop {
            let function = FUNCTIONS[dice.below(FUNCTIONS.len())];
            self.deploy(function, if dice.chance(0.5) { Before } else { Ours });
            let pause = dice.between(Duration::from_millis(100), Duration::from_millis(400));
            tokio::time::sleep(pause).await;
        }
    }

    fn deploy(&self, function: &str, release: Release) {
        let (template, binaries) = match release {
            Before => {
                let folder = &self.previous.folder;
                (
                    folder.join("source/template.yaml"),
                    folder.join("build/debug"),
                )
            }
            Ours => (
                self.history.folder.join("template.yaml"),
                testkit::programs(),
            ),
        };
        let deployed = self.inbox.stack.deploy(function, &template, &binaries);
        deployed.expect("both releases are built");
        self.sky
            .count(format!("deployed {function}, {}", release.word()));
    }

    /// Writes an attribute into the row of each open event, once.
    async fn plant(&self) {
        let mut planted = BTreeSet::new();
        loop {
            for pk in self.inbox.open_rows().await {
                if planted.contains(&pk) {
                    continue;
                }
                let value = format!("of {}", UnixMillis::now().0);
                self.inbox.write(&pk, UNKNOWN, &value).await;
                self.history
                    .planted(&json!({ "pk": pk, "attribute": UNKNOWN, "value": value }));
                planted.insert(pk);
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }
}
