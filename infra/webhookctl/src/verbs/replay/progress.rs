//! Shows the progress of `replay apply` on stderr: two bars, or a line every ten seconds.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use shared::inbox::ledger::PlanOutcome;
use tokio::time::Instant;

use super::outcome::{Became, count};
use crate::output::progress::{EVERY, bar, line};
use crate::output::{Printer, Talk};
use crate::target::Run;

/// The form of the progress display.
pub(super) enum Watch {
    /// The display prints nothing.
    Quiet,
    /// Another part of this process shows the progress. The number is that of all events.
    Told(Arc<Run>, usize),
    Lines {
        told: Instant,
        total: usize,
    },
    Bars {
        all: MultiProgress,
        /// The bar of the canary. It is missing when no canary runs.
        trying: Option<ProgressBar>,
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
        Self::Bars {
            queued: all.add(bar("queued", "{rate}")),
            outcome: all.add(bar("outcome", "{msg}")),
            trying: None,
            all,
        }
    }

    pub(super) fn begin(&mut self, events: usize) {
        match self {
            Self::Quiet => {}
            Self::Told(run, of) => {
                *of = events;
                run.tell(0, events);
            }
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
            Self::Told(run, of) => run.tell(next, *of),
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

    /// Shows the canary: a symbol for each canary event whose outcome is known.
    pub(super) fn trying(&mut self, tried: &[Became]) {
        if let Self::Bars { all, trying, .. } = self {
            let trying = trying.get_or_insert_with(|| {
                let style = ProgressStyle::with_template("{msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner());
                all.insert(0, ProgressBar::new(0).with_style(style))
            });
            trying.set_message(so_far(tried));
        }
    }

    /// Shows the outcomes of the canary events.
    pub(super) fn canary(&mut self, tried: &[Became], took: Duration) {
        let outcome = super::outcome::words(&count(tried.iter()));
        let text = format!(
            "  Tried {} first …  {}  {outcome} in {}s",
            tried.len(),
            marks(tried.iter()),
            took.as_secs()
        );
        match self {
            Self::Quiet | Self::Told(..) => {}
            Self::Lines { .. } => line(&text),
            Self::Bars { all, trying, .. } => {
                if let Some(trying) = trying.take() {
                    trying.finish_and_clear();
                    all.remove(&trying);
                }
                // If a write to the terminal fails, the replay continues.
                let _ = all.println(text);
            }
        }
    }

    /// Ends the display, and leaves the final state of the bars on the screen.
    pub(super) fn end(&self) {
        if let Self::Bars {
            trying,
            queued,
            outcome,
            ..
        } = self
        {
            if let Some(trying) = trying {
                trying.finish_and_clear();
            }
            queued.abandon();
            outcome.abandon();
        }
    }
}

fn so_far(tried: &[Became]) -> String {
    let known = tried
        .iter()
        .filter(|became| !matches!(became, Became::Waiting | Became::Parked | Became::NotYet));
    format!("  Trying {} first …  {}", tried.len(), marks(known))
}

fn marks<'b>(tried: impl Iterator<Item = &'b Became>) -> String {
    let marks = tried.map(|became| match became {
        Became::Done => "●",
        Became::Failed { .. } => "▲",
        Became::Waiting | Became::Parked | Became::NotYet => "◐",
        Became::Changed => "○",
    });
    marks.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_appears_when_its_outcome_is_known() {
        let mut tried = [Became::Waiting, Became::NotYet, Became::Waiting];
        assert_eq!(so_far(&tried), "  Trying 3 first …  ");
        tried[2] = Became::Done;
        assert_eq!(so_far(&tried), "  Trying 3 first …  ●");
        tried[0] = Became::Failed {
            fingerprint: "c41f09".to_owned(),
            text: "502".to_owned(),
        };
        assert_eq!(so_far(&tried), "  Trying 3 first …  ▲ ●");
        assert_eq!(marks(tried.iter()), "▲ ◐ ●");
    }
}
