use super::*;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    types: Vec<String>,
    #[serde(default, rename = "where")]
    conditions: Vec<FileCondition>,
}

fn filter(text: &str) -> Filter {
    let file: File = toml::from_str(text).unwrap();
    Filter::checked(&file.types, &file.conditions).unwrap()
}

static NO_HEADERS: BTreeMap<String, String> = BTreeMap::new();

fn facts<'e>(kind: &'e str, body: &'e [u8]) -> Facts<'e> {
    Facts {
        kind,
        body,
        account: None,
        request: None,
        headers: &NO_HEADERS,
    }
}

#[test]
fn conditions_look_into_the_request() {
    let request = RequestContext {
        method: "POST".into(),
        path: "/in/shop".into(),
        query: Some("tenant=a%20b&tenant=c&flag".into()),
        headers: [("x-topic", "orders/create"), ("x-n", "1"), ("x-n", "2")]
            .into_iter()
            .collect(),
    };
    let event = Facts {
        account: Some("one.shop"),
        request: Some(&request),
        ..facts("", b"{}")
    };
    let old_headers = BTreeMap::from([("x-topic".to_owned(), "orders/create".to_owned())]);
    let old = Facts {
        headers: &old_headers,
        ..facts("", b"{}")
    };
    for (condition, holds, holds_for_old) in [
        ("header = 'X-Topic', equals = 'orders/create'", true, true),
        ("header = 'x-topic', equals = 'orders'", false, false),
        ("header = 'x-n', in = [2, 3]", true, false),
        ("header = 'x-n', not = 2", false, true),
        ("header = 'x-none', exists = false", true, true),
        ("query = 'tenant', equals = 'a b'", true, false),
        ("query = 'tenant', equals = 'c'", true, false),
        ("query = 'flag', exists = true", true, false),
        ("query = 'x-topic', exists = true", false, false),
        ("account = 'one.shop'", true, false),
        ("account = ['two.shop', 'one.shop']", true, false),
        ("account = ['two.shop']", false, false),
    ] {
        let one = filter(&format!("where = [{{ {condition} }}]"));
        assert_eq!(one.matches(event), holds, "{condition}");
        assert_eq!(one.matches(old), holds_for_old, "{condition}");
    }
}

#[test]
fn a_type_matches_with_a_star_anywhere() {
    for (glob, matching, other) in [
        ("invoice.*", "invoice.paid", "invoices.paid"),
        ("*.paid", "invoice.paid", "invoice.paid.twice"),
        ("invoice.*.done", "invoice.x.done", "invoice.done"),
        ("push", "push", "pushed"),
        ("*", "", "\0"),
    ] {
        let filter = filter(&format!("types = ['nothing', {glob:?}]"));
        assert!(filter.matches(facts(matching, b"")), "{glob}");
        assert_eq!(filter.matches(facts(other, b"")), glob == "*", "{glob}");
    }
    // Head and tail do not overlap.
    assert!(!filter("types = ['ab*ba']").matches(facts("aba", b"")));
    assert!(Filter::default().matches(facts("anything", b"not json")));
}

#[test]
fn conditions_look_into_the_body() {
    let body = br#"{"a":{"s":"paid","n":1,"t":true,"z":null},"l":[{"k":"x"},{"k":"y"}]}"#;
    for (condition, holds) in [
        ("path = '$.a.s', equals = 'paid'", true),
        ("path = 'a.s', equals = 'void'", false),
        ("path = 'a.s', in = ['void', 'paid']", true),
        ("path = 'a.s', not = 'void'", true),
        ("path = 'a.s', not = ['void', 'paid']", false),
        ("path = 'a.none', not = 'void'", true),
        ("path = 'a.n', equals = 1", true),
        ("path = 'a.n', equals = 1.5", false),
        ("path = 'a.t', equals = true", true),
        ("path = 'a.s', exists = true", true),
        ("path = 'a', exists = true", true),
        ("path = 'a', equals = 'paid'", false),
        ("path = 'a.z', exists = true", false),
        ("path = 'a.z', exists = false", true),
        ("path = 'l[*].k', equals = 'y'", true),
        ("path = 'l[*].k', not = 'y'", false),
    ] {
        let one = filter(&format!("where = [{{ {condition} }}]"));
        assert_eq!(one.matches_object(body), holds, "{condition}");
    }
    let both = "where = [{ path = 'a.s', equals = 'paid' }, { path = 'a.n', equals = 2 }]";
    assert!(!filter(both).matches_object(body));
    assert!(filter("where = [{ path = 'a', exists = false }]").matches_object(b"\xff"));
    assert!(!filter("where = [{ path = 'a', equals = '1' }]").matches_object(b"a=1"));
}

#[test]
fn a_condition_has_one_test() {
    for text in [
        "path = 'a'",
        "path = 'a', equals = 1, exists = true",
        "path = 'a..b', equals = 1",
        "path = 'a', equals = [1]",
        "path = 'a', in = []",
        "path = 'a', header = 'b', equals = 1",
        "header = 'a', account = 'b'",
        "header = 'a'",
        "header = '', exists = true",
        "equals = 1",
        "account = []",
        "account = 'a', equals = 'a'",
        "account = {}",
    ] {
        let file: File = toml::from_str(&format!("where = [{{ {text} }}]")).unwrap();
        assert!(Filter::checked(&[], &file.conditions).is_err(), "{text}");
    }
}

#[test]
fn a_missing_path_is_named_only_if_it_decides() {
    let missing = |text: &str, body: &str| {
        let filter = filter(text);
        let facts = facts("invoice.paid", body.as_bytes());
        let path = filter.missing_path(facts, filter.matches(facts));
        path.map(ToString::to_string)
    };
    let paid = "where = [{ path = '$.data.status', equals = 'paid' }]";
    let named = |text: &str| format!("types = ['invoice.*']\n{text}");
    let found = Some("data.status".to_owned());
    for lacks in [r#"{"data":{}}"#, r#"{"data":{"status":{}}}"#, "no json"] {
        assert_eq!(missing(&named(paid), lacks), found, "{lacks}");
        // Without a type, other events can lack the path.
        assert_eq!(missing(paid, lacks), None, "{lacks}");
        assert_eq!(missing(&format!("types = ['*']\n{paid}"), lacks), None);
        assert_eq!(missing(&format!("types = ['push']\n{paid}"), lacks), None);
    }
    for has in [
        r#"{"data":{"status":"open"}}"#,
        r#"{"data":{"status":null}}"#,
        r#"{"data":null}"#,
        r#"{"data":[]}"#,
    ] {
        assert_eq!(missing(&named(paid), has), None, "{has}");
    }
    let not = named("where = [{ path = 'data.status', not = 'void' }]");
    assert_eq!(missing(&not, "{}"), found);
    let both = "where = [{ path = 'data.status', equals = 'paid' }, { path = 'a', equals = 1 }]";
    assert_eq!(missing(&named(both), r#"{"a":1}"#), found);
    assert_eq!(missing(&named(both), r#"{"a":2}"#), None);
    let optional = "where = [{ path = 'data.status', equals = 'paid' }, \
                    { path = 'data.status', exists = true }]";
    assert_eq!(missing(&named(optional), "{}"), None);
}
