//! Reconciliation and the endpoint check, on the real binaries against emulated provider APIs. They
//! report real differences and no temporary ones, and a repair does each action once.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod auto;
mod drift;
mod endpoints;
mod hooks;
mod own;
mod provider;
mod repair;
mod sides;
mod synced;
mod world;
