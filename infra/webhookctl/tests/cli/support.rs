//! Helpers that the command tests share: a folder, the program in this folder, and a stack. The
//! stack is a `dev`, or runs in the test's own process.

#![allow(dead_code, reason = "each test needs a part of it")]

pub(crate) mod agent;
pub(crate) mod folder;
pub(crate) mod forward;
pub(crate) mod log;
pub(crate) mod page;
pub(crate) mod receiver;
pub(crate) mod stack;
pub(crate) mod world;
