//! `webhookctl verify`, as a user runs it without an inbox: its output, and the values that it
//! never shows.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::collections::BTreeMap;
use std::process::Output;

use crate::support::folder::Folder;
use serde_json::Value;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::{Envelope, Headers};
use shared::webhook::preset::{Encoding, Hash, KeyForm, Location, Preset, Scheme, Template, Unit};
use shared::webhook::sign::signed;

const AT: UnixMillis = UnixMillis(1_795_169_679_000);
const RECEIVED: &str = "2026-11-20T10:14:41Z";
const SECRET: &str = "whsec_bWl0dC1kZW1vLXNlY3JldA==";
const URL: &str = "https://hooks.example.test/in/orders?account=7";
const BODY: &str =
    r#"{"id":"evt_canary","object":"event","url":"https://a.test/b","name":"Zoë & Co","n":1.10}"#;

/// A sender: its preset and its signature scheme.
struct Sender {
    preset: Preset,
    scheme: Scheme,
}

impl Sender {
    fn new(preset: &str) -> Self {
        let preset = Preset::embedded(preset, &BTreeMap::new()).unwrap();
        let scheme = preset.scheme("default").unwrap().clone();
        Self { preset, scheme }
    }

    fn that(mut self, does: impl FnOnce(&mut Scheme)) -> Self {
        does(&mut self.scheme);
        self
    }

    fn sends(&self, secret: &str, body: &str) -> Envelope {
        self.sends_to(URL, secret, body)
    }

    fn sends_to(&self, url: &str, secret: &str, body: &str) -> Envelope {
        let headers = [
            ("content-type", "application/json"),
            ("webhook-id", "msg_1"),
            ("x-github-event", "issues"),
        ];
        let envelope = Envelope {
            method: "POST".into(),
            url: url.into(),
            headers: headers.into_iter().collect(),
            body: body.to_owned().into(),
            received_at: AT,
        };
        signed(&self.scheme, &Secret::new("sender", secret), envelope, AT).unwrap()
    }
}

/// A request that `webhookctl verify` explains.
struct Asked {
    sender: Sender,
    envelope: Envelope,
    /// The secret in the form in which it is stored.
    stored: String,
    other: Option<String>,
    more: Vec<String>,
}

fn asked(sender: Sender, envelope: Envelope, stored: &str) -> Asked {
    Asked {
        sender,
        envelope,
        stored: stored.to_owned(),
        other: None,
        more: Vec::new(),
    }
}

impl Asked {
    fn with(mut self, more: &[&str]) -> Self {
        self.more.extend(more.iter().map(|arg| (*arg).to_owned()));
        self
    }

    fn run(&self, format: &str) -> Output {
        let folder = Folder::new("verify").unwrap();
        let body = folder.path().join("body");
        std::fs::write(&body, &self.envelope.body).unwrap();
        let preset = ["verify", "--preset", &self.sender.preset.id, "--body"];
        let mut command = folder.webhookctl(&preset);
        command
            .arg(&body)
            .args(["--url", &self.envelope.url, "-o", format])
            .args(["--secret-from", "env:STORED"])
            .env("STORED", &self.stored);
        if !self.more.iter().any(|arg| arg == "--at") {
            command.args(["--at", RECEIVED]);
        }
        for (name, value) in self.envelope.headers.iter() {
            command.args(["-H", &format!("{name}: {value}")]);
        }
        if let Some(other) = &self.other {
            command.env("OTHER", other);
            command.args(["--other-secret-from", "env:OTHER"]);
        }
        command.args(&self.more).output().unwrap()
    }

    /// Returns the output as JSON and as text, and the exit code. Checks that neither shows a
    /// secret, a signature or a body.
    fn answer(&self) -> (Value, String, i32) {
        let (json, text) = (self.run("json"), self.run("table"));
        let told = String::from_utf8_lossy(&json.stderr).into_owned();
        assert_eq!(json.status.code(), text.status.code());
        let shown = String::from_utf8(text.stdout).unwrap();
        let document = String::from_utf8(json.stdout).unwrap();
        for all in [&shown, &document, &told] {
            self.is_masked(all);
        }
        let document = serde_json::from_str(&document);
        let document = document.unwrap_or_else(|error| panic!("{error}: {told}"));
        (document, shown, json.status.code().unwrap())
    }

    fn is_masked(&self, text: &str) {
        let stored = self.sender.scheme.clone();
        let right = signed(
            &stored,
            &Secret::new("stored", self.stored.trim()),
            self.envelope.clone(),
            AT,
        );
        let headers = |headers: &Headers| {
            let all = headers.iter().filter(|(name, value)| {
                value.len() > 24 && !name.contains("forwarded") && *name != "host"
            });
            all.flat_map(|(_, value)| {
                let parts = value.split([',', '=', ' ']).map(str::to_owned);
                parts.filter(|part| part.len() > 24).collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
        };
        let mut hidden = headers(&self.envelope.headers);
        hidden.extend(right.iter().flat_map(|right| headers(&right.headers)));
        hidden.extend(["evt_canary", "Zoë", "account=7"].map(str::to_owned));
        hidden.push(self.stored.trim().to_owned());
        hidden.extend(self.other.clone());
        for hidden in hidden {
            assert!(!text.contains(&hidden), "{hidden:?} is in:\n{text}");
        }
    }

    /// Checks that the request is rejected with this near miss.
    fn nearly(&self, cause: &str) -> String {
        let (document, text, exit) = self.answer();
        assert_eq!(document["near_miss"]["cause"], cause, "{text}");
        assert_eq!(
            (exit, &document["valid"]),
            (5, &Value::Bool(false)),
            "{text}"
        );
        let said = document["near_misses"][0].as_str().unwrap().to_owned();
        assert!(text.contains(&format!("found: {said}")), "{text}");
        assert!(text.contains("\nnot verified: "), "{text}");
        said
    }
}

const SIGNED: [&str; 7] = [
    "github",
    "stripe",
    "shopify",
    "slack",
    "standard-webhooks",
    "square",
    "hubspot",
];

#[test]
fn what_is_right_is_verified_step_by_step() {
    for preset in SIGNED {
        let sender = Sender::new(preset);
        let envelope = sender.sends(SECRET, BODY);
        let (document, text, exit) = asked(sender, envelope, SECRET).answer();
        assert_eq!(exit, 0, "{text}");
        assert_eq!(document["schema"], "webhookctl/verify/v1");
        assert_eq!(document["valid"], true);
        assert_eq!(document["matched_secret"], "env:STORED");
        assert_eq!(document["near_misses"], serde_json::json!([]));
        assert!(
            text.ends_with("\nverified with secret env:STORED\n"),
            "{text}"
        );
        assert!(text.contains("equal to signature 1 of 1"), "{text}");
    }
}

#[test]
fn the_steps_are_those_of_the_design() {
    let sender = Sender::new("stripe");
    let envelope = sender.sends(SECRET, BODY);
    let mut asked = asked(sender, envelope, SECRET);
    let (document, text, _) = asked.answer();
    let fingerprint = Secret::new("", SECRET).fingerprint();
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: usize, with: &str| assert!(lines[line].starts_with(with), "{text}");
    assert_eq!(lines[0], "1 Preset      stripe");
    assert_eq!(
        lines[1],
        "2 Header      ok    Stripe-Signature: 1 signature found"
    );
    assert_eq!(
        lines[3],
        "3 Timestamp   ok    1795169679 = 2026-11-20T10:14:39Z, 2s older than receipt (tolerance 5m)"
    );
    begins(4, "4 Signed            {ts}.{body}   (100 bytes)");
    assert_eq!(lines[5].trim(), "1795169679.{body}");
    begins(6, "                    body: 89 bytes, sha256 ");
    begins(
        7,
        &format!("5 Compare     ok    secret env:STORED ({fingerprint}) gives "),
    );
    assert_eq!(document["header"], "Stripe-Signature");
    assert_eq!(document["signatures_in_header"], 1);
    assert_eq!(document["signed_string"]["bytes"], 100);
    assert_eq!(document["timestamp"]["value"], 1_795_169_679);
    assert_eq!(document["timestamp"]["age_s"], 2);
    assert_eq!(document["secrets_tried"][0]["fingerprint"], fingerprint);
    assert_eq!(
        (&document["proves"], &document["variant"]),
        (&"body".into(), &"default".into())
    );

    // With `--reveal`, the output has everything except the secret.
    let signature = asked
        .envelope
        .headers
        .one("stripe-signature")
        .unwrap()
        .unwrap();
    let (_, signature) = signature.rsplit_once('=').unwrap();
    let signature = signature.to_owned();
    asked.more.push("--reveal".into());
    for format in ["json", "table"] {
        let shown = String::from_utf8(asked.run(format).stdout).unwrap();
        assert!(
            shown.contains(&signature) && shown.contains("evt_canary"),
            "{shown}"
        );
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

#[test]
fn a_secret_that_is_not_in_use() {
    for preset in ["github", "stripe", "standard-webhooks"] {
        let sender = Sender::new(preset);
        let envelope = sender.sends(SECRET, BODY);
        let mut asked = asked(sender, envelope, "whsec_YW5vdGhlciBzZWNyZXQ=");
        asked.other = Some(SECRET.to_owned());
        assert!(asked.nearly("other_secret").ends_with("(secret env:OTHER)"));
    }
}

#[test]
fn white_space_and_quotation_marks_around_the_secret() {
    for preset in ["github", "stripe", "standard-webhooks", "slack"] {
        let sent = |stored: &str| {
            let sender = Sender::new(preset);
            let envelope = sender.sends(SECRET, BODY);
            asked(sender, envelope, stored)
        };
        sent(&format!(" {SECRET}\t")).nearly("secret_space");
        sent(&format!("\"{SECRET}\"")).nearly("secret_quotes");
    }
}

#[test]
fn prefix_and_decoding_of_the_secret() {
    let bare = SECRET.trim_start_matches("whsec_");
    for preset in ["stripe", "github", "slack"] {
        let cut = Sender::new(preset);
        let envelope = cut.sends(SECRET, BODY);
        asked(cut, envelope, bare).nearly("secret_form");
        for form in [KeyForm::Base64, KeyForm::Hex] {
            let text = if form == KeyForm::Hex {
                "6d697474"
            } else {
                bare
            };
            let decoding = Sender::new(preset).that(|scheme| scheme.key = form);
            let envelope = decoding.sends(text, BODY);
            asked(Sender::new(preset), envelope, text).nearly("secret_form");
        }
    }
    for preset in ["standard-webhooks", "svix"] {
        let literal = Sender::new(preset).that(|scheme| scheme.key = KeyForm::Utf8);
        let envelope = literal.sends(SECRET, BODY);
        let said = asked(Sender::new(preset), envelope, SECRET).nearly("secret_form");
        assert!(said.contains("taken as text"), "{said}");
    }
}

#[test]
fn line_ends_and_the_byte_order_mark() {
    let lines = "{\n\"id\": \"evt_canary\"\n}";
    let crlf = lines.replace('\n', "\r\n");
    let marked = format!("\u{feff}{lines}");
    for preset in ["github", "stripe", "shopify"] {
        for (sent, arrived, cause) in [
            (lines, format!("{lines}\n"), "body_newline"),
            (&format!("{lines}\n"), lines.to_owned(), "body_newline"),
            (&crlf, lines.to_owned(), "body_crlf"),
            (lines, crlf.clone(), "body_crlf"),
            (lines, marked.clone(), "body_bom"),
            (&marked, lines.to_owned(), "body_bom"),
        ] {
            let sender = Sender::new(preset);
            let mut envelope = sender.sends(SECRET, sent);
            envelope.body = arrived.into();
            asked(sender, envelope, SECRET).nearly(cause);
        }
    }
}

#[test]
fn json_that_was_written_again() {
    let pretty = serde_json::from_str::<Value>(r#"{"a":"evt_canary","b":[1,{"c":"é/"}]}"#).unwrap();
    let compact = pretty.to_string();
    let spaced = r#"{"a": "evt_canary", "b": [1, {"c": "é/"}]}"#;
    let pretty = serde_json::to_string_pretty(&pretty).unwrap();
    let slashes = compact.replace('/', r"\/");
    let ascii = compact.replace('é', r"\u00e9");
    let php = slashes.replace('é', r"\u00e9");
    for preset in ["github", "stripe", "standard-webhooks"] {
        for (sent, arrived, said) in [
            (&compact, &pretty, "written compactly"),
            (&pretty, &compact, "indented by 2 spaces"),
            (&spaced.to_owned(), &compact, "a space after each"),
            (&slashes, &compact, "/ written \\/"),
            (&ascii, &compact, "non-ASCII escaped"),
            (&php, &pretty, "written compactly, with / written"),
            (&compact, &php, "not escaped"),
        ] {
            let sender = Sender::new(preset);
            let mut envelope = sender.sends(SECRET, sent);
            envelope.body = arrived.clone().into();
            let near = asked(sender, envelope, SECRET).nearly("json_rewritten");
            assert!(near.contains(said), "{near}");
        }
    }
}

#[test]
fn the_body_alone_where_more_is_to_be_signed() {
    for preset in ["stripe", "slack", "standard-webhooks", "square"] {
        let alone = Sender::new(preset).that(|scheme| {
            scheme.message = Template::default();
        });
        let envelope = alone.sends(SECRET, BODY);
        asked(Sender::new(preset), envelope, SECRET).nearly("body_alone");
    }
}

#[test]
fn a_time_in_milliseconds_or_in_seconds() {
    for preset in ["stripe", "slack", "standard-webhooks", "hubspot"] {
        let expected = Sender::new(preset).scheme.ts.unwrap().unit;
        let unit = if expected == Unit::Ms {
            Unit::S
        } else {
            Unit::Ms
        };
        let other = Sender::new(preset).that(|scheme| scheme.ts.as_mut().unwrap().unit = unit);
        let envelope = other.sends(SECRET, BODY);
        let said = asked(Sender::new(preset), envelope, SECRET).nearly("timestamp_unit");
        assert!(said.contains("milliseconds"), "{said}");
    }
}

#[test]
fn a_signature_of_sha_1_only() {
    for (preset, header) in [("github", "x-hub-signature"), ("meta", "x-hub-signature")] {
        let old = Sender::new(preset).that(|scheme| {
            scheme.hash = Hash::Sha1;
            scheme.sig.from = Location::Header(vec![header.to_owned()]);
            scheme.sig.prefix = "sha1=".to_owned();
        });
        let envelope = old.sends(SECRET, BODY);
        let asked = asked(Sender::new(preset), envelope, SECRET);
        asked.nearly("sha1_only");
        let (document, text, _) = asked.answer();
        assert_eq!(document["reason"], "missing_header");
        let last = "not verified: header X-Hub-Signature-256 is missing; only X-Hub-Signature \
                    (SHA-1) was sent\n";
        assert!(text.ends_with(last), "{text}");
    }
    for preset in ["shopify", "stripe", "slack"] {
        let old = Sender::new(preset).that(|scheme| scheme.hash = Hash::Sha1);
        let envelope = old.sends(SECRET, BODY);
        asked(Sender::new(preset), envelope, SECRET).nearly("sha1_only");
    }
}

#[test]
fn hex_in_place_of_base64() {
    for preset in ["github", "stripe", "shopify", "square"] {
        let other = Sender::new(preset).that(|scheme| {
            scheme.sig.enc = match scheme.sig.enc {
                Encoding::Hex => Encoding::Base64,
                _ => Encoding::Hex,
            };
        });
        let envelope = other.sends(SECRET, BODY);
        asked(Sender::new(preset), envelope, SECRET).nearly("signature_encoding");
    }
    let bare = Sender::new("github").that(|scheme| scheme.sig.prefix.clear());
    let envelope = bare.sends(SECRET, BODY);
    let said = asked(Sender::new("github"), envelope, SECRET).nearly("signature_encoding");
    assert!(said.contains("without a prefix"), "{said}");
}

/// A signed URL, the headers that a proxy adds, and a text that the output must have.
type Signed = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
);

#[test]
fn another_public_url() {
    let changes: [Signed; 6] = [
        (
            "http://hooks.example.test/in/orders?account=7",
            &[],
            "http://",
        ),
        (
            "https://shop.example.test/in/orders?account=7",
            &[("x-forwarded-host", "shop.example.test")],
            "x-forwarded-host, shop.example.test",
        ),
        (
            "http://shop.example.test:8443/in/orders?account=7",
            &[("host", "shop.example.test:8443")],
            "http:// and with the host of host",
        ),
        (
            "https://hooks.example.test/in/orders/?account=7",
            &[],
            "with a slash",
        ),
        (
            "https://hooks.example.test/in/orders",
            &[],
            "without its query",
        ),
        (
            "https://hooks.example.test:8443/in/orders?account=7",
            &[("x-forwarded-port", "8443")],
            "with the port :8443",
        ),
    ];
    for preset in ["square", "hubspot", "twilio"] {
        for (url, headers, part) in changes {
            let sender = Sender::new(preset);
            let body = if preset == "twilio" {
                "a=evt_canary&b=2"
            } else {
                BODY
            };
            let mut envelope = sender.sends_to(url, SECRET, body);
            let more = headers
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()));
            let known = envelope.headers.iter();
            let known = known.map(|(name, value)| (name, value.to_owned()));
            envelope.headers = known.chain(more).collect();
            URL.clone_into(&mut envelope.url);
            let said = asked(sender, envelope, SECRET).nearly("other_url");
            assert!(said.contains(part), "{preset}: {said}");
        }
    }
}

#[test]
fn another_variant_of_the_preset() {
    let mut sender = Sender::new("shopify");
    sender.scheme = sender.preset.scheme("events").unwrap().clone();
    let envelope = sender.sends(SECRET, BODY);
    asked(Sender::new("shopify"), envelope, SECRET).nearly("other_variant");
}

#[test]
fn what_is_forged_has_no_near_miss() {
    for preset in SIGNED {
        let sender = Sender::new(preset);
        let envelope = sender.sends("whsec_Zm9yZ2Vk", BODY);
        let (document, text, exit) = asked(sender, envelope, SECRET).answer();
        assert_eq!(
            (exit, &document["reason"]),
            (5, &"bad_signature".into()),
            "{text}"
        );
        assert_eq!(document["near_misses"], serde_json::json!([]), "{text}");
        assert!(text.contains("none of the usual causes fits"), "{text}");
    }
}

#[test]
fn what_is_late_is_right_but_too_old() {
    for preset in ["stripe", "slack", "standard-webhooks"] {
        let sender = Sender::new(preset);
        let envelope = sender.sends(SECRET, BODY);
        let late = asked(sender, envelope, SECRET).with(&["--at", "2026-11-20T10:21:51Z"]);
        let (document, text, exit) = late.answer();
        assert_eq!(
            (exit, &document["reason"]),
            (5, &"timestamp_too_old".into())
        );
        assert!(text.contains("3 Timestamp   FAIL"), "{text}");
        assert!(text.contains("5 Compare     ok "), "{text}");
        let last = "\nnot verified: the signature is valid, the timestamp is 2m12s too old\n";
        assert!(text.ends_with(last), "{text}");
    }
}

#[test]
fn a_handshake_is_explained_as_one() {
    let body = r#"{"type":"url_verification","challenge":"evt_canary"}"#;
    let sender = Sender::new("slack");
    let envelope = sender.sends(SECRET, body);
    let mut right = asked(sender, envelope, SECRET);
    let (document, text, exit) = right.answer();
    assert_eq!(
        (exit, &document["handshake"]["status"]),
        (0, &200.into()),
        "{text}"
    );
    assert!(text.contains("2 Request     ok    a handshake"), "{text}");
    assert!(text.ends_with("\na handshake: answered with 200, nothing is stored\n"));
    right.envelope.body = body.replace("evt_canary", "evt_canary2").into();
    let (document, text, exit) = right.answer();
    assert_eq!(
        (exit, &document["reason"]),
        (5, &"bad_signature".into()),
        "{text}"
    );
    assert!(text.contains("2 Request     FAIL  a handshake"), "{text}");
    assert!(text.contains("\n6 Compare     FAIL  "), "{text}");
    assert!(text.contains("\n7 Near misses\n"), "{text}");
}

#[test]
fn a_shown_credential_is_never_shown() {
    for (preset, header) in [("telegram", "x-telegram-bot-api-secret-token")] {
        for (sent, exit) in [
            ("the-right-token-of-telegram", 0),
            ("another-token-of-somebody", 5),
        ] {
            let sender = Sender::new(preset);
            let envelope = sender.sends(sent, BODY);
            assert_eq!(envelope.headers.one(header), Ok(Some(sent)));
            let stored = "the-right-token-of-telegram";
            let asked = asked(sender, envelope, stored).with(&["--reveal"]);
            for format in ["json", "table"] {
                let output = asked.run(format);
                let shown = String::from_utf8(output.stdout).unwrap();
                assert_eq!(output.status.code(), Some(exit), "{shown}");
                assert!(!shown.contains(sent) && !shown.contains(stored), "{shown}");
            }
        }
    }
}

#[test]
fn what_is_missing_is_a_mistake_in_the_arguments() {
    let folder = Folder::new("verify").unwrap();
    folder.write("body", BODY).unwrap();
    for (line, code) in [
        ("verify --body body", "verify.no_preset"),
        (
            "verify --preset strpe --body body",
            "did you mean 'stripe'?",
        ),
        ("verify --preset stripe --body body", "verify.no_secret"),
        (
            "verify --source stripe-main --body body",
            "verify.no_secret",
        ),
        (
            "verify --source strip-main --body body",
            "did you mean 'stripe-main'",
        ),
        ("verify --preset stripe", "verify.no_request"),
        (
            "verify --preset square --body body --secret-from file:body",
            "verify.no_url",
        ),
        (
            "verify --preset stripe --variant x --body body",
            "verify.no_variant",
        ),
        (
            "verify --preset google-pubsub --body body",
            "verify.unusable",
        ),
        (
            "verify --preset stripe --body - --secret-from -",
            "verify.stdin",
        ),
        (
            "verify --preset stripe --body body --secret-from s3cret",
            "usage.secret_from",
        ),
        ("verify --preset stripe -H s3cret", "usage.header"),
        ("verify evt_1 --body body", "cannot be used with"),
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let (exit, told) = folder.refused(&arguments).unwrap();
        assert_eq!(exit, Some(2), "{line}: {told}");
        assert!(told.contains(code), "{line}: {told}");
        assert!(!told.contains("s3cret"), "{told}");
    }
    let (exit, told) = folder.refused(&["verify", "evt_1"]).unwrap();
    assert_eq!(exit, Some(1), "{told}");
    assert!(told.contains("context.none"), "{told}");
}

#[test]
fn a_source_of_the_configuration_is_verified_with_a_given_secret() {
    let sender = Sender::new("stripe");
    let envelope = sender.sends(SECRET, BODY);
    let asked = asked(sender, envelope, SECRET).with(&["--source", "stripe-main"]);
    let (document, text, exit) = asked.answer();
    assert_eq!(
        (exit, &document["source"]),
        (0, &"stripe-main".into()),
        "{text}"
    );
}
