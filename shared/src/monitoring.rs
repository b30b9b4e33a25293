//! Counts and compares, without effect on the processing of events. Each module has its figures and
//! their storage.

pub mod coverage;
pub mod endpoint;
pub mod hours;
pub mod reconcile;
pub mod silence;
