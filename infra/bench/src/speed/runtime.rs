//! One process of a function under a Lambda Runtime API, one invocation at a time.
//! <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use shared::base::clock::UnixMillis;

use crate::http::{self, Message};
use crate::machine;

/// How a program is started.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// The executable with its arguments. A wrapper, if any, comes before it.
    pub(crate) command: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) log: PathBuf,
}

pub(crate) struct Running {
    name: &'static str,
    log: PathBuf,
    child: Child,
    work: Sender<String>,
    reports: Receiver<Report>,
    /// The time from its start to its request for the first event.
    pub(crate) init: Duration,
}

pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    pub(crate) took: Duration,
}

/// A message of the process, with its time.
enum Report {
    Ready(Instant),
    Answered(Instant, Vec<u8>),
    Failed(String),
}

/// A time that is longer than any step takes, even under valgrind.
const PATIENCE: Duration = Duration::from_secs(60);

impl Running {
    /// Starts the process, and returns when it waits for its first event.
    pub(crate) fn start(program: &Program) -> anyhow::Result<Self> {
        let (work, given) = channel();
        let (report, reports) = channel();
        let api = Mutex::new((given, report));
        let address = http::serve(move |request| answer(&api, request))?;
        let log = File::create(&program.log).context("create the log file")?;
        let (first, rest) = program.command.split_first().context("no command")?;
        let started = Instant::now();
        let child = Command::new(first)
            .args(rest)
            .env_clear()
            .envs(&program.environment)
            .env("AWS_LAMBDA_RUNTIME_API", address)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("run {first}; check that this program is built"))?;
        let mut running = Self {
            name: program.name,
            log: program.log.clone(),
            child,
            work,
            reports,
            init: Duration::ZERO,
        };
        running.init = running.ready()?.duration_since(started);
        Ok(running)
    }

    /// Sends an event, and returns when the process waits for the next one.
    pub(crate) fn invoke(&mut self, event: String) -> anyhow::Result<Answer> {
        let began = Instant::now();
        self.work.send(event).context("send an event")?;
        let Report::Answered(at, body) = self.next_report()? else {
            bail!("{} requested an event twice", self.name);
        };
        self.ready()?;
        Ok(Answer {
            body,
            took: at.duration_since(began),
        })
    }

    /// Returns the processor time that the process has used so far. The process must be idle.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        let mut before = machine::cpu(self.child.id())?;
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(2));
            let now = machine::cpu(self.child.id())?;
            if now == before {
                break;
            }
            before = now;
        }
        Ok(before)
    }

    /// Returns the peak memory in bytes.
    pub(crate) fn peak_memory(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes: u64 = kilobytes
            .context("the process status contains no peak memory")?
            .parse()?;
        Ok(kilobytes * 1024)
    }

    /// Returns the memory mappings in the format of the kernel.
    pub(crate) fn mappings(&self) -> anyhow::Result<String> {
        let mappings = std::fs::read_to_string(format!("/proc/{}/smaps", self.child.id()));
        mappings.context("read the memory mappings")
    }

    /// Returns the number of minor page faults: pages that the kernel provided without reading from
    /// a disk.
    pub(crate) fn page_faults(&self) -> anyhow::Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The program name in brackets can contain any character.
        let fields = stat
            .rsplit_once(')')
            .map(|(_, fields)| fields.split_whitespace());
        let faults = fields.and_then(|mut fields| fields.nth(7));
        Ok(faults
            .context("the process statistics contain no page faults")?
            .parse()?)
    }

    /// Ends the process when it is idle. Returns its output.
    pub(crate) fn end(mut self) -> anyhow::Result<String> {
        self.cpu()?;
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("the process has ended")?, Signal::TERM)?;
        self.child.wait()?;
        Ok(self.written())
    }

    fn ready(&mut self) -> anyhow::Result<Instant> {
        match self.next_report()? {
            Report::Ready(at) => Ok(at),
            _ => bail!("{} sent an unexpected answer", self.name),
        }
    }

    fn next_report(&mut self) -> anyhow::Result<Report> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.reports.recv_timeout(Duration::from_millis(200)) {
                Ok(Report::Failed(what)) => {
                    bail!("{} failed: {what}\n{}", self.name, self.written())
                }
                Ok(report) => return Ok(report),
                Err(_) => {
                    let ended = self.child.try_wait()?;
                    let written = || {
                        format!(
                            "{} ended or does not respond:\n{}",
                            self.name,
                            self.written()
                        )
                    };
                    ensure!(ended.is_none() && Instant::now() < until, written());
                }
            }
        }
    }

    fn written(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answer(api: &Mutex<(Receiver<String>, Sender<Report>)>, request: &Message) -> Option<Message> {
    let now = Instant::now();
    // The process sends one request at a time.
    let api = api.lock().ok()?;
    let (given, sender) = &*api;
    let path = request.path().strip_prefix("/2018-06-01/runtime/")?;
    if path == "invocation/next" {
        sender.send(Report::Ready(now)).ok()?;
        // The wait ends when the measurement ends.
        return Some(event(given.recv().ok()?));
    }
    let report = if path.ends_with("/response") {
        Report::Answered(now, request.body.clone())
    } else {
        Report::Failed(String::from_utf8_lossy(&request.body).into_owned())
    };
    sender.send(report).ok()?;
    Some(Message::response(202, r#"{"status":"OK"}"#))
}

fn event(payload: String) -> Message {
    const ARN: &str = "arn:aws:lambda:eu-central-1:123456789012:function:bench";
    const ID: &str = "8476a536-e9f4-11e8-9739-2dfe598c3fcd";
    const TRACE: &str = "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0";
    let deadline = (UnixMillis::now().0 + 60_000).to_string();
    Message::response(200, payload)
        .with("content-type", "application/json")
        .with("lambda-runtime-aws-request-id", ID)
        .with("lambda-runtime-deadline-ms", deadline)
        .with("lambda-runtime-invoked-function-arn", ARN)
        .with("lambda-runtime-trace-id", TRACE)
}
