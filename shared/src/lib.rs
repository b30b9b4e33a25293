//! The library that Mitt's functions and its CLI share.
//!
//! # Layout
//! A module imports only its own submodules and modules of lower layers. `tests/layers.rs` checks
//! this rule.
//!
//! | layer | what it does |
//! |---|---|
//! | [`base`] | provides general helpers: time, random values, environment variables, JSON paths, retry waits |
//! | [`webhook`] | verifies and signs requests: envelope, preset, verification, event, signing |
//! | [`sources`], [`aws`] | read the configuration (`sources.toml`), and call AWS and other hosts |
//! | [`inbox`] | stores each event exactly once and leases it to one worker: ledger, queue, spill |
//! | [`delivery`], [`monitoring`] | apply effects at least once under one key, and count and compare events |
//! | [`services`] | creates the clients and modules that a function uses |
//!
//! # Invariants
//! - Mitt stores an event in the ledger before it sends a message for the event.
//! - Only the worker with the newest claim of an event can write the outcome.
//! - A lost queue message delays its event, but does not lose the event.
//!
//! Only the functions depend on `lambda_*` crates. This crate does not.

pub mod base;

pub mod webhook;

pub mod aws;
pub mod sources;

pub mod inbox;

pub mod delivery;
pub mod monitoring;

pub mod services;
