//! Tests that receivers with the providers' own SDKs accept the requests of an action with
//! `sign = "provider"`. The receivers are the examples of the providers' documentation.
//!
//! Each receiver accepts a first attempt, a replay, and an attempt two hours after the receipt. It
//! refuses a changed body, and a request that is signed with another secret. `make receivers`
//! installs the SDKs.

mod app;
mod proxy;
mod trace;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_ssm::types::ParameterType;
use local::Options;
use serde_json::json;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Again, Ledger, Replayed};
use shared::sources::Config;
use shared::webhook::envelope::Envelope;
use shared::webhook::event::EventKey;
use shared::webhook::sign::{Algorithm, KeyPair, Means, means, signed, signed_by};
use shared::webhook::verify::Arrival;
use testkit::sources::SourcesFile;

use super::support::{Inbox, failures, options, record, unique};
use app::{App, Driver, NODE, PYTHON};
use proxy::{Mode, Proxy};

/// A word in each body. The proxy can change one byte of it.
const WORD: &str = "canary";

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

/// A receiver, and the event that the test sends to it. In the headers and the body, `{id}` stands
/// for an id that is new for each event.
struct Sdk {
    driver: Driver,
    script: &'static str,
    preset: &'static str,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    content_type: &'static str,
    body: &'static str,
}

const fn sdk(
    driver: Driver,
    script: &'static str,
    preset: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
) -> Sdk {
    Sdk {
        driver,
        script,
        preset,
        path: "/webhook",
        headers,
        content_type: JSON,
        body,
    }
}

const STRIPE: &str = r#"{"id":"evt_{id}","object":"event","type":"invoice.paid","data":{"object":{"id":"in_1","note":"canary"}}}"#;
const SLACK: &str = r#"{"type":"event_callback","event_id":"Ev{id}","team_id":"T1","api_app_id":"A1","event":{"type":"app_mention","text":"café canary","user":"U2","channel":"C1","ts":"1.1"}}"#;
const TWILIO: &str = "Body=a+canary%21&MessageSid=SM{id}&MessageStatus=delivered&To=%2B1";
const MESSAGE: &str = r#"{"type":"t","note":"canary","id":"{id}"}"#;
const SHOPIFY: &[(&str, &str)] = &[
    ("x-shopify-topic", "orders/create"),
    ("x-shopify-shop-domain", "one.myshopify.com"),
    ("x-shopify-api-version", "2026-07"),
    ("x-shopify-webhook-id", "{id}"),
    ("x-shopify-event-id", "{id}"),
];
const GITHUB: &[(&str, &str)] = &[("x-github-event", "push"), ("x-github-delivery", "{id}")];

static SDKS: [Sdk; 11] = [
    sdk(NODE, "stripe.mjs", "stripe", &[], STRIPE),
    sdk(
        NODE,
        "github.mjs",
        "github",
        GITHUB,
        r#"{"ref":"canary","after":"{id}"}"#,
    ),
    sdk(
        NODE,
        "svix.mjs",
        "svix",
        &[("svix-id", "msg_{id}")],
        MESSAGE,
    ),
    Sdk {
        content_type: FORM,
        ..sdk(NODE, "twilio.mjs", "twilio", &[], TWILIO)
    },
    sdk(
        NODE,
        "shopify.mjs",
        "shopify",
        SHOPIFY,
        r#"{"id":1,"note":"canary","token":"{id}"}"#,
    ),
    Sdk {
        path: "/slack/events",
        ..sdk(NODE, "slack.mjs", "slack", &[], SLACK)
    },
    sdk(
        NODE,
        "discord.mjs",
        "discord",
        &[],
        r#"{"id":"{id}","type":2,"data":{"name":"canary"}}"#,
    ),
    sdk(PYTHON, "stripe_app.py", "stripe", &[], STRIPE),
    sdk(PYTHON, "slack_app.py", "slack", &[], SLACK),
    sdk(
        PYTHON,
        "standardwebhooks_app.py",
        "standard-webhooks",
        &[("webhook-id", "msg_{id}")],
        MESSAGE,
    ),
    Sdk {
        content_type: FORM,
        ..sdk(PYTHON, "twilio_app.py", "twilio", &[], TWILIO)
    },
];

#[tokio::test]
#[ignore = "needs the SDKs, which `make receivers` installs"]
async fn receivers_with_official_sdks_accept_what_is_sent() {
    let world = World::start().await;
    for route in &world.routes {
        let name = route.sdk.script;
        world.accepts_the_first_attempt(route).await;
        world.accepts_a_replay(route).await;
        world.accepts_a_late_attempt(route).await;
        world.refuses_a_changed_body(route).await;
        world.refuses_another_secret(route).await;
        println!("{name}: {} requests", route.proxy.since(0).len());
    }
    world.inbox.is_unharmed();
}

struct World {
    inbox: Inbox,
    config: Config,
    routes: Vec<Route>,
    _sources: SourcesFile,
}

/// A receiver, the proxy in front of it, and the keys of the provider.
struct Route {
    sdk: &'static Sdk,
    source: String,
    proxy: Proxy,
    provider: Keys,
    _app: App,
}

/// An event, and the number of requests that the proxy had seen before it.
struct Sent {
    key: EventKey,
    from: usize,
}

/// A secret, or a private key and its public key.
struct Keys {
    /// The key that signs: the secret, or the private key in PEM.
    signing: String,
    /// The key that verifies: the secret, or the public key.
    verifying: String,
}

impl World {
    async fn start() -> Self {
        let mut file = "schema = 1\n[forward]\nallow_loopback = true\n".to_owned();
        let mut secrets = BTreeMap::new();
        let mut routes = Vec::new();
        for sdk in &SDKS {
            let source = sdk.script.replace(['.', '_'], "-");
            // The secret of the route differs from the provider's.
            let [provider, route, other] = [(); 3].map(|()| keys(sdk.preset));
            let app = App::start(sdk.driver, sdk.script, &route.verifying).await;
            let proxy = Proxy::start(app.port).await;
            for (name, egress) in [(source.clone(), route), (format!("{source}-other"), other)] {
                write!(
                    file,
                    "[[source]]\nname = \"{name}\"\npreset = \"{}\"\nsecret = \"{source}\"\n\
                     [[source.action]]\nkind = \"http\"\nurl = \"{}{}\"\nsign = \"provider\"\n\
                     secret = \"{name}\"\n",
                    sdk.preset, proxy.url, sdk.path
                )
                .unwrap();
                secrets.insert(("Processor", name), egress.signing);
            }
            secrets.insert(("Catcher", source.clone()), provider.verifying.clone());
            routes.push(Route {
                sdk,
                source,
                proxy,
                provider,
                _app: app,
            });
        }
        let sources = SourcesFile::new("receivers", &file);
        let inbox = Inbox::start(Options {
            sources_file: Some(sources.path()),
            ..options()
        })
        .await;
        for ((function, name), value) in secrets {
            let path = inbox.stack.secrets_path(function).unwrap();
            let put = inbox.stack.clients().ssm.put_parameter();
            let put = put.name(format!("{path}/{name}/current")).value(&value);
            let put = put.r#type(ParameterType::SecureString).overwrite(true);
            put.send().await.unwrap();
            inbox.must_not_log(&value);
        }
        Self {
            config: Config::parse(&file).unwrap(),
            inbox,
            routes,
            _sources: sources,
        }
    }

    async fn accepts_the_first_attempt(&self, route: &Route) {
        let event = self.event(route, &route.source).await;
        self.run(&event.key, 0).await;
        self.is_done(route, &event, 1).await;
    }

    async fn accepts_a_replay(&self, route: &Route) {
        let event = self.event(route, &route.source).await;
        self.run(&event.key, 0).await;
        self.is_done(route, &event, 1).await;
        let epoch = self.inbox.row(&event.key).await["epoch"]
            .as_n()
            .unwrap()
            .parse()
            .unwrap();
        let clients = self.inbox.stack.clients();
        let ledger = Ledger::new(clients.dynamodb, self.inbox.stack.table().unwrap(), None);
        let plan = format!("rp_{}", unique());
        let now = UnixMillis::now();
        let expires = UnixMillis(now.0 + 3_600_000);
        let events = [(event.key.clone(), epoch)];
        ledger
            .plans()
            .plan_events(&plan, &events, expires)
            .await
            .unwrap();
        let again = Again {
            plan: &plan,
            seen: epoch,
            new_effects: true,
        };
        let replayed = ledger
            .plans()
            .replay(&event.key, &again, now)
            .await
            .unwrap();
        assert_eq!(replayed, Replayed::Again);
        self.run(&event.key, 1).await;
        self.is_done(route, &event, 2).await;
    }

    /// The first attempt fails, and the next one is two hours later. Both clocks stay right, so the
    /// receiver would refuse a signature of that time.
    async fn accepts_a_late_attempt(&self, route: &Route) {
        let event = self.event(route, &route.source).await;
        route.proxy.set(Mode::Refuse);
        self.run(&event.key, 0).await;
        route.proxy.set(Mode::Pass);
        let mut row = self.inbox.row(&event.key).await;
        assert_eq!(row["st"].as_s().unwrap(), "failed");
        let received: i64 = row["rcv"].as_n().unwrap().parse().unwrap();
        let earlier = received - 2 * 3_600_000;
        row.insert("rcv".into(), AttributeValue::N(earlier.to_string()));
        row.insert("due".into(), AttributeValue::N("1".into()));
        self.inbox.put(row).await;
        self.run(&event.key, 0).await;
        self.is_done(route, &event, 2).await;
        // The ids of the provider, and the idempotency key, are those of the first attempt.
        let seen = route.proxy.since(event.from);
        let ids = [
            "idempotency-key",
            "x-github-delivery",
            "svix-id",
            "webhook-id",
        ];
        for name in ids {
            assert_eq!(seen[0].header(name), seen[1].header(name), "{name}");
        }
    }

    async fn refuses_a_changed_body(&self, route: &Route) {
        let event = self.event(route, &route.source).await;
        route.proxy.set(Mode::Change);
        self.run(&event.key, 0).await;
        route.proxy.set(Mode::Pass);
        self.is_refused(route, &event).await;
    }

    async fn refuses_another_secret(&self, route: &Route) {
        let event = self.event(route, &format!("{}-other", route.source)).await;
        self.run(&event.key, 0).await;
        self.is_refused(route, &event).await;
    }

    /// Sends an event as the provider does. Returns the stored event.
    async fn event(&self, route: &Route, source: &str) -> Sent {
        let verifier = &self.config.source(source).unwrap().verifier;
        let scheme = verifier.preset.scheme("default").unwrap();
        let id = format!("{}{}", unique(), unique());
        let named = |text: &str| text.replace("{id}", &id);
        let headers = route.sdk.headers.iter();
        let headers = headers.map(|(name, value)| (*name, named(value)));
        let headers = headers.chain([("content-type", route.sdk.content_type.to_owned())]);
        let now = UnixMillis::now();
        let envelope = Envelope {
            method: "POST".into(),
            url: format!("https://127.0.0.1/in/{source}"),
            headers: headers.collect(),
            body: named(route.sdk.body).into(),
            received_at: now,
        };
        let envelope = if let Means::KeyPair(_) = means(scheme) {
            let pair = KeyPair::from_pem(&route.provider.signing).unwrap();
            signed_by(scheme, &pair, envelope, now).unwrap()
        } else {
            let secret = Secret::new("current", route.provider.signing.as_str());
            signed(scheme, &secret, envelope, now).unwrap()
        };
        let sent: Vec<(String, String)> = envelope
            .headers
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let answer = self.inbox.post(source, &sent, &envelope.body).await;
        assert_eq!(
            answer.status, verifier.preset.ack.ok,
            "{source}: {answer:?}"
        );
        let secrets = [Secret::new("current", route.provider.verifying.as_str())];
        let Ok(Arrival::Event(event)) = verifier.verify(&envelope, &secrets) else {
            panic!("{source}")
        };
        Sent {
            key: event.key().clone(),
            from: route.proxy.since(0).len(),
        }
    }

    /// Processes the event in its current run.
    async fn run(&self, key: &EventKey, run: u64) {
        let message = json!({ "v": 1, "key": key.pk(), "run": run }).to_string();
        let records = [record("1", &message)];
        assert_eq!(failures(&self.inbox, &records).await, [""; 0], "{key}");
    }

    async fn is_done(&self, route: &Route, event: &Sent, times: usize) {
        let row = self.inbox.row(&event.key).await;
        let seen = route.proxy.since(event.from);
        let shown = format!("{}: {:?} {seen:?}", event.key, row.get("err"));
        assert_eq!(row["st"].as_s().unwrap(), "done", "{shown}");
        assert_eq!(seen.len(), times, "{shown}");
        assert!((200..300).contains(&seen[times - 1].status), "{shown}");
    }

    async fn is_refused(&self, route: &Route, event: &Sent) {
        let row = self.inbox.row(&event.key).await;
        let seen = route.proxy.since(event.from);
        let shown = format!("{}: {seen:?}", event.key);
        assert_ne!(row["st"].as_s().unwrap(), "done", "{shown}");
        assert!((400..500).contains(&seen[0].status), "{shown}");
    }
}

/// Returns new keys in the form that a preset needs.
fn keys(preset: &str) -> Keys {
    if preset == "discord" {
        let pair = KeyPair::generate(Algorithm::Ed25519).unwrap();
        let form = shared::webhook::preset::KeyForm::Hex;
        return Keys {
            signing: pair.expose_pem(),
            verifying: pair.public(form).unwrap(),
        };
    }
    // Hexadecimal digits are also base64.
    let secret = match preset {
        "svix" | "standard-webhooks" | "stripe" => format!("whsec_{}{}", unique(), unique()),
        _ => format!("{}{}", unique(), unique()),
    };
    Keys {
        signing: secret.clone(),
        verifying: secret,
    }
}
