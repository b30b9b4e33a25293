//! The sync of each preset with the real binaries, against a server that answers as the provider's
//! documentation says. The sync stores each event that never arrived exactly once, with the id that
//! its webhook would have.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bad_input;
mod by_data;
mod inbox;
mod play;
mod plays;
mod script;
mod secrets;
mod stand_in;
mod template;
mod thin;

use std::collections::BTreeMap;

use inbox::Inbox;
use play::{Happened, Play};
use serde_json::Value;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::State;
use shared::webhook::event::Via;
use shared::webhook::preset::Preset;
use stand_in::Failure;

macro_rules! providers {
    ($($kind:ident: $($name:ident)*;)*) => {
        const PLAYS: &[&str] = &[$($(stringify!($name),)*)*];

        $($(
            #[tokio::test]
            async fn $name() {
                $kind(plays::$name()).await;
            }
        )*)*
    };
}

providers! {
    event_is_found_once: stripe stripe_thin github github_org github_app gitlab workos paddle paypal
        gocardless square chargebee mailgun okta zendesk fireflies coinbase_commerce;
    change_is_found_once: shopify box_ asana airtable microsoft_graph microsoft_graph_directory
        dropbox notion hubspot linear jira;
}

/// Providers of which a file in `scripts/` describes the documented requests and responses.
macro_rules! scripts {
    ($($kind:ident: $($name:ident)*;)*) => {
        const SCRIPTS: &[&str] = &[$($(stringify!($name),)*)*];

        $($(
            #[tokio::test]
            async fn $name() {
                $kind(script::play(stringify!($name))).await;
            }
        )*)*
    };
}

scripts! {
    event_is_found_once: auth0 azure_devops close dwolla fusionauth launchdarkly persona polar
        sparkpost telnyx trello;
    change_is_found_once: freshdesk intercom pipedrive recurly woocommerce;
}

#[test]
fn every_script_has_a_test() {
    let mut tested = SCRIPTS.to_vec();
    tested.sort_unstable();
    assert_eq!(script::names(), tested);
}

#[test]
fn every_list_of_a_preset_has_a_test() {
    let is_tested = |id: &str| {
        let name = id.replace('-', "_");
        let mut tested = PLAYS.iter().chain(SCRIPTS);
        tested.any(|test| test.trim_end_matches('_') == name)
    };
    for id in Preset::ids() {
        let preset = Preset::embedded(id, &BTreeMap::new()).unwrap();
        assert!(preset.syncs.is_empty() || is_tested(id), "{id}");
    }
}

/// Checks a list of events. Each event has the same id in the list and in its webhook, so the sync
/// stores it once, whether the webhook arrived before, arrives later, or never arrives.
async fn event_is_found_once(play: Play) {
    let inbox = Inbox::start(play).await;
    let play = inbox.play();
    let count = play.count();
    let events: Vec<Happened> = (0..count).map(|n| inbox.happen(n, count)).collect();
    let (first, second) = (&events[0], &events[1]);
    // The first run looks back one hour.
    let old = play.is_scripted().then(|| inbox.happened_ago(9_000, 9_000));
    let came = inbox.deliver(first).await;

    // The first requests are throttled, the next response is truncated, and then the provider
    // answers.
    inbox
        .stand_in()
        .fail(&[Failure::TooMany, Failure::BadPage, Failure::ServerError]);
    let report = inbox.sync().await;
    let missing = if came { count - 1 } else { count };
    assert_eq!(report["found"], missing, "{report}");
    assert_eq!(report["complete"], true, "{report}");
    for event in &events {
        let row = inbox.row(event).await.unwrap();
        let via = if came && event.id == first.id {
            Via::Webhook
        } else {
            Via::BackupSync
        };
        assert_eq!(row.via, via, "{}", event.id);
        assert_eq!(row.kind, inbox.play().kind_of(event));
    }
    assert_eq!(inbox.events().await, count);
    if let Some(old) = old {
        assert!(inbox.row(&old).await.is_none(), "before the time range");
    }

    // The late webhook is a duplicate, and its body contains everything in the stored one.
    if inbox.deliver(second).await {
        let kept: Value = inbox.body(second).await;
        let sent = inbox.webhook(second).unwrap();
        let sent: Value = serde_json::from_slice(&sent.body).unwrap();
        assert!(holds(&sent, &kept), "{sent}\n{kept}");
    }
    let row = inbox.row(second).await.unwrap();
    assert_eq!(
        (row.via, row.state != State::Quarantined),
        (Via::BackupSync, true)
    );
    assert_eq!(inbox.events().await, count);

    let report = inbox.sync().await;
    assert_eq!(report["found"], 0, "{report}");

    // This event happens before the run, but the list contains it only after the end of the run.
    let late = inbox.happen(count, count);
    let report = inbox.sync().await;
    assert_eq!(report["found"], 1, "{report}");
    assert!(inbox.row(&late).await.is_some());
    assert_eq!(inbox.events().await, count + 1);
    inbox.end().await;
}

/// Checks a list of changes: each change is stored once, in addition to the events of webhooks.
async fn change_is_found_once(play: Play) {
    let inbox = Inbox::start(play).await;
    let play = inbox.play();
    let count = play.count();
    if play.from_now_on {
        let before = inbox.happened_ago(9_000, 3_000);
        let report = inbox.sync().await;
        assert_eq!(
            (&report["found"], &report["complete"]),
            (&0.into(), &true.into()),
            "{report}"
        );
        assert_eq!(inbox.events().await, 0, "{}", before.id);
    }
    for n in 0..count {
        inbox.happen(n, count);
    }
    if play.is_scripted() {
        inbox.happened_ago(9_000, 9_000);
    }
    inbox
        .stand_in()
        .fail(&[Failure::TooMany, Failure::BadPage, Failure::ServerError]);
    let report = inbox.sync().await;
    assert_eq!(report["found"], count, "{report}");
    assert_eq!(report["complete"], true, "{report}");
    for listed in inbox.listed().await {
        assert_eq!(listed.kind, "mitt.changed");
    }
    let report = inbox.sync().await;
    assert_eq!(report["found"], 0, "{report}");
    inbox.happen(count, count);
    let report = inbox.sync().await;
    assert_eq!(report["found"], 1, "{report}");
    assert_eq!(inbox.events().await, count + 1);
    inbox.end().await;
}

/// GitHub redelivers an event on request, which then arrives by webhook.
#[tokio::test]
async fn a_redelivery_is_asked_for_and_arrives_by_webhook() {
    let mut play = plays::github();
    play.settings = format!("{}\nmissing = \"redeliver\"", play.settings);
    let inbox = Inbox::start(play).await;
    let events: Vec<Happened> = (0..5).map(|n| inbox.happen(n, 5)).collect();
    let report = inbox.sync().await;
    assert_eq!(
        (&report["found"], &report["asked"]),
        (&0.into(), &5.into()),
        "{report}"
    );
    assert_eq!(inbox.events().await, 0);
    let asked = inbox.stand_in().asked_again();
    assert_eq!(asked.len(), 5);
    for event in &events {
        assert!(asked.contains(&event.id) && inbox.deliver(event).await);
    }
    let report = inbox.sync().await;
    assert_eq!(
        (&report["asked"], &report["complete"]),
        (&0.into(), &true.into()),
        "{report}"
    );
    assert_eq!(inbox.row(&events[0]).await.unwrap().via, Via::Webhook);
    inbox.end().await;
}

/// After a limited number of failed redeliveries, the event is fetched from the API.
#[tokio::test]
async fn a_redelivery_that_never_comes_is_asked_for_three_times() {
    let mut play = plays::github();
    play.settings = format!("{}\nmissing = \"redeliver\"", play.settings);
    let inbox = Inbox::start(play).await;
    let event = inbox.happen(0, 1);
    for _ in 0..3 {
        let report = inbox.sync().await;
        assert_eq!((&report["asked"], &report["found"]), (&1.into(), &0.into()));
        assert_eq!(inbox.events().await, 0);
    }
    let report = inbox.sync().await;
    assert_eq!((&report["asked"], &report["found"]), (&0.into(), &1.into()));
    assert_eq!(inbox.row(&event).await.unwrap().via, Via::BackupSync);
    inbox.end().await;
}

/// A dry run does not change the table, and requests no redelivery.
#[tokio::test]
async fn a_run_that_only_looks_writes_nothing() {
    let mut play = plays::github();
    play.settings = format!("{}\nmissing = \"redeliver\"", play.settings);
    let inbox = Inbox::start(play).await;
    assert_eq!(inbox.sync().await["complete"], true);
    let count = inbox.play().size * 2 + 1;
    for n in 0..count {
        inbox.happen(n, count);
    }
    let before = inbox.table().await;
    assert!(!before.is_empty());
    let looked = inbox.look().await;
    assert_eq!(inbox.table().await, before);
    assert_eq!(looked["found"], count, "{looked}");
    assert_eq!(looked["missing"].as_array().unwrap().len(), count);
    assert_eq!(looked["complete"], true);
    assert!(inbox.stand_in().asked_again().is_empty());
    assert_eq!(inbox.sync().await["asked"], count, "the real run does");
    inbox.end().await;
}

/// The sync skips events that the provider reports as delivered.
#[tokio::test]
async fn only_failed_deliveries_are_looked_for_where_that_is_wished() {
    let mut play = plays::github();
    play.settings = format!("{}\nfailed_only = true", play.settings);
    let inbox = Inbox::start(play).await;
    let delivered = inbox.happen(0, 2);
    let failed = inbox.happen(1, 2);
    inbox.stand_in().delivered(&delivered.id);
    let report = inbox.sync().await;
    assert_eq!(
        (&report["listed"], &report["found"]),
        (&1.into(), &1.into()),
        "{report}"
    );
    assert!(inbox.row(&failed).await.is_some());
    assert!(inbox.row(&delivered).await.is_none());
    inbox.end().await;
}

/// If the provider lists an event that it no longer has, the sync still finds the others.
#[tokio::test]
async fn an_event_that_is_gone_is_told_and_the_run_goes_on() {
    let inbox = Inbox::start(plays::github()).await;
    let gone = inbox.happen(0, 2);
    let there = inbox.happen(1, 2);
    inbox.stand_in().forget(&gone.id);
    let report = inbox.sync().await;
    assert_eq!(
        (&report["found"], &report["gone"]),
        (&1.into(), &1.into()),
        "{report}"
    );
    assert_eq!(report["complete"], true);
    assert!(inbox.row(&there).await.is_some() && inbox.row(&gone).await.is_none());
    inbox.end().await;
}

/// If the provider has forgotten a position in its list, the report has a gap, and the list
/// continues from now.
#[tokio::test]
async fn a_place_that_is_lost_is_told_as_a_gap() {
    let inbox = Inbox::start(plays::asana()).await;
    assert_eq!(inbox.sync().await["complete"], true);
    inbox.happen(0, 1);
    inbox.stand_in().forget_places();
    let error = inbox.sync_error().await;
    assert!(error.contains("the next run restarts"), "{error}");
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let report = inbox.sync().await;
    assert!(report["unreachable_s"].as_u64().unwrap() >= 1, "{report}");
    inbox.happen(1, 1);
    assert_eq!(inbox.sync().await["found"], 1);
    inbox.end().await;
}

/// The key is sent to no other host, whatever a page contains.
#[tokio::test]
async fn a_next_page_elsewhere_is_not_asked_for() {
    let inbox = Inbox::start(plays::mailgun()).await;
    for n in 0..5 {
        inbox.happen(n, 5);
    }
    inbox
        .stand_in()
        .point_elsewhere("http://localhost:9/v3/events?page=2");
    let error = inbox.sync_error().await;
    assert!(error.contains("another origin"), "{error}");
    let asked = inbox.stand_in().requests();
    assert_eq!(asked, 1);
    inbox.end().await;
}

/// The sync respects the rate limit of requests per minute, whatever the pages contain.
#[tokio::test]
async fn a_provider_is_asked_no_more_often_than_it_takes() {
    let inbox = Inbox::start(plays::paddle()).await;
    let count = inbox.play().size * 3 + 1;
    for n in 0..count {
        inbox.happen(n, count);
    }
    let began = UnixMillis::now();
    assert_eq!(inbox.sync().await["found"], count);
    // The limit is 120 requests a minute, so four requests have half a second between them.
    let took = UnixMillis::now().since(began);
    assert!(took.as_millis() >= 1_500, "{took:?}");
    inbox.end().await;
}

/// Returns whether `whole` contains everything in `part`.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(name, value)| whole.get(name).is_some_and(|other| holds(other, value))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(a, b)| holds(a, b))
        }
        (whole, part) => whole == part,
    }
}
