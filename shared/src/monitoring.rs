//! Counts events, and compares the data of providers with stored data. Monitoring does not affect
//! the processing of events. Each module computes and stores its own figures.

pub mod coverage;
pub mod endpoint;
pub mod hours;
pub mod missing_paths;
pub mod reconcile;
pub mod silence;
pub mod source_records;
pub mod trial;
