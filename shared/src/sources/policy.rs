//! The settings of a source: limits, retention, idempotency support and silence.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::timing::{KEEP_BODY, KEEP_ROW};

/// The largest body of a rejected request that is stored, in bytes after compression.
pub(crate) const LARGEST_REFUSED_BODY: usize = 64 * 1024;

/// The largest stored item of a rejected request, in bytes: the body, and the headers that API
/// Gateway allows.
pub const LARGEST_REFUSED: usize = LARGEST_REFUSED_BODY + 24 * 1024;

/// The limits for rejected requests of a source that are stored in a day. If either is zero, none
/// is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub per_day: u32,
    /// The size of the stored items, in bytes.
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

/// The allowed retention times of bodies, in days. The bucket has a lifecycle rule for each.
pub const BODY_DAYS: [u64; 9] = [3, 7, 14, 30, 60, 90, 180, 365, 730];

/// How long rows and bodies of a source are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Retention of rows, from the time the event was done. A later redelivery is a new event.
    pub rows: Duration,
    /// Retention of bodies, from receipt: one of the numbers of days in [`BODY_DAYS`].
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

/// The retention of each source, by its name.
pub type Retentions = Arc<BTreeMap<String, Retention>>;

/// Whether a destination honours idempotency keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdempotencySupport {
    /// Two calls with the same key have one effect, so a retry is safe.
    Honoured,
    /// As `Honoured`, but the destination also stores a failure under the key and returns it to
    /// each retry. Stripe does so, even for a 500:
    /// <https://docs.stripe.com/api/idempotent_requests>. So a failure is left to an operator or a
    /// check. A call without a response is retried.
    HonouredWithFailures,
    /// Each call has its effect again.
    Ignored,
}

/// When a source counts as silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuietAfter {
    /// After a silence that is unusually long for this source.
    #[default]
    Learned,
    Set(Duration),
    /// Never: no warning.
    Off,
}
