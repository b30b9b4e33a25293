//! The commands as users run them on a running stack: their output, its format, and their calls to
//! the services.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod calls;
mod codes;
mod deployed;
mod examples;
mod ids;
mod kept;
mod lines;
mod managed;
mod policy;
mod provider;
mod read_only;
mod recorder;
mod roles;
mod shapes;
mod stats;
mod verbs;
mod world;
