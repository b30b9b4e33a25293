//! The ledger on DynamoDB's wire protocol: every transition accepted and refused, raced, cut off
//! in the middle, and on rows that other code wrote.
//!
//! It runs on the embedded emulator, or on whatever `AWS_ENDPOINT_URL` names. Either is proved
//! first. Each test has a table of its own, made from `template.yaml`, and chooses its own time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod also;
mod apart;
mod batches;
mod bodies;
mod breaker;
mod capacity;
mod claim;
mod coverage;
mod cursor;
mod cut;
mod effects;
mod erase;
mod fresh;
mod heartbeat;
mod hours;
mod lifetimes;
mod matrix;
mod notice;
mod order;
mod own_writes;
mod plan;
mod proxy;
mod quarantine;
mod receive;
mod reconcile;
mod replay;
mod retention;
mod rows;
mod settle;
mod silence;
mod support;
mod sweep;
mod units;
