use std::collections::BTreeMap;

use shared::base::clock::UnixMillis;
use shared::webhook::preset::Preset;

use super::super::time_window::{TimeWindow, about};
use super::*;

/// Returns a list with this pagination. `request` and `more` are lines of its table.
fn list(request: &str, page: &str, more: &str) -> Sync {
    let text = format!(
        "schema = 1\nid = \"acme\"\nname = \"Acme\"\ndocs = \"https://acme.test\"\n\
         checked = \"2026-11\"\n[[verify]]\nkind = \"hmac\"\nsig = {{ from = \"header:x\" }}\n\
         [event]\n[[sync]]\nkind = \"change-cursor\"\ndocs = \"https://acme.test\"\n\
         checked = \"2026-11\"\nauth = {{ kind = \"bearer\" }}\nid = [\"item:id\"]\n\
         items = \"data\"\n{more}\n[sync.request]\n{request}\n[sync.page]\n{page}\n"
    );
    let preset = Preset::parse(&text, &BTreeMap::new()).unwrap();
    preset.syncs.into_iter().next().unwrap()
}

const URL: &str = "url = \"https://api.acme.test/events?since={since}\"";

fn read(
    sync: &Sync,
    token: Option<&str>,
    body: &str,
    link: Option<&str>,
) -> anyhow::Result<Listing> {
    Listing::read(sync, token, &Bytes::copy_from_slice(body.as_bytes()), link)
}

fn next_of(sync: &Sync, token: Option<&str>, body: &str) -> Option<String> {
    read(sync, token, body, None).unwrap().next
}

fn span() -> TimeWindow {
    TimeWindow {
        from: UnixMillis(1_000_000),
        started: UnixMillis(2_000_000),
    }
}

fn stripe() -> Sync {
    let preset = Preset::embedded("stripe", &BTreeMap::new()).unwrap();
    preset.sync("default").unwrap().clone()
}

#[test]
fn a_page_is_read_and_items_keep_their_bytes() {
    let page = r#"{"object":"list","data":[{"id":"evt_2","type":"a.b", "x":1.10,"created":7},{"id":"evt_1","created":6}],"has_more":true}"#;
    let listing = read(&stripe(), None, page, None).unwrap();
    assert_eq!(listing.next.as_deref(), Some("evt_1"));
    let [two, one] = listing.items.as_slice() else {
        panic!("two items");
    };
    assert_eq!(
        two.raw.as_ref(),
        br#"{"id":"evt_2","type":"a.b", "x":1.10,"created":7}"#
    );
    assert_eq!((two.kind.as_str(), one.kind.as_str()), ("a.b", ""));
    assert_eq!(two.at, Some(UnixMillis(7_000)));
    let last = r#"{"data":[],"has_more":false}"#;
    assert!(next_of(&stripe(), None, last).is_none());
}

#[test]
fn a_bad_page_is_never_taken_for_an_empty_one() {
    for page in [
        "",
        "<html>",
        "[]",
        "{}",
        r#"{"data":{},"has_more":false}"#,
        r#"{"data":[1],"has_more":false}"#,
        r#"{"data":[{"type":"x","created":1}],"has_more":false}"#,
        r#"{"data":[{"id":"","created":1}],"has_more":false}"#,
        r#"{"data":[{"id":"evt_1"}],"has_more":false}"#,
        r#"{"data":[{"id":"evt_1","created":"soon"}],"has_more":false}"#,
        r#"{"data":[]}"#,
        r#"{"data":[],"has_more":"maybe"}"#,
        r#"{"data":[],"has_more":true}"#,
        r#"{"data":[{"id":{},"created":1}],"has_more":false}"#,
        r#"{"data":[{"id":"evt_1","created":1}],"has_mo"#,
    ] {
        assert!(read(&stripe(), None, page, None).is_err(), "{page}");
    }
    let whole = list(URL, "style = \"link-header\"", "");
    for page in ["", "{}", "null", r#"{"data":null}"#] {
        assert!(read(&whole, None, page, None).is_err(), "{page}");
    }
}

#[test]
fn a_token_of_the_answer_goes_into_the_query_or_the_body() {
    let page = "style = \"cursor\"\nto = \"query:after\"\nnext = \"json:meta.after\"";
    let query = list(URL, page, "");
    let body = r#"{"data":[],"meta":{"after":"t1"}}"#;
    assert_eq!(next_of(&query, None, body).as_deref(), Some("t1"));
    for last in [
        r#"{"data":[],"meta":{"after":null}}"#,
        r#"{"data":[]}"#,
        r#"{"data":[],"meta":{"after":""}}"#,
    ] {
        assert_eq!(next_of(&query, None, last), None, "{last}");
    }
    let question = span().page(&query, Some("t1")).unwrap();
    assert_eq!(question.query, [("after".to_owned(), "t1".to_owned())]);
    assert_eq!(question.url, "https://api.acme.test/events?since=1000");

    let request = "url = \"https://api.acme.test/g\"\nmethod = \"POST\"\nbody = '{\"q\":\"x\",\"variables\":{\"since\":\"{since}\"}}'";
    let page =
        "style = \"cursor\"\nto = \"body:variables.after\"\nnext = \"json:end\"\nmore = \"more\"";
    let graph = list(request, page, "since = { unit = \"rfc3339\" }");
    let asked = |token| span().page(&graph, token).unwrap().body.unwrap();
    assert_eq!(
        asked(None),
        r#"{"q":"x","variables":{"since":"1970-01-01T00:16:40.000Z"}}"#
    );
    let json: serde_json::Value = serde_json::from_str(&asked(Some("a\"b"))).unwrap();
    assert_eq!(json["variables"]["after"], "a\"b");
    let more = r#"{"data":[],"end":"e","more":true}"#;
    assert_eq!(next_of(&graph, None, more).as_deref(), Some("e"));
    let no_more = r#"{"data":[],"end":"e","more":false}"#;
    assert_eq!(next_of(&graph, None, no_more), None);
    assert!(read(&graph, None, r#"{"data":[],"more":true}"#, None).is_err());
}

#[test]
fn a_list_is_read_on_by_links_urls_offsets_and_numbers() {
    let links = list(URL, "style = \"link-header\"", "");
    let page = read(
        &links,
        None,
        r#"{"data":[]}"#,
        Some("<https://api.acme.test/2>; rel=\"next\""),
    );
    assert_eq!(
        page.unwrap().next.as_deref(),
        Some("https://api.acme.test/2")
    );
    let question = span()
        .page(&links, Some("https://api.acme.test/2"))
        .unwrap();
    assert_eq!(
        (question.url.as_str(), question.query.len()),
        ("https://api.acme.test/2", 0)
    );

    let urls = list(
        URL,
        "style = \"next-url\"\nnext = \"json:paging.next\"\nuntil_empty = true",
        "",
    );
    let page =
        |items| format!(r#"{{"data":{items},"paging":{{"next":"https://api.acme.test/n"}}}}"#);
    assert!(next_of(&urls, None, &page(r#"[{"id":1}]"#)).is_some());
    assert!(next_of(&urls, None, &page("[]")).is_none());
    assert!(read(&urls, None, r#"{"data":[{"id":1}]}"#, None).is_err());

    let related = list(URL, "style = \"next-url\"\nnext = \"rel:links\"", "");
    let page = r#"{"data":[],"links":[{"rel":"self","href":"https://a"},{"rel":"next","href":"https://b"}]}"#;
    assert_eq!(next_of(&related, None, page).as_deref(), Some("https://b"));
    assert_eq!(next_of(&related, None, r#"{"data":[],"links":[]}"#), None);

    let two = r#"{"data":[{"id":1},{"id":2}]}"#;
    let offset = list(URL, "style = \"offset\"\nto = \"query:skip\"\nsize = 2", "");
    assert_eq!(next_of(&offset, Some("4"), two).as_deref(), Some("6"));
    assert_eq!(next_of(&offset, Some("4"), r#"{"data":[{"id":1}]}"#), None);
    assert!(read(&offset, Some("x"), two, None).is_err());

    let number = list(URL, "style = \"number\"\nto = \"query:page\"\nsize = 2", "");
    assert_eq!(next_of(&number, None, two).as_deref(), Some("2"));
    assert_eq!(next_of(&number, Some("2"), two).as_deref(), Some("3"));
    assert_eq!(span().page(&number, None).unwrap().query[0].1, "1");
}

#[test]
fn a_mark_is_where_the_last_page_says_that_the_list_goes_on() {
    let request = "url = \"https://api.acme.test/delta\"";
    let page = "style = \"next-url\"\nnext = \"json:next\"";
    let delta = list(request, page, "mark = { at = \"delta\", refused = [410] }");
    let middle = read(
        &delta,
        None,
        r#"{"data":[],"next":"https://api.acme.test/2"}"#,
        None,
    )
    .unwrap();
    assert_eq!((middle.next.is_some(), middle.mark), (true, None));
    let last = read(
        &delta,
        None,
        r#"{"data":[],"delta":"https://api.acme.test/d"}"#,
        None,
    )
    .unwrap();
    assert_eq!(last.mark.as_deref(), Some("https://api.acme.test/d"));
    assert!(
        read(&delta, None, r#"{"data":[]}"#, None).is_err(),
        "neither next nor mark"
    );
}

#[test]
fn a_change_never_takes_the_id_of_a_webhook() {
    let changes = list(URL, "style = \"link-header\"", "");
    let listing = read(&changes, None, r#"{"data":[{"id":"evt_1"}]}"#, None).unwrap();
    let item = &listing.items[0];
    assert_eq!(
        (item.id.as_str(), item.kind.as_str()),
        ("changed:evt_1", "mitt.changed")
    );
}

#[test]
fn a_body_is_the_item_a_part_of_it_or_what_was_fetched() {
    let item = r#"{"data":[{"id":"1","payload":{"a": 1},"text":"{\"b\":2}"}]}"#;
    let body = |more: &str, fetched: Option<&str>| {
        let sync = list(URL, "style = \"link-header\"", more);
        let listing = read(&sync, None, item, None).unwrap();
        let fetched = fetched.map(|text| Bytes::copy_from_slice(text.as_bytes()));
        let body = listing.items[0].body(&sync, fetched.as_ref());
        body.map(|body| body.map(|body| String::from_utf8(body.to_vec()).unwrap()))
    };
    assert_eq!(
        body("body = \"item:payload\"", None).unwrap().unwrap(),
        r#"{"a": 1}"#
    );
    assert_eq!(
        body("body = \"item:text\"", None).unwrap().unwrap(),
        r#"{"b":2}"#
    );
    assert_eq!(
        body("wrap = '{\"event-data\":{item},\"n\":{item:id},\"none\":{item:x}}'\nbody = \"item:payload\"", None).unwrap().unwrap(),
        r#"{"event-data":{"a": 1},"n":"1","none":null}"#
    );
    let fetch = "fetch = { url = \"https://api.acme.test/{item:id}\" }\n";
    assert_eq!(body(fetch, Some("{ }")).unwrap().unwrap(), "{ }");
    assert!(body(fetch, Some("{")).is_err());
    let part = format!("{fetch}body = \"json:request.payload\"");
    assert_eq!(
        body(&part, Some(r#"{"request":{"payload":[1]}}"#))
            .unwrap()
            .unwrap(),
        "[1]"
    );
    for none in ["{}", r#"{"request":{"payload":null}}"#] {
        assert_eq!(body(&part, Some(none)).unwrap(), None, "{none}");
    }
    for bad in ["", r#"{"request":{"payload":[1"#] {
        assert!(body(&part, Some(bad)).is_err(), "{bad}");
    }
}

#[test]
fn what_an_item_says_is_one_segment_of_a_url() {
    let fetch = "fetch = { url = \"https://api.acme.test/d/{item:id}/body\" }";
    let sync = list(URL, "style = \"link-header\"", fetch);
    let request = sync.fetch.as_ref().unwrap();
    let url = |item: &str| about(request, item.as_bytes()).map(|question| question.url);
    assert_eq!(
        url(r#"{"id":42}"#).unwrap(),
        "https://api.acme.test/d/42/body"
    );
    assert_eq!(
        url(r#"{"id":"../../x?y#z"}"#).unwrap(),
        "https://api.acme.test/d/%2E%2E%2F%2E%2E%2Fx%3Fy%23z/body"
    );
    for bad in [r#"{"id":".."}"#, "{}", r#"{"id":{}}"#] {
        assert!(url(bad).is_err(), "{bad}");
    }
}

/// The type is part of an index key, which DynamoDB limits to 1,024 bytes.
#[test]
fn a_long_type_is_cut_as_a_webhooks_is() {
    let kind = "é".repeat(600);
    let page = format!(
        r#"{{"object":"list","data":[{{"id":"evt_1","type":"{kind}","created":6}}],"has_more":false}}"#
    );
    let listing = read(&stripe(), None, &page, None).unwrap();
    let [item] = listing.items.as_slice() else {
        panic!("one item");
    };
    assert!(!item.is_too_long());
    assert_eq!(item.kind, "é".repeat(64));
}
