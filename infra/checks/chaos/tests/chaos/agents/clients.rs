//! The clients of `infra/clients`, as processes that are killed, stopped and started again.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use shared::base::env::env_var;

use crate::fault_schedule::Sky;
use crate::history::History;
use crate::killer::signal;

/// The number of processes of each client.
const OF_EACH: usize = 3;

/// The role of the clients, which the local gateway reads from their access key.
const ROLE: &str = "agent";

/// The interval between two kills of a client.
const KILLS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(800));

/// The time for which a client is stopped. It is longer than the lease, with the margin after which
/// another worker takes over the event. It is shorter than the time after which a search for the
/// ticket counts: no worker can prevent a call that begins even later.
const STANDSTILL: Duration = Duration::from_secs(45);

/// How a worker treats an effect in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    Careful,
    /// It searches at once, and then makes the call.
    Hasty,
}

pub(crate) struct Clients {
    sky: Arc<Sky>,
    history: Arc<History>,
    slots: Mutex<Vec<Slot>>,
}

struct Slot {
    command: Vec<OsString>,
    log: PathBuf,
    child: Child,
    stopped: bool,
}

impl Clients {
    /// Starts the processes. Without Node.js or the compiler, all of them are of the Python client.
    pub(crate) fn start(
        sky: &Arc<Sky>,
        history: &Arc<History>,
        habit: Habit,
        (api, tracker): (&str, &str),
    ) -> Self {
        let python = python(habit, api, tracker);
        let compiled = (habit == Habit::Careful).then(|| compile(&history.folder));
        let typescript = compiled.flatten().map(|program| {
            vec![
                "node".into(),
                program.into_os_string(),
                api.into(),
                tracker.into(),
            ]
        });
        if typescript.is_none() && habit == Habit::Careful {
            eprintln!(
                "NO TYPESCRIPT CLIENT: node or infra/tests/clients/node_modules is missing, so \
                 only the Python client runs"
            );
            sky.count("runs without the TypeScript client");
        }
        let typescript = typescript.unwrap_or_else(|| python.clone());
        let slots = (0..OF_EACH).flat_map(|n| {
            let named = |name: &str| history.folder.join(format!("{name}-{n}.txt"));
            [
                Slot::start(python.clone(), named("one-client")),
                Slot::start(typescript.clone(), named("other-client")),
            ]
        });
        Self {
            sky: Arc::clone(sky),
            history: Arc::clone(history),
            slots: Mutex::new(slots.collect()),
        }
    }

    /// Kills a client at intervals, until the faults end.
    pub(crate) async fn kill_while_stormy(&self) {
        while self.sky.is_stormy() {
            let pause = self.sky.dice.between(KILLS.0, KILLS.1);
            tokio::time::sleep(pause).await;
            let mut slots = self.slots.lock().unwrap();
            let running: Vec<usize> = (0..slots.len()).filter(|n| !slots[*n].stopped).collect();
            let Some(n) = self.sky.dice.one_of(&running).copied() else {
                continue;
            };
            slots[n].assert_running();
            self.history.death(slots[n].child.id(), "killed");
            slots[n].start_again();
            self.sky.count("killed client");
        }
    }

    /// Stops a client until another worker has its events, and continues it.
    pub(crate) async fn stop_while_stormy(&self, first: Duration) {
        tokio::time::sleep(first).await;
        while self.sky.is_stormy() {
            let n = {
                let mut slots = self.slots.lock().unwrap();
                let n = self.sky.dice.below(slots.len());
                slots[n].stopped = true;
                signal(slots[n].child.id(), Signal::STOP);
                n
            };
            self.sky.count("stopped client");
            tokio::time::sleep(STANDSTILL).await;
            let mut slots = self.slots.lock().unwrap();
            signal(slots[n].child.id(), Signal::CONT);
            slots[n].stopped = false;
        }
    }

    /// Panics if a client has ended without a kill.
    pub(crate) fn assert_running(&self) {
        for slot in &mut *self.slots.lock().unwrap() {
            slot.assert_running();
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        if let Ok(mut slots) = self.slots.lock() {
            for slot in &mut *slots {
                slot.kill();
            }
        }
    }
}

impl Slot {
    fn start(command: Vec<OsString>, log: PathBuf) -> Self {
        let child = spawn(&command, &log);
        Self {
            command,
            log,
            child,
            stopped: false,
        }
    }

    fn start_again(&mut self) {
        self.kill();
        self.child = spawn(&self.command, &self.log);
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn assert_running(&mut self) {
        let ended = self.child.try_wait().unwrap();
        let log = self.log.display();
        assert!(
            ended.is_none(),
            "a client ended by itself ({ended:?}): see {log}"
        );
    }
}

fn spawn(command: &[OsString], log: &Path) -> Child {
    let log: File = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .unwrap();
    Command::new(&command[0])
        .args(&command[1..])
        .env_clear()
        .env("PATH", env_var("PATH").unwrap_or_default())
        .env("AWS_ACCESS_KEY_ID", ROLE)
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("a client starts")
}

/// Returns the command of the Python client. The tools of `make check` contain botocore.
fn python(habit: Habit, api: &str, tracker: &str) -> Vec<OsString> {
    let tools = testkit::root().join(".venv/check/bin/python");
    let python = if tools.exists() {
        tools.into_os_string()
    } else {
        "python3".into()
    };
    let habit = match habit {
        Habit::Careful => "careful",
        Habit::Hasty => "hasty",
    };
    let clients = testkit::root().join("infra/clients");
    let program = here().join("tickets.py");
    vec![
        python,
        program.into_os_string(),
        clients.into_os_string(),
        api.into(),
        tracker.into(),
        habit.into(),
    ]
}

/// Removes the types from the TypeScript client, because Node 20 does not run it as it is. Returns the
/// program, or `None` if Node.js or the compiler is missing.
fn compile(folder: &Path) -> Option<PathBuf> {
    let modules = testkit::root().join("infra/tests/clients/node_modules");
    let compiler = modules.join(".bin/tsc");
    let node = Command::new("node").arg("--version").output();
    if !compiler.exists() || !node.is_ok_and(|node| node.status.success()) {
        return None;
    }
    let code = folder.join("typescript");
    std::fs::create_dir_all(&code).unwrap();
    let client = testkit::root().join("infra/clients/mitt-worker.ts");
    std::fs::copy(client, code.join("mitt-worker.ts")).unwrap();
    std::fs::copy(here().join("tickets.ts"), code.join("tickets.ts")).unwrap();
    std::fs::write(code.join("package.json"), r#"{"type": "module"}"#).unwrap();
    let words = "--target es2022 --module esnext --moduleResolution bundler \
                 --rewriteRelativeImportExtensions --strict --types node --typeRoots";
    let done = Command::new(compiler)
        .args(words.split(' '))
        .arg(modules.join("@types"))
        .arg(code.join("tickets.ts"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "the client has errors: {told}");
    Some(code.join("tickets.js"))
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chaos/agents")
}
