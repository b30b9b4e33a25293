//! `sources pause` and `sources resume`: pause and resume the events of a source.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::delivery::pause::{REREAD, call_up};
use shared::inbox::ledger::{FlagKind, FlagResult, OperatorFlag};

use super::find;
use crate::audit::{self, Change, who};
use crate::cli::{Global, SourcesPauseArgs, SourcesResumeArgs};
use crate::output::count::plural;
use crate::output::time::{age, rfc3339};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;

#[derive(Serialize)]
struct Told {
    source: String,
    paused: bool,
    by: String,
    reason: String,
    since: String,
    /// The number of events that are due now. The next sweeps send their work messages.
    called_up: Option<u64>,
}

/// A pause of a source, for output.
#[derive(Clone, Serialize)]
pub(in crate::verbs) struct Pause {
    by: String,
    reason: String,
    since: String,
    #[serde(skip)]
    at: i64,
}

impl Pause {
    pub(in crate::verbs) async fn of(
        inbox: &Deployment,
        source: &str,
    ) -> anyhow::Result<Option<Self>> {
        let notice = inbox
            .ledger
            .operations()
            .flag(FlagKind::Pause(source))
            .await?;
        Ok(notice.map(Self::read))
    }

    pub(super) fn read(flag: OperatorFlag) -> Self {
        Self {
            by: flag.who,
            reason: flag.why,
            since: rfc3339(flag.at.0),
            at: flag.at.0,
        }
    }

    /// Describes the pause, such as `paused 3m ago by alice: a bad release`.
    pub(in crate::verbs) fn text(&self, now: i64) -> String {
        format!(
            "paused {} ago by {}: {}",
            age(self.at, now),
            self.by,
            self.reason
        )
    }
}

pub(super) async fn pause(
    args: SourcesPauseArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = audit::reason("sources.reason", &args.reason)?;
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("pause a source")?;
    let source = &find(&inbox.config, &args.source)?.name;
    let who = record(&inbox, "source.pause", reason, source).await?;
    let now = UnixMillis::now();
    let notice = OperatorFlag::new(&who, reason, "", now)?;
    if let FlagResult::AlreadySet(up) = inbox
        .ledger
        .operations()
        .set_flag(FlagKind::Pause(source), &notice)
        .await?
    {
        return Err(
            CliError::refused("sources.paused", format!("{source} is already paused"))
                .note(format!("by {} {}: {}", up.who, rfc3339(up.at.0), up.why))
                .tip(format!("webhookctl sources resume {source}"))
                .into(),
        );
    }
    let text = format!(
        "{source} is paused: after {} s, no worker processes its events. Webhooks still arrive.\n",
        REREAD.as_secs()
    );
    out.document(
        "sources.pause",
        &told(source, true, &notice, None),
        source,
        &text,
    )?;
    out.tip(&format!("webhookctl sources resume {source}"));
    Ok(Exit::Done)
}

/// Resumes a source. If an earlier resume was interrupted, completes it.
pub(super) async fn resume(
    args: SourcesResumeArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("resume a source")?;
    let source = &find(&inbox.config, &args.source)?.name;
    let about = FlagKind::Pause(source);
    let up = inbox.ledger.operations().flag(about).await?;
    if let Some(up) = &up {
        let why = args.reason.as_deref().unwrap_or_default();
        record(&inbox, "source.resume", why, source).await?;
        if !inbox.ledger.operations().clear_flag(about, up).await? {
            return Err(CliError::new(
                "sources.paused_again",
                Exit::Busy,
                format!("another operator has paused {source} again in the meantime"),
            )
            .tip(format!("webhookctl sources show {source}"))
            .into());
        }
        // Until then, a worker may still have the pause in its cache, and drop the work message.
        out.say(&format!(
            "Resumed; waiting {} s until all workers have read the change …",
            REREAD.as_secs()
        ));
        tokio::time::sleep(REREAD + std::time::Duration::from_secs(1)).await;
    }
    let now = UnixMillis::now();
    let called = call_up(&inbox.ledger, source, now).await?;
    let text = format!(
        "{source} is {}. Due now: {}. Each sweep sends as many of their messages as the queue \
        accepts.\n",
        if up.is_some() {
            "resumed"
        } else {
            "not paused"
        },
        plural(called, "event")
    );
    let notice = match up {
        Some(up) => up,
        None => OperatorFlag::new(who(&inbox).await?, "", "", now)?,
    };
    out.document(
        "sources.resume",
        &told(source, false, &notice, Some(called)),
        source,
        &text,
    )?;
    Ok(Exit::Done)
}

fn told(source: &str, paused: bool, notice: &OperatorFlag, called_up: Option<u64>) -> Told {
    Told {
        source: source.to_owned(),
        paused,
        by: notice.who.clone(),
        reason: notice.why.clone(),
        since: rfc3339(notice.at.0),
        called_up,
    }
}

/// Records the change, and returns the operator.
async fn record(
    inbox: &Deployment,
    what: &'static str,
    why: &str,
    source: &str,
) -> anyhow::Result<String> {
    let change = Change {
        what,
        why,
        selection: source.to_owned(),
        count: 0,
    };
    change.record(inbox).await
}
