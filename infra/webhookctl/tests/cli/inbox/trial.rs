//! `trial report`, `inbox list --tee` and `inspect`, for a trial with a route that loses, repeats
//! and delays events.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{RouteAnswer, RouteOutcome};
use shared::inbox::rejected::{NewRejection, RejectedRequests, StoreResult};
use shared::sources::{Config, EMBEDDED};
use shared::webhook::envelope::Envelope;
use shared::webhook::event::Event;
use shared::webhook::verify::Reason;

use super::world::{New, World, event, keys, stderr, stdout};

const EVENTS: usize = 2000;

/// The time between two events.
const EACH: Duration = Duration::from_secs(10);

const HOUR: u64 = 60;

/// What the route does with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Lose(RouteOutcome),
    Double,
    Delay,
    Hesitate,
    Accept,
}

/// The seeded list: 1 % of the events are lost, 0.5 % are doubled, and a few are late or slow. The
/// multiplier and the number of events have no common divisor, so each event has one place.
fn does(number: usize) -> Does {
    match (number * 7919 + 13) % EVENTS {
        0..12 => Does::Lose(RouteOutcome::Timeout),
        12..17 => Does::Lose(RouteOutcome::Status(500)),
        17..20 => Does::Lose(RouteOutcome::Status(401)),
        20..30 => Does::Double,
        30..35 => Does::Delay,
        35..39 => Does::Hesitate,
        _ => Does::Accept,
    }
}

fn id(number: usize) -> String {
    format!("evt_{number:04}")
}

/// The ids of the events with which the route does this, in the order of receipt.
fn ids(wanted: impl Fn(Does) -> bool) -> Vec<String> {
    let numbers = (0..EVENTS).filter(|number| wanted(does(*number)));
    numbers.map(id).collect()
}

fn lost() -> Vec<String> {
    ids(|does| matches!(does, Does::Lose(_)))
}

fn answer(at: UnixMillis, outcome: RouteOutcome) -> RouteAnswer {
    let body = matches!(outcome, RouteOutcome::Status(_)).then_some(b"ok".as_slice());
    let answer = RouteAnswer::new(at, outcome, Duration::from_millis(200), body, "new");
    answer
        .with_own(Duration::from_millis(9))
        .with_hop(Duration::from_millis(11))
}

fn answers(at: UnixMillis, does: Does) -> Vec<RouteAnswer> {
    let after = |seconds| at + Duration::from_secs(seconds);
    let ok = |seconds| answer(after(seconds), RouteOutcome::Status(200));
    let failed = |seconds, outcome| answer(after(seconds), outcome);
    match does {
        Does::Lose(outcome) => vec![failed(1, outcome), failed(8, outcome)],
        Does::Double => vec![ok(1), ok(3)],
        Does::Delay => vec![failed(1, RouteOutcome::Unreachable), ok(95)],
        Does::Hesitate => vec![RouteAnswer {
            took: Duration::from_secs(7),
            ..ok(7)
        }],
        Does::Accept => vec![ok(1)],
    }
}

async fn record(world: &World, id: &str, at: UnixMillis, answers: &[RouteAnswer]) -> Event {
    let event = event(&New::of("stripe-main", id), at);
    let placed = world.ledger.store_body(&event).await.unwrap();
    let recorded = world.ledger.record_trial(&event, &placed, at);
    recorded.await.unwrap();
    for answer in answers {
        let noted = world.ledger.record_route_answer(event.key(), answer);
        assert!(noted.await.unwrap());
    }
    event
}

/// Records the seeded list. It begins five days ago, so the provider no longer retries.
async fn trial(name: &str, events: usize) -> World {
    let world = World::start(name).await;
    let begin = world.ago(5 * 24 * HOUR);
    for from in (0..events).step_by(50) {
        let some = (from..(from + 50).min(events)).map(async |number| {
            let at = begin + EACH * u32::try_from(number).unwrap();
            record(&world, &id(number), at, &answers(at, does(number))).await;
        });
        join_all(some).await;
    }
    world
}

/// Events that have no finding, or whose loss is not certain yet.
async fn near_misses(world: &World) {
    let timeout = |at| [answer(at, RouteOutcome::Timeout)];
    let at = world.ago(HOUR);
    record(world, "retried", at, &timeout(at)).await;
    // The provider sent the event again after the trial.
    let at = world.ago(4 * 24 * HOUR);
    let adopted = record(world, "adopted", at, &timeout(at)).await;
    world.ledger.receive(&adopted, world.now).await.unwrap();
    // The route accepts the next event eleven minutes after these two.
    let at = world.ago(4 * 24 * HOUR - 30);
    record(world, "outage", at, &timeout(at)).await;
    record(world, "killed", at + Duration::from_secs(1), &[]).await;
    let at = world.ago(4 * 24 * HOUR - 41);
    let accepted = [answer(at, RouteOutcome::Status(200))];
    record(world, "recovered", at, &accepted).await;
    world.put(New::of("stripe-main", "usual")).await;
}

/// The file of a source in a trial.
const IN_TRIAL: &str = "schema = 1\n[forward]\nallow_hosts = [\"app.example.com\"]\n[[source]]\n\
                        name = \"stripe-main\"\npreset = \"stripe\"\nmode = \"tee\"\n\
                        [[source.action]]\nkind = \"http\"\nurl = \"https://app.example.com/a\"\n\
                        sign = \"none\"\n";

#[tokio::test]
async fn a_trial_ends_only_if_mitt_accepts_what_the_route_accepts() {
    let world = World::start("trial-promote").await;
    let file = world.folder.path().join("tee.toml");
    std::fs::write(&file, IN_TRIAL).unwrap();
    let path = file.to_str().unwrap();
    let promote = ["sources", "promote", "stripe-main", "--file", path];
    let refused = async |why: &str| {
        let output = world.run(&promote).await;
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(why), "{said}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), IN_TRIAL);
        said
    };
    refused("sources.promote_unproven").await;
    let at = world.ago(HOUR);
    let failed = [answer(at, RouteOutcome::Status(500))];
    record(&world, "evt_1", at, &failed).await;
    refused("sources.promote_unproven").await;
    let accepted = [answer(at, RouteOutcome::Status(200))];
    record(&world, "evt_2", at, &accepted).await;
    reject(&world, Some(RouteOutcome::Status(401))).await;
    reject(&world, Some(RouteOutcome::Status(200))).await;
    let said = refused("sources.promote_rejects").await;
    assert!(said.contains("rejected 1 request of"), "{said}");
    // A released request is in the inbox, so the disagreement is settled.
    let rejected = RejectedRequests::new(world.emulators.clients().dynamodb, &world.table);
    let held = rejected.held("stripe-main", at, world.now, world.now).await;
    for held in held.unwrap() {
        let released = rejected.mark_released(&held, None, world.now);
        released.await.unwrap();
    }
    let promoted = world.json(&promote).await;
    assert_eq!(promoted["checked"]["disagreements"], 0, "{promoted}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("tee"), "{text}");
}

async fn reject(world: &World, outcome: Option<RouteOutcome>) {
    let route = outcome.map(|outcome| answer(world.ago(HOUR), outcome));
    let config = Config::parse(EMBEDDED).unwrap();
    let envelope = Envelope {
        method: "POST".to_owned(),
        url: "https://example.com/in/stripe-main".to_owned(),
        headers: std::iter::empty::<(&str, &str)>().collect(),
        body: "{}".into(),
        received_at: world.ago(HOUR),
    };
    let rejection = NewRejection {
        source: config.source("stripe-main").unwrap(),
        envelope: &envelope,
        reason: Reason::BadSignature,
        route: route.as_ref(),
        secrets: &[],
    };
    let rejected = RejectedRequests::new(world.emulators.clients().dynamodb, &world.table);
    let left = Duration::from_secs(5);
    let kept = rejected.store(&rejection, world.ago(HOUR), left).await;
    assert!(matches!(kept, Ok(StoreResult::Stored(_))), "{kept:?}");
}

fn named(found: &Value) -> Vec<String> {
    let events = found["events"].as_array().unwrap().iter();
    events
        .map(|event| event["dedupe_key"].as_str().unwrap().to_owned())
        .collect()
}

/// The ids that the text names, by the section in which they stand.
fn sections(text: &str) -> BTreeMap<String, Vec<String>> {
    let (mut sections, mut section) = (BTreeMap::<_, Vec<String>>::new(), String::new());
    for line in text.lines() {
        let (name, rest) = line.split_at_checked(11).unwrap_or((line, ""));
        if !name.trim().is_empty() {
            name.trim().clone_into(&mut section);
        } else if rest.starts_with("evt_") {
            let key = rest.split_whitespace().last().unwrap().to_owned();
            sections.entry(section.clone()).or_default().push(key);
        }
    }
    sections
}

#[tokio::test]
async fn the_report_names_the_events_of_each_finding() {
    let world = trial("trial-report", EVENTS).await;
    near_misses(&world).await;
    reject(&world, Some(RouteOutcome::Status(200))).await;
    reject(&world, Some(RouteOutcome::Status(401))).await;
    reject(&world, None).await;
    let report = world.json(&["trial", "report", "stripe-main"]).await;
    assert_eq!(report["schema"], "webhookctl/trial.report/v1");
    assert_eq!(
        (&report["events"], &report["requests"]),
        (&json!(2005), &json!(2039))
    );
    let later = vec!["outage".to_owned()];
    assert_eq!(named(&report["lost"]), [lost(), later].concat());
    assert_eq!(named(&report["doubled"]), ids(|does| does == Does::Double));
    assert_eq!(named(&report["late"]), ids(|does| does == Does::Delay));
    assert_eq!(named(&report["slow"]), ids(|does| does == Does::Hesitate));
    let refused = Does::Lose(RouteOutcome::Status(401));
    let verdicts = &report["verdicts"];
    let by_route = &verdicts["accepted_by_mitt_refused_by_route"];
    assert_eq!(named(by_route), ids(|does| does == refused));
    assert_eq!(verdicts["rejected_by_mitt_accepted_by_route"]["count"], 1);
    let outcomes = json!({"timeout": 13, "500": 5, "401": 3});
    assert_eq!(report["lost"]["outcomes"], outcomes);
    assert_eq!(report["lost"]["recoverable_estimate"], 20);
    assert_eq!(report["lost"]["horizon_s"], 3 * 86_400);
    assert_eq!(
        (&report["pending"], &report["no_outcome"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(report["late"]["longest_s"], 94);
    assert_eq!(
        report["route_ms"],
        json!({"p50": 200, "p95": 200, "p99": 200})
    );
    assert_eq!(report["mitt_alone_ms"]["p50"], 9);
    assert_eq!(report["mitt_added_ms"]["p99"], 11);
}

#[tokio::test]
async fn the_text_names_the_same_events() {
    let world = trial("trial-text", EVENTS).await;
    let output = world
        .run(&["trial", "report", "stripe-main", "--since", "6d"])
        .await;
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    let sections = sections(&text);
    assert_eq!(sections["lost"], lost(), "{text}");
    assert_eq!(
        sections["doubled"],
        ids(|does| does == Does::Double),
        "{text}"
    );
    assert_eq!(sections["late"], ids(|does| does == Does::Delay), "{text}");
    assert_eq!(
        sections["slow"],
        ids(|does| does == Does::Hesitate),
        "{text}"
    );
    for said in [
        "2,000 events in 2,035 requests",
        "20 events never got a 2xx (3 × 401, 5 × 500, 12 timeout); estimate: 20 of them would",
        "5 events got the first 2xx more than 1m after the first request; longest 1m34s",
        "route p50 200 ms  p95 200 ms  p99 200 ms · Mitt alone would have answered in p50 9 ms",
        "0 requests that Mitt would have rejected and the route accepted · 3 events the other way",
        "0 events without a recorded answer · Mitt added p50 11 ms  p99 11 ms",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[tokio::test]
async fn a_list_has_the_events_of_a_finding() {
    let world = trial("trial-list", 400).await;
    let expected = |wanted: fn(Does) -> bool| {
        let numbers = (0..400).filter(move |number| wanted(does(*number)));
        numbers.map(id).collect::<Vec<_>>()
    };
    for (finding, wanted) in [
        ("lost", expected(|does| matches!(does, Does::Lose(_)))),
        ("doubled", expected(|does| does == Does::Double)),
        ("late", expected(|does| does == Does::Delay)),
        ("slow", expected(|does| does == Does::Hesitate)),
    ] {
        assert!(!wanted.is_empty(), "{finding}");
        let line = [
            "inbox",
            "list",
            "-s",
            "stripe-main",
            "--tee",
            finding,
            "--reverse",
        ];
        assert_eq!(keys(&world.json(&line).await), wanted, "{finding}");
    }
    let at = world.ago(4 * 24 * HOUR);
    record(&world, "killed", at, &[]).await;
    let unknown = world.listed(&["--tee", "unknown"]).await;
    assert_eq!(unknown, ["killed"]);
    let both = ["--tee", "lost", "--tee", "late", "-n", "100"];
    let both = world.listed(&both).await;
    let either = expected(|does| matches!(does, Does::Lose(_) | Does::Delay));
    assert_eq!(both.len(), either.len());
    let none = world
        .run(&["inbox", "list", "--tee", "lost", "--since", "1h"])
        .await;
    assert!(stderr(&none).contains("tee=lost"), "{}", stderr(&none));
    let wrong = world.run(&["inbox", "list", "--tee", "gone"]).await;
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
    let stats = world.run(&["inbox", "stats", "--tee", "lost"]).await;
    assert!(
        stderr(&stats).contains("[stats.selection]"),
        "{}",
        stderr(&stats)
    );
}

#[tokio::test]
async fn inspect_shows_the_answers_of_the_route() {
    let world = World::start("trial-inspect").await;
    let at = world.ago(5 * 24 * HOUR);
    let lost = Does::Lose(RouteOutcome::Status(500));
    record(&world, "lost", at, &answers(at, lost)).await;
    world.put(New::of("stripe-main", "usual")).await;
    let text = stdout(&world.run(&["inbox", "inspect", "stripe-main:lost"]).await);
    assert!(text.contains("status         done (tee)\n"), "{text}");
    let (_, route) = text.split_once("\nAnswers of the route\n").unwrap();
    assert_eq!(route.matches("500  200 ms  new").count(), 2, "{text}");
    let event = world.json(&["inbox", "inspect", "stripe-main:lost"]).await;
    assert_eq!(event["status"], "done");
    assert_eq!(event["trial"]["requests"], 2);
    assert_eq!(event["trial"]["answers"][1]["status"], 500);
    let usual = world.json(&["inbox", "inspect", "stripe-main:usual"]).await;
    assert_eq!(usual["trial"], Value::Null);
}

#[tokio::test]
async fn a_source_without_a_trial_has_an_empty_report() {
    let world = World::start("trial-none").await;
    world.put(New::of("stripe-main", "usual")).await;
    let report = world.run(&["trial", "report", "stripe-main"]).await;
    let text = stdout(&report);
    assert!(
        text.contains("No event of a trial of stripe-main"),
        "{text}"
    );
    let unknown = world.run(&["trial", "report", "strip-main"]).await;
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("did you mean 'stripe-main'?"));
    let line = [
        "trial",
        "report",
        "stripe-main",
        "--since",
        "1h",
        "--until",
        "2h",
    ];
    let wrong = world.run(&line).await;
    assert!(
        stderr(&wrong).contains("[trial.span]"),
        "{}",
        stderr(&wrong)
    );
}
