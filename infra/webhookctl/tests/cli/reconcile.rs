//! Reconciliation and the endpoint check, on the real binaries against emulated provider APIs: real
//! differences are reported, temporary ones are not, and a repair does each thing once.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod drift;
mod endpoints;
mod hooks;
mod provider;
mod repair;
mod sides;
mod synced;
mod world;
