//! The durations that must agree with each other and with `template.yaml`:
//! `EFFECT_TIMEOUT + 10 s ≤ LEASE ≤ function timeout 60 s < visibility timeout 360 s`.
//! `SWEEP < SWEEP_KEYS < SWEEP_HOLD < LAST_WORDS` and `ASKING < WATCHING < LAST_WORDS`, all below
//! `BACKUP_SYNC`, the timeout of its function.
//! A test over the template holds them together.

use std::time::Duration;

/// How long one action may run before it is dropped and its effects count as unknown.
pub const EFFECT_TIMEOUT: Duration = Duration::from_secs(25);

/// How long a claim keeps others away.
pub const LEASE: Duration = Duration::from_secs(35);

/// Clocks of two machines may differ by this much: a lease counts as over only this long after
/// its end, and nothing is begun this close to it.
pub const CLOCK_MARGIN: Duration = Duration::from_secs(5);

/// When the sweep first looks at an event whose message may have been lost.
pub const FIRST_LOOK: Duration = Duration::from_secs(120);

/// How long after the end of an hour it looks whether the `time` index showed something of that hour
/// late.
pub const LAST_LOOK: Duration = Duration::from_secs(3600);

/// How far back the sweep begins in an inbox where it never looked by time. What older code
/// received is in the `work` index.
pub const MARKS_FROM: Duration = LAST_LOOK;

/// The longest `DelaySeconds` that SQS takes.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
pub const LONGEST_DELAY: Duration = Duration::from_secs(900);

/// The processor rings for its own retries at most this often in one run. Lambda stops a chain
/// of function → queue → function after about 16 hops, so longer chains belong to the sweep.
pub const MAX_SELF_SENDS_PER_RUN: u32 = 3;

/// An event that was received longer ago than this goes behind those of now: its message is rung
/// in the queue of the backlog.
pub const OLD: Duration = Duration::from_secs(600);

/// A message that was sent longer ago than this has waited behind others, since none is delayed
/// by more than [`LONGEST_DELAY`].
pub const LATE: Duration = Duration::from_secs(LONGEST_DELAY.as_secs() + 300);

/// The catcher waits for the ledger until this long after the request came. Two tries of 0.7 s
/// fit; what is not known to be in the ledger by then goes to the spill queue.
pub const LEDGER_BUDGET: Duration = Duration::from_millis(1_500);

/// How long the catcher waits for the spill queue where it does not ask the ledger first.
pub const SPILL_BUDGET: Duration = Duration::from_millis(700);

/// The catcher verifies and keeps an event within this time, whatever the stores do. With
/// [`SEND_BUDGET`] it answers within 2.5 s; Slack waits for 3 s.
pub const KEEP_BUDGET: Duration = Duration::from_millis(2_200);

/// How long the catcher rings for an event that is durable.
pub const SEND_BUDGET: Duration = Duration::from_millis(300);

/// How often the sweep and the drain come, at the least: a stack may have them come more often.
pub const ROUND_EVERY: Duration = Duration::from_secs(300);

/// The timeout of backup-sync's function: the time of one run, whatever its task. The parts of a run
/// below are counted from its beginning; where Lambda gives a run less time, each is shorter in
/// proportion.
pub const BACKUP_SYNC: Duration = Duration::from_secs(300);

/// Until when a sweep begins to look at rows that are due.
pub const SWEEP: Duration = Duration::from_secs(200);

/// Until when a sweep fetches certificates and key sets. What is left of [`SWEEP`] is theirs too.
pub const SWEEP_KEYS: Duration = Duration::from_secs(245);

/// Until when a sweep holds the bodies of dead letters.
pub const SWEEP_HOLD: Duration = Duration::from_secs(265);

/// Until when a run asks providers: the sync, the endpoints and the comparisons.
pub const ASKING: Duration = Duration::from_secs(240);

/// Until when a sync looks which sources have fallen silent.
pub const WATCHING: Duration = Duration::from_secs(270);

/// When a run of any task is cut off, so that there is time to note its end.
pub const LAST_WORDS: Duration = Duration::from_secs(285);

/// How long one part of a run may go on after its time, to finish what it has begun: as long as one
/// call to AWS takes with all its tries.
pub const GRACE: Duration = Duration::from_secs(15);

/// A source's turn in a run is at least this long, as one call to a provider may be. With more sources
/// than fit, those left out come first in the next run.
pub const TURN: Duration = Duration::from_secs(20);

/// For how long one sweep keeps others away. It renews this while it goes on, so that a sweep that
/// was killed delays the next one by no more.
pub const SWEEP_LEASE: Duration = Duration::from_secs(45);

/// A message may be in the queue for this long before the queue's depth shows it. Until then the
/// sweep counts it itself.
pub const DEPTH_LAG: Duration = Duration::from_secs(2);

/// How long one run takes events out of the spill queue, and messages out of the backlog. The next
/// comes after [`ROUND_EVERY`]; the timeout of the function is as long.
pub const DRAIN: Duration = Duration::from_secs(240);

/// How long a spilled event is hidden from others while one run works on it: longer than
/// [`DRAIN`] and the slowest put together. Meeting it twice would do no harm.
pub const SPILL_HIDDEN: Duration = Duration::from_secs(290);

/// Messages of the backlog are put among those of now while fewer than this wait there: the
/// processor hears as many at once.
pub const BACKLOG_BATCH: u64 = 50;

/// A dose grows up to this while the processor hears each one within a second, and no further: so an
/// event of now waits behind about a second's work.
pub const LARGEST_BACKLOG_BATCH: u64 = 500;

/// How often the sync asks the providers.
pub const SYNC_EVERY: Duration = Duration::from_secs(900);

/// How long a settled event is remembered, so that a late second delivery is recognised: three
/// times the longest horizon that a provider states (30 days).
pub const KEEP_ROW: Duration = Duration::from_secs(90 * 24 * 3600);

/// How long the order of an entity is remembered after its last event: longer than any of its
/// events, which may be replayed.
pub const KEEP_ORDER: Duration = Duration::from_secs(120 * 24 * 3600);

/// How long a place in strict order is kept for an event whose row has not come yet. It comes
/// right behind, unless the sender has to send it again.
pub const ORDER_ENTRY_GRACE: Duration = Duration::from_secs(30);

/// How long the body of an event is kept.
pub const KEEP_BODY: Duration = Duration::from_secs(30 * 24 * 3600);
