//! Emulates Lambda: runs the real function binaries and provides their Runtime API.
//!
//! Each process runs one invocation at a time, and new processes start on demand, up to a limit. A
//! process that exceeds the function's timeout is killed. If a process exits, its invocation fails,
//! and the next invocation gets a new process. After a deployment, new invocations use the new
//! version. Invocations that are already running finish in their old processes.

mod elsewhere;
mod process;
mod runtime_api;

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{runtime::Handle, sync::Semaphore, time::timeout};

use super::names::{now_ms, random_hex, random_id};
pub(crate) use elsewhere::Elsewhere;
use process::{Phase, Process};
use runtime_api::{Answer, Work};

/// The time in which a function must request its first event, as in Lambda.
const INIT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum payload of a synchronous invocation, in bytes.
pub(crate) const MAX_PAYLOAD: usize = 6 * 1024 * 1024;
/// The number of log lines in an error message.
const QUOTED_LINES: usize = 20;

/// The settings to run a function.
#[derive(Debug, Clone)]
pub(crate) struct FunctionSpec {
    pub(crate) id: String,
    pub(crate) arn: String,
    pub(crate) executable: PathBuf,
    pub(crate) timeout: Duration,
    /// All environment variables of the process, except the address of its Runtime API.
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) max_processes: usize,
    pub(crate) log_file: PathBuf,
    /// Whether the process is stopped between invocations, as in Lambda.
    pub(crate) freeze: bool,
    /// The tool that runs the function, if this stack does not.
    pub(crate) elsewhere: Option<Elsewhere>,
}

/// The result of an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    pub request_id: String,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Answered(Bytes),
    Failed(FunctionError),
}

/// The body of a response with `X-Amz-Function-Error: Unhandled`: `{"errorType", "errorMessage"}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionError {
    pub kind: String,
    pub message: String,
}

impl fmt::Display for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl Invocation {
    pub fn error(&self) -> Option<&FunctionError> {
        match &self.outcome {
            Outcome::Answered(_) => None,
            Outcome::Failed(error) => Some(error),
        }
    }

    /// Returns the response as JSON. Fails if the function failed.
    pub fn json(&self) -> anyhow::Result<Value> {
        match &self.outcome {
            Outcome::Answered(body) => {
                serde_json::from_slice(body).context("the function's response is not JSON")
            }
            Outcome::Failed(error) => Err(anyhow!("the function failed: {error}")),
        }
    }
}

/// All functions of the stack.
#[derive(Clone)]
pub(crate) struct Functions {
    engine: Handle,
    functions: Arc<BTreeMap<String, Arc<Function>>>,
}

struct Function {
    id: String,
    slots: Arc<Semaphore>,
    pool: Mutex<Pool>,
}

struct Pool {
    /// The settings for new processes.
    spec: Arc<FunctionSpec>,
    /// Processes that wait for work. The last one was used most recently.
    idle: Vec<Arc<Process>>,
    /// All processes that may still run.
    all: Vec<Arc<Process>>,
    closed: bool,
}

impl Functions {
    pub(crate) fn new(engine: Handle, specs: Vec<FunctionSpec>) -> Self {
        let functions = specs.into_iter().map(|spec| {
            let id = spec.id.clone();
            let function = Function {
                id: id.clone(),
                slots: Arc::new(Semaphore::new(spec.max_processes)),
                pool: Mutex::new(Pool {
                    spec: Arc::new(spec),
                    idle: Vec::new(),
                    all: Vec::new(),
                    closed: false,
                }),
            };
            (id, Arc::new(function))
        });
        Self {
            engine,
            functions: Arc::new(functions.collect()),
        }
    }

    /// Runs the function once. The invocation continues if the caller stops waiting.
    pub(crate) async fn invoke(&self, id: &str, payload: Bytes) -> anyhow::Result<Invocation> {
        let function = Arc::clone(self.find(id)?);
        let engine = self.engine.clone();
        let run = async move { function.invoke(&engine, payload).await };
        self.engine
            .spawn(run)
            .await
            .context("the local stack has been stopped")?
    }

    /// Uses these settings for new invocations. The limit of processes does not change.
    pub(crate) fn deploy(&self, spec: FunctionSpec) -> anyhow::Result<()> {
        self.find(&spec.id)?.deploy(spec);
        Ok(())
    }

    /// Kills the processes of the function, so that their invocations fail. Returns the number of
    /// processes.
    pub(crate) async fn kill(&self, id: &str) -> anyhow::Result<usize> {
        Ok(self.find(id)?.kill_all().await)
    }

    /// Kills all processes and prevents new ones.
    pub(crate) async fn close(&self) {
        for function in self.functions.values() {
            function.pool().closed = true;
            function.slots.close();
        }
        for function in self.functions.values() {
            function.kill_all().await;
        }
    }

    /// Like [`Self::close`], but does not wait. For use in a drop.
    pub(crate) fn close_now(&self) {
        for function in self.functions.values() {
            let mut pool = function.pool();
            pool.closed = true;
            function.slots.close();
            for process in pool.all.drain(..) {
                process.kill_now();
            }
            pool.idle.clear();
        }
    }

    /// Returns the ids of the running processes.
    pub(crate) fn process_ids(&self, id: &str) -> anyhow::Result<Vec<u32>> {
        let function = self.find(id)?;
        let mut pool = function.pool();
        pool.all.retain(|process| !process.is_gone());
        Ok(pool.all.iter().map(|process| process.id()).collect())
    }

    /// Returns the executables of the running processes, by process id.
    pub(crate) fn executables(&self, id: &str) -> anyhow::Result<BTreeMap<u32, PathBuf>> {
        let function = self.find(id)?;
        let mut pool = function.pool();
        pool.all.retain(|process| !process.is_gone());
        let alive = pool.all.iter();
        let named = alive.map(|process| (process.id(), process.spec.executable.clone()));
        Ok(named.collect())
    }

    pub(crate) fn log_file(&self, id: &str) -> anyhow::Result<PathBuf> {
        Ok(self.find(id)?.pool().spec.log_file.clone())
    }

    fn find(&self, id: &str) -> anyhow::Result<&Arc<Function>> {
        self.functions.get(id).with_context(|| {
            let known: Vec<_> = self.functions.keys().map(String::as_str).collect();
            format!("unknown function {id}; use one of {}", known.join(", "))
        })
    }
}

impl Function {
    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn invoke(
        self: Arc<Self>,
        engine: &Handle,
        payload: Bytes,
    ) -> anyhow::Result<Invocation> {
        let request_id = random_id();
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        let slot = slot.context("the local stack has been stopped")?;
        let elsewhere = self.pool().spec.elsewhere.clone();
        if let Some(tool) = elsewhere {
            let outcome = tool.invoke(payload).await?;
            return Ok(Invocation {
                request_id,
                outcome,
            });
        }
        let process = match self.take(engine)? {
            process if process.wait_until_ready(INIT_TIMEOUT).await => process,
            process => {
                process.kill();
                let phase = process.gone().await;
                let error = init_error(&process.spec, &request_id, phase);
                return Ok(Invocation {
                    request_id,
                    outcome: Outcome::Failed(error),
                });
            }
        };
        let outcome = run(&process, &request_id, payload).await;
        if process.spec.freeze {
            // The response must not wait until the process is idle.
            engine.spawn(async move {
                process.freeze_when_idle().await;
                self.give_back(process);
                drop(slot);
            });
        } else {
            self.give_back(process);
        }
        Ok(Invocation {
            request_id,
            outcome,
        })
    }

    fn deploy(&self, spec: FunctionSpec) {
        let mut pool = self.pool();
        pool.spec = Arc::new(spec);
        for process in pool.idle.drain(..) {
            process.kill();
        }
    }

    fn give_back(&self, process: Arc<Process>) {
        let mut pool = self.pool();
        if process.is_gone() || pool.closed {
            return;
        }
        if Arc::ptr_eq(&process.spec, &pool.spec) {
            pool.idle.push(process);
        } else {
            // A deployment has replaced the function since the process started.
            process.kill();
        }
    }

    /// Returns an idle process, or a new one.
    fn take(&self, engine: &Handle) -> anyhow::Result<Arc<Process>> {
        let mut pool = self.pool();
        while let Some(process) = pool.idle.pop() {
            if !process.is_gone() {
                return Ok(process);
            }
        }
        pool.all.retain(|process| !process.is_gone());
        if pool.closed {
            return Err(anyhow!("the local stack has been stopped"));
        }
        let process = Process::spawn(engine, &pool.spec)
            .with_context(|| format!("start the function {}", self.id))?;
        pool.all.push(Arc::clone(&process));
        Ok(process)
    }

    async fn kill_all(&self) -> usize {
        let doomed: Vec<_> = {
            let mut pool = self.pool();
            pool.idle.clear();
            pool.all
                .drain(..)
                .filter(|process| !process.is_gone())
                .collect()
        };
        for process in &doomed {
            process.kill();
        }
        for process in &doomed {
            process.gone().await;
        }
        doomed.len()
    }
}

/// Runs the function once in this process.
async fn run(process: &Process, request_id: &str, payload: Bytes) -> Outcome {
    let limit = process.spec.timeout;
    let deadline_ms = now_ms() + i64::try_from(limit.as_millis()).unwrap_or(i64::MAX / 2);
    process.thaw();
    let answer = process.give(Work {
        request_id: request_id.to_owned(),
        payload,
        deadline_ms,
        arn: process.spec.arn.clone(),
        trace: format!(
            "Root=1-{:08x}-{};Parent={};Sampled=0",
            deadline_ms / 1000,
            random_hex(12),
            random_hex(8)
        ),
    });
    match timeout(limit, answer).await {
        Ok(Some(Answer::Response(body))) => Outcome::Answered(body),
        Ok(Some(Answer::Error(body))) => Outcome::Failed(reported(&body)),
        Ok(None) => Outcome::Failed(exit_error(request_id, process.gone().await)),
        Err(_) => {
            process.kill();
            process.gone().await;
            Outcome::Failed(FunctionError {
                kind: "Sandbox.Timedout".to_owned(),
                message: format!(
                    "RequestId: {request_id} Error: Task timed out after {:.2} seconds",
                    limit.as_secs_f64()
                ),
            })
        }
    }
}

fn init_error(spec: &FunctionSpec, request_id: &str, phase: Phase) -> FunctionError {
    if let Phase::InitFailed(body) = &phase {
        return reported(body);
    }
    let mut error = exit_error(request_id, phase);
    let lines = process::last_lines(&spec.log_file, QUOTED_LINES);
    let _ = write!(
        error.message,
        " before it requested an event; last lines of {}:\n{lines}",
        spec.log_file.display()
    );
    error
}

fn exit_error(request_id: &str, phase: Phase) -> FunctionError {
    let ended = match phase {
        Phase::Gone(status) => status,
        _ => "still running".to_owned(),
    };
    FunctionError {
        kind: "Runtime.ExitError".to_owned(),
        message: format!("RequestId: {request_id} Error: Runtime exited ({ended})"),
    }
}

/// Parses an error that the runtime reported.
fn reported(body: &Bytes) -> FunctionError {
    let body: Value = serde_json::from_slice(body)
        .unwrap_or_else(|_| json!({ "errorMessage": String::from_utf8_lossy(body) }));
    let text = |name: &str| body[name].as_str().unwrap_or("Unknown").to_owned();
    FunctionError {
        kind: text("errorType"),
        message: text("errorMessage"),
    }
}
