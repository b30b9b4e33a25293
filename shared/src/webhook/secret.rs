//! A secret of a source, as verification and signing use it.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use ring::pbkdf2::{self, PBKDF2_HMAC_SHA256};

use crate::base::clock::UnixMillis;

/// PBKDF2 iterations of a fingerprint.
const ROUNDS: NonZeroU32 = NonZeroU32::MIN.saturating_add(9_999);

/// One live value of a secret. `Debug` prints only the label.
#[derive(Clone)]
pub struct Secret {
    label: String,
    value: String,
    since: Option<UnixMillis>,
}

impl Secret {
    pub fn new(label: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            value: value.into(),
            since: None,
        }
    }

    /// Creates a value that was read from the secret store. `since` is the time when the value was
    /// stored, if it is known.
    pub(crate) fn stored(
        label: impl Into<String>,
        value: impl Into<String>,
        since: Option<UnixMillis>,
    ) -> Self {
        Self {
            since,
            ..Self::new(label, value)
        }
    }

    /// When the value was stored. `None` if the time is unknown, or if the value is not from a
    /// store.
    pub fn since(&self) -> Option<UnixMillis> {
        self.since
    }

    /// The slot and its version, such as `current.3`. For Secrets Manager, the label contains the
    /// version and its stage, such as `1f2e3d4c.current`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The part of the label before the last dot: the slot, such as `current`, or the version.
    pub fn slot(&self) -> &str {
        self.label
            .rsplit_once('.')
            .map_or(&self.label, |(slot, _)| slot)
    }

    /// Returns a text that identifies the value without revealing it: `fp:` and eight hex digits.
    /// The hash is slow, so a published fingerprint does not help an attacker to guess a weak
    /// secret.
    pub fn fingerprint(&self) -> String {
        let mut digest = [0; 4];
        let value = self.value.as_bytes();
        let salt = b"mitt secret fingerprint";
        pbkdf2::derive(PBKDF2_HMAC_SHA256, ROUNDS, salt, value, &mut digest);
        format!("fp:{}", hex::encode(digest))
    }

    /// The value itself. Use it only to compute a hash, to authenticate a request, or to store the
    /// secret. Do not log it.
    pub fn expose(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.label)
    }
}

/// All live values of a secret, newest first.
pub type Live = Arc<[Secret]>;
