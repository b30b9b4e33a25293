//! What the operator sets for a source: limits, retention, idempotency support, silence.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::timing::{KEEP_BODY, KEEP_ROW};

/// The largest body of a rejected request that is stored, in bytes after packing.
pub(crate) const LARGEST_REFUSED_BODY: usize = 64 * 1024;

/// The largest stored item of a rejected request: the body, and the headers that API Gateway allows.
pub const LARGEST_REFUSED: usize = LARGEST_REFUSED_BODY + 24 * 1024;

/// How much of a source's rejected requests is stored in a day. Zero in either stores nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub per_day: u32,
    /// Bytes, as they are stored.
    pub bytes_per_day: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_day: 200,
            bytes_per_day: 2_000_000,
        }
    }
}

impl Limits {
    pub fn is_off(self) -> bool {
        self.per_day == 0 || self.bytes_per_day == 0
    }
}

/// The days for which bodies may be kept: the bucket has a lifecycle rule for each of them.
pub const BODY_DAYS: [u64; 9] = [3, 7, 14, 30, 60, 90, 180, 365, 730];

/// For how long things of one source are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The row of an event, counted from when it was done. A redelivery after that is a new event.
    pub rows: Duration,
    /// The body, counted from its receipt: a number of days of [`BODY_DAYS`].
    pub bodies: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            rows: KEEP_ROW,
            bodies: KEEP_BODY,
        }
    }
}

/// What the sources say, by their names.
pub type Retentions = Arc<BTreeMap<String, Retention>>;

/// Whether the downstream honours idempotency keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdempotencySupport {
    /// Two calls under one key do it once: repeating is safe.
    Honoured,
    /// The same, but a failure is stored under the key as well, and each repetition only hears it
    /// again. So does Stripe, also with a 500: <https://docs.stripe.com/api/idempotent_requests>.
    /// A failure is left to a human then, or to a check; what had no answer is repeated.
    HonouredWithFailures,
    /// Each call does it again.
    Ignored,
}

/// When a source counts as silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuietAfter {
    /// When it has been silent for much longer than it usually is.
    #[default]
    Learned,
    Set(Duration),
    /// Nobody wants to know.
    Off,
}
