//! `--chaos`: something of the local stack breaks on purpose, and can be mended.

use std::collections::BTreeMap;
use std::time::Duration;

use local::Stack;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::throttle::Throttle;
use crate::cli::Chaos;
use crate::demo::downstream::Downstream;
use crate::demo::{Crash, Outage, Trouble};

/// Several waits of the demo's sources, so that their growth is seen.
const OUTAGE: Duration = Duration::from_secs(60);

/// Longer than a lease of 35 s, let alone the 20 s of a call.
const SLOW: Duration = Duration::from_secs(40);

/// Twice what Stripe and Slack let pass.
const SKEW: Duration = Duration::from_secs(600);

/// What is broken, as long as it is.
pub(super) struct Broken {
    what: Chaos,
    is_on: bool,
    downstream: Downstream,
    throttle: Option<Throttle>,
    crash: UnboundedSender<Crash>,
    crashes: UnboundedReceiver<Crash>,
}

impl Broken {
    pub(super) fn new(what: Chaos, downstream: &Downstream) -> anyhow::Result<Self> {
        let (crash, crashes) = unbounded_channel();
        let throttle = match what {
            Chaos::Throttle => Some(Throttle::start()?),
            _ => None,
        };
        let mut broken = Self {
            what,
            is_on: false,
            downstream: downstream.clone(),
            throttle,
            crash,
            crashes,
        };
        broken.turn();
        Ok(broken)
    }

    /// Where functions find what is broken in their way.
    pub(super) fn function_env(&self) -> BTreeMap<String, String> {
        let throttle = self.throttle.iter();
        throttle
            .map(|table| ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), table.url.clone()))
            .collect()
    }

    pub(super) fn stand_before(&self, stack: &Stack) {
        if let Some(throttle) = &self.throttle {
            throttle.stand_before(&stack.endpoints().dynamodb);
        }
    }

    /// Mends it, or breaks it again.
    pub(super) fn turn(&mut self) {
        self.is_on = !self.is_on;
        let trouble = match self.what {
            Chaos::Outage => Some(Trouble::Outage(Outage::of(OUTAGE))),
            Chaos::Slow => Some(Trouble::Slow(SLOW)),
            Chaos::CrashAfterCommit => Some(Trouble::Crash(self.crash.clone())),
            Chaos::Throttle | Chaos::ClockSkew => None,
        };
        self.downstream.suffer(trouble.filter(|_| self.is_on));
        if let Some(throttle) = &self.throttle {
            throttle.turn(self.is_on);
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// How far the clock of the provider is behind ours.
    pub(super) fn skew(&self) -> Duration {
        match self.what {
            Chaos::ClockSkew if self.is_on => SKEW,
            _ => Duration::ZERO,
        }
    }

    /// Waits until a processor is to die.
    pub(super) async fn crash(&mut self) -> Crash {
        match self.crashes.recv().await {
            Some(crash) => crash,
            None => std::future::pending().await,
        }
    }
}

/// Its name on the command line.
pub(super) fn name(what: Chaos) -> &'static str {
    match what {
        Chaos::Outage => "outage",
        Chaos::Slow => "slow",
        Chaos::CrashAfterCommit => "crash-after-commit",
        Chaos::Throttle => "throttle",
        Chaos::ClockSkew => "clock-skew",
    }
}

/// What breaks.
pub(super) fn breaks(what: Chaos) -> &'static str {
    match what {
        Chaos::Outage => {
            "The destination answers 502 for a minute, from the first request that it gets."
        }
        Chaos::Slow => {
            "The destination does the work of each event at once, and says so only after 40 s: later \
             than the lease of 35 s is over."
        }
        Chaos::CrashAfterCommit => {
            "The processor is killed when the destination has done the work of an event, and before it \
             can write that down."
        }
        Chaos::Throttle => "The table refuses one in three writes of the functions.",
        Chaos::ClockSkew => {
            "The provider's clock is 10 minutes behind ours, which is as if ours were ahead. This holds \
             for what is sent from here."
        }
    }
}

/// What can be seen of it.
pub(super) fn watch(what: Chaos) -> &'static str {
    match what {
        Chaos::Outage => {
            "Attempts fail and are made again, each later than the one before. After five in a row the \
             destination is left alone for a while, and events keep their attempts. When it is back, \
             all of them are done, once each."
        }
        Chaos::Slow => {
            "The call is broken off after 20 s, well inside the lease. Nobody knows then whether it took \
             effect. The next attempt carries the same idempotency key, and the work is not done again."
        }
        Chaos::CrashAfterCommit => {
            "The event is `processing` with nobody at work, until its lease is over. Within three minutes \
             another worker takes it and calls again under the same idempotency key, and the work is \
             not done again."
        }
        Chaos::Throttle => {
            "Senders are answered 200 all the same: a second try succeeds, or the event is kept in the \
             spill queue and put into the ledger by the drain, once a minute. None is lost."
        }
        Chaos::ClockSkew => {
            "The webhook is refused with 401 and kept in the quarantine. `webhookctl verify` says that \
             its time is too old, and by how much."
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;
    use clap::builder::PossibleValue;

    use super::*;

    #[test]
    fn each_has_its_name_and_its_words() {
        for what in Chaos::value_variants() {
            let known = what.to_possible_value();
            let known = known.as_ref().map(PossibleValue::get_name);
            assert_eq!(known, Some(name(*what)));
            for words in [breaks(*what), watch(*what)] {
                assert!(words.ends_with('.') && !words.contains("  "), "{words}");
            }
        }
    }
}
