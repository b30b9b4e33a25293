//! Shows the progress of long work on stderr: a bar at a terminal, otherwise a line every ten
//! seconds.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use tokio::time::Instant;

use super::print::{Printer, Talk};

/// The interval between two lines.
pub(crate) const EVERY: Duration = Duration::from_secs(10);

/// The progress of work with a known size. The bar disappears when the work ends.
pub(crate) enum Progress {
    /// Prints nothing.
    Quiet,
    Lines(Lines),
    Bar(ProgressBar),
}

pub(crate) struct Lines {
    name: &'static str,
    told: Instant,
    done: usize,
    total: usize,
}

impl Progress {
    /// Starts the display. `name` is the label of the count, such as `exported` in `exported
    /// 300/1000`.
    pub(crate) fn new(out: &Printer, name: &'static str, total: usize) -> Self {
        if out.terminal.talk == Talk::Quiet {
            return Self::Quiet;
        }
        if !out.terminal.stderr.terminal {
            return Self::Lines(Lines {
                name,
                told: Instant::now(),
                done: 0,
                total,
            });
        }
        let bar = bar(name, "{rate}");
        bar.set_length(total as u64);
        Self::Bar(bar)
    }

    /// Counts one more item.
    pub(crate) fn step(&mut self) {
        match self {
            Self::Quiet => {}
            Self::Lines(lines) => {
                if let Some(news) = lines.step() {
                    line(&news);
                }
            }
            Self::Bar(bar) => bar.inc(1),
        }
    }

    /// Removes the bar.
    pub(crate) fn end(self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl Lines {
    /// Returns the next line if the interval has passed.
    fn step(&mut self) -> Option<String> {
        self.done += 1;
        if self.told.elapsed() < EVERY {
            return None;
        }
        self.told = Instant::now();
        Some(format!("  {} {}/{}", self.name, self.done, self.total))
    }
}

/// Creates a progress bar with `text` after its count. In the text, `{rate}` is the number of items
/// per second.
pub(crate) fn bar(name: &str, text: &str) -> ProgressBar {
    let line = format!("  {name:<8}  {{bar:32}} {{pos}}/{{len}}  {text}");
    let style =
        ProgressStyle::with_template(&line).unwrap_or_else(|_| ProgressStyle::default_bar());
    let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
        // A terminal that cannot be written to is not an error.
        let _ = out.write_str(&rate(state.per_sec()));
    });
    ProgressBar::new(0).with_style(style.progress_chars("━━╌"))
}

fn rate(per_second: f64) -> String {
    format!("{per_second:.1}/s")
}

/// Prints a line. The caller passes no text from outside.
pub(crate) fn line(text: &str) {
    anstream::eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::super::format::Format;
    use super::super::print::{Stream, Terminal};
    use super::*;

    fn at(terminal: Terminal) -> Progress {
        let streams = || Box::new(std::io::sink());
        let out = Printer::onto(Format::Table, terminal, streams(), streams());
        Progress::new(&out, "exported", 30)
    }

    #[test]
    fn who_is_quiet_or_no_terminal_sees_no_bar() {
        let quiet = Terminal {
            talk: Talk::Quiet,
            ..Terminal::default()
        };
        assert!(matches!(at(quiet), Progress::Quiet));
        assert!(matches!(at(Terminal::default()), Progress::Lines(_)));
        let terminal = Terminal {
            stderr: Stream {
                terminal: true,
                colour: false,
            },
            ..Terminal::default()
        };
        assert!(matches!(at(terminal), Progress::Bar(_)));
    }

    #[test]
    fn a_rate_has_one_decimal() {
        assert_eq!(rate(12.8909), "12.9/s");
        assert_eq!(rate(0.0), "0.0/s");
    }

    #[test]
    fn a_line_comes_every_ten_seconds() {
        let mut lines = Lines {
            name: "exported",
            told: Instant::now(),
            done: 0,
            total: 30,
        };
        assert_eq!(lines.step(), None);
        lines.told = Instant::now().checked_sub(EVERY).unwrap();
        assert_eq!(lines.step().as_deref(), Some("  exported 2/30"));
        assert_eq!(lines.step(), None);
    }
}
