//! Verifies and signs webhooks. The functions need neither AWS nor an async runtime.

pub mod context;
pub mod envelope;
pub mod event;
pub mod missing;
pub mod preset;
pub mod secret;
pub mod sign;
pub mod verify;
