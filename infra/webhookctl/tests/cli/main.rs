//! The CLI as a user or a script runs it.

mod accounts;
mod completions;
mod contexts;
mod dead_letters;
mod dev;
mod dev_chaos;
mod doctor;
mod first_source;
mod functions;
mod inbox;
mod journey;
mod listen;
mod output;
mod recipes;
mod reconcile;
mod replay;
mod run_time;
mod secrets;
mod source_versions;
mod sources;
mod sources_changes;
mod support;
mod sync_commands;
mod terminal;
mod trial;
mod verify;
