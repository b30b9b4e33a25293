//! The library behind Mitt's functions and its CLI, in reading order.
//!
//! An [`Envelope`](envelope::Envelope) arrives. Verified ([`verify`]) it is an
//! [`Event`](event::Event), named by its [`EventKey`](event::EventKey). The
//! [`Ledger`](ledger::Ledger) keeps one row for it, the [`Queue`](queue::Queue) carries only the
//! key: a *doorbell*. A *claim* yields a *lease* with an *epoch*; an *attempt* ends in an
//! [`Outcome`](outcome::Outcome), and what it did to the world is in its
//! [`Effects`](effects::Effects). While the ledger is not to be had, events wait in the
//! [`Spill`](spill::Spill). A request that cannot be proven is kept for a while in the
//! [`Quarantine`](quarantine::Quarantine); the public keys that it may wait for are on the
//! [`Keyring`](keyring::Keyring). What an unsigned notice names is fetched from the provider
//! ([`fetch_back`]). Where an action sends to is a *destination*; one that is down is spared
//! by its [breaker](breaker::Breakers), and one that takes only so much has a [rate](rates::Rates).
//! The events of a source that is *paused* ([`pause`]) wait for it to be *resumed*.
//! Of what a *sync* lists, the events that did not come by webhook are *gaps*, and the [`coverage`] of
//! a source says how many there were. How many events came at all is counted by the hour ([`hours`]).
//!
//! What a provider lists is held against our own state by a *reconcile*, which tells of *drift*
//! ([`reconcile`]). Whether its subscription still leads to us is the state of an [`endpoint`].
//!
//! Three sentences carry the design. An event is in the ledger before anyone is told of it. Only
//! the newest claim may write. The queue is a doorbell: losing a message loses time, never an
//! event.
//!
//! This crate imports no `lambda_*` crate: the functions do.

pub mod calendar;
pub mod chance;
pub mod clock;
pub mod env;
pub mod timing;
pub mod toml_error;

pub mod envelope;
pub mod event;
pub mod json_path;
pub mod preset;
pub mod secret;
pub mod secrets;
pub mod sign;
pub mod verify;

pub mod backoff;
pub mod breaker;
pub mod config;
pub mod coverage;
pub mod effects;
pub mod endpoint;
pub mod fetch_back;
pub mod hours;
pub mod inbox;
pub mod keyring;
pub mod ledger;
pub mod order;
pub mod outbound;
pub mod outcome;
pub mod pause;
pub mod quarantine;
pub mod queue;
pub mod rates;
pub mod reconcile;
pub mod silence;
pub mod spill;

pub mod aws;
pub mod logs;
pub mod settings;
