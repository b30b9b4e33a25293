//! The ledger on DynamoDB's wire protocol: every transition accepted and refused, in races,
//! interrupted, and on rows that other code wrote.
//!
//! The tests run on the embedded emulator, or on the endpoint in `AWS_ENDPOINT_URL`. Either is
//! checked first. Each test has its own table, made from `template.yaml`, and chooses its own time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod also;
mod answers;
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
