//! Runs the production code in virtual time, with stores that fail.
//!
//! A [`scenario`] describes the faults. A [`run`] contains the unchanged catcher, processor and
//! backup-sync, which use the AWS SDK. Their HTTP requests end in the [`wire`] module, where an
//! in-memory DynamoDB, SQS, S3 and Parameter Store answer them. An [`observer`] checks every write.
//! No call waits in real time, so days pass in seconds. Everything is deterministic, so the same
//! seed repeats the same run.

pub mod agents;
pub mod cases;
pub mod clock;
pub mod crash_injection;
pub mod destination;
pub mod mapping;
pub mod observer;
pub mod report;
pub mod rng;
pub mod run;
pub mod sandbox;
pub mod scenario;
pub mod sender;
pub mod stranger;
pub mod webhook;
pub mod wire;
pub mod world;
