//! The queues. A lost work message only delays its event; a lost spill message loses the event.

use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, Queue, Unknown, Verdict};
use crate::output::count::{plural, thousands};
use crate::output::time::duration;

/// The minimum of `maxReceiveCount`. Polls that Lambda throttles count as receives, and they must
/// not move a message to the dead-letter queue.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
const FEWEST_RECEIVES: u64 = 5;

/// The number of waiting messages from which the sweep sends no further messages to a queue.
pub(crate) const MOST_WAITING: u64 = 1000;

/// The maximum retention of a queue in SQS.
const LONGEST: u64 = 14 * 24 * 3600;

pub(super) static PARTIAL_BATCH: Check = Check {
    name: "queue.partial_batch",
    title: "Partial batch responses are enabled",
    why: "Without ReportBatchItemFailures, SQS delivers the whole batch again if the processor \
          fails on one message.",
    fix: "aws lambda update-event-source-mapping --uuid … --function-response-types \
          ReportBatchItemFailures",
    judge: partial_batch,
};

pub(super) static MAPPED: Check = Check {
    name: "queue.mapped",
    title: "The work queue and the queue for long actions trigger their functions",
    why: "If the mapping is missing or disabled, every event waits, and no error is reported.",
    fix: "aws lambda update-event-source-mapping --uuid … --enabled, or deploy the template again",
    judge: mapped,
};

pub(super) static REDRIVE: Check = Check {
    name: "queue.redrive",
    title: "Unreadable messages go to the dead-letter queue",
    why: "Without a redrive policy, SQS delivers an unreadable message again and again until it \
          expires, and no operator is notified.",
    fix: "set RedrivePolicy of the queue to the ARN of WorkDeadLetters, as in template.yaml",
    judge: redrive,
};

pub(super) static DLQ_RETENTION: Check = Check {
    name: "queue.dlq_retention",
    title: "The dead-letter queue keeps messages longer than the queue",
    why: "Standard queues count the age of a message from its first send, so a message could \
          expire a few hours after it reaches the dead-letter queue.",
    fix: "aws sqs set-queue-attributes --queue-url … --attributes MessageRetentionPeriod=1209600",
    judge: dlq_retention,
};

pub(super) static MAX_RECEIVES: Check = Check {
    name: "queue.max_receives",
    title: "SQS delivers a message often enough before it is a dead letter",
    why: "Polls that Lambda throttles count as receives. With fewer than five receives, SQS moves \
          messages to the dead-letter queue during a short peak.",
    fix: "set maxReceiveCount of the RedrivePolicy to 10, as in template.yaml",
    judge: max_receives,
};

pub(super) static SPILL: Check = Check {
    name: "queue.spill",
    title: "Spilled events are kept until the table is available",
    why: "The spill queue stores whole events while the table is unavailable. It must keep them \
          for the maximum retention of SQS. It must not have a redrive policy, because a redrive \
          does not reset the age of a message.",
    fix: "set MessageRetentionPeriod of SpillQueue to 1209600, and remove its RedrivePolicy",
    judge: spill,
};

pub(super) static DEPTH: Check = Check {
    name: "queue.depth",
    title: "Few messages wait in the queues",
    why: "Many waiting messages mean that events are late, or that spilled events wait because the \
          table is unavailable.",
    fix: "check the log of the processor and of backup-sync, and `webhookctl inbox list`",
    judge: depth,
};

pub(super) static WORK_DEAD_LETTERS: Check = Check {
    name: "queue.work_dead_letters",
    title: "The dead-letter queue is empty",
    why: "A message goes to the dead-letter queue after the processor failed on it ten times. The \
          cause is usually the deployment, not the message. The sweep sends a new message for the \
          event.",
    fix: "check the log of the processor, correct the fault, then purge WorkDeadLetters",
    judge: work_dead_letters,
};

pub(super) static FAILED_RUNS: Check = Check {
    name: "queue.failed_runs",
    title: "Every run of backup-sync succeeded",
    why: "If a run fails or does not start, a message goes to OpsDeadLetters. The message can mean \
          that the sync or the sweep no longer runs.",
    fix: "check the log of backup-sync, correct the fault, then purge OpsDeadLetters",
    judge: failed_runs,
};

fn partial_batch(facts: &Facts) -> Result<Finding, Unknown> {
    let mappings = known(&facts.mappings)?;
    let bad = mappings.iter().filter(|it| !it.reports_item_failures);
    let lines = bad.map(|it| {
        format!(
            "ReportBatchItemFailures is off for {}",
            short(&it.queue_arn)
        )
    });
    let well = format!("on for {}", mappings.len());
    Ok(Finding::of_each(Verdict::Fail, lines.collect(), well).or_nothing(mappings.len()))
}

fn mapped(facts: &Facts) -> Result<Finding, Unknown> {
    let mappings = known(&facts.mappings)?;
    let work = known(&facts.queues.work_queue)?;
    let long = facts.queues.long.as_ref().map(known).transpose()?;
    let wrong = |queue: &Queue| {
        let short = short(&queue.arn);
        let Some(mapping) = mappings.iter().find(|it| it.queue_arn == queue.arn) else {
            return Some(format!("{short} triggers no processor"));
        };
        let works = matches!(mapping.state.as_str(), "Enabled" | "Updating" | "Creating");
        (!works).then(|| format!("{short}: {}", mapping.state.to_lowercase()))
    };
    let lines = std::iter::once(work).chain(long).filter_map(wrong);
    Ok(Finding::of_each(Verdict::Fail, lines.collect(), "enabled"))
}

fn redrive(facts: &Facts) -> Result<Finding, Unknown> {
    let dead = known(&facts.queues.work_dead_letters)?;
    let mut lines = Vec::new();
    for queue in fed(facts)? {
        match &queue.redrive {
            None => lines.push(format!("{} has no redrive policy", short(&queue.arn))),
            Some(redrive) if redrive.target_arn != dead.arn => lines.push(format!(
                "{} moves failed messages to {}",
                short(&queue.arn),
                short(&redrive.target_arn)
            )),
            Some(_) => {}
        }
    }
    Ok(Finding::of_each(Verdict::Fail, lines, short(&dead.arn)))
}

fn dlq_retention(facts: &Facts) -> Result<Finding, Unknown> {
    let dead = known(&facts.queues.work_dead_letters)?;
    let longest = fed(facts)?.iter().map(|queue| queue.retention_s).max();
    let longest = longest.unwrap_or_default();
    let found = span(dead.retention_s);
    if dead.retention_s <= longest {
        let fix = format!(
            "aws sqs set-queue-attributes --queue-url {} --attributes MessageRetentionPeriod={LONGEST}",
            dead.url
        );
        return Ok(Finding::fail(found)
            .want(format!(
                "more than {}, the retention of the queue",
                span(longest)
            ))
            .fix(fix));
    }
    Ok(Finding::pass(format!(
        "{found}; the queue keeps messages for {}",
        span(longest)
    )))
}

fn max_receives(facts: &Facts) -> Result<Finding, Unknown> {
    let queues = fed(facts)?;
    let counts = queues.iter().filter_map(|queue| queue.redrive.as_ref());
    let fewest = counts.map(|redrive| redrive.max_receives).min();
    let Some(fewest) = fewest else {
        return Ok(Finding::fail("the queues have no redrive policy"));
    };
    if fewest < FEWEST_RECEIVES {
        return Ok(Finding::fail(fewest.to_string()).want(format!("{FEWEST_RECEIVES} or more")));
    }
    Ok(Finding::pass(fewest.to_string()))
}

fn spill(facts: &Facts) -> Result<Finding, Unknown> {
    let spill = known(&facts.queues.spill)?;
    let mut lines = Vec::new();
    if spill.retention_s < LONGEST {
        lines.push(format!(
            "the spill queue keeps events for only {}",
            span(spill.retention_s)
        ));
    }
    if let Some(redrive) = &spill.redrive {
        lines.push(format!(
            "the spill queue moves messages to {}",
            short(&redrive.target_arn)
        ));
    }
    let finding = Finding::of_each(Verdict::Fail, lines, span(spill.retention_s));
    Ok(match finding.verdict {
        Verdict::Fail => finding.want(format!("{} and no redrive policy", span(LONGEST))),
        _ => finding,
    })
}

fn depth(facts: &Facts) -> Result<Finding, Unknown> {
    let mut lines = Vec::new();
    let mut waiting = 0;
    for queue in fed(facts)? {
        waiting += queue.visible;
        if queue.visible > MOST_WAITING {
            let count = thousands(queue.visible);
            lines.push(format!("{count} messages wait in {}", short(&queue.arn)));
        }
    }
    let spill = known(&facts.queues.spill)?;
    let spilled = spill.visible + spill.in_flight;
    if spilled > 0 {
        lines.push(format!(
            "waiting for the table: {}",
            plural(spilled, "spilled event")
        ));
    }
    let well = format!("{} waiting, 0 spilled", thousands(waiting));
    Ok(Finding::of_each(Verdict::Warn, lines, well))
}

fn work_dead_letters(facts: &Facts) -> Result<Finding, Unknown> {
    let count = known(&facts.queues.work_dead_letters)?.visible;
    if count > 0 {
        let rows = known(&facts.dead_letters).ok();
        let beside = rows.map_or(String::new(), |rows| {
            format!("; {} in the table", rows.of("dead letter"))
        });
        let messages = plural(count, "message");
        return Ok(Finding::warn(format!("{messages}{beside}")).want("0"));
    }
    Ok(Finding::pass("none"))
}

fn failed_runs(facts: &Facts) -> Result<Finding, Unknown> {
    let count = known(&facts.queues.ops_dead_letters)?.visible;
    if count > 0 {
        return Ok(Finding::warn(format!("{} failed", plural(count, "run"))).want("0"));
    }
    Ok(Finding::pass("none failed"))
}

/// The work queue, the backlog queue, and the queue for long actions if the stack has it.
fn fed(facts: &Facts) -> Result<Vec<&Queue>, Unknown> {
    let queues = &facts.queues;
    let always = [&queues.work_queue, &queues.backlog];
    always.into_iter().chain(&queues.long).map(known).collect()
}

fn short(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

fn span(seconds: u64) -> String {
    duration(seconds)
}

impl Finding {
    /// Fails if no queue triggers the processor.
    fn or_nothing(self, count: usize) -> Self {
        match count {
            0 => Self::fail("no queue triggers the processor"),
            _ => self,
        }
    }
}
