//! Verifies requests of providers whose signature a preset cannot describe.

pub(super) mod adobe;
pub(super) mod certificate;
pub(super) mod ebay;
pub(crate) mod keygen;
pub(super) mod paypal;
pub(crate) mod plivo;
pub(crate) mod qsh;
pub(super) mod sns;
