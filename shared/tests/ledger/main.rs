//! Tests the ledger over the wire protocol of DynamoDB. The tests cover each accepted and refused
//! transition, races, interruptions, and rows that other code wrote.
//!
//! The tests run on the embedded emulator, or on the endpoint in `AWS_ENDPOINT_URL`. The tests
//! first check the endpoint. Each test creates its own table from `template.yaml`, and sets its own
//! time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod also;
mod answers;
mod apart;
mod batches;
mod bodies;
mod breaker;
mod capacity;
mod claim;
mod context;
mod coverage;
mod current_sources;
mod cursor;
mod cut;
mod effect_rate;
mod effects;
mod erase;
mod fresh;
mod heartbeat;
mod hold;
mod hours;
mod keep;
mod lifetimes;
mod matrix;
mod notice;
mod order;
mod own_writes;
mod plan;
mod proxy;
mod pull;
mod quarantine;
mod receive;
mod reconcile;
mod repetition;
mod replay;
mod retention;
mod rows;
mod settle;
mod silence;
mod source_versions;
mod support;
mod sweep;
mod trial;
mod units;
