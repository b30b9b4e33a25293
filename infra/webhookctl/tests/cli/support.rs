//! What tests of commands begin with: a folder, the program in it, and a stack beside it: a `dev`, or
//! one of the test's own process.

#![allow(dead_code, reason = "each test needs a part of it")]

pub(crate) mod folder;
pub(crate) mod log;
pub(crate) mod stack;
pub(crate) mod world;
