//! Kills and stops processes, as Lambda does with execution environments.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use local::Stack;
use rustix::process::{Pid, Signal, kill_process};

use crate::fault_schedule::Sky;
use crate::history::History;

/// The time for which a process is stopped. It is longer than the lease with its margin, and
/// shorter than the function's timeout, at which Lambda kills the process.
const STANDSTILL: Duration = Duration::from_secs(52);

/// The interval between the starts of two consecutive stops.
const BETWEEN: Duration = Duration::from_secs(3);

pub(crate) struct Killer {
    sky: Arc<Sky>,
    stack: Arc<Stack>,
    history: Arc<History>,
    /// The stopped processes, which must not be killed for another reason.
    standing: Mutex<BTreeSet<u32>>,
}

impl Killer {
    pub(crate) fn new(sky: &Arc<Sky>, stack: &Arc<Stack>, history: &Arc<History>) -> Self {
        Self {
            sky: Arc::clone(sky),
            stack: Arc::clone(stack),
            history: Arc::clone(history),
            standing: Mutex::default(),
        }
    }

    /// Kills a process at intervals, until the faults end.
    pub(crate) async fn kill_while_stormy(&self) {
        let Some((least, most)) = self.sky.weather.kills else {
            return;
        };
        let functions = ["Catcher", "Processor", "Processor", "BackupSync"];
        while self.sky.is_stormy() {
            tokio::time::sleep(self.sky.dice.between(least, most)).await;
            let function = functions[self.sky.dice.below(functions.len())];
            if let Some(process) = self.victim(function) {
                self.history.death(process, "killed");
                kill(process);
                self.sky.count(format!("killed {function}"));
            }
        }
    }

    /// Stops processors until their leases have expired, and then continues them.
    pub(crate) async fn stop(&self) {
        let standstills = (0..self.sky.weather.zombies).map(async |number| {
            let number = u32::try_from(number).unwrap();
            tokio::time::sleep(BETWEEN * (number + 1)).await;
            let Some(process) = self.victim("Processor") else {
                return;
            };
            self.standing.lock().unwrap().insert(process);
            self.history.death(process, "stopped");
            signal(process, Signal::STOP);
            self.sky.count("stopped Processor");
            tokio::time::sleep(STANDSTILL).await;
            signal(process, Signal::CONT);
            self.standing.lock().unwrap().remove(&process);
        });
        futures::future::join_all(standstills).await;
    }

    fn victim(&self, function: &str) -> Option<u32> {
        let mut alive = self.stack.function_processes(function).unwrap();
        let standing = self.standing.lock().unwrap();
        alive.retain(|process| !standing.contains(process));
        self.sky.dice.one_of(&alive).copied()
    }
}

pub(crate) fn kill(process: u32) {
    signal(process, Signal::KILL);
}

/// A process that has exited needs no signal.
pub(crate) fn signal(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let _ = kill_process(process.expect("process ids are positive"), signal);
}
