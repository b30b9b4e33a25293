//! `webhookctl replay` on the real binaries, against a downstream that counts: what a plan says, that
//! each event runs once whatever happens to who applies it, and what is written down.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod apply;
mod downstream;
mod killed;
mod line;
mod lineage;
mod plan;
mod record;
mod stops;
mod terminal;
mod world;
