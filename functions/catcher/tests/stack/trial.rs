//! A trial: the previous route answers the provider, and the inbox records beside it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aws_sdk_ssm::types::ParameterType;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use local::Options;
use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::delivery::effects::idempotency_key;
use shared::inbox::ledger::{RouteOutcome, Row, State as EventState, TRIAL_SCHEMA};
use shared::inbox::rejected::RejectedRequests;
use shared::inbox::spill::Spill;
use shared::sources::Config;
use shared::webhook::envelope::Envelope;
use shared::webhook::event::EventKey;
use shared::webhook::secret::Secret;
use shared::webhook::sign::signed;

use super::budget::{Fault, Shaky};
use super::support::{DEMO_SECRET, Headers, Inbox, headers, hex, options, unique};

/// A request as the route received it.
#[derive(Clone, Debug)]
struct Seen {
    method: String,
    target: String,
    headers: Headers,
    body: Bytes,
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }
}

/// How the route answers.
#[derive(Clone, Debug)]
struct Reply {
    status: u16,
    headers: Headers,
    body: Vec<u8>,
    after: Duration,
}

/// Plays the previous route.
#[derive(Clone)]
struct Route {
    url: String,
    reply: Arc<Mutex<Reply>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Route {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let route = Self {
            url: format!("http://{}/old/hook", listener.local_addr().unwrap()),
            reply: Arc::new(Mutex::new(reply(200, "ok"))),
            seen: Arc::default(),
        };
        let router = Router::new().fallback(serve).with_state(route.clone());
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        route
    }

    fn answers(&self, reply: Reply) {
        *self.reply.lock().unwrap() = reply;
    }

    /// Returns the requests since the last call of this function.
    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn reply(status: u16, body: &str) -> Reply {
    Reply {
        status,
        headers: headers(&[("content-type", "text/plain")]),
        body: body.as_bytes().to_vec(),
        after: Duration::ZERO,
    }
}

async fn serve(State(route): State<Route>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let text = |value: &axum::http::HeaderValue| value.to_str().unwrap().to_owned();
    let all = parts.headers.iter();
    let seen = Seen {
        method: parts.method.to_string(),
        target: parts.uri.to_string(),
        headers: all
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        body: axum::body::to_bytes(body, usize::MAX).await.unwrap(),
    };
    route.seen.lock().unwrap().push(seen);
    let reply = route.reply.lock().unwrap().clone();
    tokio::time::sleep(reply.after).await;
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(reply.body)).unwrap()
}

/// The sources in a trial: `github-main`, a source whose provider signs the URL, and one whose
/// provider waits for one second.
fn sources(route: &str, mode: &str) -> String {
    let action = "kind = \"http\"\nsign = \"provider\"\nsecret = \"app\"\n";
    let sources = [
        ("github-main", "github"),
        ("calls", "twilio"),
        ("errors", "sentry"),
    ];
    let sources = sources.map(|(name, preset)| {
        // The default of `tee_timeout` follows from the provider's limit.
        let mode = match preset {
            "sentry" => mode.lines().next().unwrap_or_default(),
            _ => mode,
        };
        format!(
            "[[source]]\nname = \"{name}\"\npreset = \"{preset}\"\nsecret = \"github-main\"\n\
             accept_path = true\n{mode}\n[[source.action]]\nurl = \"{route}\"\n{action}"
        )
    });
    format!(
        "schema = 1\n[forward]\nallow_loopback = true\n{}",
        sources.concat()
    )
}

/// Headers that the sender must not choose, because Mitt or a proxy sets them.
const FORGED: [(&str, &str); 4] = [
    ("mitt-proven", "everything"),
    ("idempotency-key", "of-the-sender"),
    ("x-forwarded-host", "of-the-sender"),
    ("forwarded", "host=of-the-sender"),
];

const TEE: &str = "mode = \"tee\"\ntee_timeout = \"2s\"";

fn in_trial(route: &str) -> Options {
    with_mode(route, TEE)
}

fn with_mode(route: &str, mode: &str) -> Options {
    let folder = std::env::temp_dir().join(format!("mitt-trial-{}", unique()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("sources.toml");
    std::fs::write(&path, sources(route, mode)).unwrap();
    let parameters = [("Trial", "true"), ("Sources", "table")];
    Options {
        sources_file: Some(path),
        parameters: parameters
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..options()
    }
}

async fn start() -> (Inbox, Route) {
    let route = Route::start().await;
    let inbox = Inbox::start(in_trial(&route.url)).await;
    put_secret(&inbox).await;
    (inbox, route)
}

const ROUTE_SECRET: &str = "secret-of-the-route";

/// Stores the secret with which the route verifies requests.
async fn put_secret(inbox: &Inbox) {
    let path = inbox.stack.secrets_path("Processor").unwrap();
    let put = inbox.stack.clients().ssm.put_parameter();
    let put = put.name(format!("{path}/app/current")).value(ROUTE_SECRET);
    put.r#type(ParameterType::SecureString)
        .send()
        .await
        .unwrap();
    inbox.must_not_log(ROUTE_SECRET);
}

async fn row(inbox: &Inbox, key: &EventKey) -> Row {
    Row::read(&inbox.row(key).await).unwrap()
}

/// Returns the number of messages in the work queue.
async fn messages(inbox: &Inbox) -> u64 {
    let url = inbox.stack.queue_url("WorkQueue").unwrap();
    Spill::new(inbox.stack.clients().sqs, url)
        .depth()
        .await
        .unwrap()
}

fn outcomes(row: &Row) -> Vec<RouteOutcome> {
    row.trial
        .answers
        .iter()
        .map(|answer| answer.outcome)
        .collect()
}

fn log(inbox: &Inbox) -> String {
    let path = inbox.stack.log_file("Catcher").unwrap();
    std::fs::read_to_string(path).unwrap_or_default()
}

fn body(inbox: &Inbox) -> String {
    format!(r#"{{"word":"{}"}}"#, inbox.canary())
}

#[tokio::test]
async fn the_route_gets_the_request_and_the_provider_gets_its_answer() {
    let (inbox, route) = start().await;
    let (id, body) = (unique(), body(&inbox));
    let mut sent = inbox.github(&id, body.as_bytes());
    sent.extend(headers(&[
        ("authorization", "Bearer of-the-provider"),
        ("x-custom", "kept"),
        ("cookie", "a=1"),
    ]));
    let mut given = sent.clone();
    given.extend(headers(&FORGED));
    route.answers(Reply {
        status: 202,
        headers: headers(&[
            ("content-type", "application/xml"),
            ("x-route", "one"),
            ("set-cookie", "b=2"),
        ]),
        body: b"<Response/>".to_vec(),
        after: Duration::ZERO,
    });
    let target = "/in/github-main?tenant=a%20b&x=1";
    let answer = inbox.request("POST", target, &given, body.as_bytes()).await;
    assert_eq!((answer.status, answer.text()), (202, "<Response/>"));
    assert_eq!(answer.header("content-type"), Some("application/xml"));
    assert_eq!(answer.header("x-route"), Some("one"));
    assert_eq!(answer.header("set-cookie"), Some("b=2"));
    let [seen] = &route.seen()[..] else {
        panic!("one request")
    };
    assert_eq!(seen.method, "POST");
    assert_eq!(seen.target, "/old/hook?tenant=a%20b&x=1");
    assert_eq!(seen.body, body.as_bytes());
    for (name, value) in &sent {
        assert_eq!(seen.header(name), Some(value.as_str()), "{name}");
    }
    let key = EventKey::new("github-main", &id);
    let idempotency = idempotency_key(&key, "http", 0);
    assert_eq!(seen.header("idempotency-key"), Some(idempotency.as_str()));
    for (name, value) in FORGED {
        let mut found = seen.headers.iter().filter(|(known, _)| known == name);
        assert!(found.all(|(_, found)| found != value), "{name}");
    }
    assert!(seen.header("host").unwrap().starts_with("127.0.0.1:"));
    let row = row(&inbox, &key).await;
    assert_eq!((row.state, row.schema), (EventState::Done, TRIAL_SCHEMA));
    assert_eq!(outcomes(&row), [RouteOutcome::Status(202)]);
    assert!(row.trial.answers[0].own.is_some());
    assert_eq!(inbox.kept(&key).await.unwrap(), body.as_bytes());
    assert_eq!(messages(&inbox).await, 0, "a trial sends no message");
    inbox.must_not_log("of-the-provider");
    inbox.is_unharmed();
}

#[tokio::test]
async fn each_delivery_of_an_event_reaches_the_route() {
    let (inbox, route) = start().await;
    let (id, body) = (unique(), body(&inbox));
    let headers = inbox.github(&id, body.as_bytes());
    for status in [500, 200, 200] {
        route.answers(reply(status, ""));
        let answer = inbox.post("github-main", &headers, body.as_bytes()).await;
        assert_eq!(answer.status, status);
    }
    assert_eq!(route.seen().len(), 3);
    let row = row(&inbox, &EventKey::new("github-main", &id)).await;
    assert_eq!(outcomes(&row), [500, 200, 200].map(RouteOutcome::Status));
    assert_eq!((row.trial.requests, row.trial.accepted), (3, 2));
    let answers = &row.trial.answers;
    assert!(answers[1].hop.is_some(), "the hop of the request before");
    inbox.is_unharmed();
}

#[tokio::test]
async fn the_route_decides_about_a_request_that_mitt_would_reject() {
    let (inbox, route) = start().await;
    let body = body(&inbox);
    let mut forged = inbox.github(&unique(), body.as_bytes());
    forged.last_mut().unwrap().1 = format!("sha256={}", "0".repeat(64));
    route.answers(reply(200, "welcome"));
    let answer = inbox.post("github-main", &forged, body.as_bytes()).await;
    assert_eq!((answer.status, answer.text()), (200, "welcome"));
    let seen = route.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].header("idempotency-key"), None);
    let table = inbox.stack.table().unwrap();
    let rejected = RejectedRequests::new(inbox.stack.clients().dynamodb, table);
    let now = UnixMillis::now();
    let stored = rejected
        .held("github-main", UnixMillis(0), now, now)
        .await
        .unwrap();
    assert_eq!(stored.len(), 1);
    let answer = stored[0].route.as_ref().unwrap();
    assert_eq!(answer.outcome, RouteOutcome::Status(200));
    inbox.is_unharmed();
}

#[tokio::test]
async fn a_request_that_is_too_large_to_record_is_forwarded() {
    let (inbox, route) = start().await;
    let body = "x".repeat(2 * 1024 * 1024);
    let headers = inbox.github(&unique(), body.as_bytes());
    let answer = inbox.post("github-main", &headers, body.as_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(route.seen()[0].body.len(), body.len());
    assert!(log(&inbox).contains(": too_large"), "{}", log(&inbox));
}

#[tokio::test]
async fn binary_answers_and_repeated_headers_arrive_unchanged() {
    let (inbox, route) = start().await;
    let (id, body) = (unique(), body(&inbox));
    let sent = inbox.github(&id, body.as_bytes());
    let bytes: Vec<u8> = (0..=255).collect();
    for (status, answer) in [
        (200, bytes),
        (404, vec![]),
        (500, b"\xff\xfe".to_vec()),
        (204, vec![]),
    ] {
        route.answers(Reply {
            status,
            headers: headers(&[("x-many", "one"), ("x-many", "two")]),
            body: answer.clone(),
            after: Duration::ZERO,
        });
        let given = inbox.post("github-main", &sent, body.as_bytes()).await;
        assert_eq!((given.status, given.body.as_ref()), (status, &answer[..]));
        assert_eq!(given.header("x-many"), Some("one, two"));
    }
}

#[tokio::test]
async fn a_route_that_does_not_answer_is_a_502_or_a_504() {
    let (inbox, route) = start().await;
    let (id, body) = (unique(), body(&inbox));
    let headers = inbox.github(&id, body.as_bytes());
    route.answers(Reply {
        after: Duration::from_secs(4),
        ..reply(200, "late")
    });
    let late = inbox.post("github-main", &headers, body.as_bytes()).await;
    assert_eq!((late.status, late.body.len()), (504, 0));
    let row = row(&inbox, &EventKey::new("github-main", &id)).await;
    assert_eq!(outcomes(&row), [RouteOutcome::Timeout]);
    let without_route = Inbox::start(in_trial("http://127.0.0.1:1/hook")).await;
    let headers = without_route.github(&id, body.as_bytes());
    let refused = without_route
        .post("github-main", &headers, body.as_bytes())
        .await;
    assert_eq!((refused.status, refused.body.len()), (502, 0));
    let row = self::row(&without_route, &EventKey::new("github-main", &id)).await;
    assert_eq!(outcomes(&row), [RouteOutcome::Unreachable]);
    without_route.tells_nothing();
}

#[tokio::test]
async fn a_status_that_api_gateway_does_not_pass_on_is_a_502() {
    let (inbox, route) = start().await;
    let (id, body) = (unique(), body(&inbox));
    let headers = inbox.github(&id, body.as_bytes());
    route.answers(reply(777, "unknown"));
    let answer = inbox.post("github-main", &headers, body.as_bytes()).await;
    assert_eq!((answer.status, answer.body.len()), (502, 0));
    let row = row(&inbox, &EventKey::new("github-main", &id)).await;
    assert_eq!(outcomes(&row), [RouteOutcome::Unreachable]);
}

/// The time in which a provider with a limit of one second gets its answer. A debug build has a
/// little more time.
const SHORT: Duration = Duration::from_millis(1_300);

#[tokio::test]
async fn the_answer_comes_within_the_limit_of_the_provider() {
    let route = Route::start().await;
    let mut shaky = Shaky::start_with(Options {
        rights: None,
        ..in_trial(&route.url)
    })
    .await;
    let send = async |inbox: &Inbox, secret: &str| {
        let body = body(inbox);
        let signature = hex(secret.as_bytes(), &[body.as_bytes()]);
        let sent = headers(&[
            ("sentry-hook-signature", &signature),
            ("sentry-hook-resource", "issue"),
        ]);
        let began = Instant::now();
        let answer = inbox.post("errors", &sent, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{}", log(inbox));
        began.elapsed()
    };
    // The first request of a process reads the secrets.
    send(&shaky.inbox, DEMO_SECRET).await;
    shaky.dynamodb.break_down(Fault::Silent).await;
    for secret in [DEMO_SECRET, "guess"] {
        let took = send(&shaky.inbox, secret).await;
        assert!(took < SHORT, "{secret}: {took:?}");
    }
}

#[tokio::test]
async fn no_fault_of_the_stores_changes_the_answer() {
    let route = Route::start().await;
    let mut shaky = Shaky::start_with(Options {
        rights: None,
        ..in_trial(&route.url)
    })
    .await;
    put_secret(&shaky.inbox).await;
    let mut keys = Vec::new();
    for fault in [Fault::Error, Fault::Silent, Fault::Throttled] {
        for down in ["dynamodb", "sqs too", "ssm too"] {
            let (id, body) = (unique(), body(&shaky.inbox));
            let headers = shaky.inbox.github(&id, body.as_bytes());
            shaky.dynamodb.break_down(fault).await;
            if down == "dynamodb" {
                keys.push(EventKey::new("github-main", &id));
            } else {
                shaky.sqs.break_down(fault).await;
            }
            if down == "ssm too" {
                shaky.ssm.break_down(fault).await;
            }
            route.answers(reply(202, &id));
            let answer = shaky
                .inbox
                .post("github-main", &headers, body.as_bytes())
                .await;
            assert_eq!(
                (answer.status, answer.text()),
                (202, id.as_str()),
                "{down} {fault:?}"
            );
            for proxy in [&mut shaky.dynamodb, &mut shaky.sqs, &mut shaky.ssm] {
                proxy.mend().await;
            }
        }
    }
    assert!(
        log(&shaky.inbox).contains("not_recorded"),
        "{}",
        log(&shaky.inbox)
    );
    // An event that was sent to the spill queue is recorded by the drain, without its answer.
    shaky
        .inbox
        .invoke("BackupSync", &json!({ "task": "drain" }))
        .await;
    for key in keys {
        let row = row(&shaky.inbox, &key).await;
        assert!(row.is_trial(), "{row:?}");
        assert_eq!(row.trial.requests, 0);
    }
}

/// An event in the spill queue is delivered by the side that answered its request, also if the trial
/// begins or ends before the drain stores the event.
#[tokio::test]
async fn a_trial_that_begins_or_ends_changes_nothing_for_a_spilled_event() {
    let route = Route::start().await;
    for (before, after) in [("", TEE), (TEE, "")] {
        let mut shaky = Shaky::start_with(Options {
            rights: None,
            ..with_mode(&route.url, before)
        })
        .await;
        put_secret(&shaky.inbox).await;
        let (id, body) = (unique(), body(&shaky.inbox));
        let headers = shaky.inbox.github(&id, body.as_bytes());
        shaky.dynamodb.break_down(Fault::Error).await;
        let answer = shaky
            .inbox
            .post("github-main", &headers, body.as_bytes())
            .await;
        assert_eq!(answer.status, 200, "{}", log(&shaky.inbox));
        assert_eq!(route.seen().len(), usize::from(before == TEE));
        shaky.dynamodb.mend().await;
        super::run_time_sources::apply(&shaky.inbox, &sources(&route.url, after), 0).await;
        shaky
            .inbox
            .invoke("BackupSync", &json!({ "task": "drain" }))
            .await;
        let row = row(&shaky.inbox, &EventKey::new("github-main", &id)).await;
        assert_eq!(row.is_trial(), before == TEE, "{row:?}");
        let sent = messages(&shaky.inbox).await;
        assert_eq!(sent, u64::from(before != TEE));
    }
}

#[tokio::test]
async fn an_event_that_the_route_refused_is_processed_after_the_promotion() {
    let (inbox, route) = start().await;
    let (lost, taken) = (unique(), unique());
    // Two events with one body would be a conflict.
    let bodies = [body(&inbox), body(&inbox)];
    for (id, status, body) in [(&lost, 503, &bodies[0]), (&taken, 200, &bodies[1])] {
        route.answers(reply(status, ""));
        let headers = inbox.github(id, body.as_bytes());
        let answer = inbox.post("github-main", &headers, body.as_bytes()).await;
        assert_eq!(answer.status, status);
    }
    promote(&inbox, &sources(&route.url, "")).await;
    let asked = route.seen().len();
    for (id, body) in [(&lost, &bodies[0]), (&taken, &bodies[1])] {
        let headers = inbox.github(id, body.as_bytes());
        let answer = inbox.post("github-main", &headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200);
    }
    assert_eq!(
        (asked, route.seen().len()),
        (2, 0),
        "the catcher asks no route"
    );
    let [lost, taken] = [lost, taken].map(|id| EventKey::new("github-main", &id));
    let row = row(&inbox, &lost).await;
    assert_eq!((row.state, row.run), (EventState::Received, 1), "{row:?}");
    let row = self::row(&inbox, &taken).await;
    assert_eq!(row.state, EventState::Done, "a duplicate");
    assert_eq!(messages(&inbox).await, 1);
    inbox.tells_nothing();
}

/// Applies a version of the sources, which a new process of the catcher uses.
async fn promote(inbox: &Inbox, text: &str) {
    super::run_time_sources::apply(inbox, text, 0).await;
    inbox.kill_catcher().await;
}

/// A route that verifies the signature of the URL accepts what the catcher sends, but no request
/// that the catcher did not verify.
#[tokio::test]
async fn a_signature_of_the_url_is_made_for_the_route_only_if_the_request_is_genuine() {
    let (inbox, route) = start().await;
    let config = Config::parse(&sources(&route.url, "")).unwrap();
    let verifier = &config.source("calls").unwrap().verifier;
    let scheme = verifier.preset.scheme("default").unwrap();
    let envelope = |url: &str, headers: &Headers, body: &[u8]| Envelope {
        method: "POST".to_owned(),
        url: url.to_owned(),
        headers: headers.clone().into_iter().collect(),
        body: Bytes::copy_from_slice(body),
        received_at: UnixMillis::now(),
    };
    let form = b"CallSid=CA1&From=%2B1".to_vec();
    // A body above `max_body` is not recorded, but the route needs its new signature.
    let large = format!("CallSid=CA2&Body={}", "x".repeat(2 * 1024 * 1024)).into_bytes();
    let plain = headers(&[("content-type", "application/x-www-form-urlencoded")]);
    let theirs = Secret::new("route", ROUTE_SECRET);
    for (secret, form, is_genuine) in [
        (DEMO_SECRET, &form, true),
        (DEMO_SECRET, &large, true),
        ("guess", &form, false),
        ("guess", &large, false),
    ] {
        let unsigned = envelope("https://127.0.0.1/in/calls", &plain, form);
        let secret = Secret::new("provider", secret);
        let sent = signed(scheme, &secret, unsigned, UnixMillis::now()).unwrap();
        let sent: Headers = sent
            .headers
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        inbox.post("calls", &sent, form).await;
        let seen = route.seen().remove(0);
        let got = envelope(&route.url, &seen.headers, &seen.body);
        let accepted = verifier.verify(&got, std::slice::from_ref(&theirs));
        let len = form.len();
        assert_eq!(accepted.is_ok(), is_genuine, "{len}\n{}", log(&inbox));
    }
    inbox.tells_nothing();
}

/// The original signature is valid for the URL of the source only, so the route would reject it.
#[tokio::test]
async fn a_request_that_cannot_be_signed_is_not_forwarded() {
    let route = Route::start().await;
    let mut shaky = Shaky::start_with(Options {
        rights: None,
        ..in_trial(&route.url)
    })
    .await;
    shaky.ssm.break_down(Fault::Error).await;
    let plain = headers(&[("content-type", "application/x-www-form-urlencoded")]);
    let answer = shaky.inbox.post("calls", &plain, b"CallSid=CA1").await;
    assert_eq!(
        (answer.status, route.seen().len()),
        (502, 0),
        "{}",
        log(&shaky.inbox)
    );
    let body = body(&shaky.inbox);
    let headers = shaky.inbox.github(&unique(), body.as_bytes());
    let answer = shaky
        .inbox
        .post("github-main", &headers, body.as_bytes())
        .await;
    assert_eq!(
        (answer.status, route.seen().len()),
        (200, 1),
        "another scheme needs no new signature"
    );
}
