//! The production code in virtual time, among stores that fail.
//!
//! A [`scenario`] says what goes wrong. A [`run`] holds the catcher, the processor and backup-sync
//! themselves, unchanged, over the AWS SDK; its HTTP requests end in the [`wire`], where DynamoDB,
//! SQS, S3 and Parameter Store are answered from memory. A [`witness`] sees every write and
//! judges. Nothing waits and nothing is left to chance: days pass in seconds, and the same seed
//! makes the same run.

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
