//! Counts and compares; it decides nothing about an event. Each module has the figures and where they are
//! stored.

pub mod coverage;
pub mod endpoint;
pub mod hours;
pub mod reconcile;
pub mod silence;
