//! `--chaos`: injects a fault into the local stack. A key turns the fault off and on.

use std::collections::BTreeMap;
use std::time::Duration;

use local::Stack;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::throttle::Throttle;
use crate::cli::Chaos;
use crate::demo::downstream::Downstream;
use crate::demo::{Crash, Outage, Trouble};

/// The duration of the outage. It covers several retry delays of the demo's sources, so that the
/// growing delays are visible.
const OUTAGE: Duration = Duration::from_secs(60);

/// The delay of the answer. It is longer than the lease of 35 s and the call timeout of 20 s.
const SLOW: Duration = Duration::from_secs(40);

/// How far the provider's clock is behind. Stripe and Slack accept half of it.
const SKEW: Duration = Duration::from_secs(600);

/// The injected fault, and whether it is on.
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

    /// Returns environment variables for the functions. Only the fault `throttle` needs one.
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

    /// Turns the fault on or off.
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

    /// Returns how far the provider's clock is behind the local clock.
    pub(super) fn skew(&self) -> Duration {
        match self.what {
            Chaos::ClockSkew if self.is_on => SKEW,
            _ => Duration::ZERO,
        }
    }

    /// Waits until the fault requires that the processor is killed.
    pub(super) async fn crash(&mut self) -> Crash {
        match self.crashes.recv().await {
            Some(crash) => crash,
            None => std::future::pending().await,
        }
    }
}

/// Returns the value of `--chaos` for this fault.
pub(super) fn name(what: Chaos) -> &'static str {
    match what {
        Chaos::Outage => "outage",
        Chaos::Slow => "slow",
        Chaos::CrashAfterCommit => "crash-after-commit",
        Chaos::Throttle => "throttle",
        Chaos::ClockSkew => "clock-skew",
    }
}

/// Describes the fault.
pub(super) fn breaks(what: Chaos) -> &'static str {
    match what {
        Chaos::Outage => {
            "The destination answers 502 for one minute, starting with its first request."
        }
        Chaos::Slow => {
            "The destination processes each event immediately, but answers only after 40 s. The \
             lease ends after 35 s."
        }
        Chaos::CrashAfterCommit => {
            "The processor is killed after the destination has processed an event, before the \
             processor stores the outcome."
        }
        Chaos::Throttle => "The table rejects one in three writes of the functions.",
        Chaos::ClockSkew => {
            "The provider's clock is 10 minutes behind, as if the local clock were ahead. This \
             applies to webhooks sent from this terminal."
        }
    }
}

/// Describes what to observe.
pub(super) fn watch(what: Chaos) -> &'static str {
    match what {
        Chaos::Outage => {
            "Attempts fail and are retried with growing delays. After five failures in a row, the \
             circuit breaker stops calls to the destination for a while; events keep their \
             remaining attempts. After the outage, every event is done, and the destination has \
             applied each event once."
        }
        Chaos::Slow => {
            "The call times out after 20 s, before the lease ends, so its effect is unknown. The \
             next attempt sends the same idempotency key, and the destination does not repeat the \
             effect."
        }
        Chaos::CrashAfterCommit => {
            "The event stays in `processing` without a worker until its lease ends. Within three \
             minutes another worker claims it and sends the same idempotency key, and the \
             destination does not repeat the effect."
        }
        Chaos::Throttle => {
            "Senders still receive 200. Either a second write succeeds, or the event goes to the \
             spill queue. Once a minute, the drain moves the spilled events into the ledger. No \
             event is lost."
        }
        Chaos::ClockSkew => {
            "The webhook is rejected with 401 and kept in the quarantine. `webhookctl verify` \
             shows that its timestamp is too old, and by how much."
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
