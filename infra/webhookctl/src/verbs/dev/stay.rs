//! Runs `dev` until it is stopped: handles keys, and prints what happens to events.

use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use local::Stack;
use shared::base::clock::UnixMillis;
use shared::sources::Config;
use tokio::time::{MissedTickBehavior, interval};

use super::chaos::Broken;
use super::render::Teller;
use crate::cli::SelectionArgs;
use crate::demo::Crash;
use crate::demo::downstream::Downstream;
use crate::selection::Selection;
use crate::target::{Deployment, Local};
use crate::verbs::console::Server;
use crate::verbs::inbox::{EACH, Tail};
use crate::verbs::keys::{Key, Keys};
use crate::verbs::send::{Sent, sample, usual_source};

/// The parts that the loop uses.
pub(super) struct Stay<'s> {
    pub(super) stack: &'s Stack,
    pub(super) local: &'s Local,
    pub(super) config: &'s Config,
    pub(super) downstream: &'s Downstream,
    pub(super) console: Option<&'s Server>,
}

impl Stay<'_> {
    /// Runs until a signal or a key stops `dev`. Prints changes of events if a fault is injected or
    /// a terminal is attached.
    pub(super) async fn until_stopped(
        &self,
        mut broken: Option<Broken>,
        told: &mut Teller<'_>,
    ) -> anyhow::Result<()> {
        let mut end = std::pin::pin!(stopped());
        let which = match &broken {
            Some(_) => {
                "s send a webhook   c turn the fault off or on   o open the console   q stop"
            }
            None => "s send a webhook   o open the console   q stop",
        };
        let mut keys = Keys::of_terminal(which, told.out);
        if broken.is_none() && !keys.are_taken() {
            return end.await;
        }
        let inbox = Deployment::local(self.local.clone())?;
        let selection = Selection::new(&SelectionArgs::default(), &inbox, UnixMillis::now().0)?;
        let mut tail = Tail::new(&selection, &inbox);
        let mut looks = interval(EACH);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut under_way = FuturesUnordered::new();
        if broken.is_some() {
            under_way.extend(self.send(broken.as_ref()));
        }
        loop {
            tokio::select! {
                ended = &mut end => return ended,
                key = keys.next() => match (key, &mut broken) {
                    (Key::Char('q'), _) => return Ok(()),
                    (Key::Char('s'), broken) => match self.send(broken.as_ref()) {
                        Some(sending) => under_way.push(sending),
                        None => told.out.say("  the CLI cannot sign webhooks of these sources"),
                    },
                    (Key::Char('o'), _) => if let Some(console) = self.console {
                        let address = console.address()?;
                        told.out.say(&format!("  Console  {address}"));
                    },
                    (Key::Char('c'), Some(broken)) => {
                        broken.turn();
                        told.turned(broken.is_on())?;
                    }
                    _ => {}
                },
                crash = crash(&mut broken) => {
                    self.stack.kill_function_processes("Processor").await?;
                    told.crashed()?;
                    drop(crash);
                }
                Some(sent) = under_way.next(), if !under_way.is_empty() => match sent {
                    Ok(sent) => told.sent(&sent)?,
                    // The loop continues, because the user can press the key again.
                    Err(error) => told.out.say(&format!("  the webhook was not sent: {error:#}")),
                },
                _ = looks.tick() => {
                    for id in tail.look(told.out).await? {
                        // Without a fault, events can go to another destination than the demo's,
                        // and this process does not count the effects there.
                        if broken.is_some() {
                            told.effects(&id, &self.downstream.seen(&id))?;
                        }
                    }
                }
            }
        }
    }

    /// Starts to send a webhook, if there is a source for which `webhookctl` can sign.
    fn send(
        &self,
        broken: Option<&Broken>,
    ) -> Option<LocalBoxFuture<'static, anyhow::Result<Sent>>> {
        let source = usual_source(self.config)?.to_owned();
        let behind = broken.map(Broken::skew).unwrap_or_default();
        Some(sample(self.local.clone(), source, behind).boxed_local())
    }
}

/// Waits until the fault requires that the processor is killed. Without a fault, waits forever.
async fn crash(broken: &mut Option<Broken>) -> Crash {
    match broken {
        Some(broken) => broken.crash().await,
        None => std::future::pending().await,
    }
}

/// Waits for SIGINT, SIGTERM or SIGHUP.
pub(in crate::verbs) async fn stopped() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
        _ = hung_up.recv() => {}
    }
    Ok(())
}
