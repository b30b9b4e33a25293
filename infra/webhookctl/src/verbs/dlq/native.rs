//! `dlq redrive --native`: SQS moves all messages of the dead-letter queue back.

use std::time::Duration;

use aws_sdk_sqs::types::ListMessageMoveTasksResultEntry;
use serde::Serialize;
use shared::base::clock::UnixMillis;

use super::counts::{DeadQueue, dead_letter_counts};
use super::group::{self, Group};
use super::{MOST, dead_letters};
use crate::audit::{self, Change};
use crate::cli::{DlqRedriveArgs, Global, SelectionArgs};
use crate::confirm::Confirmation;
use crate::output::count::plural;
use crate::output::{CliError, Exit, Printer};
use crate::poll;
use crate::target::Deployment;

/// How long the command watches the move. SQS continues the move afterwards.
const WATCHED: Duration = Duration::from_secs(30);

const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "JSON field names")]
struct Moved {
    queue: String,
    messages: u64,
    moved: i64,
    /// The status that SQS reports, such as `COMPLETED` or `RUNNING`. It is `EMPTY` if the queue
    /// has no messages.
    status: String,
    by: Option<String>,
    reason: String,
}

pub(super) async fn redrive(
    args: DlqRedriveArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = audit::reason("dlq.reason", &args.reason)?;
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("move dead letters")?;
    let queue = DeadQueue::find(&inbox, &args.door_at).await?;
    let (dead, messages) = dead_letter_counts(&inbox, &queue).await?;
    if messages == 0 {
        let text = format!("{} is empty; there is nothing to move\n", queue.name());
        out.document("dlq.native", &Moved::nothing(&queue, reason), "", &text)?;
        return Ok(Exit::Done);
    }
    for line in warning(&queue, messages, dead) {
        out.say(&line);
    }
    not_running(&queue).await?;
    confirmed(&inbox, args.confirm, messages).await?;

    let by = Change {
        what: "dlq.native",
        why: reason,
        selection: format!("all messages of {}", queue.name()),
        count: usize::try_from(messages).unwrap_or(usize::MAX),
    }
    .record(&inbox)
    .await?;
    queue.start_move().await?;
    let moved = watch(&queue, messages, by, reason).await?;
    let text = format!(
        "{} of {messages} moved back ({}) by {}\n",
        moved.moved,
        moved.status.to_lowercase(),
        moved.by.as_deref().unwrap_or_default()
    );
    out.document("dlq.native", &moved, "", &text)?;
    Ok(match moved.status.as_str() {
        "FAILED" => Exit::Failed,
        "CANCELLED" | "CANCELLING" => Exit::Partial,
        _ => Exit::Done,
    })
}

impl Moved {
    fn nothing(queue: &DeadQueue, reason: &str) -> Self {
        Self {
            queue: queue.name().to_owned(),
            messages: 0,
            moved: 0,
            status: "EMPTY".to_owned(),
            by: None,
            reason: reason.to_owned(),
        }
    }
}

fn warning(queue: &DeadQueue, messages: u64, dead: u64) -> [String; 3] {
    let messages = plural(messages, "message");
    let dead = plural(dead, "dead letter");
    [
        format!(
            "This moves all {messages} of {} back with SQS StartMessageMoveTask.",
            queue.name()
        ),
        "This command has no filter, no canary and no record for each event. \
         SQS runs 1 task at a time, at most 500 messages/s."
            .to_owned(),
        format!(
            "The processor ignores messages of dead letters: the {dead} in the table do not change."
        ),
    ]
}

/// SQS rejects a second task. The error gives this reason and the progress of the first task.
async fn not_running(queue: &DeadQueue) -> anyhow::Result<()> {
    let last = queue.last_move().await?;
    let running = last.filter(|task| task.status() == Some("RUNNING"));
    let Some(task) = running else {
        return Ok(());
    };
    let moved = task.approximate_number_of_messages_moved();
    let all = task.approximate_number_of_messages_to_move().unwrap_or(0);
    Err(CliError::new(
        "dlq.native_running",
        Exit::Busy,
        format!(
            "SQS is already moving the messages of {} ({moved} of {all})",
            queue.name()
        ),
    )
    .tip("wait until the move ends, or cancel it with aws sqs cancel-message-move-task")
    .into())
}

async fn confirmed(inbox: &Deployment, confirm: Option<u64>, messages: u64) -> anyhow::Result<()> {
    match Confirmation::of(confirm, messages) {
        Confirmation::Given => Ok(()),
        Confirmation::Mismatch(number, how) => Err(CliError::refused(
            "dlq.confirm_mismatch",
            format!("the queue has {messages} messages, but {how} {number}; nothing was moved"),
        )
        .into()),
        Confirmation::Missing | Confirmation::Invalid => {
            Err(unconfirmed(inbox, messages).await?.into())
        }
    }
}

async fn unconfirmed(inbox: &Deployment, messages: u64) -> anyhow::Result<CliError> {
    let now = UnixMillis::now().0;
    let found = dead_letters(inbox, &SelectionArgs::default(), MOST, None, now).await?;
    let groups = Group::all(&found.rows);
    if groups.len() < 2 {
        let message = format!("confirm the number of messages: --confirm {messages}");
        return Ok(CliError::refused("dlq.confirm", message));
    }
    let digits = Group::digits(&groups);
    let error = CliError::refused(
        "dlq.native_mixed",
        format!(
            "the command would move the messages of {} different errors together",
            groups.len()
        ),
    )
    .note(format!("--confirm {messages} moves all messages"));
    let mut groups = groups.iter();
    Ok(
        match groups.find(|group| group.is_redrivable(&inbox.config, now)) {
            Some(group) => error.tip(group::redrive(group.error.first(digits))),
            None => error.tip("webhookctl dlq list"),
        },
    )
}

/// Waits until the move ends, but at most for [`WATCHED`].
async fn watch(
    queue: &DeadQueue,
    messages: u64,
    by: String,
    reason: &str,
) -> anyhow::Result<Moved> {
    let status = |task: &Option<_>| {
        let task: Option<&ListMessageMoveTasksResultEntry> = task.as_ref();
        let status = task.and_then(|task| task.status());
        status.unwrap_or("RUNNING").to_owned()
    };
    let ended = |task: &_| status(task) != "RUNNING";
    let task = poll::until(LOOK_EVERY, WATCHED, async || queue.last_move().await, ended).await?;
    Ok(Moved {
        queue: queue.name().to_owned(),
        messages,
        status: status(&task),
        moved: task.map_or(0, |task| task.approximate_number_of_messages_moved()),
        by: Some(by),
        reason: reason.to_owned(),
    })
}
