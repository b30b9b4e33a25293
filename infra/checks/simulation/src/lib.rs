//! Runs the production code in virtual time, with stores that fail.
//!
//! A [`scenario`] describes the faults. A [`run`] contains the catcher, the processor and
//! backup-sync unchanged, on the AWS SDK. Their HTTP requests end in the [`wire`], where in-memory
//! DynamoDB, SQS, S3 and Parameter Store answer them. An [`observer`] sees every write and checks
//! it. No call waits in real time and everything is deterministic: days pass in seconds, and the
//! same seed repeats the same run.

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
