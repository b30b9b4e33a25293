//! What is shown while a plan is applied, on stderr: two bars, or a line every ten seconds.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use shared::ledger::PlanOutcome;
use tokio::time::Instant;

use super::outcome::{Became, count};
use crate::output::{Printer, Talk};

const EVERY: Duration = Duration::from_secs(10);

/// Where it goes.
pub(super) enum Watch {
    /// Nobody looks.
    Quiet,
    Lines {
        told: Instant,
        total: usize,
    },
    Bars {
        all: MultiProgress,
        queued: ProgressBar,
        outcome: ProgressBar,
    },
}

impl Watch {
    pub(super) fn new(out: &Printer) -> Self {
        if out.terminal.talk == Talk::Quiet {
            return Self::Quiet;
        }
        if !out.terminal.stderr.terminal {
            return Self::Lines {
                told: Instant::now(),
                total: 0,
            };
        }
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let bar = |name: &str, text: &str| {
            let line = format!("  {name:<8}  {{bar:32}} {{pos}}/{{len}}  {text}");
            let style = ProgressStyle::with_template(&line)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(0).with_style(style.progress_chars("━━╌"))
        };
        Self::Bars {
            queued: all.add(bar("queued", "{per_sec}")),
            outcome: all.add(bar("outcome", "{msg}")),
            all,
        }
    }

    pub(super) fn begin(&mut self, events: usize) {
        match self {
            Self::Quiet => {}
            Self::Lines { total, .. } => *total = events,
            Self::Bars {
                queued, outcome, ..
            } => {
                queued.set_length(events as u64);
                outcome.set_length(events as u64);
            }
        }
    }

    pub(super) fn show(&mut self, next: usize, seen: &PlanOutcome) {
        let known = seen.done + seen.failed + seen.changed;
        let words = format!(
            "done {} · failed {} · waiting {}",
            seen.done, seen.failed, seen.waiting
        );
        match self {
            Self::Quiet => {}
            Self::Lines { told, total } => {
                if *total > 0 && told.elapsed() >= EVERY {
                    *told = Instant::now();
                    line(&format!("  queued {next}/{total} · {words}"));
                }
            }
            Self::Bars {
                queued, outcome, ..
            } => {
                queued.set_position(next as u64);
                outcome.set_position(known as u64);
                outcome.set_message(words);
            }
        }
    }

    /// Those that were tried first.
    pub(super) fn canary(&self, tried: &[Became], took: Duration) {
        let marks = tried.iter().map(|became| match became {
            Became::Done => "●",
            Became::Failed { .. } => "▲",
            Became::Waiting | Became::NotYet => "◐",
            Became::Changed => "○",
        });
        let marks: Vec<&str> = marks.collect();
        let outcome = super::outcome::words(&count(tried.iter()));
        let text = format!(
            "  Tried {} first …  {}  {outcome} in {}s",
            tried.len(),
            marks.join(" "),
            took.as_secs()
        );
        match self {
            Self::Quiet => {}
            Self::Lines { .. } => line(&text),
            Self::Bars { all, .. } => {
                // What cannot be shown is missed by nobody.
                let _ = all.println(text);
            }
        }
    }

    /// Leaves the last state of the bars on the screen.
    pub(super) fn end(&self) {
        if let Self::Bars {
            queued, outcome, ..
        } = self
        {
            queued.abandon();
            outcome.abandon();
        }
    }
}

/// Numbers and our own words only: nothing from outside comes here.
fn line(text: &str) {
    anstream::eprintln!("{text}");
}
