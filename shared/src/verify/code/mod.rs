//! Providers whose signature is more than data can say.

pub(super) mod certificate;
pub(super) mod paypal;
pub(super) mod sns;
