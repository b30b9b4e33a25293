use super::*;
use crate::base::clock::UnixMillis;

fn envelope(url: &str, headers: &[(&str, &str)]) -> Envelope {
    Envelope {
        method: "POST".into(),
        url: format!("https://hooks.example.test{url}"),
        headers: headers.iter().copied().collect(),
        body: bytes::Bytes::new(),
        received_at: UnixMillis(0),
    }
}

fn kept_by(policy: &ContextPolicy, envelope: &Envelope) -> Option<KeptRequest> {
    let selection = Selection {
        policy,
        is_named: &|name| name == "x-acme-topic" || name == "x-amz-sns-topic",
        secret_headers: &["x-acme-key"],
        secret_parameters: &["sig"],
    };
    selection.of(envelope)
}

fn kept(envelope: &Envelope) -> KeptRequest {
    kept_by(&ContextPolicy::default(), envelope).unwrap()
}

fn names(kept: &KeptRequest) -> Vec<&str> {
    let headers = kept.context.headers.iter();
    headers.map(|(name, _)| name).collect()
}

#[test]
fn the_headers_of_the_provider_are_kept() {
    let request = envelope(
        "/in/s?b=2&a=%20x",
        &[
            ("X-Acme-Event", " made "),
            ("x-acme-topic", "orders/create"),
            ("content-type", "application/json"),
        ],
    );
    let kept = kept(&request);
    assert_eq!(
        names(&kept),
        ["content-type", "x-acme-event", "x-acme-topic"]
    );
    assert_eq!(kept.context.headers.one("x-acme-event"), Ok(Some("made")));
    assert_eq!(kept.context.path, "/in/s");
    assert_eq!(kept.context.query.as_deref(), Some("b=2&a=%20x"));
    assert_eq!((kept.context.method.as_str(), kept.dropped), ("POST", 0));
}

/// Each of these requests has one header or parameter that is not kept, and one that is.
#[test]
fn no_hostile_head_is_kept_or_harms_another_header() {
    let (long, huge) = ("v".repeat(1025), "v".repeat(64 * 1024));
    let name = "n".repeat(65);
    let heads: [(&str, &str, usize); 22] = [
        ("Authorization", "Bearer x", 0),
        ("aUTHORIZATION", "Basic x", 0),
        ("cookie", "a=b", 0),
        ("set-cookie", "a=b", 0),
        ("x-session-id", "1", 0),
        ("x-vault-token", "1", 0),
        ("my-client-secret", "1", 0),
        ("x-api-key", "1", 0),
        ("x-acme-key", "the secret of the scheme", 0),
        ("connection", "close", 0),
        ("transfer-encoding", "chunked", 0),
        ("proxy-authorization", "x", 0),
        ("x-forwarded-for", "203.0.113.9", 0),
        ("x-amzn-trace-id", "Root=1", 0),
        ("cf-ray", "1", 0),
        ("", "no name", 1),
        (&name, "a long name", 1),
        ("with space", "1", 1),
        ("x-übel", "1", 1),
        ("x-nul", "a\0b", 1),
        ("x-line", "a\nx-forged: 1", 1),
        ("x-huge", &huge, 1),
    ];
    for (name, value, dropped) in heads {
        let kept = kept(&envelope("/", &[(name, value), ("x-good", "1")]));
        assert_eq!(names(&kept), ["x-good"], "{name}");
        assert_eq!(kept.dropped, dropped, "{name}");
    }
    let kept = kept(&envelope("/", &[("x-long", &long), ("x-good", "1")]));
    assert_eq!((names(&kept), kept.dropped), (vec!["x-good"], 1));
}

#[test]
fn repeated_headers_are_all_kept() {
    let kept = kept(&envelope("/", &[("x-a", "1"), ("x-a", "2"), ("X-A", "1")]));
    let values: Vec<&str> = kept.context.headers.all("x-a").collect();
    assert_eq!(values, ["1", "2", "1"]);
}

#[test]
fn named_headers_are_kept_before_the_limit_is_reached() {
    let value = "v".repeat(1000);
    let many: Vec<(String, String)> = (0..100)
        .map(|n| (format!("x-{n:03}"), "1".to_owned()))
        .chain([("x-acme-topic".to_owned(), "orders".to_owned())])
        .collect();
    let of = |headers: &[(String, String)]| {
        let headers: Vec<_> = headers
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        kept(&envelope("/", &headers))
    };
    let by_count = of(&many);
    assert_eq!(by_count.context.headers.iter().count(), 48);
    assert_eq!(
        (names(&by_count)[47], by_count.dropped),
        ("x-acme-topic", 53)
    );

    let large: Vec<_> = (0..6).map(|n| (format!("x-{n}"), value.clone())).collect();
    let by_size = of(&[&large[..], &many[100..]].concat());
    assert_eq!(
        names(&by_size),
        ["x-0", "x-1", "x-2", "x-3", "x-acme-topic"]
    );
    assert_eq!(by_size.dropped, 2);
}

#[test]
fn credentials_and_oversized_queries_are_not_kept() {
    let query = |url: &str| kept(&envelope(url, &[])).context.query;
    for (url, left) in [
        ("/", None),
        ("/?", None),
        ("/?token=1", None),
        ("/?a=1&access%5Ftoken=1&b=2", Some("a=1&b=2")),
        ("/?api_key=1&a", Some("a")),
        ("/?sig=1&SESSION=2&a=b%00c", Some("a=b%00c")),
        ("/?a=x y\nz", Some("a=x%20y%0Az")),
    ] {
        assert_eq!(query(url).as_deref(), left, "{url}");
    }
    let long = kept(&envelope(&format!("/?a={}", "x".repeat(2048)), &[]));
    assert_eq!((long.context.query, long.dropped), (None, 1));
    let long = kept(&envelope(&format!("/{}", "x".repeat(1024)), &[]));
    assert_eq!((long.context.path.as_str(), long.dropped), ("", 1));
    let odd = kept(&envelope("/in/s\r\nx: y/ä", &[]));
    assert_eq!(odd.context.path, "/in/s%0D%0Ax:%20y/%C3%A4");
}

#[test]
fn a_source_chooses_what_is_kept() {
    let headers = [
        ("x-acme-topic", "t"),
        ("x-amz-sns-topic", "n"),
        ("content-type", "text/plain"),
        ("x-other", "o"),
        ("x-once-token", "k"),
        ("x-acme-key", "s"),
        ("cf-ipcountry", "NZ"),
        ("host", "h"),
    ];
    let request = envelope("/in/s?a=1", &headers);
    let of = |policy: ContextPolicy| kept_by(&policy, &request);
    let also = || vec!["x-once-token".to_owned(), "cf-ipcountry".to_owned()];
    let named = of(ContextPolicy {
        keep: Keep::Named,
        also: also(),
        ..ContextPolicy::default()
    });
    let all = [
        "cf-ipcountry",
        "content-type",
        "x-acme-topic",
        "x-amz-sns-topic",
        "x-once-token",
    ];
    assert_eq!(names(&named.unwrap()), all);
    let hidden = of(ContextPolicy {
        also: vec!["x-acme-key".to_owned(), "host".to_owned()],
        never: vec![
            NamePattern::parse("x-a*").unwrap(),
            NamePattern::parse("x-other").unwrap(),
        ],
        without_query: true,
        ..ContextPolicy::default()
    });
    let hidden = hidden.unwrap();
    assert_eq!(names(&hidden), ["content-type"]);
    assert_eq!(hidden.context.query, None);
    let nothing = of(ContextPolicy {
        keep: Keep::None,
        ..ContextPolicy::default()
    });
    assert_eq!(nothing, None);
    for bad in ["", "X-A", "a*b", "x a", "ä*"] {
        assert_eq!(NamePattern::parse(bad), None, "{bad}");
    }
}
