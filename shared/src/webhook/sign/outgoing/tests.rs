use std::collections::BTreeMap;

use super::*;
use crate::webhook::sign::Algorithm;

const NOW: UnixMillis = UnixMillis(1_795_169_681_000);
const URL: &str = "https://app.example.com/hooks";

/// Preset and variant, body, and the changed values: the text before each, and its old value.
type Case<'c> = ((&'c str, &'c str), &'c str, &'c [(&'c str, &'c str)]);

fn preset(id: &str) -> Preset {
    let params = BTreeMap::from([("public_key".to_owned(), "public".to_owned())]);
    Preset::embedded(id, &params)
        .unwrap_or_else(|_| Preset::embedded(id, &BTreeMap::new()).unwrap())
}

fn sent(
    (id, variant): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
    receiver: Receiver<'_>,
) -> SignedRequest {
    let preset = preset(id);
    let scheme = preset.scheme(variant).unwrap();
    let key = match means(scheme) {
        Means::Secret => SigningKey::Secret(Secret::new("k", "c2VjcmV0")),
        Means::KeyPair(algorithm) => SigningKey::KeyPair(KeyPair::generate(algorithm).unwrap()),
        other => panic!("{other:?}"),
    };
    let original = Original {
        id: "evt-1",
        kind: "push",
        headers: headers.iter().copied().collect(),
        body: Bytes::copy_from_slice(body.as_bytes()),
    };
    outgoing(&preset, scheme, &original, &key, receiver, NOW).unwrap()
}

fn sent_to_url(of: (&str, &str), headers: &[(&str, &str)], body: &str) -> SignedRequest {
    let receiver = Receiver {
        url: URL,
        signed_url: None,
    };
    sent(of, headers, body, receiver)
}

fn names(request: &SignedRequest) -> Vec<&str> {
    request.headers.iter().map(|(name, _)| name).collect()
}

/// The body with each new value replaced by the old one.
fn restored(request: &SignedRequest, values: &[(&str, &str)]) -> String {
    let mut body = String::from_utf8(request.body.to_vec()).unwrap();
    for (field, old) in values {
        let from = body.find(field).unwrap() + field.len();
        let rest = &body[from..];
        let end = rest.find(['"', '&', ',', '}']).unwrap_or(rest.len());
        body.replace_range(from..from + end, old);
    }
    body
}

#[test]
fn a_signature_in_the_body_changes_no_other_byte() {
    let mailgun = "{\n \"signature\": {\"token\":\"t\" , \"timestamp\":\"1\",\"signature\":\"aa\"},\
                   \"event-data\":{\"id\":1.10,\"u\":\"\\u00e9\"}}";
    let adyen = r#"{"live":"false", "notificationItems":[ {"NotificationRequestItem":{"additionalData":{"hmacSignature":"old", "x":1e2},"pspReference":"p","success":"true"}} ]}"#;
    let graph = r#"{"value":[{"clientState":"old","id":"1"}, {"id":"2" ,"clientState":"old"}]}"#;
    let braintree = "x=1&bt_signature=public%7Cold&bt_payload=a%0Ab&y=";
    let cases: [Case<'_>; 4] = [
        (
            ("mailgun", "default"),
            mailgun,
            &[("\"timestamp\":\"", "1"), (",\"signature\":\"", "aa")],
        ),
        (
            ("adyen", "default"),
            adyen,
            &[("hmacSignature\":\"", "old")],
        ),
        (
            ("braintree", "default"),
            braintree,
            &[("bt_signature=", "public%7Cold")],
        ),
        (("microsoft-graph", "default"), graph, &[]),
    ];
    for (of, body, values) in cases {
        let request = match of.0 {
            "adyen" => {
                let preset = preset("adyen");
                let scheme = preset.scheme("default").unwrap();
                let key = SigningKey::Secret(Secret::new("k", "00ff"));
                let original = Original {
                    id: "",
                    kind: "",
                    headers: Headers::default(),
                    body: Bytes::copy_from_slice(body.as_bytes()),
                };
                let receiver = Receiver {
                    url: URL,
                    signed_url: None,
                };
                outgoing(&preset, scheme, &original, &key, receiver, NOW).unwrap()
            }
            _ => sent_to_url(of, &[], body),
        };
        assert_ne!(request.body, body.as_bytes(), "{of:?}");
        let found = if of.0 == "microsoft-graph" {
            let text = String::from_utf8(request.body.to_vec()).unwrap();
            text.replace("c2VjcmV0", "old")
        } else {
            restored(&request, values)
        };
        assert_eq!(found, body, "{of:?}");
    }
}

#[test]
fn a_time_in_the_body_keeps_its_type() {
    let body = r#"{"webhookTimestamp":5, "a":1.0}"#;
    let request = sent_to_url(("linear", "default"), &[], body);
    let expected = format!(r#"{{"webhookTimestamp":{}, "a":1.0}}"#, NOW.0);
    assert_eq!(request.body, expected.as_bytes());
}

#[test]
fn no_older_signature_is_left() {
    let headers = [
        ("x-hub-signature", "sha1=stale"),
        ("x-hub-signature-256", "sha256=stale"),
        ("x-github-delivery", "d-1"),
        ("x-github-event", "issues"),
        ("user-agent", "GitHub-Hookshot/1"),
    ];
    let request = sent_to_url(("github", "default"), &headers, "{}");
    assert_eq!(
        names(&request),
        [
            "x-github-delivery",
            "x-github-event",
            "user-agent",
            "x-hub-signature-256"
        ]
    );
    assert_ne!(
        request.headers.one("x-hub-signature-256"),
        Ok(Some("sha256=stale"))
    );
    assert_eq!(request.headers.one("x-github-event"), Ok(Some("issues")));
}

#[test]
fn a_signature_has_the_name_that_the_provider_used() {
    for (used, unused) in [("svix", "webhook"), ("webhook", "svix")] {
        let (id, ts, sig) = (
            format!("{used}-id"),
            format!("{used}-timestamp"),
            format!("{used}-signature"),
        );
        let headers = [
            (id.as_str(), "msg_1"),
            (ts.as_str(), "1"),
            (sig.as_str(), "v1,x"),
        ];
        let request = sent_to_url(("svix", "default"), &headers, "{}");
        let names = names(&request);
        assert!(
            names.iter().all(|name| !name.starts_with(unused)),
            "{names:?}"
        );
        assert_eq!(request.headers.one(&id), Ok(Some("msg_1")));
        assert_eq!(request.headers.one(&ts), Ok(Some("1795169681")));
    }
    let both = [
        ("svix-id", "msg_1"),
        ("svix-signature", "v1,x"),
        ("webhook-id", "msg_1"),
        ("webhook-signature", "v1,x"),
    ];
    let request = sent_to_url(("svix", "default"), &both, "{}");
    let [one, other] = ["svix-signature", "webhook-signature"].map(|n| request.headers.one(n));
    assert_eq!(one, other);
}

#[test]
fn a_second_place_of_the_signature_is_signed_too() {
    let headers = [
        ("x-plivo-signature-v3", "old"),
        ("x-plivo-signature-ma-v3", "old"),
        ("x-plivo-signature-v2", "old"),
    ];
    let request = sent_to_url(("plivo", "default"), &headers, "a=1");
    let signature = request.headers.one("x-plivo-signature-v3");
    assert_ne!(signature, Ok(Some("old")));
    assert_eq!(request.headers.one("x-plivo-signature-ma-v3"), signature);
    assert_eq!(request.headers.one("x-plivo-signature-v2"), Ok(None));
}

#[test]
fn the_url_that_a_receiver_knows_is_the_signed_one() {
    let of = ("twilio", "default");
    let at = |url, signed_url| sent(of, &[], "Body=a", Receiver { url, signed_url });
    let signature = |request: &SignedRequest| {
        let value = request.headers.one("x-twilio-signature").unwrap();
        value.map(str::to_owned)
    };
    let old = "https://old.example.com/x?a=1";
    let plain = at(old, None);
    let moved = at("http://10.0.0.1/y?a=1", Some(old));
    assert_eq!(signature(&plain), signature(&moved));
    assert_eq!(moved.url, "http://10.0.0.1/y?a=1");
    assert_ne!(
        signature(&plain),
        signature(&at("https://new.example.com/x?a=1", None))
    );

    // A hash of the body in the query is in the query that is called, too.
    let json = sent(
        ("twilio", "json"),
        &[],
        "{}",
        Receiver {
            url: "https://new.example.com/y?b=2&bodySHA256=old",
            signed_url: Some("https://old.example.com/x?b=2&bodySHA256=old"),
        },
    );
    let hash = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!(
        json.url,
        format!("https://new.example.com/y?b=2&bodySHA256={hash}")
    );
}

#[test]
fn an_event_without_headers_gets_its_id_and_type() {
    let request = sent_to_url(("github", "default"), &[], "{}");
    assert_eq!(request.headers.one("x-github-delivery"), Ok(Some("evt-1")));
    assert_eq!(request.headers.one("x-github-event"), Ok(Some("push")));
    // Stripe's id is in the body.
    let request = sent_to_url(("stripe", "default"), &[], r#"{"id":"evt_1","type":"t"}"#);
    assert_eq!(names(&request), ["stripe-signature"]);
}

#[test]
fn what_can_be_signed_depends_on_the_scheme() {
    let mut counts = [0, 0, 0];
    for id in Preset::ids() {
        for scheme in preset(id).schemes {
            let signable = unsignable(&scheme).is_none();
            let kept = not_kept(&scheme).is_none();
            counts[if signable {
                0
            } else if kept {
                1
            } else {
                2
            }] += 1;
            if signable && let Means::KeyPair(algorithm) = means(&scheme) {
                let secret = Secret::new("k", "not a key");
                let error = SigningKey::parse(&scheme, &secret).unwrap_err();
                let error = format!("{error:#}");
                assert!(
                    error.contains("PKCS #8") && !error.contains("not a key"),
                    "{error}"
                );
                if algorithm != Algorithm::RsaSha256 {
                    let pem = KeyPair::generate(algorithm).unwrap().expose_pem();
                    SigningKey::parse(&scheme, &Secret::new("k", pem)).unwrap();
                }
            }
        }
    }
    let [signable, as_received, neither] = counts;
    assert!(signable > 105, "{counts:?}");
    assert_eq!((as_received, neither), (6, 5), "{counts:?}");
    for (id, expected) in [
        ("plaid", false),
        ("google-pubsub", false),
        ("ebay", false),
        ("wise", true),
    ] {
        let signable = unsignable(preset(id).scheme("default").unwrap()).is_none();
        assert_eq!(signable, expected, "{id}");
    }
}
