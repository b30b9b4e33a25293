//! What a request proves: pure functions without AWS and without a runtime.

pub mod envelope;
pub mod event;
pub mod preset;
pub mod secret;
pub mod sign;
pub mod verify;
