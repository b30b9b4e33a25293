//! The commands that only read, for callers that have no terminal: the browser console and agents.
//!
//! A caller names a read and passes its flags as pairs. [`Question`] checks them against the table
//! and builds the command line, and [`Reader`] runs this command line in this process, with the code
//! of the command.

mod question;
mod reader;
mod table;

pub(crate) use question::{Pairs, Question, pairs};
pub(crate) use question::{arguments, named};
pub(crate) use reader::{Answer, Reader};

#[cfg(test)]
mod tests;
