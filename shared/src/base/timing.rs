//! Durations that must agree with each other and with `template.yaml`. A test over the template
//! checks these rules:
//!
//! - `EFFECT_TIMEOUT = ACTION_TIMEOUT + AFTER_ACTION`
//! - `EFFECT_TIMEOUT + 10 s ≤ LEASE ≤ function timeout 60 s < visibility timeout 365 s`
//! - `LONGEST_ACTION + AFTER_ACTION + CLOCK_MARGIN ≤ function timeout 900 s < visibility timeout
//!   960 s` for long actions
//! - `RENEW_EVERY + GIVE_UP < LONG_LEASE`
//! - `SWEEP < SWEEP_KEYS < SWEEP_HOLD < LAST_WORDS < BACKUP_SYNC`
//! - `ASKING < WATCHING < LAST_WORDS`
//!
//! [`BACKUP_SYNC`] is the timeout of the backup-sync function.

use std::time::Duration;

/// The default timeout of a call to a destination.
pub const ACTION_TIMEOUT: Duration = Duration::from_secs(20);

/// How much longer than its calls an action may take. After this time, the action is cancelled, and
/// its effects count as unknown.
pub const AFTER_ACTION: Duration = Duration::from_secs(5);

/// The time limit of the actions of an event, unless a timeout of the source is longer than
/// [`ACTION_TIMEOUT`].
pub const EFFECT_TIMEOUT: Duration = Duration::from_secs(25);

/// The longest timeout that an action can have. A function on Lambda runs for at most 15 minutes.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
pub const LONGEST_ACTION: Duration = Duration::from_secs(840);

/// How long a claim prevents other workers from claiming the event.
pub const LEASE: Duration = Duration::from_secs(35);

/// The lease of an event with a long action. The worker renews it, so that another worker does not
/// wait for the longest action after a crash.
pub const LONG_LEASE: Duration = Duration::from_secs(120);

/// The longest lease of a worker outside of Lambda, before it extends the lease.
pub const LONGEST_WORK_LEASE: Duration = Duration::from_secs(900);

/// The interval between two renewals of a [`LONG_LEASE`].
pub const RENEW_EVERY: Duration = Duration::from_secs(50);

/// The interval between two tries of a renewal that failed.
pub const RENEW_AGAIN: Duration = Duration::from_secs(5);

/// A worker that could not renew its lease stops its actions this long before the lease ends.
pub const GIVE_UP: Duration = Duration::from_secs(15);

/// The accepted clock difference between two machines. Other workers wait this long after the end
/// of a lease before they treat it as expired. A worker starts no action if its lease ends within
/// this time.
pub const CLOCK_MARGIN: Duration = Duration::from_secs(5);

/// The time after which the sweep first checks an event whose work message may be lost.
pub const FIRST_LOOK: Duration = Duration::from_secs(120);

/// How long after the end of an hour the sweep checks whether entries of that hour appeared late in
/// the `time` index.
pub const LAST_LOOK: Duration = Duration::from_secs(3600);

/// How far back the sweep starts in an inbox that it has never scanned by time. Older code adds its
/// events to the `work` index, so the sweep finds those events in the index.
pub const MARKS_FROM: Duration = LAST_LOOK;

/// The maximum `DelaySeconds` of SQS.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
pub const LONGEST_DELAY: Duration = Duration::from_secs(900);

/// The maximum number of messages that the processor sends for its own retries in one run. Lambda
/// stops a loop of function → queue → function after about 16 invocations. So the sweep sends all
/// further messages of the run.
pub const MAX_SELF_SENDS_PER_RUN: u32 = 3;

/// Messages for events older than this go to the backlog queue, so that they do not delay new
/// events.
pub const OLD: Duration = Duration::from_secs(600);

/// A message that was sent longer ago than this has waited behind other messages. No message is
/// delayed by more than [`LONGEST_DELAY`].
pub const LATE: Duration = Duration::from_secs(LONGEST_DELAY.as_secs() + 300);

/// How long the catcher waits for DynamoDB after a request arrives: two tries of 0.7 s. If a write
/// is not confirmed by then, its event goes to the spill queue.
pub const LEDGER_BUDGET: Duration = Duration::from_millis(1_500);

/// How long the catcher waits for the spill queue if it does not try DynamoDB first.
pub const SPILL_BUDGET: Duration = Duration::from_millis(700);

/// The catcher verifies and stores an event within this time, even if the stores are slow. Together
/// with [`SEND_BUDGET`], it responds within 2.5 s. Slack waits 3 s for a response.
pub const KEEP_BUDGET: Duration = Duration::from_millis(2_200);

/// How long the catcher tries to send the work message of a stored event.
pub const SEND_BUDGET: Duration = Duration::from_millis(300);

/// How long a function waits for the current version of the sources. The catcher waits only before
/// its first request, and for a source that it does not know.
pub const SOURCES_BUDGET: Duration = Duration::from_millis(1_000);

/// How long a response waits for a read of the sources that began beside the request.
pub const SOURCES_GRACE: Duration = Duration::from_millis(50);

/// The maximum interval between two runs of the sweep, and between two runs of the drain. A stack
/// can use a shorter interval.
pub const ROUND_EVERY: Duration = Duration::from_secs(300);

/// The timeout of the backup-sync function, which limits one run of any task. The limits below, for
/// parts of a run, count from the start of the run. If Lambda gives a run less time, each limit is
/// shortened in proportion.
pub const BACKUP_SYNC: Duration = Duration::from_secs(300);

/// A sweep starts no further checks of due rows after this time.
pub const SWEEP: Duration = Duration::from_secs(200);

/// A sweep stops fetching certificates and key sets at this time. The fetches also use the time
/// that the checks of due rows leave before [`SWEEP`].
pub const SWEEP_KEYS: Duration = Duration::from_secs(245);

/// A sweep extends the retention of the bodies of dead letters until this time.
pub const SWEEP_HOLD: Duration = Duration::from_secs(265);

/// A run calls providers until this time, for syncs, endpoint checks and reconciliations.
pub const ASKING: Duration = Duration::from_secs(240);

/// A sync checks for silent sources until this time.
pub const WATCHING: Duration = Duration::from_secs(270);

/// Each run stops its task at this time, so that the run can still write its heartbeat.
pub const LAST_WORDS: Duration = Duration::from_secs(285);

/// How long a part of a run can exceed its limit to finish its current step. This is the maximum
/// duration of one AWS call with all its retries.
pub const GRACE: Duration = Duration::from_secs(15);

/// The minimum time for one source in a run. This is the maximum duration of one call to a
/// provider. If there is not enough time for all sources, the next run starts with the remaining
/// sources.
pub const TURN: Duration = Duration::from_secs(20);

/// The duration of a sweep's lease, which prevents a second sweep. A running sweep renews its
/// lease. If a sweep is killed, the next sweep waits at most this time plus [`CLOCK_MARGIN`].
pub const SWEEP_LEASE: Duration = Duration::from_secs(45);

/// The maximum time until the depth of a queue includes a new message. Until then, the sweep counts
/// the message itself.
pub const DEPTH_LAG: Duration = Duration::from_secs(2);

/// How long one run reads events from the spill queue, and messages from the backlog queue. The
/// rest of [`BACKUP_SYNC`] is for the work that the run has already begun.
pub const DRAIN: Duration = Duration::from_secs(240);

/// The visibility timeout of a message that a run receives from the spill queue. It is longer than
/// [`DRAIN`] and the slowest step together. If a run receives an event twice, the second copy is a
/// duplicate.
pub const SPILL_HIDDEN: Duration = Duration::from_secs(290);

/// The drain moves messages from the backlog queue to the work queue while fewer messages than this
/// wait in the work queue. The processor can receive this number of messages in parallel.
pub const BACKLOG_BATCH: u64 = 50;

/// The maximum size of a batch of the drain. A batch grows while the processor receives each batch
/// within a second. So a new event waits behind about one second of work.
pub const LARGEST_BACKLOG_BATCH: u64 = 500;

/// The interval between syncs with the providers.
pub const SYNC_EVERY: Duration = Duration::from_secs(900);

/// The longest retry period that a provider documents. A source whose duplicates can arrive later
/// than this keeps its rows for [`KEEP_ROW`].
pub const LONGEST_REPETITION: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long the row of a settled event is kept, so that a late duplicate is recognized. This is
/// three times [`LONGEST_REPETITION`].
pub const KEEP_ROW: Duration = Duration::from_secs(90 * 24 * 3600);

/// How long the row of a settled event is kept if no duplicate can arrive more than
/// [`LONGEST_REPETITION`] after the event. The other days are a margin for late expiry of the
/// provider's own data.
pub const KEEP_ROW_SHORT: Duration = Duration::from_secs(35 * 24 * 3600);

/// How long the order of an entity is kept after its last event. The order is kept longer than the
/// events, because the events can be replayed.
pub const KEEP_ORDER: Duration = Duration::from_secs(120 * 24 * 3600);

/// How long a position in strict order is reserved for an event without a row. Normally, the row
/// follows immediately. If the write of the row fails, the sender must retry.
pub const ORDER_ENTRY_GRACE: Duration = Duration::from_secs(30);

/// How long the body of an event is kept.
pub const KEEP_BODY: Duration = Duration::from_secs(30 * 24 * 3600);
