//! The history of each page's stack: the data that the examples of the page need.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use bytes::Bytes;
use futures::future::join_all;
use serde_json::json;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::base::timing::LEASE;
use shared::inbox::ledger::{Claim, EffectRow, EffectState, Settlement};
use shared::inbox::queue::{Queue, WorkMessage};
use shared::inbox::rejected::{NewRejection, RejectedRequests, StoreResult};
use shared::sources::{Config, Source};
use shared::webhook::envelope::{Envelope, Headers};
use shared::webhook::event::{Event, EventKey, Fetched, Via};
use shared::webhook::sign;
use shared::webhook::verify::Reason;

use crate::world::World;

/// The sources of the pages about failures. One action of `github-org` calls a program that works
/// again.
const SOURCES: &str = r#"
schema = 1
[forward]
allow_loopback = true

[[source]]
name = "acme"
preset = "standard-webhooks"
action = [{ kind = "keep" }]

[[source]]
name = "github-org"
preset = "github"
[[source.action]]
kind = "http"
name = "open-issue"
url = "{program}"
secret = "open-issue"

[[source]]
name = "shopify-eu"
preset = "shopify"
action = [{ kind = "keep" }]
"#;

/// The secrets of `shopify-eu` after and before its rotation.
const NEXT: &str = "secret-since-the-rotation";
const BEFORE: &str = "secret-before-the-rotation";

/// The event for which the program already has an issue.
const KNOWN: &str = "delivery-30";

/// Starts the stack of a page.
pub(super) async fn of(page: &str) -> World {
    let name = page.rsplit('/').next().unwrap_or(page);
    if !["dead-letters.md", "quarantine.md", "replay.md"].contains(&name) {
        let world = World::start().await;
        world.some_events().await;
        return world;
    }
    let sources = SOURCES.replace("{program}", &program());
    let config = Config::parse(&sources).unwrap();
    let world = World::with(&sources).await;
    world.secrets().await;
    if name == "quarantine.md" {
        world.a_scan(&config).await;
        world.a_rotation_that_we_missed(&config).await;
    } else {
        world.an_outage().await;
    }
    world
}

impl World {
    async fn secrets(&self) {
        for (function, name, value) in [
            ("Catcher", "acme/current", "whsec_bWl0dC1kZW1vLXNlY3JldA=="),
            ("Catcher", "shopify-eu/current", BEFORE),
            ("Catcher", "shopify-eu/next", NEXT),
            (
                "Processor",
                "open-issue/current",
                "whsec_bWl0dC1kZW1vLXNlY3JldA==",
            ),
        ] {
            let path = self.stack.secrets_path(function).unwrap();
            self.secret(&format!("{path}/{name}"), value).await;
        }
    }

    /// Stores the results of two failures. GitHub's API was down for three quarters of an hour, and
    /// one of our services was too slow once. Some messages are in the dead-letter queue.
    async fn an_outage(&self) {
        let keys = join_all((0..41).map(|number| self.dead_of_the_outage(number))).await;
        let slow = Died {
            source: "acme",
            preset: "standard-webhooks",
            kind: "invoice.paid",
            id: "inv_7".to_owned(),
            received_at: self.ago(2250),
            after: Duration::from_secs(38),
            error: "timeout after 30s calling billing.internal",
            effect: (EffectState::Unknown, false),
        };
        self.dead(slow).await;
        let dead = self.stack.queue_url("WorkDeadLetters").unwrap();
        let queue = Queue::new(self.stack.clients().sqs, dead);
        for key in keys.into_iter().take(7) {
            let bell = WorkMessage { key, run: 0 };
            queue.send(&bell, Duration::ZERO).await.unwrap();
        }
    }

    /// Stores one of 41 dead letters, a little more than a minute apart. For three of them it is
    /// unknown whether the program opened the issue.
    async fn dead_of_the_outage(&self, number: u64) -> EventKey {
        let effect = match number {
            13 | 27 => (EffectState::Unknown, true),
            20 => (EffectState::Unknown, false),
            _ => (EffectState::Not, true),
        };
        let is_issue = number % 10 < 7;
        let died = Died {
            source: "github-org",
            preset: "github",
            kind: if is_issue {
                "issues.opened"
            } else {
                "pull_request.closed"
            },
            id: format!("delivery-{number}"),
            received_at: self.ago(3000 - 70 * number),
            after: Duration::from_secs(70),
            error: "GitHub API 502 during issue creation",
            effect,
        };
        self.dead(died).await
    }

    async fn dead(&self, died: Died) -> EventKey {
        let event = Event::fetched(Fetched {
            source: died.source,
            provider: died.preset,
            preset: died.preset,
            id: &died.id,
            kind: died.kind,
            body: json!({ "id": died.id }).to_string().into(),
            now: died.received_at,
            via: Via::Webhook,
            config: "test",
        });
        let (key, at) = (event.key(), died.received_at);
        self.ledger.receive(&event, at).await.unwrap();
        let claim = self.ledger.claim(key, "worker", at, LEASE, 10).await;
        let Claim::Leased(lease) = claim.unwrap() else {
            panic!("{key} is not free");
        };
        let at = at + died.after;
        let (state, keyed) = died.effect;
        let effect = EffectRow {
            state,
            keyed,
            key: "wh_1".to_owned(),
            at,
            run: 0,
            note: String::new(),
            lease: None,
        };
        let dead = Settlement::DeadLetter {
            reason: "attempts_exhausted",
            error: died.error.to_owned(),
        };
        let effects = [("open-issue".to_owned(), effect)];
        self.ledger
            .settle(*lease, dead, &effects, at)
            .await
            .unwrap();
        key.clone()
    }

    /// Stores the requests of a scanner, which has sent many requests to `acme`.
    async fn a_scan(&self, config: &Config) {
        for number in 0..118 {
            let body = br#"{"admin":true}"#.as_slice();
            let envelope = request("acme", self.ago(12 + number), &[], body);
            let source = config.source("acme").unwrap();
            self.kept_apart(source, &envelope, Reason::MissingHeader)
                .await;
        }
    }

    /// Stores nine orders that are signed with the new secret before it was stored, and three
    /// orders with an unrelated secret.
    async fn a_rotation_that_we_missed(&self, config: &Config) {
        let source = config.source("shopify-eu").unwrap();
        let scheme = source.verifier.preset.scheme("default").unwrap();
        for number in 0..12 {
            let body = json!({ "id": 5001 + number, "total_price": "39.90" }).to_string();
            let at = self.ago(250 + 120 * number);
            let id = format!("b54557e4-bdd9-4b37-8a5f-bf7d70bc{number:04}");
            let own = [
                ("x-shopify-topic", "orders/create"),
                ("x-shopify-event-id", id.as_str()),
            ];
            let envelope = request("shopify-eu", at, &own, body);
            let secret = if number % 4 == 3 { "stranger" } else { NEXT };
            let secret = Secret::new("test", secret);
            let signed = sign::signed(scheme, &secret, envelope, at).unwrap();
            self.kept_apart(source, &signed, Reason::BadSignature).await;
        }
    }

    /// Puts a request into the quarantine, as the catcher does.
    async fn kept_apart(&self, source: &Source, envelope: &Envelope, reason: Reason) {
        let refused = NewRejection {
            source,
            envelope,
            reason,
            route: None,
            secrets: &[],
        };
        // One `RejectedRequests` stores only a few requests at a time, so each request uses its
        // own.
        let quarantine = RejectedRequests::new(self.stack.clients().dynamodb, self.table());
        let kept = quarantine
            .store(&refused, self.now, Duration::from_secs(10))
            .await;
        assert!(matches!(kept, Ok(StoreResult::Stored(_))), "{kept:?}");
    }
}

/// An event, and how it became a dead letter.
struct Died {
    source: &'static str,
    preset: &'static str,
    kind: &'static str,
    id: String,
    received_at: UnixMillis,
    /// The duration of its processing.
    after: Duration,
    error: &'static str,
    /// The state of its only effect, and whether the effect has an idempotency key.
    effect: (EffectState, bool),
}

fn request(
    source: &str,
    received_at: UnixMillis,
    own: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Envelope {
    let all = [
        ("content-type", "application/json"),
        ("x-forwarded-for", "203.0.113.9"),
    ];
    Envelope {
        method: "POST".to_owned(),
        url: format!("https://hooks.example.com/in/{source}"),
        headers: all
            .into_iter()
            .chain(own.iter().copied())
            .collect::<Headers>(),
        body: body.into(),
        received_at,
    }
}

/// Opens an issue for each event, but rejects an event that already has one.
fn program() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/issues", listener.local_addr().unwrap());
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let answer = async |body: String| {
        if body.contains(KNOWN) {
            StatusCode::UNPROCESSABLE_ENTITY
        } else {
            StatusCode::CREATED
        }
    };
    let router = Router::new().fallback(answer);
    // The task ends with the test's runtime.
    tokio::spawn(async { axum::serve(listener, router).await });
    url
}
