//! What this program prints, and how.
//!
//! stdout carries data, stderr carries talk. Every string that came from outside goes
//! through [`safe::safe`] before it can reach a terminal.

pub mod safe;
pub mod time;

pub mod style;
pub mod table;

pub mod format;
pub mod print;
pub(crate) mod progress;
pub mod query;

pub mod aws;
pub mod error;
mod policies;

pub use error::{CliError, Exit};
pub use format::{Column, Format, List};
pub use print::{Printer, StdoutClosed, Stream, Talk, Terminal};
pub(crate) use progress::Progress;
pub use query::Query;
pub use safe::safe;
