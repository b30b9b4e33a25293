//! The providers' own SDKs sign and verify requests. The running catcher accepts what the SDKs
//! sign, and the SDKs accept what Mitt signs. Neither accepts a body with one changed byte.
//!
//! The SDKs are independent code in other languages, so they do not share a bug with Mitt. `make
//! foreign-signers` installs them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use aws_sdk_ssm::types::ParameterType;
use local::Options;
use serde::{Deserialize, Serialize};
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::sources::Config;
use shared::webhook::envelope::Envelope;
use shared::webhook::sign::{can_sign, signed};

use super::support::{Headers, Inbox, options};
use super::{here, root};

/// A word in each body. The test changes one byte of it.
const WORD: &str = "canary";

const JSON: &str = r#"{"id":"1","type":"t","note":"café 😀 canary"}"#;
const WHSEC: &str = "whsec_bWl0dC1kZW1vLXNlY3JldC1vZi1ub2JvZHk=";

/// The first key pair of RFC 8032, seed and public key.
const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

/// The program, SDK, secret, headers and body.
type Sdk = (
    Driver,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
);

#[rustfmt::skip]
const SDKS: [Sdk; 28] = [
    (NODE, "stripe", "whsec_of-a-stranger", &[], JSON),
    (NODE, "github", "secret-of-a-stranger", &[("x-github-event", "push")], JSON),
    (NODE, "standardwebhooks", WHSEC, &[("webhook-id", "msg_1")], JSON),
    (NODE, "svix", WHSEC, &[("svix-id", "msg_1")], JSON),
    (NODE, "twilio", "token-of-a-stranger", &[FORM], "Body=a+canary%21&MessageSid=SM1&To=%2B1"),
    (NODE, "twilio-json", "token-of-a-stranger", &[], JSON),
    (NODE, "shopify", "hush-of-a-stranger", SHOPIFY, JSON),
    (NODE, "adyen", "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056", &[], ADYEN),
    (NODE, "hubspot", "client-secret-of-a-stranger", &[], JSON),
    (NODE, "square", "key-of-a-stranger", &[], JSON),
    (NODE, "discord", SEED, &[], JSON),
    (NODE, "dodo-payments", WHSEC, &[("webhook-id", "msg_1")], JSON),
    (NODE, "finch", "bWl0dC1kZW1vLXNlY3JldC1vZi1ub2JvZHk=", &[("finch-event-id", "msg_1")], JSON),
    (NODE, "line", "channel-secret-of-a-stranger", &[], LINE),
    (NODE, "lithic", WHSEC, &[("webhook-id", "msg_1")], JSON),
    (NODE, "modern-treasury", "webhook-key-of-a-stranger", &[], JSON),
    (NODE, "mux", "mux-secret-of-a-stranger", &[], JSON),
    (NODE, "openai", WHSEC, &[("webhook-id", "msg_1")], JSON),
    (NODE, "orb", "orb-secret-of-a-stranger", &[], JSON),
    (NODE, "razorpay", "razorpay-secret-of-a-stranger", &[], JSON),
    (NODE, "workos", "workos-secret-of-a-stranger", &[], JSON),
    (PYTHON, "openai", WHSEC, &[("webhook-id", "msg_3")], JSON),
    (PYTHON, "stripe", "whsec_of-a-stranger", &[], JSON),
    (PYTHON, "svix", WHSEC, &[("svix-id", "msg_2")], JSON),
    (PYTHON, "slack", "signing-secret-of-a-stranger", &[], JSON),
    (PYTHON, "slack", "signing-secret-of-a-stranger", &[FORM], "command=%2Fgo&text=canary&trigger_id=1"),
    (PYTHON, "standardwebhooks", WHSEC, &[("webhook-id", "msg_2")], JSON),
    (PYTHON, "twilio", "token-of-a-stranger", &[FORM], "Body=canary&MessageSid=SM2&To=%2B1"),
];

/// The SDKs that verify, but cannot sign.
const VERIFIERS: [&str; 11] = [
    "dodo-payments",
    "finch",
    "line",
    "lithic",
    "modern-treasury",
    "mux",
    "openai",
    "orb",
    "razorpay",
    "square",
    "workos",
];

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const SHOPIFY: &[(&str, &str)] = &[
    ("x-shopify-topic", "orders/create"),
    ("x-shopify-shop-domain", "of-a-stranger.myshopify.com"),
    ("x-shopify-api-version", "2026-07"),
    (
        "x-shopify-webhook-id",
        "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
    ),
];
const ADYEN: &str = r#"{"live":"false","notificationItems":[{"NotificationRequestItem":{
    "pspReference":"canary","merchantAccountCode":"M","merchantReference":"r","success":"true",
    "amount":{"value":1130,"currency":"EUR"},"eventCode":"AUTHORISATION"}}]}"#;

const LINE: &str = r#"{"destination":"U1","events":[{"type":"message","mode":"active",
    "timestamp":1,"webhookEventId":"01canary","deliveryContext":{"isRedelivery":false}}]}"#;

/// The program that reads requests and writes responses, one per line.
type Driver = (&'static str, &'static str);
const NODE: Driver = ("node", "signers.mjs");
const PYTHON: Driver = (".venv/foreign/bin/python", "signers.py");

#[tokio::test]
#[ignore = "needs the SDKs, which `make foreign-signers` installs"]
async fn the_sdks_and_the_catcher_agree() {
    let inbox = start().await;
    let file = std::fs::read_to_string(here().join("foreign.toml")).unwrap();
    let config = Config::parse(&file).unwrap();
    for driver in [NODE, PYTHON] {
        let drafts = SDKS.iter().filter(|(of, ..)| *of == driver);
        let drafts: Vec<Request> = drafts.map(Request::new).collect();
        let to_sign = drafts
            .iter()
            .filter(|draft| can_it_sign(driver, &draft.sdk));
        let to_sign = to_sign.cloned();
        let theirs: Vec<Request> = run(driver, &to_sign.collect::<Vec<_>>());
        let ours = drafts.iter().filter_map(|draft| sign(&config, draft));
        let requests: Vec<Request> = theirs.into_iter().chain(ours).collect();
        let mut to_verify = Vec::new();
        for request in &requests {
            let ack = &config.source(&request.sdk).unwrap().verifier.preset.ack;
            let changed = request.changed();
            let refused = post_foreign(&inbox, &changed).await;
            assert_eq!(refused, ack.bad_signature, "{changed:?}");
            let accepted = post_foreign(&inbox, request).await;
            assert_eq!(accepted, ack.ok, "{request:?}");
            to_verify.extend([request.to_verify(), changed.to_verify()]);
        }
        let verdicts: Vec<Verdict> = run(driver, &to_verify);
        assert_eq!(verdicts.len(), to_verify.len());
        for (request, verdicts) in requests.iter().zip(verdicts.chunks(2)) {
            let said = [verdicts[0].valid, verdicts[1].valid];
            assert_eq!(said, [true, false], "what the SDK says of {request:?}");
        }
        println!("{}: {} requests", driver.1, requests.len());
    }
    inbox.is_unharmed();
}

/// Stripe's SDK for Python only verifies.
fn can_it_sign(driver: Driver, sdk: &str) -> bool {
    !VERIFIERS.contains(&sdk) && (driver, sdk) != (PYTHON, "stripe")
}

/// Signs a request with Mitt's code, unless that needs a private key.
fn sign(config: &Config, draft: &Request) -> Option<Request> {
    let verifier = &config.source(&draft.sdk).unwrap().verifier;
    let scheme = verifier.preset.scheme(&verifier.variant).unwrap();
    if !can_sign(scheme) {
        return None;
    }
    let now = UnixMillis::now();
    let secret = Secret::new("current", draft.secret.as_str());
    let envelope = signed(scheme, &secret, draft.envelope(now), now).unwrap();
    let headers = envelope.headers.iter();
    Some(Request {
        url: envelope.url.clone(),
        headers: headers.map(|(n, v)| (n.into(), v.into())).collect(),
        body: String::from_utf8(envelope.body.to_vec()).unwrap(),
        ..draft.clone()
    })
}

async fn start() -> Inbox {
    let inbox = Inbox::start(Options {
        sources_file: Some(here().join("foreign.toml")),
        ..options()
    })
    .await;
    let path = inbox.stack.secrets_path("Catcher").unwrap();
    for (_, sdk, secret, ..) in SDKS {
        let secret = if sdk == "discord" { PUBLIC } else { secret };
        let put = inbox.stack.clients().ssm.put_parameter();
        let put = put.name(format!("{path}/{sdk}/current")).value(secret);
        let put = put.r#type(ParameterType::SecureString).overwrite(true);
        put.send().await.unwrap();
        inbox.must_not_log(secret);
    }
    inbox
}

async fn post_foreign(inbox: &Inbox, request: &Request) -> u16 {
    let target = request.url.strip_prefix("https://127.0.0.1").unwrap();
    let headers: Headers = request.headers.clone().into_iter().collect();
    let body = request.body.as_bytes();
    inbox.request("POST", target, &headers, body).await.status
}

/// A line that a driver reads or writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Request {
    sdk: String,
    r#do: String,
    secret: String,
    url: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Request {
    fn new((_, sdk, secret, headers, body): &Sdk) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut headers: BTreeMap<_, _> = headers.iter().map(owned).collect();
        let json = "application/json".to_owned();
        headers.entry("content-type".into()).or_insert(json);
        Self {
            sdk: (*sdk).into(),
            r#do: "sign".into(),
            secret: (*secret).into(),
            url: format!("https://127.0.0.1/in/{sdk}"),
            headers,
            body: (*body).into(),
        }
    }

    fn envelope(&self, now: UnixMillis) -> Envelope {
        Envelope {
            method: "POST".into(),
            url: self.url.clone(),
            headers: self.headers.iter().map(|(n, v)| (n, v.clone())).collect(),
            body: self.body.clone().into(),
            received_at: now,
        }
    }

    /// Returns the request with one byte of the body changed.
    fn changed(&self) -> Self {
        assert!(self.body.contains(WORD));
        Self {
            body: self.body.replace(WORD, "canarx"),
            ..self.clone()
        }
    }

    fn to_verify(&self) -> Self {
        Self {
            r#do: "verify".into(),
            ..self.clone()
        }
    }
}

#[derive(Deserialize)]
struct Verdict {
    valid: bool,
}

fn run<A: for<'a> Deserialize<'a>>((program, script): Driver, requests: &[Request]) -> Vec<A> {
    let folder = root().join("infra/tests/foreign_signers");
    let program = match program {
        "node" => Path::new("node").to_owned(),
        path => root().join(path),
    };
    let mut child = Command::new(program)
        .arg(folder.join(script))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the SDKs are installed");
    let lines = requests.iter();
    let lines = lines.map(|request| serde_json::to_string(request).unwrap() + "\n");
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(lines.collect::<String>().as_bytes())
        .unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{script} failed");
    let lines = String::from_utf8(output.stdout).unwrap();
    let answers = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    answers.collect()
}
