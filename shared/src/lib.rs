//! The library behind Mitt's functions and its CLI.
//!
//! # Layout
//! A module imports its own floor and the floors below it; `tests/layers.rs` checks it.
//!
//! | floor | what it does |
//! |---|---|
//! | [`base`] | knows no domain: time, randomness, environment, JSON paths, retry waits |
//! | [`webhook`] | says what a request proves: envelope, preset, verification, event, signing |
//! | [`sources`], [`aws`] | what the operator wants (`sources.toml`); calls to AWS and to other hosts |
//! | [`inbox`] | keeps each event exactly once and says who may work on it: ledger, queue, spill |
//! | [`delivery`], [`monitoring`] | effects at least once under one key; counts and comparisons |
//! | [`services`] | wires all of it for a function |
//!
//! # Invariants
//! - An event is in the ledger before a message is sent for it.
//! - Only the newest claim of an event writes its outcome.
//! - A lost queue message delays an event and never loses it.
//!
//! This crate imports no `lambda_*` crate: the functions do.

pub mod base;

pub mod webhook;

pub mod aws;
pub mod sources;

pub mod inbox;

pub mod delivery;
pub mod monitoring;

pub mod services;
