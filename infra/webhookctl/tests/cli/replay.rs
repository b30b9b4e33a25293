//! `webhookctl replay` on the real binaries, against a destination that counts its calls. The tests
//! check the text of a plan, that each event runs once even if the command is killed, and the audit
//! log.

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
mod trial;
mod world;
