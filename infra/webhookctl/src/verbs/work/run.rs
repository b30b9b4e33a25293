//! `work run`: claims events, and starts a program for each of them.

use std::cell::{Cell, RefCell};
use std::process::ExitStatus;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::client::Client;
use super::handler::{End, Handler, described};
use super::{seconds, set};
use crate::cli::{Global, WorkRunArgs};
use crate::output::{CliError, Exit, Printer};
use crate::verbs::dev::stopped;

/// The waits after a failed request.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The wait while the queue is empty, if the answer names none.
const EMPTY: Duration = Duration::from_secs(5);

/// The program has stopped this long before its lease ends.
const MARGIN: Duration = Duration::from_secs(5);

/// The interval between two tries of an extension that failed.
const EXTEND_AGAIN: Duration = Duration::from_secs(3);

struct Run<'r> {
    args: &'r WorkRunArgs,
    client: Client,
    /// Becomes true when the command has to stop.
    stop: watch::Receiver<bool>,
    out: RefCell<&'r mut Printer>,
    failed: Cell<bool>,
}

/// Why a program ended.
enum Ended {
    Exit(ExitStatus),
    /// The command has to stop. The program may still have ended by itself.
    Stopped(ExitStatus),
    /// Another worker can have the event.
    Lost,
    /// The lease cannot be extended beyond `max_hold` of the queue.
    TooLong,
}

pub(super) async fn run(
    args: WorkRunArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let client = Client::find(&args.at, global)?;
    let (told, stop) = watch::channel(false);
    let run = Run {
        client,
        args: &args,
        stop,
        out: RefCell::new(out),
        failed: Cell::new(false),
    };
    run.say(&format!(
        "working on queue {} at {}",
        run.client.queue(),
        run.client.base()
    ));
    let works = join_all((0..args.concurrency).map(|_| run.work()));
    let mut works = std::pin::pin!(works);
    let ended = tokio::select! {
        ended = &mut works => ended,
        heard = stopped() => {
            heard?;
            run.say("stopping; releasing events");
            told.send_replace(true);
            works.await
        }
    };
    ended.into_iter().collect::<Result<Vec<()>, CliError>>()?;
    Ok(if args.once && run.failed.get() {
        Exit::Partial
    } else {
        Exit::Done
    })
}

impl Run<'_> {
    /// Claims and handles one event after the other. Ends with an error that a retry cannot mend.
    async fn work(&self) -> Result<(), CliError> {
        let mut wait = FIRST_WAIT;
        while !self.is_stopped() {
            let pause = match self.client.call("next", &self.next()).await {
                Ok(answer) => {
                    wait = FIRST_WAIT;
                    match answer["events"].as_array().map(Vec::as_slice) {
                        Some([event, ..]) => {
                            self.handle(event).await?;
                            continue;
                        }
                        _ if self.args.once => return Ok(()),
                        _ => retry_after(&answer),
                    }
                }
                Err(error) if error.exit != Exit::Failed || self.args.once => return Err(error),
                Err(error) => {
                    self.say(&format!(
                        "{}; trying again in {}s",
                        error.message,
                        wait.as_secs()
                    ));
                    let now = wait;
                    wait = (wait * 2).min(LONGEST_WAIT);
                    now
                }
            };
            self.pause(pause).await;
        }
        Ok(())
    }

    fn next(&self) -> Value {
        let mut body = json!({ "max": 1 });
        set(&mut body, "lease_s", self.args.lease.map(seconds));
        set(&mut body, "worker", self.args.worker.clone());
        body
    }

    /// Handles one event. What fails here concerns only this event.
    /// An error means that no event can be handled: the program does not start.
    async fn handle(&self, event: &Value) -> Result<(), CliError> {
        let id = event["id"].as_str().unwrap_or_default();
        let began = Instant::now();
        let mut handler = match Handler::start(
            &self.args.program,
            event,
            &self.client,
            self.args.at.role.as_deref(),
        ) {
            Ok(handler) => handler,
            Err(error) => {
                self.finish(event, "release", "").await;
                let message = format!("cannot {error:#}");
                let error = CliError::usage("work.program", message);
                return Err(error.tip("check the program after --"));
            }
        };
        let ended = match self.until_ended(&mut handler, event, began).await {
            Ok(ended) => ended,
            Err(error) => {
                self.failed.set(true);
                self.say(&format!("{id} left to its lease: {error:#}"));
                return Ok(());
            }
        };
        let (outcome, error) = match ended {
            Ended::Exit(status) => by_exit(status),
            Ended::Stopped(status) => match by_exit(status) {
                ("done", said) => ("done", said),
                _ => ("release", String::new()),
            },
            Ended::TooLong => (
                "retry",
                "the program took longer than max_hold of the queue".to_owned(),
            ),
            Ended::Lost => {
                self.failed.set(true);
                self.say(&format!(
                    "{id} lost: the lease ended, and the program was stopped"
                ));
                return Ok(());
            }
        };
        self.finish(event, outcome, &error).await;
        Ok(())
    }

    /// Waits for the program, and extends the lease at each third of it.
    async fn until_ended(
        &self,
        handler: &mut Handler,
        event: &Value,
        began: Instant,
    ) -> anyhow::Result<Ended> {
        let grace = self.args.grace;
        let mut lease = lease_of(event);
        let mut until = began + lease;
        let mut next = began + lease / 3;
        let mut extends = true;
        let mut stop = self.stop.clone();
        loop {
            let wake = if extends {
                next
            } else {
                until - MARGIN.min(lease / 3)
            };
            tokio::select! {
                status = handler.ended() => return Ok(Ended::Exit(status?)),
                _ = stop.wait_for(|stop| *stop) => {
                    return Ok(Ended::Stopped(handler.stop(grace).await?));
                }
                () = sleep_until(wake) => {}
            }
            if !extends {
                handler.stop(grace.min(MARGIN / 2)).await?;
                return Ok(Ended::TooLong);
            }
            let asked = Instant::now();
            match self.extend(event).await {
                Ok(left) => {
                    (lease, until) = (left, asked + left);
                    next = asked + left / 3;
                }
                Err(error) if error.code == "work.refused" => extends = false,
                Err(error) if error.exit == Exit::Failed && Instant::now() + MARGIN < until => {
                    self.say(&format!("could not extend a lease: {}", error.message));
                    next = Instant::now() + EXTEND_AGAIN;
                }
                Err(_) => {
                    handler.stop(Duration::ZERO).await?;
                    return Ok(Ended::Lost);
                }
            }
        }
    }

    /// Extends the lease, and returns the time that is left.
    async fn extend(&self, event: &Value) -> Result<Duration, CliError> {
        let mut body = json!({ "lease": event["lease"] });
        set(&mut body, "lease_s", self.args.lease.map(seconds));
        let answer = self.client.call("extend", &body).await?;
        Ok(Duration::from_millis(
            answer["lease_ms"].as_u64().unwrap_or_default(),
        ))
    }

    /// Ends the work on an event. A repeated request gets the same answer, so a lost answer does no
    /// harm.
    async fn finish(&self, event: &Value, outcome: &str, error: &str) {
        let id = event["id"].as_str().unwrap_or_default();
        let mut body = json!({ "lease": event["lease"], "outcome": outcome });
        set(&mut body, "error", (!error.is_empty()).then_some(error));
        let mut wait = FIRST_WAIT;
        for last in [false, false, true] {
            match self.client.call("finish", &body).await {
                Ok(answer) => {
                    let status = answer["status"].as_str().unwrap_or_default();
                    self.failed.set(self.failed.get() || status != "done");
                    self.say(&format!("{id} {outcome}: {status}"));
                    return;
                }
                Err(error) if error.exit == Exit::Failed && !last => sleep(wait).await,
                Err(error) => {
                    self.failed.set(true);
                    self.say(&format!(
                        "{id} {outcome} was not recorded: {}",
                        error.message
                    ));
                    return;
                }
            }
            wait *= 2;
        }
    }

    async fn pause(&self, wait: Duration) {
        let mut stop = self.stop.clone();
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = sleep(wait) => {}
        }
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    fn say(&self, line: &str) {
        self.out.borrow_mut().say(line);
    }
}

fn by_exit(status: ExitStatus) -> (&'static str, String) {
    match End::of(status) {
        End::Done => ("done", String::new()),
        End::Retry => ("retry", described(status)),
        End::Permanent => ("permanent", described(status)),
    }
}

/// Returns the length of the lease of an event.
fn lease_of(event: &Value) -> Duration {
    let left = event["lease_ms"].as_u64().unwrap_or_default();
    Duration::from_millis(left)
}

fn retry_after(answer: &Value) -> Duration {
    let wait = answer["retry_after_ms"].as_u64();
    wait.map_or(EMPTY, Duration::from_millis).min(LONGEST_WAIT)
}
