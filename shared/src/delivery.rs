//! Applies effects at least once, under one idempotency key.

pub mod answers;
pub mod breaker;
pub mod effects;
pub mod pause;
pub mod rates;
