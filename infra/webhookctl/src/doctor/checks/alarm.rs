//! The alarms and their actions.

use crate::doctor::facts::known;
use crate::doctor::{Alarm, Check, Facts, Finding, Unknown, Verdict};
use crate::output::count::plural;

pub(super) static PRESENT: Check = Check {
    name: "alarm.present",
    title: "The alarms that notify operators exist",
    why: "Without these alarms, no operator is notified of a stopped sweep, waiting events, dead \
          letters, failing destinations, silent sources, failed runs and failed answers.",
    fix: "deploy the template with AlarmProfile core or full; both contain all of these alarms",
    judge: present,
};

pub(super) static ACTIONS: Check = Check {
    name: "alarm.actions",
    title: "Each alarm notifies an operator",
    why: "An alarm without an action only changes its state.",
    fix: "deploy with AlarmEmail, or with AlarmTopicArn, the ARN of an SNS topic with subscribers",
    judge: actions,
};

pub(super) static RINGING: Check = Check {
    name: "alarm.ringing",
    title: "No alarm is raised",
    why: "The condition of a raised alarm still exists. The alarm of the sweep's heartbeat is also \
          raised if it has no data.",
    fix: "run the command that the description of the alarm names",
    judge: ringing,
};

fn present(facts: &Facts) -> Result<Finding, Unknown> {
    let alarms = known(&facts.alarms)?;
    let names = &facts.names;
    let of_queue = |url: &Option<String>| {
        let url = url.as_deref()?;
        url.rsplit('/').next().map(str::to_owned)
    };
    let visible = "ApproximateNumberOfMessagesVisible";
    let age = "ApproximateAgeOfOldestMessage";
    let wanted = [
        ("the oldest message", age, of_queue(&names.queue_url)),
        (
            "dead letters",
            visible,
            of_queue(&names.work_dead_letters_url),
        ),
        ("spilled events", visible, of_queue(&names.spill_queue_url)),
        (
            "failed runs of backup-sync",
            visible,
            of_queue(&names.ops_dead_letters_url),
        ),
        ("5xx responses", "ServerErrors", None),
        ("the health of the inbox", "ViolatedChecks", None),
        ("failing destinations", "OpenBreakers", None),
        ("silent sources", "SilentSources", None),
    ];
    let long = of_queue(&names.long_queue_url);
    let long = long.map(|queue| ("the oldest message for a long action", age, Some(queue)));
    let is_there = |metric: &str, about: &Option<String>| {
        alarms.iter().any(|alarm: &Alarm| {
            let about_it = about
                .as_ref()
                .is_none_or(|about| alarm.about.contains(about));
            alarm.metric == metric && about_it
        })
    };
    let missing = wanted
        .into_iter()
        .chain(long)
        .filter(|(_, metric, about)| !is_there(metric, about))
        .map(|(what, _, _)| format!("no alarm for {what}"));
    let well = plural(alarms.len(), "alarm");
    Ok(Finding::of_each(Verdict::Fail, missing.collect(), well))
}

fn actions(facts: &Facts) -> Result<Finding, Unknown> {
    let alarms = known(&facts.alarms)?;
    let mute = alarms.iter().filter(|alarm| alarm.actions == 0).count();
    if mute > 0 {
        return Ok(Finding::warn(format!(
            "{mute} of {} alarms have no action",
            alarms.len()
        )));
    }
    Ok(Finding::pass(format!("all {}", alarms.len())))
}

fn ringing(facts: &Facts) -> Result<Finding, Unknown> {
    let raised = known(&facts.alarms)?.iter().filter(|alarm| alarm.ringing);
    let lines = raised.map(|alarm| alarm.name.clone()).collect();
    Ok(Finding::of_each(Verdict::Warn, lines, "none"))
}
