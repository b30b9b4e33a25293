//! The reconcile and the endpoint watch, on the real binaries against stand-ins of the providers' APIs: what differs is
//! reported, what only seemed to is not, and a repair does each thing once.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod drift;
mod endpoints;
mod hooks;
mod provider;
mod repair;
mod sides;
mod synced;
mod world;
