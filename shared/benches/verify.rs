//! Measures the cost of verifying one webhook of 2 KB, and of parsing the presets at a cold start.
//!
//! Valgrind counts the instructions of this program. `verify CASE TIMES` runs a case `TIMES` times.
//! The cost of one run is computed from the difference between several runs and zero runs. The
//! counts are reproducible. Valgrind does not support SHA extensions, so the counts for hashing are
//! higher than on a machine with SHA extensions. The times depend on the machine, and only show
//! proportions.

#![expect(clippy::unwrap_used, reason = "a failed case must not print a number")]
#![expect(clippy::print_stdout, reason = "the benchmark prints a table")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::sources::{Config, EMBEDDED};
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::Preset;
use shared::webhook::sign::signed;
use shared::webhook::verify::{Arrival, Trust, Verifier};

const NOW: UnixMillis = UnixMillis(1_795_169_681_000);

/// The presets, each with the kind of signature that it represents.
const VERIFY: [(&str, &str); 8] = [
    ("github", "HMAC of the body, hex"),
    ("stripe", "the same with a time, in a list"),
    ("slack", "the same with a time, in headers"),
    ("standard-webhooks", "the same with an id, base64"),
    ("shopify", "HMAC of the body, base64"),
    ("twilio", "HMAC-SHA1 of the sorted form"),
    ("adyen", "HMAC of the fields of 8 items"),
    ("discord", "Ed25519"),
];

/// The files that a cold start parses.
const READ: [(&str, &str); 4] = [
    ("read stripe", "one preset"),
    ("read slack", "one preset"),
    ("read embedded", "infra/sources.toml with its presets"),
    ("read all", "all presets, which no function parses at once"),
];

fn main() {
    // Cargo passes `--bench` as the only argument. Two arguments mean that valgrind runs this
    // program.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [case, times] = arguments.as_slice() {
        run(case, times.parse().unwrap());
        return;
    }
    println!("{:<26}{:>14}{:>10}   ", "verify", "instructions", "µs");
    for (case, what) in VERIFY {
        row(case, what, 200);
    }
    println!("\n{:<26}{:>14}{:>10}", "cold start", "instructions", "µs");
    for (case, what) in READ {
        row(case, what, 4);
    }
}

fn row(case: &str, what: &str, times: u32) {
    let counted = (instructions(case, times) - instructions(case, 0)) / u64::from(times);
    let counted = with_commas(counted);
    println!("{case:<26}{counted:>14}{:>10.1}   {what}", micros(case));
}

/// Returns the number of instructions of a run of this program, which valgrind counts.
fn instructions(case: &str, times: u32) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no"])
        .arg("--cachegrind-out-file=/dev/null")
        .arg(std::env::current_exe().unwrap())
        .args([case, &times.to_string()])
        .output()
        .expect("start valgrind");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let (_, count) = said.split_once(" refs:").unwrap();
    let count = count.lines().next().unwrap().trim().replace(',', "");
    count.parse().unwrap()
}

/// Returns the time of the fastest of several rounds, in microseconds per run.
fn micros(case: &str) -> f64 {
    let mut work = prepared(case);
    let rounds = (0..20).map(|_| {
        let start = Instant::now();
        for _ in 0..10 {
            work();
        }
        start.elapsed().as_secs_f64() / 10.0 * 1e6
    });
    rounds.fold(f64::INFINITY, f64::min)
}

fn run(case: &str, times: u32) {
    let mut work = prepared(case);
    for _ in 0..times {
        work();
    }
}

fn prepared(case: &str) -> Box<dyn FnMut()> {
    let none = BTreeMap::new();
    match case {
        "read all" => Box::new(move || {
            for id in Preset::ids() {
                black_box(Preset::embedded(id, &none).unwrap());
            }
        }),
        "read embedded" => Box::new(|| {
            black_box(Config::parse(EMBEDDED).unwrap());
        }),
        _ => match case.strip_prefix("read ") {
            Some(id) => {
                let id = id.to_owned();
                Box::new(move || {
                    black_box(Preset::embedded(&id, &none).unwrap());
                })
            }
            None => verification(case),
        },
    }
}

fn verification(preset: &str) -> Box<dyn FnMut()> {
    let verifier = Verifier {
        source: "source".into(),
        preset: Preset::embedded(preset, &BTreeMap::new()).unwrap(),
        variant: "default".into(),
        trust: Trust::default(),
        config: "bench".into(),
    };
    let (request, secret) = request(&verifier);
    let secrets = [secret];
    Box::new(move || {
        let answer = verifier.verify(black_box(&request), black_box(&secrets));
        assert!(matches!(black_box(answer), Ok(Arrival::Event(_))));
    })
}

/// Returns a signed request of about 2 KB.
fn request(verifier: &Verifier) -> (Envelope, Secret) {
    let preset = verifier.preset.id.as_str();
    let envelope = Envelope {
        method: "POST".into(),
        url: "https://a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com/in/source".into(),
        headers: headers(preset).into_iter().collect(),
        body: body(preset).into(),
        received_at: NOW,
    };
    if preset == "discord" {
        return discord(envelope);
    }
    let secret = match preset {
        "standard-webhooks" => format!("whsec_{}", STANDARD.encode([7; 24])),
        "adyen" => hex::encode([7; 32]),
        _ => "a secret of forty characters, as many do".to_owned(),
    };
    let secret = Secret::new("current", secret);
    let scheme = verifier.preset.scheme("default").unwrap();
    let request = signed(scheme, &secret, envelope, NOW).unwrap();
    (request, secret)
}

fn discord(mut envelope: Envelope) -> (Envelope, Secret) {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let at = NOW.secs().to_string();
    let message = [at.as_bytes(), &envelope.body].concat();
    let signature = hex::encode(pair.sign(&message));
    let proof = [
        ("x-signature-ed25519", signature),
        ("x-signature-timestamp", at),
    ];
    let known = envelope.headers.iter();
    let known = known.map(|(name, value)| (name, value.to_owned()));
    envelope.headers = known.chain(proof).collect();
    let public = hex::encode(pair.public_key());
    (envelope, Secret::new("current", public))
}

/// Returns as many headers as a request has behind a gateway.
fn headers(preset: &str) -> Vec<(&'static str, &'static str)> {
    let kind = match preset {
        "twilio" => "application/x-www-form-urlencoded",
        _ => "application/json",
    };
    vec![
        ("accept", "*/*"),
        ("content-length", "2048"),
        ("content-type", kind),
        ("host", "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com"),
        ("user-agent", "a sender of webhooks/1.0"),
        (
            "x-amzn-trace-id",
            "Root=1-5e1b4151-5ac6c58dc39a6b6a1a4cd5ee",
        ),
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-port", "443"),
        ("x-forwarded-proto", "https"),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-github-event", "push"),
        ("webhook-id", "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"),
    ]
}

fn body(preset: &str) -> String {
    match preset {
        "twilio" => {
            let fields = (0..40).map(|n| format!("Field{n}=a+value+of+some+%2B{n:0>20}&"));
            format!(
                "{}MessageSid=SM1&MessageStatus=sent",
                fields.collect::<String>()
            )
        }
        "adyen" => {
            let items = (0..8).map(|n| {
                format!(
                    r#"{{"NotificationRequestItem":{{"pspReference":"79140733813422{n:0>2}","merchantAccountCode":"Merchant","merchantReference":"order-{n}","amount":{{"value":1130,"currency":"EUR"}},"eventCode":"AUTHORISATION","success":"true","additionalData":{{}}}}}}"#
                )
            });
            let items = items.collect::<Vec<_>>().join(",");
            format!(r#"{{"live":"false","notificationItems":[{items}]}}"#)
        }
        _ => {
            let fields = (0..48).map(|n| format!(r#""field_{n}":"a value of it {n:0>16}","#));
            let fields = fields.collect::<String>();
            format!(
                r#"{{"id":"evt_1","type":"payment.succeeded","data":{{{fields}"last":true}},"created":1795169681}}"#
            )
        }
    }
}

fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
