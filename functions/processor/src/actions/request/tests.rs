use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use shared::inbox::ledger::Item;
use shared::sources::{ActionKind, Config};
use shared::webhook::context::Account;
use shared::webhook::event::EventKey;
use shared::webhook::verify::Arrival;

use super::*;

const RECEIVED: UnixMillis = UnixMillis(1_795_169_681_000);
const KEY: &str = "wh_key";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const IDS: CallIds<'_> = CallIds {
    key: KEY,
    traceparent: PARENT,
};
const SECRET: &str = "whsec_c2VjcmV0LW9mLXRoZS1yb3V0ZQ==";

/// Headers with which a sender could imitate Mitt, or reach another receiver.
const SPOOFED: [(&str, &str); 10] = [
    ("mitt-proven", "body"),
    ("mitt-account", "evil"),
    ("mitt-other", "x"),
    ("idempotency-key", "evil"),
    ("webhook-id", "evil"),
    ("traceparent", "00-evil"),
    ("host", "evil.test"),
    ("content-length", "1"),
    ("authorization", "Bearer evil"),
    ("cookie", "a=b"),
];

/// The values of `sign`.
const SETTINGS: [&str; 4] = [
    "secret = 'k'",
    "sign = 'provider'\nsecret = 'k'",
    "sign = 'as-received'",
    "sign = 'none'",
];

struct Given {
    config: Config,
    row: Row,
    body: Bytes,
    request: Option<RequestContext>,
}

impl Given {
    /// Returns an event of a source with one action.
    fn new(preset: &str, of_source: &str, of_action: &str) -> Self {
        let text = format!(
            "schema = 1\n[forward]\nallow_hosts = [\"app.example.com\"]\n[[source]]\n\
             name = \"shop\"\npreset = \"{preset}\"\n{of_source}\n[[source.action]]\n\
             kind = \"http\"\nurl = \"https://app.example.com/hooks\"\n{of_action}\n"
        );
        Self {
            config: Config::parse(&text).unwrap(),
            row: row(&[]),
            body: Bytes::from_static(b"{\"id\":\"evt_1\",\"type\":\"t\"}"),
            request: None,
        }
    }

    fn with_headers(mut self, headers: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.row.headers = headers.iter().map(owned).collect();
        self
    }

    fn with_request(mut self, path: &str, query: Option<&str>, headers: &[(&str, &str)]) -> Self {
        self.request = Some(RequestContext {
            method: "POST".into(),
            path: path.into(),
            query: query.map(str::to_owned),
            headers: headers.iter().copied().collect(),
        });
        self
    }

    fn verifier(&self) -> &Verifier {
        &self.config.source("shop").unwrap().verifier
    }

    fn action(&self) -> (&str, &Signing) {
        match &self.config.source("shop").unwrap().actions[0].kind {
            ActionKind::Http { url, signing, .. } => (url, signing),
            other => panic!("{other:?}"),
        }
    }

    fn event(&self) -> EventRequest<'_> {
        EventRequest {
            row: &self.row,
            body: &self.body,
            request: self.request.as_ref(),
            entity: None,
            verifier: self.verifier(),
        }
    }

    fn sent_at(&self, now: UnixMillis) -> SignedRequest {
        self.sent_as(IDS, now)
    }

    fn sent_as(&self, ids: CallIds<'_>, now: UnixMillis) -> SignedRequest {
        let (url, signing) = self.action();
        let event = self.event();
        assert_eq!(event.unsendable(url, signing, now), None);
        let secret = signing.secret().map(|_| Secret::new("current", SECRET));
        event
            .request(url, signing, secret.as_ref(), ids, now)
            .unwrap()
    }

    fn sent(&self) -> SignedRequest {
        self.sent_at(RECEIVED)
    }

    fn unsendable(&self, secs: i64) -> Option<(&'static str, String)> {
        let (url, signing) = self.action();
        let now = UnixMillis(RECEIVED.0 + secs * 1000);
        match self.event().unsendable(url, signing, now) {
            None => None,
            Some(Outcome::Unsendable { reason, error }) => Some((reason, error)),
            other => panic!("{other:?}"),
        }
    }
}

fn row(more: &[(&str, AttributeValue)]) -> Row {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let number = |number: i64| AttributeValue::N(number.to_string());
    let mut row = Item::from([
        ("pk".to_owned(), text(&EventKey::new("shop", "evt_1").pk())),
        ("sv".to_owned(), number(1)),
        ("st".to_owned(), text("processing")),
        ("epoch".to_owned(), number(1)),
        ("run".to_owned(), number(0)),
        ("att".to_owned(), number(2)),
        ("cr".to_owned(), number(0)),
        ("lu".to_owned(), number(1)),
        ("rcv".to_owned(), number(RECEIVED.0)),
        ("bref".to_owned(), text("i")),
        ("fx".to_owned(), AttributeValue::M(Item::new())),
        ("ct".to_owned(), text("application/json")),
        ("ty".to_owned(), text("orders/create")),
        ("prv".to_owned(), text("token")),
    ]);
    for (name, value) in more {
        row.insert((*name).to_owned(), value.clone());
    }
    Row::read(&row).unwrap()
}

fn header<'r>(request: &'r SignedRequest, name: &str) -> Option<&'r str> {
    request.headers.one(name).unwrap()
}

#[test]
fn each_mode_sends_its_headers() {
    let kept = [
        ("stripe-signature", "t=1,v1=stale"),
        ("user-agent", "Stripe/1.0"),
        ("x-tenant", "t-1"),
    ];
    // The headers that differ between the modes.
    let looked = [
        "webhook-id",
        "webhook-signature",
        "stripe-signature",
        "user-agent",
        "mitt-query",
    ];
    for (settings, url, expected) in [
        ("secret = 'k'", "", ["ours", "made", "-", "-", "kept"]),
        (
            "sign = 'provider'\nsecret = 'k'",
            "?a=1&b=%20",
            ["-", "-", "made", "kept", "kept"],
        ),
        (
            "sign = 'as-received'",
            "?a=1&b=%20",
            ["-", "-", "kept", "kept", "kept"],
        ),
        ("sign = 'none'", "", ["-", "-", "-", "-", "kept"]),
    ] {
        let given = Given::new("stripe", "", settings)
            .with_headers(&kept[..2])
            .with_request("/in/shop", Some("a=1&b=%20"), &kept[2..]);
        let request = given.sent();
        let found = looked.map(|name| match (name, header(&request, name)) {
            (_, None) => "-",
            (_, Some(KEY)) => "ours",
            ("mitt-query", Some("a=1&b=%20")) => "kept",
            (_, Some(value)) if kept.contains(&(name, value)) => "kept",
            _ => "made",
        });
        assert_eq!(found, expected, "{settings}");
        assert_eq!(
            request.url,
            format!("https://app.example.com/hooks{url}"),
            "{settings}"
        );
        assert_eq!(request.body, given.body, "{settings}");
        for (name, value) in [
            ("idempotency-key", KEY),
            ("traceparent", PARENT),
            ("mitt-run-id", &given.row.run_id(&given.row.id())),
            ("mitt-source", "shop"),
            ("mitt-attempt", "2"),
            ("mitt-proven", "token"),
            ("mitt-event-type", "orders/create"),
            ("content-type", "application/json"),
            ("x-tenant", "t-1"),
        ] {
            assert_eq!(header(&request, name), Some(value), "{settings} {name}");
        }
    }
}

#[test]
fn no_sender_sets_a_header_of_mitt_or_of_the_connection() {
    for settings in SETTINGS {
        let given = Given::new("stripe", "", settings)
            .with_headers(&[("stripe-signature", "t=1,v1=x"), ("mitt-proven", "body")])
            .with_request("/in/shop", None, &SPOOFED);
        let request = given.sent();
        for (name, value) in request.headers.iter() {
            assert!(!SPOOFED.contains(&(name, value)), "{settings} {name}");
        }
        let names: Vec<&str> = request.headers.iter().map(|(name, _)| name).collect();
        let unique: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), unique.len(), "{settings}: {names:?}");
        assert_eq!(header(&request, "mitt-proven"), Some("token"), "{settings}");
    }
}

#[test]
fn a_hostile_traceparent_never_becomes_the_parent() {
    let hostile = (
        "traceparent",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    );
    for settings in SETTINGS {
        let given = Given::new("stripe", "", settings)
            .with_headers(&[("stripe-signature", "t=1,v1=x"), hostile])
            .with_request("/in/shop", None, &[hostile]);
        let request = given.sent();
        let parents: Vec<&str> = request.headers.all("traceparent").collect();
        assert_eq!(parents, [PARENT], "{settings}");
    }
}

#[test]
fn no_signature_covers_the_trace() {
    let other = CallIds {
        traceparent: "00-11111111111111111111111111111111-2222222222222222-01",
        ..IDS
    };
    for settings in SETTINGS {
        let given =
            Given::new("stripe", "", settings).with_headers(&[("stripe-signature", "t=1,v1=x")]);
        let [one, two] = [IDS, other].map(|ids| {
            let request = given.sent_as(ids, RECEIVED);
            let headers = request.headers.iter();
            let headers = headers.filter(|(name, _)| *name != "traceparent");
            let headers = headers.map(|(name, value)| format!("{name}: {value}"));
            headers.collect::<Vec<_>>()
        });
        assert_eq!(one, two, "{settings}");
        assert!(one.len() > 5, "{one:?}");
    }
}

#[test]
fn a_header_that_cannot_be_sent_is_left_out() {
    let hostile = [
        ("x-a", "b\r\nmitt-proven: body"),
        ("x b", "c"),
        ("x-d", "\u{0}"),
        ("x-e", "f"),
    ];
    let given = Given::new("stripe", "", "sign = 'none'")
        .with_headers(&[("x-é", "1"), ("Host", "evil.test"), ("Mitt-Proven", "body")])
        .with_request("/in/shop", Some("a=\u{7f}"), &hostile);
    let request = given.sent();
    let of_sender = |name: &&str| name.starts_with('x') || *name == "mitt-query";
    let names: Vec<&str> = request
        .headers
        .iter()
        .map(|(name, _)| name)
        .filter(of_sender)
        .collect();
    assert_eq!(names, ["x-e"]);
    assert_eq!(header(&request, "host"), None);
    assert_eq!(header(&request, "mitt-proven"), Some("token"));
}

#[test]
fn a_later_attempt_is_signed_anew() {
    let given = Given::new("stripe", "", "sign = 'provider'\nsecret = 'k'")
        .with_headers(&[("stripe-signature", "t=1,v1=stale")]);
    for hours in [0, 2, 20 * 24] {
        let now = UnixMillis(RECEIVED.0 + hours * 3_600_000);
        let request = given.sent_at(now);
        let envelope = Envelope {
            method: "POST".into(),
            url: request.url,
            headers: request.headers,
            body: request.body,
            received_at: now,
        };
        let secrets = [Secret::new("k", SECRET)];
        let answer = given.verifier().verify(&envelope, &secrets);
        assert!(
            matches!(answer, Ok(Arrival::Event(_))),
            "{hours} h: {answer:?}"
        );
    }
}

#[test]
fn the_ids_of_the_provider_stay() {
    let sent = [
        ("webhook-id", "msg_1"),
        ("webhook-timestamp", "1"),
        ("webhook-signature", "v1,x"),
    ];
    let provider = Given::new("standard-webhooks", "", "sign = 'provider'\nsecret = 'k'");
    let request = provider.with_headers(&sent).sent();
    assert_eq!(header(&request, "webhook-id"), Some("msg_1"));
    assert_eq!(header(&request, "idempotency-key"), Some(KEY));
    assert_ne!(header(&request, "webhook-signature"), Some("v1,x"));
    assert_eq!(header(&request, "mitt-delivery"), None);

    let received = Given::new("standard-webhooks", "", "sign = 'as-received'");
    let request = received.with_headers(&sent).sent();
    for (name, value) in sent {
        assert_eq!(header(&request, name), Some(value));
    }

    // With `standard`, the id is the idempotency key.
    let standard = Given::new("standard-webhooks", "", "secret = 'k'");
    let request = standard.with_headers(&sent).sent();
    assert_eq!(header(&request, "webhook-id"), Some(KEY));
    assert_eq!(header(&request, "mitt-delivery"), Some("msg_1"));
}

#[test]
fn the_account_the_path_and_the_delivery_are_in_headers() {
    let mut given =
        Given::new("shopify", "", "sign = 'none'").with_request("/in/shop/eu/a%20b", None, &[]);
    given.row.account = Account::parse("-one.myshopify.com");
    given.row.delivery = Some("d-1".into());
    let request = given.sent();
    for (name, value) in [
        ("mitt-account", "one.myshopify.com"),
        ("mitt-account-signed", "no"),
        ("mitt-path", "/eu/a%20b"),
        ("mitt-delivery", "d-1"),
    ] {
        assert_eq!(header(&request, name), Some(value), "{name}");
    }
    given.row.account = Account::parse("+acct_1");
    assert_eq!(header(&given.sent(), "mitt-account-signed"), Some("yes"));
}

#[test]
fn the_path_begins_after_the_address_of_the_source() {
    let public = "public_url = \"https://hooks.example.com/shopify\"";
    for (of_source, path, expected) in [
        ("", "/in/shop/a/b", Some("/a/b")),
        ("", "/in/shop", None),
        ("", "/in/shop/", None),
        ("", "/in/shopping", None),
        ("", "/other", None),
        (public, "/shopify/a", Some("/a")),
        (public, "/in/shop/a", Some("/a")),
    ] {
        let given = Given::new("stripe", of_source, "sign = 'none'").with_request(path, None, &[]);
        assert_eq!(given.event().tail(), expected, "{of_source} {path}");
    }
}

#[test]
fn an_event_chooses_its_path_and_nothing_else() {
    let url = |template: &str, account: &str, path: &str| {
        let mut given = Given::new("stripe", "", "sign = 'none'").with_request(path, None, &[]);
        given.row.account = Account::parse(account);
        let (_, signing) = given.action();
        let event = given.event();
        match event.unsendable(template, signing, RECEIVED) {
            None => {
                event
                    .request(template, signing, None, IDS, RECEIVED)
                    .unwrap()
                    .url
            }
            Some(Outcome::Unsendable { reason, .. }) => reason.to_owned(),
            other => panic!("{other:?}"),
        }
    };
    let template = "https://app.example.com/{account}/{path}?t={type}";
    for (account, path, expected) in [
        (
            "-a.b",
            "/in/shop/x/y",
            "https://app.example.com/a.b/x/y?t=orders%2Fcreate",
        ),
        (
            "-a/b",
            "/in/shop/%2e%2e%2fx",
            "https://app.example.com/a%2Fb/..%2Fx?t=orders%2Fcreate",
        ),
        (
            "-@evil.test",
            "/in/shop/x",
            "https://app.example.com/%40evil.test/x?t=orders%2Fcreate",
        ),
        ("-..", "/in/shop/x", "bad_path"),
        ("-a", "/in/shop/../x", "bad_path"),
        ("-a", "/in/shop/%2E./x", "bad_path"),
        ("-a", "/in/shop//x", "bad_path"),
        ("-a", "/in/shop", "bad_path"),
        ("", "/in/shop/x", "bad_path"),
    ] {
        assert_eq!(url(template, account, path), expected, "{account} {path}");
    }
}

#[test]
fn a_received_signature_is_sent_only_while_it_is_fresh() {
    let signed = [("stripe-signature", "t=1,v1=x")];
    let given = Given::new("stripe", "", "sign = 'as-received'").with_headers(&signed);
    assert_eq!(given.unsendable(289), None);
    let (reason, error) = given.unsendable(290).unwrap();
    assert_eq!(reason, "stale_signature");
    assert!(error.contains("sign = \"provider\""), "{error}");
    let forward = "sign = 'as-received'\nstale = 'forward'";
    let given = Given::new("stripe", "", forward).with_headers(&signed);
    assert_eq!(given.unsendable(100_000), None);
}

#[test]
fn a_signature_that_was_not_stored_whole_is_not_sent() {
    let given = |headers: &[(&str, &str)]| {
        Given::new("github", "", "sign = 'as-received'").with_headers(headers)
    };
    let signature = "x-hub-signature-256";
    assert_eq!(given(&[(signature, "sha256=x")]).unsendable(0), None);
    let reason = |given: Given| given.unsendable(0).map(|(reason, _)| reason);
    assert_eq!(reason(given(&[])), Some("stale_signature"));
    let cut = "x".repeat(LONGEST_STORED_HEADER);
    assert_eq!(reason(given(&[(signature, &cut)])), Some("stale_signature"));
    // The stored request has the whole value.
    let whole = "x".repeat(LONGEST_STORED_HEADER + 1);
    let given = given(&[(signature, &cut)]).with_request("/in/shop", None, &[(signature, &whole)]);
    assert_eq!(given.unsendable(0), None);
    assert_eq!(header(&given.sent(), signature), Some(whole.as_str()));
    // Mitt fetched the event, so there was no signature.
    let mut fetched = Given::new("github", "", "sign = 'as-received'");
    fetched.row = row(&[("via", AttributeValue::S("backup_sync".into()))]);
    let (reason, error) = fetched.unsendable(0).unwrap();
    assert_eq!(reason, "stale_signature");
    assert!(error.contains("fetched"), "{error}");
}

#[test]
fn a_secret_that_does_not_fit_is_an_error_without_its_value() {
    let given = Given::new("discord", "", "sign = 'provider'\nsecret = 'k'");
    let (url, signing) = given.action();
    let secret = Secret::new("k", "not-a-key-pair");
    let event = given.event();
    let error = event
        .request(url, signing, Some(&secret), IDS, RECEIVED)
        .unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("PKCS #8 in PEM"), "{error}");
    assert!(!error.contains("not-a-key"), "{error}");
}
