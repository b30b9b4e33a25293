//! The output of this program.
//!
//! stdout carries data; stderr carries messages. Every string from outside passes through
//! [`safe::safe`] before it can reach a terminal.

pub(crate) mod count;
pub(crate) mod safe;
pub(crate) mod time;

pub(crate) mod style;
pub(crate) mod table;

pub(crate) mod column;
pub(crate) mod format;
pub(crate) mod print;
pub(crate) mod progress;
pub(crate) mod query;

pub mod aws;
pub mod error;
mod policies;

pub use column::Column;
pub use error::{CliError, Exit, nearest};
pub(crate) use format::Spent;
pub use format::{Format, List, Range};
pub use print::{Printer, StdoutClosed, Stream, Talk, Terminal};
pub(crate) use progress::Progress;
pub use query::Query;
pub use safe::safe;
