//! A secret of a source, as verification and signing use it.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use ring::pbkdf2::{self, PBKDF2_HMAC_SHA256};

use crate::base::clock::UnixMillis;

/// How often a fingerprint is hashed.
const ROUNDS: NonZeroU32 = NonZeroU32::MIN.saturating_add(9_999);

/// One live value. It prints as its label.
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

    /// A value that the store has had since that time, if the store says so.
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

    /// When it was stored, of one that was read from the store.
    pub fn since(&self) -> Option<UnixMillis> {
        self.since
    }

    /// Names the slot and its version, such as `current.3`; of one in Secrets Manager the version
    /// and its name, such as `1f2e3d4c.current`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What it stays in: the slot, such as `current`, or the version.
    pub fn slot(&self) -> &str {
        self.label
            .rsplit_once('.')
            .map_or(&self.label, |(slot, _)| slot)
    }

    /// Tells values apart without showing them: `fp:` and eight hex digits. It is made slowly, so
    /// that a weak secret cannot be guessed from one that was pasted somewhere.
    pub fn fingerprint(&self) -> String {
        let mut digest = [0; 4];
        let value = self.value.as_bytes();
        let salt = b"mitt secret fingerprint";
        pbkdf2::derive(PBKDF2_HMAC_SHA256, ROUNDS, salt, value, &mut digest);
        format!("fp:{}", hex::encode(digest))
    }

    /// The value itself, for a hash or an `Authorization` header and nothing else.
    pub fn expose(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.label)
    }
}

/// All live values of a name, newest first.
pub type Live = Arc<[Secret]>;
