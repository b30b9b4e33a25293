use super::*;

#[test]
fn an_element_below_the_root_is_found_and_no_other() {
    let found = |document: &str| xml(&format!("{}\n", STANDARD.encode(document)), "kind");
    let document = "<?xml version=\"1.0\"?>\n<notification>\n <timestamp type=\"datetime\">1\
         </timestamp><a/><subject><kind>no</kind></subject> <kind> check </kind></notification>";
    assert_eq!(found(document), Some("check".into()));
    for none in [
        "",
        "<a",
        "<kind>no</kind>",
        "</a></a>",
        "<a><b><kind>no</kind></b></a>",
    ] {
        assert_eq!(found(none), None, "{none}");
    }
    assert_eq!(xml("no base64!", "kind"), None);
}

#[test]
fn a_location_is_written_as_it_was_read() {
    for text in [
        "header:a|b",
        "item:sha256",
        "item:a.sha256",
        "form-json:payload/team.id",
        "multipart-json:json/event.'a.b'",
        "jwt:a.b",
        "jwt-json:data/data/id",
        "body",
        "body:sha256",
        "first:json:a|json:b.c|const:d",
    ] {
        assert_eq!(Location::parse(text).unwrap().to_string(), text);
    }
    for wrong in [
        "body:",
        "jwt-json:data",
        "jwt-json:/a",
        "jwt-json:a/b..c",
        "form-json:a",
        "form-json:/a",
        "multipart-json:a/",
        "first:json:a",
    ] {
        let error = format!("{:#}", Location::parse(wrong).unwrap_err());
        assert!(error.contains(wrong), "{error}");
    }
}

#[test]
fn values_inside_claims_are_found() {
    let claims = serde_json::json!({
        "a.b": "whole", "a": { "b": "inner", "c": { "d": 7 } }, "x": null,
        "data": r#"{"data":"{\"id\":\"e1\",\"n\":2}","kind":"k","o":{}}"#, "bad": "{",
    });
    let envelope = Envelope {
        method: "POST".into(),
        url: String::new(),
        headers: [("a", "b")].into_iter().collect(),
        body: bytes::Bytes::new(),
        received_at: crate::base::clock::UnixMillis(0),
    };
    let place = Place {
        claims: claims.as_object(),
        ..Place::from(&envelope)
    };
    let find = |text: &str| Location::parse(text).unwrap().find(place);
    let is = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(find("jwt:a.b"), is("whole"));
    assert_eq!(find("jwt:a.c.d"), is("7"));
    assert_eq!(find("jwt-json:data/data/id"), is("e1"));
    assert_eq!(find("jwt-json:data/kind"), is("k"));
    for none in [
        "jwt:x",
        "jwt:a.z",
        "jwt:a.c.d.e",
        "jwt:z.a",
        "jwt-json:z/a",
        "jwt-json:data/z/a",
    ] {
        assert_eq!(find(none), Ok(None), "{none}");
    }
    assert_eq!(find("jwt:a"), Err(Unreadable::NoScalar));
    assert_eq!(find("jwt-json:data/o"), Err(Unreadable::NoScalar));
    assert_eq!(find("jwt-json:bad/a"), Err(Unreadable::NoJson));
    assert_eq!(find("jwt-json:data/kind/a"), Err(Unreadable::NoJson));
}
