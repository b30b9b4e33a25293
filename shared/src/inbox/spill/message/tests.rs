use proptest::prelude::*;

use super::*;
use crate::webhook::context::{KeptRequest, RequestContext};

fn event(body: &[u8]) -> Event {
    Event {
        key: EventKey::new("acme", "evt_1"),
        provider: "acme".to_owned(),
        preset: "generic-hmac".to_owned(),
        kind: "job.\u{fffe}done \u{1f980}\u{0}\u{7f}".to_owned(),
        items: Vec::new(),
        parts: Vec::new(),
        of: Batch::read(&format!("3|{}", "ab".repeat(32))),
        delivery: Some("d".to_owned()),
        content_type: Some("application/json".to_owned()),
        headers: BTreeMap::from([("x-signature".to_owned(), "v1=ü".to_owned())]),
        account: Account::new("one.shop", true),
        request: Some(Arc::new(KeptRequest {
            context: RequestContext {
                method: "POST".to_owned(),
                path: "/in/acme".to_owned(),
                query: Some("a=1".to_owned()),
                headers: [("content-type", "application/json"), ("x-tenant", "t1")]
                    .into_iter()
                    .collect(),
            },
            dropped: 2,
        })),
        body: Bytes::copy_from_slice(body),
        sha: Sha::of(body),
        content: Sha::of(b"what stays"),
        received_at: UnixMillis(1_795_169_681_118),
        via: Via::Webhook,
        proven: Proven::Fields,
        secret: Some("previous".to_owned()),
        once: Some(Sha::of(b"signed")),
        config: "c0ffee".to_owned(),
        signed_at: Some(UnixMillis(1_795_169_680_000)),
        drained_at: None,
        delivered_by: DeliveredBy::Mitt,
        missing: Vec::new(),
    }
}

/// All data of an event, as text.
fn told(event: &Event) -> String {
    format!("{event:?}")
}

fn alone(event: Event) -> Spilled {
    Spilled::new(event, None)
}

#[test]
fn an_event_comes_back_with_everything_that_its_row_says() {
    for body in [
        &b""[..],
        b"{}",
        &vec![0xff; 70_000],
        &(0..=255).collect::<Vec<_>>(),
    ] {
        let event = event(body);
        let messages = write(&[alone(event.clone())], 1 << 20).unwrap();
        assert_eq!(messages.len(), 1);
        let back = read(&messages[0]).unwrap();
        assert_eq!(told(&back[0].event), told(&event));
        assert!(back[0].placed.is_none());
    }
}

#[test]
fn a_body_in_the_bucket_is_named_and_not_sent() {
    let event = event(&vec![7; 4_000_000]);
    let placed = StoredBody {
        len: event.body.len(),
        at: BodyLocation::Bucket("bodies/acme/1".to_owned()),
    };
    let messages = write(&[Spilled::new(event.clone(), Some(placed))], 2_000).unwrap();
    let back = &read(&messages[0]).unwrap()[0];
    assert!(back.event.body.is_empty());
    assert_eq!(back.event.sha, event.sha);
    let placed = back.placed.as_ref().unwrap();
    assert_eq!(placed.len, 4_000_000);
    assert!(matches!(&placed.at, BodyLocation::Bucket(key) if key == "bodies/acme/1"));
}

#[test]
fn events_share_messages_and_none_is_too_long() {
    let events: Vec<_> = (0..50_u8)
        .map(|n| alone(event(&[n; 10].repeat(usize::from(n)))))
        .collect();
    for limit in [1_200, 5_000, 100_000] {
        let messages = write(&events, limit).unwrap();
        assert!(messages.iter().all(|message| message.len() <= limit));
        let back: Vec<_> = messages
            .iter()
            .flat_map(|text| read(text).unwrap())
            .collect();
        assert!(
            back.iter()
                .map(|one| told(&one.event))
                .eq(events.iter().map(|one| told(&one.event)))
        );
    }
    assert_eq!(write(&events, 100_000).unwrap().len(), 1);
    assert!(write(&events, 500).is_err());
}

#[test]
fn a_message_of_this_version_stays_readable() {
    let text = concat!(
        r#"{"v":1,"events":[{"key":"E#acme#evt_1","rcv":1795169681118,"pvd":"acme","#,
        r#""pre":"generic-hmac","ty":"job.done","via":"webhook","prv":"body","cfg":"c0ffee","#,
        r#""sha":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","#,
        r#""same":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","#,
        r#""once":false,"len":2,"body":{"raw":"e30="},"later":[1]}]}"#
    );
    let back = read(text).unwrap();
    assert_eq!(&back[0].event.body[..], b"{}");
    assert_eq!(back[0].event.key, EventKey::new("acme", "evt_1"));
    assert_eq!(back[0].event.delivered_by, DeliveredBy::Mitt);
}

#[test]
fn a_message_of_a_trial_has_a_version_that_earlier_releases_do_not_read() {
    let in_trial = event(b"{}").delivered_by_route();
    let text = write(&[alone(in_trial)], 1 << 20).unwrap().remove(0);
    assert!(text.starts_with(r#"{"v":2,"#), "{text}");
    assert_eq!(
        read(&text).unwrap()[0].event.delivered_by,
        DeliveredBy::Route
    );
}

#[test]
fn what_cannot_be_read_is_said_without_its_content() {
    let good = write(&[alone(event(b"{}"))], 1 << 20).unwrap().remove(0);
    for (from, to, why) in [
        (r#"{"v":1"#, r#"{"v":3"#, Unreadable::UnknownVersion(3)),
        (r#"{"v":1"#, r#"{"w":1"#, Unreadable::NoJson),
        ("E#acme", "X#acme", Unreadable::Part("key")),
        ("webhook", "pigeon", Unreadable::Part("`via` value")),
        ("fields", "faith", Unreadable::Part("`proven` value")),
        ("\"3|", "\"x|", Unreadable::Part("batch")),
        (
            r#""raw":"e30=""#,
            r#""raw":"e31=""#,
            Unreadable::Part("body"),
        ),
        (
            r#""raw":"e30=""#,
            r#""zstd":"e30=""#,
            Unreadable::Part("body"),
        ),
        ("\"rq\":\"", "\"rq\":\"/", Unreadable::Part("request")),
        (r#""raw""#, r#""cooked""#, Unreadable::NoJson),
    ] {
        assert!(good.contains(from), "{from}");
        assert_eq!(read(&good.replacen(from, to, 1)).err(), Some(why), "{to}");
    }
    assert_eq!(read("").err(), Some(Unreadable::NoJson));
}

#[test]
fn a_bomb_fills_no_memory() {
    let good = write(&[alone(event(b"{}"))], 1 << 20).unwrap().remove(0);
    let bomb = STANDARD.encode(zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap());
    let text = good
        .replacen(r#""raw":"e30=""#, &format!(r#""zstd":"{bomb}""#), 1)
        .replacen(r#""len":2"#, r#""len":67108864"#, 1);
    assert_eq!(read(&text).err(), Some(Unreadable::Part("body")));
}

proptest! {
    #[test]
    fn any_body_and_any_word_survive(body in prop::collection::vec(any::<u8>(), 0..3000), kind in any::<String>(), header in any::<String>()) {
        let mut event = event(&body);
        event.kind = kind;
        event.headers.insert("h".to_owned(), header);
        let message = write(&[alone(event.clone())], 1 << 20).unwrap().remove(0);
        prop_assert!(message.is_ascii());
        prop_assert_eq!(told(&read(&message).unwrap()[0].event), told(&event));
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = read(&text);
        let _ = read(&format!(r#"{{"v":1,"events":[{text}]}}"#));
    }
}
