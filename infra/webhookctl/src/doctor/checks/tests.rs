//! Each test adds one fault to a healthy deployment. The check for this fault must find it.

use std::collections::BTreeSet;
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::SourcesReport;
use shared::inbox::source_versions::VersionFacts;

use super::ALL;
use crate::doctor::{
    AccountLimit, Alarm, Caller, Dark, Facts, Function, Functions, Known, Mapping, OpenBreaker,
    Queue, Queues, Redrive, SourceFacts, Stored, Table, Unknown, Verdict, Versions, Wanted,
};
use crate::outage_tolerance::Outage;
use crate::target::Names;

const NOW: UnixMillis = UnixMillis(1_795_169_681_000);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn arn(name: &str) -> String {
    format!("arn:aws:sqs:eu-west-1:123456789012:{name}")
}

fn url(name: &str) -> String {
    format!("https://sqs.eu-west-1.amazonaws.com/123456789012/{name}")
}

#[expect(clippy::unnecessary_wraps, reason = "same type as the gathered fact")]
fn queue(name: &str, days: u64, dead: Option<&str>) -> Known<Queue> {
    Ok(Queue {
        url: url(name),
        arn: arn(name),
        visibility_s: 365,
        retention_s: days * DAY.as_secs(),
        redrive: dead.map(|dead| Redrive {
            target_arn: arn(dead),
            max_receives: 10,
        }),
        visible: 0,
        in_flight: 0,
    })
}

fn names() -> Names {
    let some = |text: &str| Some(text.to_owned());
    Names {
        url: some("https://a1b2.execute-api.eu-west-1.amazonaws.com"),
        table: some("mitt-Inbox-1"),
        bucket: some("mitt-bodies-1"),
        queue_url: Some(url("work")),
        backlog_queue_url: Some(url("backlog")),
        long_queue_url: Some(url("long")),
        work_dead_letters_url: Some(url("dead")),
        spill_queue_url: Some(url("spill")),
        ops_dead_letters_url: Some(url("ops")),
        secrets_path: some("/mitt"),
        secrets_manager_prefix: None,
        catcher: some("mitt-catcher"),
        processor: some("mitt-processor"),
        long_processor: some("mitt-long-processor"),
        backup_sync: some("mitt-backup-sync"),
        version: some("0.1.0"),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "same type as the gathered fact")]
fn function(timeout_s: u64, kind: &str) -> Known<Function> {
    let environment = [
        ("MITT_TABLE", "mitt-Inbox-1".to_owned()),
        ("MITT_QUEUE_URL", url("work")),
        ("MITT_SPILL_QUEUE_URL", url("spill")),
        ("MITT_BODY_BUCKET", "mitt-bodies-1".to_owned()),
        ("MITT_SECRETS_PATH", format!("/mitt/{kind}")),
        ("MITT_EGRESS_PATH", "/mitt/egress".to_owned()),
    ];
    Ok(Function {
        timeout_s,
        state: Some("Active".to_owned()),
        last_update: Some("Successful".to_owned()),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        architecture: Some("arm64".to_owned()),
        environment: environment
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
    })
}

fn long_processor() -> Known<Function> {
    function(900, "egress").map(|mut function| {
        let environment = &mut function.environment;
        environment.insert("MITT_QUEUE_URL".to_owned(), url("long"));
        function
    })
}

fn mapping(queue: &str) -> Mapping {
    Mapping {
        queue_arn: arn(queue),
        state: "Enabled".to_owned(),
        window_s: 0,
        max_concurrency: Some(5),
        reports_item_failures: true,
    }
}

fn alarm(metric: &str, about: &str) -> Alarm {
    Alarm {
        name: format!("mitt-{about}"),
        metric: metric.to_owned(),
        about: vec![about.to_owned()],
        actions: 1,
        ringing: false,
    }
}

fn alarms() -> Vec<Alarm> {
    let visible = "ApproximateNumberOfMessagesVisible";
    vec![
        alarm("ApproximateAgeOfOldestMessage", "work"),
        alarm("ApproximateAgeOfOldestMessage", "long"),
        alarm(visible, "dead"),
        alarm(visible, "spill"),
        alarm(visible, "ops"),
        alarm("ViolatedChecks", ""),
        alarm("OpenBreakers", ""),
        alarm("SilentSources", ""),
        alarm("ServerErrors", ""),
    ]
}

fn healthy() -> Facts {
    let tasks = ["sweep", "drain", "sync", "endpoints", "reconcile"];
    let active = |name: &str| (name.to_owned(), "ACTIVE".to_owned());
    Facts {
        now: NOW,
        context: "prod".to_owned(),
        names: names(),
        region: Some("eu-west-1".to_owned()),
        expected_account: Some("123456789012".to_owned()),
        caller: Ok(Caller {
            account: "123456789012".to_owned(),
            arn: "arn:aws:sts::123456789012:assumed-role/Oncall/alice".to_owned(),
        }),
        account: Ok(AccountLimit {
            concurrent: 1000,
            unreserved: 1000,
        }),
        functions: Functions {
            catcher: function(10, "ingress"),
            processor: function(60, "egress"),
            long_processor: Some(long_processor()),
            backup_sync: function(300, "provider-api"),
        },
        mappings: Ok(vec![mapping("work"), mapping("long")]),
        queues: Queues {
            work_queue: queue("work", 4, Some("dead")),
            backlog: queue("backlog", 4, Some("dead")),
            long: Some(queue("long", 4, Some("dead")).map(|queue| Queue {
                visibility_s: 960,
                ..queue
            })),
            work_dead_letters: queue("dead", 14, None),
            spill: queue("spill", 14, None),
            ops_dead_letters: queue("ops", 14, None),
        },
        table: Ok(Table {
            status: "ACTIVE".to_owned(),
            created: Some(NOW - DAY * 90),
            indexes: [active("work"), active("time")].into(),
            deletion_protection: Some(true),
        }),
        ttl: Ok(Some("ttl".to_owned())),
        recovery: Ok(true),
        alarms: Ok(alarms()),
        secrets: Ok(vec![Stored {
            kind: "ingress".to_owned(),
            name: "stripe-main".to_owned(),
            slot: "current".to_owned(),
            age: DAY * 30,
        }]),
        heartbeats: Ok(tasks.map(|task| (task.to_owned(), NOW)).into()),
        dead_letters: Ok(crate::output::count::Count::default()),
        sources: Ok(vec![healthy_source()]),
        versions: Ok(Versions::default()),
        may_write: Ok(()),
    }
}

fn healthy_source() -> SourceFacts {
    SourceFacts {
        name: "stripe-main".to_owned(),
        secrets: vec![Wanted {
            kind: "ingress",
            name: "stripe-main".to_owned(),
        }],
        outage: Outage {
            longest_s: Some(3 * 24 * 3600),
            any: false,
            why: Vec::new(),
        },
        sync: Some("ok"),
        silent: None,
        watched: true,
        reconciled: true,
        dark: None,
        paused: None,
        long: Some("action reports has a timeout of 5m".to_owned()),
        trial: true,
        overdue: None,
        missing: Vec::new(),
        breakers: Vec::new(),
    }
}

fn result(facts: &Facts, name: &str) -> Verdict {
    let check = ALL.iter().find(|check| check.name == name).unwrap();
    check.of(facts).result
}

fn of<T>(fact: &mut Known<T>) -> &mut T {
    fact.as_mut().unwrap()
}

fn source(facts: &mut Facts) -> &mut SourceFacts {
    &mut of(&mut facts.sources)[0]
}

/// A check, its expected verdict, and the change that causes it.
type Fault = (&'static str, Verdict, fn(&mut Facts));

const FAULTS: &[Fault] = &[
    ("context.account", Verdict::Fail, |f| {
        of(&mut f.caller).account = "999999999999".to_owned();
    }),
    ("context.names", Verdict::Warn, |f| {
        f.names.spill_queue_url = None;
    }),
    ("context.names", Verdict::Warn, |f| {
        reported(f, Some(true));
        f.names.long_processor = None;
    }),
    ("timing.chain", Verdict::Fail, |f| {
        of(&mut f.functions.processor).timeout_s = 30;
    }),
    ("timing.chain", Verdict::Fail, |f| {
        of(&mut f.queues.backlog).visibility_s = 60;
    }),
    ("timing.chain", Verdict::Warn, |f| {
        of(&mut f.queues.work_queue).visibility_s = 359;
    }),
    ("timing.window", Verdict::Fail, |f| {
        of(&mut f.mappings)[0].window_s = 6;
    }),
    ("timing.window", Verdict::Fail, |f| {
        of(&mut f.mappings)[1].window_s = 61;
    }),
    ("timing.long_actions", Verdict::Fail, |f| {
        of(f.functions.long_processor.as_mut().unwrap()).timeout_s = 840;
    }),
    ("timing.long_actions", Verdict::Fail, |f| {
        of(f.queues.long.as_mut().unwrap()).visibility_s = 900;
    }),
    ("timing.catcher", Verdict::Fail, |f| {
        of(&mut f.functions.catcher).timeout_s = 2;
    }),
    ("queue.partial_batch", Verdict::Fail, |f| {
        of(&mut f.mappings)[0].reports_item_failures = false;
    }),
    ("queue.partial_batch", Verdict::Fail, |f| {
        of(&mut f.mappings).clear();
    }),
    ("queue.mapped", Verdict::Fail, |f| {
        of(&mut f.mappings)[0].queue_arn = arn("backlog");
    }),
    ("queue.mapped", Verdict::Fail, |f| {
        of(&mut f.mappings)[0].state = "Disabled".to_owned();
    }),
    ("queue.mapped", Verdict::Fail, |f| {
        of(&mut f.mappings).pop();
    }),
    ("queue.redrive", Verdict::Fail, |f| {
        of(f.queues.long.as_mut().unwrap()).redrive = None;
    }),
    ("queue.redrive", Verdict::Fail, |f| {
        of(&mut f.queues.backlog).redrive = None;
    }),
    ("queue.redrive", Verdict::Fail, |f| {
        of(&mut f.queues.work_dead_letters).arn = arn("other");
    }),
    ("queue.dlq_retention", Verdict::Fail, |f| {
        of(&mut f.queues.work_dead_letters).retention_s = 4 * DAY.as_secs();
    }),
    ("queue.max_receives", Verdict::Fail, |f| {
        let redrive = of(&mut f.queues.work_queue).redrive.as_mut();
        redrive.unwrap().max_receives = 4;
    }),
    ("queue.spill", Verdict::Fail, |f| {
        of(&mut f.queues.spill).retention_s = 4 * DAY.as_secs();
    }),
    ("queue.spill", Verdict::Fail, |f| {
        of(&mut f.queues.spill).redrive = Some(Redrive {
            target_arn: arn("dead"),
            max_receives: 10,
        });
    }),
    ("queue.depth", Verdict::Warn, |f| {
        of(&mut f.queues.work_queue).visible = 1001;
    }),
    ("queue.depth", Verdict::Warn, |f| {
        of(&mut f.queues.spill).in_flight = 1;
    }),
    ("queue.work_dead_letters", Verdict::Warn, |f| {
        of(&mut f.queues.work_dead_letters).visible = 1;
    }),
    ("queue.failed_runs", Verdict::Warn, |f| {
        of(&mut f.queues.ops_dead_letters).visible = 1;
    }),
    ("function.active", Verdict::Fail, |f| {
        of(&mut f.functions.catcher).last_update = Some("Failed".to_owned());
    }),
    ("function.active", Verdict::Fail, |f| {
        of(&mut f.functions.backup_sync).state = Some("Failed".to_owned());
    }),
    ("function.active", Verdict::Fail, |f| {
        let long = of(f.functions.long_processor.as_mut().unwrap());
        long.last_update = Some("Failed".to_owned());
    }),
    ("function.settings", Verdict::Fail, |f| {
        f.functions.long_processor = Some(function(900, "egress"));
    }),
    ("function.settings", Verdict::Fail, |f| {
        let environment = &mut of(&mut f.functions.processor).environment;
        environment.insert("MITT_SECRETS_PATH".to_owned(), "/mitt/ingress".to_owned());
    }),
    ("function.settings", Verdict::Fail, |f| {
        of(&mut f.functions.catcher)
            .environment
            .remove("MITT_TABLE");
    }),
    ("function.settings", Verdict::Fail, |f| {
        f.names.secrets_manager_prefix = Some("prod/webhooks".to_owned());
    }),
    ("function.endpoints", Verdict::Fail, |f| {
        let environment = &mut of(&mut f.functions.processor).environment;
        environment.insert("MITT_ENDPOINTS".to_owned(), "sqs=http://x".to_owned());
    }),
    ("table.active", Verdict::Fail, |f| {
        of(&mut f.table).indexes.remove("work");
    }),
    ("table.active", Verdict::Fail, |f| {
        of(&mut f.table).status = "DELETING".to_owned();
    }),
    ("table.ttl", Verdict::Fail, |f| f.ttl = Ok(None)),
    ("table.ttl", Verdict::Fail, |f| {
        f.ttl = Ok(Some("expires".to_owned()));
    }),
    ("table.recovery", Verdict::Fail, |f| f.recovery = Ok(false)),
    ("table.protected", Verdict::Warn, |f| {
        of(&mut f.table).deletion_protection = Some(false);
    }),
    ("secret.present", Verdict::Fail, |f| {
        of(&mut f.secrets)[0].kind = "egress".to_owned();
    }),
    ("secret.age", Verdict::Warn, |f| {
        of(&mut f.secrets)[0].age = DAY * 366;
    }),
    ("secret.unused", Verdict::Warn, |f| {
        let mut other = of(&mut f.secrets)[0].clone();
        other.name = "strpe-main".to_owned();
        of(&mut f.secrets).push(other);
    }),
    ("schedule.sweep", Verdict::Fail, |f| {
        of(&mut f.heartbeats).insert("sweep".to_owned(), NOW - Duration::from_secs(901));
    }),
    ("schedule.drain", Verdict::Fail, |f| {
        of(&mut f.heartbeats).remove("drain");
    }),
    ("schedule.sync", Verdict::Fail, |f| {
        of(&mut f.heartbeats).insert("sync".to_owned(), NOW - Duration::from_secs(2701));
    }),
    ("schedule.endpoints", Verdict::Fail, |f| {
        of(&mut f.heartbeats).insert("endpoints".to_owned(), NOW - Duration::from_secs(3 * 3601));
    }),
    ("schedule.reconcile", Verdict::Fail, |f| {
        of(&mut f.heartbeats).insert("reconcile".to_owned(), NOW - DAY * 22);
    }),
    ("alarm.present", Verdict::Fail, |f| {
        of(&mut f.alarms).pop();
    }),
    ("alarm.present", Verdict::Fail, |f| {
        of(&mut f.alarms)[1].about = vec!["another".to_owned()];
    }),
    ("alarm.present", Verdict::Fail, |f| {
        of(&mut f.alarms)[2].about = vec!["another".to_owned()];
    }),
    ("alarm.actions", Verdict::Warn, |f| {
        of(&mut f.alarms)[0].actions = 0;
    }),
    ("alarm.ringing", Verdict::Warn, |f| {
        of(&mut f.alarms)[0].ringing = true;
    }),
    ("source.outage", Verdict::Warn, |f| {
        source(f).outage.longest_s = Some(0);
    }),
    ("source.outage", Verdict::Warn, |f| {
        source(f).outage.longest_s = None;
    }),
    ("source.sync", Verdict::Warn, |f| {
        source(f).sync = Some("late");
    }),
    ("source.silent", Verdict::Warn, |f| {
        source(f).silent = Some("silent 36m, usually every 4m".to_owned());
    }),
    ("source.paths", Verdict::Warn, |f| {
        let missing = "invoice.paid has no order at json:data.id".to_owned();
        source(f).missing.push(missing);
    }),
    ("source.subscription", Verdict::Fail, |f| {
        source(f).dark = Some(Dark {
            health: "disabled".to_owned(),
            note: None,
        });
    }),
    ("source.breaker", Verdict::Warn, |f| {
        source(f).breakers.push(OpenBreaker {
            destination: "erp".to_owned(),
            until: Some(NOW + Duration::from_secs(30)),
            refused: Some(404),
        });
    }),
    ("source.paused", Verdict::Warn, |f| {
        source(f).paused = Some("paused 3m ago by alice: a bad release".to_owned());
    }),
    ("source.rotation", Verdict::Warn, |f| {
        source(f).overdue = Some("rotation should have ended 2h ago".to_owned());
    }),
    ("source.long_actions", Verdict::Fail, |f| {
        f.names.long_queue_url = None;
    }),
    ("source.long_actions", Verdict::Fail, |f| {
        reported(f, Some(false));
    }),
    ("source.trial", Verdict::Fail, |f| {
        let environment = &mut of(&mut f.functions.catcher).environment;
        environment.insert("MITT_EGRESS_PATH".to_owned(), String::new());
    }),
    ("source.in_force", Verdict::Warn, |f| {
        apply(f, |report| report.from_table = false);
    }),
    ("source.in_force", Verdict::Fail, |f| {
        apply(f, |report| report.failed = true);
    }),
    ("source.in_force", Verdict::Fail, |f| apply(f, |_| {})),
    ("event.dead_letters", Verdict::Warn, |f| {
        of(&mut f.dead_letters).count = 1;
    }),
    ("alarm.present", Verdict::Fail, |f| {
        of(&mut f.alarms).retain(|alarm| alarm.metric != "ViolatedChecks");
    }),
    ("alarm.present", Verdict::Fail, |f| {
        of(&mut f.alarms).retain(|alarm| alarm.metric != "OpenBreakers");
    }),
    ("function.version", Verdict::Warn, |f| {
        of(&mut f.functions.processor).version = Some("0.2.0".to_owned());
    }),
    ("function.architecture", Verdict::Fail, |f| {
        of(&mut f.functions.processor).architecture = Some("x86_64".to_owned());
    }),
    ("function.concurrency", Verdict::Warn, |f| {
        let new = AccountLimit {
            concurrent: 10,
            unreserved: 10,
        };
        *of(&mut f.account) = new;
        // Also the lowest values of the template do not fit into a new account.
        for mapping in of(&mut f.mappings) {
            mapping.max_concurrency = Some(2);
        }
    }),
    ("function.concurrency", Verdict::Warn, |f| {
        // Two mappings with five executions each, six schedules, and ten for the catcher.
        of(&mut f.account).unreserved = 25;
    }),
    ("function.concurrency", Verdict::Warn, |f| {
        of(&mut f.account).unreserved = 26;
        of(&mut f.mappings)[0].max_concurrency = Some(6);
    }),
    ("iam.read", Verdict::Fail, |f| {
        f.account = Err(Unknown::Denied("lambda:GetAccountSettings".to_owned()));
    }),
    ("iam.read", Verdict::Fail, |f| {
        f.alarms = Err(Unknown::Denied("cloudwatch:DescribeAlarms".to_owned()));
    }),
    ("iam.read", Verdict::Fail, |f| {
        f.queues.spill = Err(Unknown::Denied("sqs:GetQueueAttributes".to_owned()));
    }),
    ("iam.write", Verdict::NotChecked, |f| {
        f.may_write = Err(Unknown::Denied("dynamodb:UpdateItem".to_owned()));
    }),
];

/// Adds version 3 to the table, an hour ago, and a new report of functions that use version 2.
fn apply(facts: &mut Facts, change: fn(&mut SourcesReport)) {
    let mut report = SourcesReport {
        from_table: true,
        version: Some(2),
        ..SourcesReport::default()
    };
    change(&mut report);
    facts.versions = Ok(Versions {
        applied: Some(VersionFacts {
            version: 3,
            hash: "01234567".to_owned(),
            at: NOW - Duration::from_secs(3600),
            by: "alice".to_owned(),
            why: "why".to_owned(),
        }),
        report: Some((NOW, report)),
    });
}

/// Adds a report on whether the stack has the queue for long actions.
fn reported(facts: &mut Facts, long_actions: Option<bool>) {
    let report = SourcesReport {
        long_actions,
        ..SourcesReport::default()
    };
    of(&mut facts.versions).report = Some((NOW, report));
}

#[test]
fn a_stack_without_long_actions_is_healthy() {
    let mut facts = healthy();
    facts.names.long_queue_url = None;
    facts.names.long_processor = None;
    facts.queues.long = None;
    facts.functions.long_processor = None;
    of(&mut facts.mappings).pop();
    of(&mut facts.alarms).remove(1);
    source(&mut facts).long = None;
    reported(&mut facts, Some(false));
    for check in ALL.iter().filter(|check| check.group() != "end_to_end") {
        let checked = check.of(&facts);
        assert_eq!(checked.result, Verdict::Pass, "{checked:?}");
    }
}

#[test]
fn a_report_from_before_the_change_is_no_fault() {
    let mut facts = healthy();
    apply(&mut facts, |report| report.version = Some(3));
    assert_eq!(result(&facts, "source.in_force"), Verdict::Pass);
    apply(&mut facts, |_| {});
    of(&mut facts.versions).report.as_mut().unwrap().0 = NOW - Duration::from_secs(3590);
    assert_eq!(result(&facts, "source.in_force"), Verdict::Pass);
    of(&mut facts.versions).report = None;
    assert_eq!(result(&facts, "source.in_force"), Verdict::NotChecked);
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let facts = healthy();
    for check in ALL.iter().filter(|check| check.group() != "end_to_end") {
        let checked = check.of(&facts);
        assert_eq!(checked.result, Verdict::Pass, "{checked:?}");
        assert_eq!(checked.fix, None, "{}", check.name);
    }
}

#[test]
fn each_check_finds_its_fault() {
    for (at, (name, expected, spoil)) in FAULTS.iter().enumerate() {
        let mut facts = healthy();
        spoil(&mut facts);
        let check = ALL.iter().find(|check| check.name == *name).unwrap();
        let checked = check.of(&facts);
        assert_eq!(checked.result, *expected, "fault {at}: {checked:?}");
        if *expected != Verdict::NotChecked {
            assert!(checked.fix.is_some(), "{name} has no fix");
        }
    }
}

#[test]
fn no_check_is_without_a_fault() {
    let seen: BTreeSet<&str> = FAULTS.iter().map(|(name, _, _)| *name).collect();
    let all = ALL.iter().map(|check| check.name);
    let all: BTreeSet<&str> = all.filter(|name| *name != "end_to_end.canary").collect();
    assert_eq!(seen, all);
}

#[test]
fn what_cannot_be_looked_at_does_not_pass() {
    let mut facts = healthy();
    facts.alarms = Err(Unknown::NotHere);
    facts.recovery = Err(Unknown::NotHere);
    facts.queues.spill = Err(Unknown::Unnamed("spill_queue_url"));
    for name in [
        "alarm.present",
        "table.recovery",
        "queue.spill",
        "queue.depth",
    ] {
        assert_eq!(result(&facts, name), Verdict::NotChecked, "{name}");
    }
    assert_eq!(result(&facts, "queue.dlq_retention"), Verdict::Pass);
}

#[test]
fn an_account_with_just_enough_executions_passes() {
    let mut facts = healthy();
    of(&mut facts.account).unreserved = 26;
    assert_eq!(result(&facts, "function.concurrency"), Verdict::Pass);
    of(&mut facts.mappings)[0].max_concurrency = None;
    assert_eq!(result(&facts, "function.concurrency"), Verdict::Pass);
}

#[test]
fn functions_that_state_no_architecture_are_not_compared() {
    let mut facts = healthy();
    let Functions {
        catcher,
        processor,
        long_processor,
        backup_sync,
    } = &mut facts.functions;
    let long_processor = long_processor.as_mut().unwrap();
    for function in [catcher, processor, long_processor, backup_sync] {
        of(function).architecture = None;
    }
    assert_eq!(result(&facts, "function.architecture"), Verdict::NotChecked);
}

#[test]
fn a_young_stack_need_not_have_done_its_rounds() {
    let mut facts = healthy();
    facts.heartbeats = Ok([].into());
    of(&mut facts.table).created = Some(NOW - Duration::from_secs(60));
    assert_eq!(result(&facts, "schedule.sweep"), Verdict::NotChecked);
    of(&mut facts.table).created = Some(NOW - DAY);
    assert_eq!(result(&facts, "schedule.sweep"), Verdict::Fail);
}

#[test]
fn the_fix_names_the_queue_that_it_is_for() {
    let mut facts = healthy();
    of(&mut facts.queues.work_dead_letters).retention_s = 4 * DAY.as_secs();
    let check = ALL
        .iter()
        .find(|check| check.name == "queue.dlq_retention")
        .unwrap();
    let checked = check.of(&facts);
    assert!(checked.fix.unwrap().contains(&url("dead")));
    assert_eq!(checked.docs, "infra/docs/doctor.md#queuedlq_retention");
}
