//! The library behind Mitt's functions and its CLI.
//!
//! # Layout
//! A module imports only modules of lower layers, and its own submodules; `tests/layers.rs` checks
//! this.
//!
//! | layer | what it does |
//! |---|---|
//! | [`base`] | general helpers: time, randomness, environment, JSON paths, retry waits |
//! | [`webhook`] | verifies requests: envelope, preset, verification, event, signing |
//! | [`sources`], [`aws`] | the configuration (`sources.toml`); calls to AWS and to other hosts |
//! | [`inbox`] | stores each event exactly once and leases it to one worker: ledger, queue, spill |
//! | [`delivery`], [`monitoring`] | effects at least once under one key; counts and comparisons |
//! | [`services`] | creates the clients and modules that a function uses |
//!
//! # Invariants
//! - An event is in the ledger before a message is sent for it.
//! - Only the newest claim of an event writes its outcome.
//! - A lost queue message delays an event and never loses it.
//!
//! This crate does not depend on `lambda_*` crates; only the functions do.

pub mod base;

pub mod webhook;

pub mod aws;
pub mod sources;

pub mod inbox;

pub mod delivery;
pub mod monitoring;

pub mod services;
