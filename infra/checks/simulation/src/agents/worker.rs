//! A worker outside of Lambda. It follows the protocol as the clients in `infra/clients` do, and
//! crashes and stalls between its steps.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::client::{Said, post};
use super::tracker::{Opened, open, search};
use crate::clock;
use crate::run::Run;
use crate::scenario::Without;
use crate::sender::event_of_message;

/// The time between the end of a call and the end of the lease.
const MARGIN: Duration = Duration::from_secs(10);

/// The number of events on which a worker works at the same time.
const AT_ONCE: usize = 8;

/// Share of steps, in ten-thousandths, at which a worker crashes, and at which it stalls.
const CRASHES: u64 = 300;
const STALLS: u64 = 300;

/// The longest stall. It is longer than the longest lease.
const LONGEST_STALL_MS: u64 = 20 * 60_000;

const EFFECT: &str = "open-ticket";

pub(super) struct Worker {
    run: Rc<Run>,
    queue: &'static str,
    name: String,
    busy: Cell<usize>,
}

/// A claimed event.
struct Leased {
    event: usize,
    token: String,
    epoch: i128,
    until: Cell<Instant>,
    /// The state of the effect at the claim.
    before: String,
}

/// How the work on an event ends.
enum End {
    /// The worker says nothing more about the event.
    Silence,
    Finish(Value),
}

impl Worker {
    pub(super) fn new(run: &Rc<Run>, queue: &'static str, number: usize) -> Self {
        Self {
            run: run.clone(),
            queue,
            name: format!("{queue}-{number}"),
            busy: Cell::new(0),
        }
    }

    /// Takes events until the run ends.
    pub(super) async fn run(self: Rc<Self>) {
        loop {
            let taken = match self.clone().take().await {
                Ok(taken) => taken,
                Err(error) => return self.run.fail(error),
            };
            if !taken {
                sleep(self.pause()).await;
            }
        }
    }

    /// Returns the pause after an answer without events. It is longer than that of the clients, and
    /// much longer while no event is open, because each request takes time of the machine.
    fn pause(&self) -> Duration {
        let mut world = self.run.world.lock();
        let pause = Duration::from_millis(world.dice.between(12_000, 20_000));
        if world.table.has_open_rows() {
            pause
        } else {
            pause * 40
        }
    }

    /// Takes events, and works on each in its own task. Returns whether it got any.
    async fn take(self: Rc<Self>) -> anyhow::Result<bool> {
        let free = AT_ONCE - self.busy.get();
        if free == 0 {
            return Ok(false);
        }
        let lease_s = {
            let mut world = self.run.world.lock();
            let own = world.dice.hits(5_000);
            own.then(|| world.dice.between(30, 900))
        };
        let fields = json!({ "worker": self.name, "max": free, "lease_s": lease_s });
        let patience = Instant::now() + Duration::from_secs(60);
        let place = format!("{}/next", self.queue);
        let Said::Yes(answer, sent) = post(&self.run, &place, (&fields, None), patience).await?
        else {
            return Ok(false);
        };
        let events = answer["events"].as_array().cloned().unwrap_or_default();
        for event in &events {
            let leased = Leased::read(event, sent)?;
            let worker = self.clone();
            worker.busy.set(worker.busy.get() + 1);
            tokio::task::spawn_local(async move {
                if let Err(error) = worker.work(&leased).await {
                    worker.run.fail(error);
                }
                worker.busy.set(worker.busy.get() - 1);
            });
        }
        Ok(!events.is_empty())
    }

    async fn work(&self, leased: &Leased) -> anyhow::Result<()> {
        if !self.survives().await {
            return Ok(());
        }
        if !self.think(leased).await? {
            return Ok(());
        }
        let End::Finish(fields) = self.effect(leased).await? else {
            return Ok(());
        };
        if self.survives().await {
            self.said(leased, "finish", fields).await?;
        }
        Ok(())
    }

    /// Works for a time that is sometimes longer than the lease, and extends the lease meanwhile.
    /// Returns whether the worker still has the event.
    async fn think(&self, leased: &Leased) -> anyhow::Result<bool> {
        let takes = {
            let mut world = self.run.world.lock();
            let long = world.dice.hits(500);
            world.dice.between(100, if long { 900_000 } else { 10_000 })
        };
        let ends = Instant::now() + Duration::from_millis(takes);
        while Instant::now() < ends {
            let third = leased.left() / 3;
            let pause = third.max(Duration::from_secs(1));
            sleep(pause.min(ends.saturating_duration_since(Instant::now()))).await;
            let extends = Instant::now() < ends;
            if extends && !(self.survives().await && self.extend(leased).await?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn effect(&self, leased: &Leased) -> anyhow::Result<End> {
        let hasty = self.run.world.lock().scenario.without == Some(Without::Wait);
        let mut asked = None;
        loop {
            if leased.left() < 2 * MARGIN && !self.extend(leased).await? {
                return Ok(End::Silence);
            }
            // A hasty worker says that the tracker honours keys. It searches before its call, but it
            // does not wait until an earlier call can no longer arrive.
            let keys = if hasty { "honoured" } else { "ask" };
            let fields = json!({ "effect": EFFECT, "keys": keys, "asked": asked });
            let Some(begun) = self.said(leased, "begin", fields).await? else {
                return Ok(End::Silence);
            };
            if begun["done"] == true {
                return Ok(finish("done"));
            }
            if begun["in_doubt"] != true {
                if hasty && leased.is_in_doubt() && search(&self.run.world, leased.event).await {
                    return self.end(leased, "done", finish("done")).await;
                }
                return self.call(leased).await;
            }
            let left = left_until(&begun["ask_from"])?;
            if asked.is_some() || left > 0 {
                let after = (left / 1000 + 1).clamp(1, 3_600);
                return Ok(End::Finish(json!({ "outcome": "retry", "after_s": after })));
            }
            if search(&self.run.world, leased.event).await {
                return self.end(leased, "done", finish("done")).await;
            }
            if !self.survives().await {
                return Ok(End::Silence);
            }
            asked = Some("did_not");
        }
    }

    /// Makes the call, and records what became of it.
    async fn call(&self, leased: &Leased) -> anyhow::Result<End> {
        if !self.survives().await {
            return Ok(End::Silence);
        }
        // The clock is read in the step of the call.
        let timeout = leased.left().saturating_sub(MARGIN);
        if timeout < Duration::from_secs(1) {
            return self.end(leased, "not", finish("retry")).await;
        }
        let opened = open(&self.run.world, leased.event, timeout).await;
        if !self.survives().await {
            return Ok(End::Silence);
        }
        match opened {
            Opened::Yes => self.end(leased, "done", finish("done")).await,
            Opened::Busy => self.end(leased, "not", finish("retry")).await,
            // A ticket that is found was opened. A ticket that is not found can still be opened.
            Opened::Unknown if search(&self.run.world, leased.event).await => {
                self.end(leased, "done", finish("done")).await
            }
            Opened::Unknown => self.end(leased, "unknown", finish("retry")).await,
        }
    }

    async fn end(&self, leased: &Leased, result: &str, then: End) -> anyhow::Result<End> {
        let fields = json!({ "effect": EFFECT, "result": result });
        let said = self.said(leased, "end", fields).await?;
        Ok(if said.is_some() { then } else { End::Silence })
    }

    async fn extend(&self, leased: &Leased) -> anyhow::Result<bool> {
        Ok(self.said(leased, "extend", json!({})).await?.is_some())
    }

    /// Makes a request about a leased event. Returns `None` if the worker has lost the event.
    async fn said(
        &self,
        leased: &Leased,
        op: &str,
        mut fields: Value,
    ) -> anyhow::Result<Option<Value>> {
        fields["lease"] = leased.token.as_str().into();
        let place = format!("{}/{op}", self.queue);
        let lease = Some((leased.event, leased.epoch));
        let until = leased.until.get();
        let said = post(&self.run, &place, (&fields, lease), until).await?;
        let Said::Yes(answer, sent) = said else {
            return Ok(None);
        };
        if let Some(left) = answer["lease_ms"].as_u64() {
            leased.until.set(sent + Duration::from_millis(left));
        }
        Ok(Some(answer))
    }

    /// Stalls the worker sometimes. Returns `false` if the worker crashes instead.
    async fn survives(&self) -> bool {
        let stall = {
            let mut world = self.run.world.lock();
            if world.dice.hits(CRASHES) {
                return false;
            }
            let stalls = world.dice.hits(STALLS);
            stalls.then(|| world.dice.between(1_000, LONGEST_STALL_MS))
        };
        if let Some(stall) = stall {
            sleep(Duration::from_millis(stall)).await;
        }
        true
    }
}

impl Leased {
    fn read(event: &Value, sent: Instant) -> anyhow::Result<Self> {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        let token = text("lease").to_owned();
        let read = URL_SAFE_NO_PAD.decode(&token).context("decode a lease")?;
        let read: Value = serde_json::from_slice(&read).context("read a lease")?;
        let pk = read["pk"].as_str().unwrap_or_default();
        let lease = Duration::from_millis(event["lease_ms"].as_u64().unwrap_or(0));
        let before = event["effects"][EFFECT]["state"].as_str();
        Ok(Self {
            event: event_of_message(pk).context("a lease names an event")?,
            epoch: read["epoch"].as_i64().unwrap_or(0).into(),
            until: Cell::new(sent + lease),
            before: before.unwrap_or_default().to_owned(),
            token,
        })
    }

    fn left(&self) -> Duration {
        self.until.get().saturating_duration_since(Instant::now())
    }

    fn is_in_doubt(&self) -> bool {
        matches!(self.before.as_str(), "intent" | "unknown")
    }
}

fn finish(outcome: &str) -> End {
    End::Finish(json!({ "outcome": outcome }))
}

/// Returns the milliseconds until a time of the protocol, by the clock of the worker.
fn left_until(time: &Value) -> anyhow::Result<i64> {
    let time: jiff::Timestamp = time.as_str().unwrap_or_default().parse()?;
    Ok(time.as_millisecond() - clock::true_ms())
}
