//! A process of a function, from its start until it is reaped.

use std::{
    fs::OpenOptions,
    io::{Read, Seek, SeekFrom},
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use bytes::Bytes;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::{
    process::{Child, Command},
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use super::{
    FunctionSpec,
    runtime_api::{self, Answer, Work},
};

/// The state of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Starting,
    /// The process waits for an event.
    Idle,
    Busy,
    /// The process reported an error instead of requesting its first event.
    InitFailed(Bytes),
    /// The process exited with this status.
    Gone(String),
}

pub(super) struct Process {
    /// The settings at the start. A later deployment may have replaced the function.
    pub(super) spec: Arc<FunctionSpec>,
    pid: Pid,
    work: mpsc::Sender<(Work, oneshot::Sender<Answer>)>,
    phase: watch::Sender<Phase>,
    kill: mpsc::Sender<()>,
    frozen: AtomicBool,
    reaped: Arc<AtomicBool>,
}

impl Process {
    pub(super) fn spawn(engine: &Handle, spec: &Arc<FunctionSpec>) -> anyhow::Result<Arc<Self>> {
        let (work, queue) = mpsc::channel(1);
        let phase = watch::Sender::new(Phase::Starting);
        let api = runtime_api::serve(engine, queue, phase.clone())?;
        let log = || -> anyhow::Result<Stdio> {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(&spec.log_file);
            let file = file.with_context(|| format!("open {}", spec.log_file.display()))?;
            Ok(file.into())
        };
        let mut command = Command::new(&spec.executable);
        command
            .env_clear()
            .envs(&spec.environment)
            .env("AWS_LAMBDA_RUNTIME_API", &api.address)
            .stdin(Stdio::null())
            .stdout(log()?)
            .stderr(log()?)
            .kill_on_drop(true)
            // The process has its own process group, so it does not get Ctrl-C from the terminal.
            // The host ends its children itself. If the host is killed, the group is orphaned. The
            // kernel then continues a stopped process and sends it SIGHUP. A running process exits
            // because its Runtime API is no longer available.
            .process_group(0);
        let _inside = engine.enter();
        let child = command.spawn().with_context(|| {
            format!(
                "run {}; build the function if it does not exist",
                spec.executable.display()
            )
        })?;
        let pid = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.context("the process exited immediately")?;
        let (kill, killed) = mpsc::channel(1);
        let reaped = Arc::new(AtomicBool::new(false));
        engine.spawn(reap(child, killed, phase.clone(), api, Arc::clone(&reaped)));
        Ok(Arc::new(Self {
            spec: Arc::clone(spec),
            pid,
            work,
            phase,
            kill,
            frozen: AtomicBool::new(false),
            reaped,
        }))
    }

    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Gone(_) | Phase::InitFailed(_))
    }

    /// Returns whether the process requests its first event within this time.
    pub(super) async fn wait_until_ready(&self, limit: Duration) -> bool {
        let mut phase = self.phase.subscribe();
        let left_start = phase.wait_for(|phase| *phase != Phase::Starting);
        matches!(timeout(limit, left_start).await, Ok(Ok(_))) && !self.is_gone()
    }

    /// Gives the process an event. Returns `None` if the process exits without a response.
    pub(super) async fn give(&self, work: Work) -> Option<Answer> {
        let (answer, mut answered) = oneshot::channel();
        let mut phase = self.phase.subscribe();
        self.work.send((work, answer)).await.ok()?;
        tokio::select! {
            biased;
            answer = &mut answered => answer.ok(),
            _ = phase.wait_for(|phase| matches!(phase, Phase::Gone(_))) => {
                // The process may have responded just before it exited.
                answered.try_recv().ok()
            }
        }
    }

    pub(super) fn kill(&self) {
        // If the channel is full, a kill is already in progress.
        let _ = self.kill.try_send(());
    }

    /// Like [`Self::kill`], but for code that cannot await.
    pub(super) fn kill_now(&self) {
        if self.reaped.load(Ordering::Acquire) {
            return;
        }
        let _ = kill_process(self.pid, Signal::KILL);
        // A killed process exits within milliseconds. Reap it, so that no zombie remains.
        for _ in 0..200 {
            match waitpid(Some(self.pid), WaitOptions::NOHANG) {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Ok(Some(_)) | Err(_) => break,
            }
        }
    }

    /// Waits until the process has exited, and returns its status.
    pub(super) async fn gone(&self) -> Phase {
        let mut phase = self.phase.subscribe();
        let initially_failed = self.phase.borrow().clone();
        if matches!(initially_failed, Phase::InitFailed(_)) {
            return initially_failed;
        }
        match phase
            .wait_for(|phase| matches!(phase, Phase::Gone(_) | Phase::InitFailed(_)))
            .await
        {
            Ok(phase) => phase.clone(),
            Err(_) => Phase::Gone("the stack has been stopped".to_owned()),
        }
    }

    /// Stops the process when it waits for the next event.
    pub(super) async fn freeze_when_idle(&self) {
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|phase| *phase != Phase::Busy);
        let _ = timeout(Duration::from_secs(1), settled).await;
        if *self.phase.borrow() == Phase::Idle && kill_process(self.pid, Signal::STOP).is_ok() {
            self.frozen.store(true, Ordering::Release);
        }
    }

    pub(super) fn thaw(&self) {
        if self.frozen.swap(false, Ordering::AcqRel) && !self.is_gone() {
            let _ = kill_process(self.pid, Signal::CONT);
        }
    }
}

async fn reap(
    mut child: Child,
    mut killed: mpsc::Receiver<()>,
    phase: watch::Sender<Phase>,
    api: runtime_api::Server,
    reaped: Arc<AtomicBool>,
) {
    let ended = loop {
        tokio::select! {
            ended = child.wait() => break ended,
            Some(()) = killed.recv() => {
                let _ = child.start_kill();
            }
        }
    };
    reaped.store(true, Ordering::Release);
    let ended = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
    // Keep the error of a failed start, because it is more useful than the exit status that
    // follows.
    phase.send_if_modified(|phase| {
        let keep = matches!(phase, Phase::InitFailed(_));
        if !keep {
            *phase = Phase::Gone(ended);
        }
        !keep
    });
    drop(api);
}

/// Returns the last lines of a log, for an error message.
pub(super) fn last_lines(path: &Path, count: usize) -> String {
    let tail = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(8 * 1024)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = tail().unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
