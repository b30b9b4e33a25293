//! What command tests share: a folder, the program in it, and a stack: a `dev`, or one in the
//! test's own process.

#![allow(dead_code, reason = "each test needs a part of it")]

pub(crate) mod folder;
pub(crate) mod forward;
pub(crate) mod log;
pub(crate) mod stack;
pub(crate) mod world;
