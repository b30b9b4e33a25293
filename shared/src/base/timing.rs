//! Durations that must agree with each other and with `template.yaml`:
//! `EFFECT_TIMEOUT + 10 s ≤ LEASE ≤ function timeout 60 s < visibility timeout 360 s`.
//! `SWEEP < SWEEP_KEYS < SWEEP_HOLD < LAST_WORDS` and `ASKING < WATCHING < LAST_WORDS`, all less
//! than `BACKUP_SYNC`, the timeout of its function. A test over the template checks these rules.

use std::time::Duration;

/// The timeout of an action. After it, the action is dropped and its effects count as unknown.
pub const EFFECT_TIMEOUT: Duration = Duration::from_secs(25);

/// How long a claim prevents other workers from claiming the event.
pub const LEASE: Duration = Duration::from_secs(35);

/// The accepted clock difference between two machines. A lease counts as expired only this long
/// after its end, and a worker starts nothing this close to its end.
pub const CLOCK_MARGIN: Duration = Duration::from_secs(5);

/// The delay before the sweep first checks an event whose work message may be lost.
pub const FIRST_LOOK: Duration = Duration::from_secs(120);

/// How long after the end of an hour the sweep checks whether the `time` index returned entries of
/// that hour late.
pub const LAST_LOOK: Duration = Duration::from_secs(3600);

/// How far back the sweep starts in an inbox that it has never scanned by time. Events from older
/// code are in the `work` index.
pub const MARKS_FROM: Duration = LAST_LOOK;

/// The longest `DelaySeconds` that SQS accepts.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
pub const LONGEST_DELAY: Duration = Duration::from_secs(900);

/// How many messages the processor sends for its own retries in one run, at most. Lambda stops a
/// loop of function → queue → function after about 16 invocations, so the sweep handles longer
/// loops.
pub const MAX_SELF_SENDS_PER_RUN: u32 = 3;

/// Messages for events older than this go to the backlog queue, so that they do not delay new
/// events.
pub const OLD: Duration = Duration::from_secs(600);

/// A message sent longer ago than this has waited behind other messages, because no message is
/// delayed by more than [`LONGEST_DELAY`].
pub const LATE: Duration = Duration::from_secs(LONGEST_DELAY.as_secs() + 300);

/// How long after the arrival of a request the catcher waits for DynamoDB: two tries of 0.7 s. An
/// event whose write is not confirmed by then goes to the spill queue.
pub const LEDGER_BUDGET: Duration = Duration::from_millis(1_500);

/// How long the catcher waits for the spill queue if it does not try DynamoDB first.
pub const SPILL_BUDGET: Duration = Duration::from_millis(700);

/// The catcher verifies and stores an event within this time, however slow the stores are. With
/// [`SEND_BUDGET`] it responds within 2.5 s; Slack waits for 3 s.
pub const KEEP_BUDGET: Duration = Duration::from_millis(2_200);

/// How long the catcher tries to send the work message of a stored event.
pub const SEND_BUDGET: Duration = Duration::from_millis(300);

/// The longest interval between two runs of the sweep, and of the drain. A stack can use a shorter
/// one.
pub const ROUND_EVERY: Duration = Duration::from_secs(300);

/// The timeout of the backup-sync function, which limits one run of any task. The limits of the
/// parts of a run, below, count from its start. If Lambda gives a run less time, each limit is
/// shortened in proportion.
pub const BACKUP_SYNC: Duration = Duration::from_secs(300);

/// Until when a sweep starts to check due rows.
pub const SWEEP: Duration = Duration::from_secs(200);

/// Until when a sweep fetches certificates and key sets. It can also use time that is left of
/// [`SWEEP`].
pub const SWEEP_KEYS: Duration = Duration::from_secs(245);

/// Until when a sweep extends the retention of the bodies of dead letters.
pub const SWEEP_HOLD: Duration = Duration::from_secs(265);

/// Until when a run calls providers, for the sync, endpoint checks and reconciliations.
pub const ASKING: Duration = Duration::from_secs(240);

/// Until when a sync checks which sources are silent.
pub const WATCHING: Duration = Duration::from_secs(270);

/// When a run of any task is stopped, so that it has time to record its end.
pub const LAST_WORDS: Duration = Duration::from_secs(285);

/// How long a part of a run can exceed its limit to finish its current step: the duration of one
/// AWS call with all its retries.
pub const GRACE: Duration = Duration::from_secs(15);

/// The shortest time for one source in a run: the longest duration of one call to a provider. If
/// there is not enough time for all sources, the next run starts with the remaining ones.
pub const TURN: Duration = Duration::from_secs(20);

/// The duration of a sweep's lease, which prevents a second sweep. A running sweep renews its
/// lease, so a killed sweep delays the next one by at most this time.
pub const SWEEP_LEASE: Duration = Duration::from_secs(45);

/// How long a message can be in the queue before the queue's depth includes it. Until then the
/// sweep counts the message itself.
pub const DEPTH_LAG: Duration = Duration::from_secs(2);

/// How long one run reads events from the spill queue, and messages from the backlog queue. The
/// next run starts after [`ROUND_EVERY`], which is also the timeout of the function.
pub const DRAIN: Duration = Duration::from_secs(240);

/// The visibility timeout of a spilled event that a run processes: longer than [`DRAIN`] and the
/// slowest put together. Reading the event twice would do no harm.
pub const SPILL_HIDDEN: Duration = Duration::from_secs(290);

/// The drain moves messages from the backlog queue to the work queue while fewer than this wait
/// there. The processor receives this many at once.
pub const BACKLOG_BATCH: u64 = 50;

/// A batch of the drain grows up to this size while the processor receives each batch within a
/// second. So a new event waits behind about one second of work.
pub const LARGEST_BACKLOG_BATCH: u64 = 500;

/// The interval between syncs with the providers.
pub const SYNC_EVERY: Duration = Duration::from_secs(900);

/// How long the row of a settled event is kept, so that a late duplicate is recognized: three times
/// the longest retry horizon that a provider documents (30 days).
pub const KEEP_ROW: Duration = Duration::from_secs(90 * 24 * 3600);

/// How long the order of an entity is kept after its last event: longer than its events, which can
/// be replayed.
pub const KEEP_ORDER: Duration = Duration::from_secs(120 * 24 * 3600);

/// How long a position in strict order is reserved for an event without a row. The row normally
/// follows at once, unless the sender must retry.
pub const ORDER_ENTRY_GRACE: Duration = Duration::from_secs(30);

/// How long the body of an event is kept.
pub const KEEP_BODY: Duration = Duration::from_secs(30 * 24 * 3600);
