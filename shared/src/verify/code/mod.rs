//! Providers whose signature is more than data can say.

pub(super) mod certificate;
pub(super) mod ebay;
pub(super) mod keygen;
pub(super) mod paypal;
pub(super) mod plivo;
pub(crate) mod qsh;
pub(super) mod sns;
