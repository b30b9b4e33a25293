//! The output of this program.
//!
//! stdout carries data; stderr carries messages. Every string from outside passes through
//! [`safe::safe`] before it can reach a terminal.

pub mod count;
pub mod safe;
pub mod time;

pub mod style;
pub mod table;

pub mod column;
pub mod format;
pub mod print;
pub(crate) mod progress;
pub mod query;

pub mod aws;
pub mod error;
mod policies;

pub use column::Column;
pub use error::{CliError, Exit};
pub use format::{Format, List};
pub use print::{Printer, StdoutClosed, Stream, Talk, Terminal};
pub(crate) use progress::Progress;
pub use query::Query;
pub use safe::safe;
