//! Delivers events one after the other, in the order of their receipt.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::deliver::{Deliveries, End, Item};
use super::render::{Teller, chosen, details};
use super::sent::Sent;
use super::watch::{News, in_words};
use crate::forward::NoAnswer;
use crate::inspect::view;
use crate::output::{Exit, Printer};
use crate::verbs::keys::{Key, Keys};

/// The delays before a retry while the program cannot be reached. The first delays are short,
/// because developers often restart their program.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(3);

const KEYS: &str = "↑↓ select   r send again   d details   p pause   q stop";

/// The number of failed reads of the inbox in a row after which `listen` stops.
const MOST_TROUBLE: u32 = 10;

/// The signals that stop `listen`. They are registered before `listen` writes its file, so that a
/// signal never leaves the file behind.
pub(super) struct Stops {
    interrupted: Signal,
    terminated: Signal,
}

impl Stops {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            interrupted: signal(SignalKind::interrupt())?,
            terminated: signal(SignalKind::terminate())?,
        })
    }
}

pub(super) struct Run<'o> {
    deliveries: Arc<Deliveries>,
    teller: Teller,
    out: &'o mut Printer,
    waiting: VecDeque<Item>,
    sent: Sent,
    past: bool,
    paused: bool,
    /// Whether no further events can arrive.
    over: bool,
    trouble: u32,
    /// The number of deliveries that were in progress when the user stopped `listen`.
    cut: usize,
    /// The time of the next retry.
    retry_at: Option<Instant>,
    /// The last delay before a retry. It is zero while the program can be reached.
    waited: Duration,
}

impl<'o> Run<'o> {
    pub(super) fn new(deliveries: Arc<Deliveries>, teller: Teller, out: &'o mut Printer) -> Self {
        Self {
            past: deliveries.wanted.backfills(),
            deliveries,
            teller,
            out,
            waiting: VecDeque::new(),
            sent: Sent::default(),
            paused: false,
            over: false,
            trouble: 0,
            cut: 0,
            retry_at: None,
            waited: Duration::ZERO,
        }
    }

    /// Runs until the user stops it, or until no further events can arrive.
    pub(super) async fn until_the_end(
        &mut self,
        mut news: UnboundedReceiver<News>,
        mut stops: Stops,
    ) -> anyhow::Result<Exit> {
        let mut keys = Keys::of_terminal(KEYS, self.out);
        let mut under_way: FuturesUnordered<BoxFuture<'static, (Item, End)>> =
            FuturesUnordered::new();
        let exit = loop {
            if under_way.is_empty() {
                under_way.extend(self.next());
            }
            if self.over && self.waiting.is_empty() && under_way.is_empty() {
                break Exit::Done;
            }
            let retry_at = self.retry_at;
            tokio::select! {
                Some((item, end)) = under_way.next(), if !under_way.is_empty() => {
                    self.ended(item, end)?;
                }
                Some(news) = news.recv(), if !self.over => self.heard(news)?,
                key = keys.next() => match key {
                    Key::Char('q') => break Exit::Done,
                    key => self.pressed(key).await?,
                },
                () = until(retry_at), if retry_at.is_some() => self.retry_at = None,
                _ = stops.interrupted.recv() => break Exit::Interrupted,
                _ = stops.terminated.recv() => break Exit::Interrupted,
            }
        };
        self.cut = under_way.len();
        Ok(exit)
    }

    /// Returns the next delivery, unless it must wait.
    fn next(&mut self) -> Option<BoxFuture<'static, (Item, End)>> {
        // If the user sends an event again, it is sent even during a pause.
        let may_go = |item: &Item| !self.paused || item.again;
        if self.retry_at.is_some() || !self.waiting.front().is_some_and(may_go) {
            return None;
        }
        let item = self.waiting.pop_front()?;
        let deliveries = Arc::clone(&self.deliveries);
        let delivery = async move {
            let end = deliveries.deliver(&item).await;
            (item, end)
        };
        Some(delivery.boxed())
    }

    fn ended(&mut self, item: Item, end: End) -> anyhow::Result<()> {
        match end {
            End::NoAnswer(NoAnswer::NotSent(why)) => {
                self.waiting.push_front(item);
                self.wait();
                self.teller.held(&why, self.waiting.len(), self.out);
                return Ok(());
            }
            End::Trouble(error) => {
                self.trouble += 1;
                if self.trouble > MOST_TROUBLE {
                    return Err(error);
                }
                let why = in_words(&error);
                self.waiting.push_front(item);
                self.wait();
                self.teller.trouble(&why, self.out);
                return Ok(());
            }
            End::Unwanted => {}
            End::MissingBody(why) => self.teller.left_out(&item, why, self.out)?,
            End::NoAnswer(NoAnswer::Unclear(why)) => {
                self.teller.unanswered(&item, &why, self.out)?;
                self.sent.add(item);
            }
            End::Answered {
                answer,
                signed_again,
            } => {
                self.teller
                    .answered(&item, &answer, signed_again, self.out)?;
                self.sent.add(item);
            }
        }
        self.waited = Duration::ZERO;
        self.trouble = 0;
        Ok(())
    }

    fn wait(&mut self) {
        self.waited = (self.waited * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
        self.retry_at = Some(Instant::now() + self.waited);
    }

    fn heard(&mut self, news: News) -> anyhow::Result<()> {
        match news {
            News::Backfill(count) => {
                let wanted = &self.deliveries.wanted;
                self.teller.backfill(count, wanted, self.out);
            }
            News::Live => self.past = false,
            News::Event(event) => {
                self.waiting.push_back(Item {
                    event,
                    past: self.past,
                    again: false,
                });
                if !self.waited.is_zero() {
                    self.teller.more_held(self.waiting.len(), self.out);
                }
            }
            News::Trouble(why) => self.teller.trouble(&why, self.out),
            News::Over => self.over = true,
            News::Failed(error) => return Err(error),
        }
        Ok(())
    }

    async fn pressed(&mut self, key: Key) -> anyhow::Result<()> {
        let meant = match key {
            Key::Up => self.sent.older(),
            Key::Down => self.sent.newer(),
            Key::Char(_) => self.sent.meant(),
        };
        match (key, meant) {
            (Key::Up | Key::Down | Key::Char('r' | 'd'), None) => {
                self.out.say("  no event was sent yet");
            }
            (Key::Up | Key::Down, Some(item)) => chosen(item, self.out),
            (Key::Char('r'), Some(item)) => self.waiting.push_front(Item {
                again: true,
                ..item.clone()
            }),
            (Key::Char('d'), Some(item)) => {
                let Deliveries { ledger, config, .. } = &*self.deliveries;
                match ledger.event(&item.event.key).await {
                    Ok(Some(row)) => details(&view(&row, config), self.out)?,
                    Ok(None) => self.out.say("  the event is no longer in the inbox"),
                    Err(error) => self.teller.trouble(&in_words(&error), self.out),
                }
            }
            (Key::Char('p'), _) => {
                self.paused = !self.paused;
                let count = self.waiting.len();
                self.out.say(&if self.paused {
                    format!("  paused, {count} held; p resumes")
                } else {
                    "  resumed".to_owned()
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Prints the totals.
    pub(super) fn summary(&mut self) {
        self.teller.summary(self.cut, self.waiting.len(), self.out);
    }
}

async fn until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at).await;
    }
}
