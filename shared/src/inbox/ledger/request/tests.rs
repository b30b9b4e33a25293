use proptest::prelude::*;

use super::*;
use crate::webhook::event::Sha;

fn kept(query: Option<&str>, headers: &[(&str, &str)]) -> KeptRequest {
    KeptRequest {
        context: RequestContext {
            method: "POST".into(),
            path: "/in/github".into(),
            query: query.map(str::to_owned),
            headers: headers.iter().copied().collect(),
        },
        dropped: 0,
    }
}

fn headers(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = of
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()));
    owned.collect()
}

fn row(headers: &BTreeMap<String, String>) -> InRow<'_> {
    InRow {
        headers,
        content_type: Some("application/json"),
    }
}

#[test]
fn the_dictionary_is_what_stored_requests_were_packed_with() {
    assert_eq!(
        Sha::of(FIRST).hex(),
        "8190d0bf34da8c6a7ca8e0cb0ea1cb55bc518f0a3b20a20d4f61fee1133b728e",
        "do not change this dictionary; add another with its own number"
    );
}

#[test]
fn a_request_comes_back_with_the_headers_of_its_row() {
    let none = BTreeMap::new();
    let in_row = headers(&[("x-github-event", "push"), ("x-hub-signature-256", "s")]);
    let github = [
        ("-odd", "a: b"),
        ("content-type", "application/json"),
        ("x-empty", ""),
        ("x-github-event", "push"),
        ("x-hub-signature-256", "s"),
    ];
    for (kept, row) in [
        (kept(None, &[("content-type", "application/json")]), &none),
        (kept(Some("a=1?"), &github), &in_row),
        // The row has another value: it is truncated, or the header was repeated.
        (
            kept(None, &[("x-github-event", "a"), ("x-github-event", "b")]),
            &in_row,
        ),
        // The source does not keep a header that verification needs.
        (kept(None, &[("x-hub-signature-256", "s")]), &in_row),
        (
            KeptRequest {
                dropped: 3,
                ..kept(None, &[])
            },
            &in_row,
        ),
        (KeptRequest::default(), &in_row),
    ] {
        let row = self::row(row);
        assert_eq!(unpack(&pack(&kept, row), row), Ok(kept.clone()));
        assert_eq!(unpack(&pack_as_text(&kept, row), row), Ok(kept));
    }
}

#[test]
fn headers_of_the_row_are_not_stored_twice() {
    let in_row = headers(&[("x-hub-signature-256", &"ab".repeat(32))]);
    let of_row = [
        ("content-type", "application/json"),
        (
            "x-hub-signature-256",
            in_row["x-hub-signature-256"].as_str(),
        ),
    ];
    let packed = pack(&kept(None, &of_row), row(&in_row));
    assert!(packed.len() < 30, "{}", packed.len());
    let github = kept(
        None,
        &[
            ("x-github-hook-id", "292430182"),
            ("x-github-hook-installation-target-id", "79929171"),
            ("x-github-hook-installation-target-type", "repository"),
            ("x-hub-signature", &format!("sha1={}", "ab".repeat(20))),
        ],
    );
    let packed = pack(&github, row(&BTreeMap::new()));
    assert!(packed.len() < 120, "{}", packed.len());
}

#[test]
fn a_damaged_request_and_one_of_a_newer_release_are_told_apart() {
    let none = BTreeMap::new();
    let of = |bytes: &[u8]| unpack(bytes, row(&none)).unwrap_err();
    for damaged in [
        &b""[..],
        b"\0",
        b"\0POST",
        b"\0POST /\nno colon",
        b"\0POST /\n: many",
        b"\0POST /\xff",
        b"\x01no zstd",
    ] {
        assert_eq!(of(damaged), UnreadableRequest::Damaged, "{damaged:?}");
    }
    assert_eq!(of(b"\x02x"), UnreadableRequest::UnknownEncoding(2));
    let bomb = compressed(&vec![b'\n'; 16 << 20]).unwrap();
    assert_eq!(of(&[&[1], &bomb[..]].concat()), UnreadableRequest::Damaged);
    let long = format!("\0POST /{}", "x".repeat(16 * 1024));
    assert_eq!(of(long.as_bytes()), UnreadableRequest::Damaged);
}

proptest! {
    #[test]
    fn no_stored_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), text in any::<String>()) {
        let none = BTreeMap::new();
        let _ = unpack(&bytes, row(&none));
        let _ = unpack(&[&[TEXT], text.as_bytes()].concat(), row(&none));
        let _ = unpack(&[&[FIRST_DICTIONARY], &bytes[..]].concat(), row(&none));
    }
}
