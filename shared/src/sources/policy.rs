//! The settings of a source: limits, retention, idempotency support and silence.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::timing::{KEEP_BODY, KEEP_ROW};

/// The largest body of a rejected request that Mitt stores, in bytes after compression.
pub(crate) const LARGEST_REFUSED_BODY: usize = 64 * 1024;

/// The largest stored item of a rejected request, in bytes. The item contains the body, and at most
/// the headers that API Gateway allows.
pub const LARGEST_REFUSED: usize = LARGEST_REFUSED_BODY + 24 * 1024;

/// The limits for the rejected requests of a source that Mitt stores in a day. If one of the limits
/// is zero, Mitt stores no requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub per_day: u32,
    /// The total size of the stored items, in bytes.
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

/// The allowed retention times of bodies, in days. The bucket has a lifecycle rule for each of
/// them.
pub const BODY_DAYS: [u64; 9] = [3, 7, 14, 30, 60, 90, 180, 365, 730];

/// The retention of the rows and bodies of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The retention of rows, which begins when the event is done. After the row is deleted, a
    /// redelivery counts as a new event.
    pub rows: Duration,
    /// The retention of bodies, which begins when the event is received. It is one of the numbers
    /// of days in [`BODY_DAYS`].
    pub bodies: Duration,
}

/// Why Mitt keeps the rows of a source for the time in [`Retention`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowsReason {
    /// The source sets `retention.rows`.
    Set,
    /// No duplicate can arrive later than [`LONGEST_REPETITION`] after the event.
    ///
    /// [`LONGEST_REPETITION`]: crate::base::timing::LONGEST_REPETITION
    Short {
        /// The longest time for which Mitt accepts copies of a request.
        copies: Duration,
        /// For how long the provider lists events.
        listed: Duration,
    },
    /// A duplicate can arrive later, or something else needs the rows for longer.
    Long(&'static str),
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
    /// Like `Honoured`, but the destination also stores a failure under the key and returns it to
    /// each retry. Stripe does this, even for a 500:
    /// <https://docs.stripe.com/api/idempotent_requests>. Therefore Mitt does not retry a failure,
    /// and an operator or a check decides about it. Mitt retries a call without a response.
    HonouredWithFailures,
    /// Each call applies the effect again.
    Ignored,
}

/// The rule that decides when a source counts as silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuietAfter {
    /// A source counts as silent if the time since the last webhook is unusually long for the
    /// source.
    #[default]
    Learned,
    Set(Duration),
    /// A source never counts as silent, and no warning appears.
    Off,
}
