//! The request and the account of an event: stored with the first delivery, kept as long as the
//! body, and given to each attempt.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::base::timing::KEEP_BODY;
use shared::inbox::ledger::{
    BodyAt, By, Content, Erased, FoundBy, Item, Received, Settlement, UnreadableRequest,
};
use shared::webhook::context::{Account, Keep, RequestContext};
use shared::webhook::envelope::Envelope;
use shared::webhook::event::{Event, EventKey, Via};
use shared::webhook::preset::Preset;
use shared::webhook::verify::{Arrival, Trust, Verifier};

use crate::support::{
    NOW, Table, after, dead, event_with, github, n, noise, number, s, signed, text,
};

const BY: By<'static> = By {
    who: "arn:aws:iam::1:user/anna",
    why: "asked for by the person",
};

/// A value that only a header has, and that the dictionary does not contain.
const NEEDLE: &str = "needle-7f3a";

const DAY: u64 = 24 * 3_600_000;

fn shopify(shop: &str, body: impl Into<Vec<u8>>) -> Event {
    let headers = [
        ("content-type", "application/json"),
        ("x-shopify-shop-domain", shop),
        ("x-shopify-topic", "orders/create"),
        ("x-shopify-event-id", "e1"),
        ("x-needle", NEEDLE),
        ("x-vault-token", "a credential"),
        ("x-forwarded-for", "203.0.113.9"),
    ];
    signed("shopify", &headers, body.into())
}

/// Where a body is expected.
type Place = fn(&BodyAt) -> bool;

/// Events whose body is in the state row, in the body row, and in the bucket.
fn everywhere() -> [(Event, Place); 3] {
    let of = |bytes: usize| {
        let body = format!("{{\"noise\":\"{}\"}}", hex::encode(noise(bytes)));
        shopify("one.myshopify.com", body)
    };
    [
        (of(4), |at| *at == BodyAt::Inline),
        (of(3_000), |at| *at == BodyAt::Row),
        (of(60_000), |at| matches!(at, BodyAt::Bucket(_))),
    ]
}

impl Table {
    async fn content(&self, key: &EventKey) -> Content {
        let (_, content) = self.ledger.event_content(key).await.unwrap().unwrap();
        content.unwrap()
    }

    async fn request(&self, key: &EventKey) -> Option<RequestContext> {
        let request = self.content(key).await.request;
        assert_eq!(self.ledger.event_request(key).await.unwrap(), request);
        request.map(|request| request.context)
    }

    async fn account(&self, key: &EventKey) -> Option<String> {
        let row = self.ledger.event(key).await.unwrap().unwrap();
        row.account.map(|account| account.written())
    }
}

fn header<'r>(request: &'r RequestContext, name: &str) -> Option<&'r str> {
    request.headers.one(name).unwrap()
}

fn bytes<'i>(item: &'i Item, name: &str) -> &'i [u8] {
    match item.get(name) {
        Some(AttributeValue::B(blob)) => blob.as_ref(),
        other => panic!("{name} is {other:?}"),
    }
}

#[tokio::test]
async fn a_request_is_stored_beside_its_body() {
    for (event, place) in everywhere() {
        let table = Table::with_bucket().await;
        let key = table.receive(&event).await;
        assert!(place(&table.body_at(&key).await));
        let content = table.content(&key).await;
        assert_eq!(content.body, *event.body());
        assert_eq!(content.request.as_ref(), event.request());
        let request = table.request(&key).await.unwrap();
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/in/shopify-main")
        );
        for (name, value) in [
            ("content-type", Some("application/json")),
            ("x-needle", Some(NEEDLE)),
            ("x-shopify-shop-domain", Some("one.myshopify.com")),
            ("x-shopify-topic", Some("orders/create")),
            ("x-vault-token", None),
            ("x-forwarded-for", None),
        ] {
            assert_eq!(header(&request, name), value, "{name}");
        }
        assert!(header(&request, "x-shopify-hmac-sha256").is_some());
        let account = table.account(&key).await;
        assert_eq!(account.as_deref(), Some("-one.myshopify.com"));
    }
}

#[tokio::test]
async fn a_request_needs_no_further_write() {
    for (event, place) in everywhere() {
        let table = Table::with_bucket().await;
        let (proxy, ledger) = table.through_proxy().await;
        ledger.receive(&event, NOW).await.unwrap();
        let at = table.body_at(event.key()).await;
        // The marker of the signature, the state row, and the body row if there is one.
        let puts = if place(&BodyAt::Inline) { 2 } else { 3 };
        assert_eq!(proxy.count()["PutItem"], puts, "{at:?}");
        assert_eq!(proxy.count().len(), 1);
    }
}

#[tokio::test]
async fn a_duplicate_changes_neither_request_nor_account() {
    for (first, _) in everywhere() {
        let table = Table::with_bucket().await;
        let key = table.receive(&first).await;
        let second = shopify("two.myshopify.com", first.body().to_vec());
        assert_eq!(second.key(), &key, "the account is not part of the key");
        let (proxy, ledger) = table.through_proxy().await;
        let received = ledger.receive(&second, after(60_000)).await.unwrap();
        assert!(
            matches!(received, Received::Open { .. }),
            "the account is not part of the content: {received:?}"
        );
        let inline = table.body_at(&key).await == BodyAt::Inline;
        assert_eq!(proxy.count()["PutItem"], if inline { 2 } else { 3 });
        let request = table.request(&key).await.unwrap();
        assert_eq!(
            header(&request, "x-shopify-shop-domain"),
            Some("one.myshopify.com")
        );
        let account = table.account(&key).await;
        assert_eq!(account.as_deref(), Some("-one.myshopify.com"));
    }
}

#[tokio::test]
async fn a_late_delivery_renews_a_body_and_keeps_its_request() {
    for (first, _) in everywhere() {
        let table = Table::with_bucket().await;
        let key = table.receive(&first).await;
        if table.body_at(&key).await == BodyAt::Inline {
            continue;
        }
        // The state row has expired before the body.
        table.delete(&key.pk(), "M").await;
        let second = shopify("two.myshopify.com", first.body().to_vec());
        let later = after(20 * DAY);
        let received = table.ledger.receive(&second, later).await.unwrap();
        assert_eq!(received, Received::New);
        let row = table.body_row(&first).await.unwrap();
        assert_eq!(number(&row, "ttl"), (later + KEEP_BODY).secs());
        let request = table.request(&key).await.unwrap();
        assert_eq!(
            header(&request, "x-shopify-shop-domain"),
            Some("one.myshopify.com")
        );
    }
}

#[tokio::test]
async fn a_body_that_is_held_meanwhile_gets_no_expiry() {
    let table = Table::fresh().await;
    let first = shopify("one.myshopify.com", hex::encode(noise(1_000)));
    table.receive(&first).await;
    let (proxy, ledger) = table.through_proxy().await;
    let renewal = proxy.hold("PutItem", "attribute_not_exists(held)");
    let hold = async {
        let mut row = table.body_row(&first).await.unwrap();
        row.remove("ttl");
        row.insert("held".into(), n(1));
        table.put(row).await;
    };
    let received = renewal.around(ledger.receive(&first, after(20 * DAY)), hold);
    received.await.0.unwrap();
    let row = table.body_row(&first).await.unwrap();
    assert!(row.contains_key("held") && !row.contains_key("ttl"));
}

#[tokio::test]
async fn each_attempt_and_each_replay_sees_the_first_request() {
    for (first, _) in everywhere() {
        let table = Table::with_bucket().await;
        let key = table.receive(&first).await;
        let lease = table.lease(&key, NOW).await;
        let content = table.ledger.leased_content(&lease).await.unwrap().unwrap();
        assert_eq!(content.request.as_ref(), first.request());
        assert_eq!(lease.row.account.as_ref(), first.account());
        table.settle(lease, dead()).await;
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!(row.account.as_ref(), first.account());
        assert_eq!(table.content(&key).await.request.as_ref(), first.request());
    }
}

#[tokio::test]
async fn a_held_body_keeps_its_request() {
    for (event, _) in everywhere() {
        let table = Table::with_bucket().await;
        let key = table.receive(&event).await;
        let lease = table.lease(&key, NOW).await;
        table.settle(lease, dead()).await;
        table.ledger.hold_dead_letters(after(DAY)).await.unwrap();
        if let Some(row) = table.body_row(&event).await {
            assert!(!row.contains_key("ttl") && row.contains_key("held"));
        }
        assert_eq!(table.content(&key).await.request.as_ref(), event.request());
    }
}

#[tokio::test]
async fn a_quarantined_event_keeps_its_own_request() {
    let table = Table::with_bucket().await;
    let body = |n: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(n));
    let first = shopify("one.myshopify.com", body(1));
    table.receive(&first).await;
    let other = shopify("two.myshopify.com", body(2));
    let received = table.ledger.receive(&other, NOW).await.unwrap();
    let Received::Conflict(key) = received else {
        panic!("{received:?}");
    };
    let request = table.request(&key).await.unwrap();
    let shop = header(&request, "x-shopify-shop-domain");
    assert_eq!(shop, Some("two.myshopify.com"));
    let account = table.account(&key).await;
    assert_eq!(account.as_deref(), Some("-two.myshopify.com"));
    let decided = table.ledger.release(&key, BY, after(1)).await.unwrap();
    assert!(decided.work_message().is_some());
    let lease = table.lease(&key, after(2)).await;
    let content = table.ledger.leased_content(&lease).await.unwrap().unwrap();
    assert_eq!(content.request.as_ref(), other.request());
}

#[tokio::test]
async fn an_erased_event_has_no_request_and_no_account() {
    for (event, _) in everywhere() {
        let table = Table::with_bucket().await;
        let key = table.receive(&event).await;
        let erased = table.ledger.erase(&key, BY, after(9_000)).await.unwrap();
        assert_eq!(erased, Erased::Gone);
        for item in table.all().await {
            for gone in ["rq", "acc", "hdr", "b"] {
                assert!(!item.contains_key(gone), "{gone} in {}", text(&item, "sk"));
            }
            let told = format!("{item:?}");
            assert!(!told.contains(NEEDLE) && !told.contains("myshopify"));
        }
        assert_eq!(table.ledger.event_request(&key).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_batch_gives_each_event_its_request() {
    let table = Table::fresh().await;
    let item = |id: &str| {
        format!(r#"{{"type":"message","webhookEventId":"{id}","deliveryContext":{{}}}}"#)
    };
    let body = format!(
        r#"{{"destination":"U1","events":[{},{}]}}"#,
        item("a"),
        item("b")
    );
    let batch = signed("line", &[("x-needle", NEEDLE)], body);
    let inbox = table.inbox(table.ledger.clone());
    let kept = inbox.store(&batch, NOW).await.unwrap();
    assert_eq!(kept.len(), 2);
    for one in kept {
        let request = table.request(&one.key).await.unwrap();
        assert_eq!(header(&request, "x-needle"), Some(NEEDLE));
        assert_eq!(table.account(&one.key).await.as_deref(), Some("+U1"));
    }
}

#[tokio::test]
async fn a_spilled_event_keeps_its_request_and_account() {
    for (event, _) in everywhere() {
        let table = Table::with_bucket().await;
        let placed = table.ledger.store_body(&event).await.unwrap();
        let spilled = table.spilled(event.clone(), placed).await;
        let inbox = table.inbox(table.ledger.clone());
        let placed = match spilled.placed() {
            Some(placed) => placed.clone(),
            None => table.ledger.store_body(spilled.event()).await.unwrap(),
        };
        let watched = FoundBy::WorkIndex;
        let stored = inbox.store_with_body(spilled.event(), &placed, watched, NOW);
        let key = stored.await.unwrap().key;
        assert_eq!(table.content(&key).await.request.as_ref(), event.request());
        assert_eq!(
            table.account(&key).await.as_deref(),
            Some("-one.myshopify.com")
        );
    }
}

/// Rows as releases without `acc` and `rq` wrote them: they have neither, and nothing else changed.
#[tokio::test]
async fn a_row_without_a_request_reads_as_before() {
    for (event, _) in everywhere() {
        let table = Table::with_bucket().await;
        let key = table.receive(&event).await;
        table
            .edit(&key, |row| drop((row.remove("acc"), row.remove("rq"))))
            .await;
        if let Some(mut body) = table.body_row(&event).await {
            body.remove("rq");
            if body.contains_key("b") {
                table.put(body).await;
            } else {
                table.delete(&key.pk(), &text(&body, "sk")).await;
            }
        }
        let lease = table.lease(&key, NOW).await;
        assert_eq!(lease.row.account, None);
        let content = table.ledger.leased_content(&lease).await.unwrap().unwrap();
        assert_eq!(
            (content.body, content.request),
            (event.body().clone(), None)
        );
        table.settle(lease, Settlement::Done).await;
        // A duplicate adds nothing to the body row of another release.
        let again = shopify("two.myshopify.com", event.body().to_vec());
        table.ledger.receive(&again, after(1_000)).await.unwrap();
        if table.body_at(&key).await == BodyAt::Row {
            assert_eq!(table.content(&key).await.request, None);
        }
        assert_eq!(table.account(&key).await, None);
    }
}

#[tokio::test]
async fn a_fetched_event_has_an_account_and_no_request() {
    let table = Table::fresh().await;
    let fetched = event_with("evt_1", Via::BackupSync, r#"{"account":"acct_1"}"#);
    let account = Account::new("acct_1", true);
    let key = table.receive(&fetched.of_account(account)).await;
    assert_eq!(table.account(&key).await.as_deref(), Some("+acct_1"));
    assert_eq!(table.request(&key).await, None);
}

#[tokio::test]
async fn a_damaged_request_is_an_error_that_says_so() {
    let table = Table::fresh().await;
    let event = github("1", &format!("{{\"a\":\"{}\"}}", hex::encode(noise(1_000))));
    let key = table.receive(&event).await;
    let stored = table.body_row(&event).await.unwrap();
    let whole = bytes(&stored, "rq").to_vec();
    for (packed, said) in [
        (b"\x01damage".to_vec(), UnreadableRequest::Damaged),
        (
            [&[9], &whole[1..]].concat(),
            UnreadableRequest::UnknownEncoding(9),
        ),
    ] {
        let mut row = stored.clone();
        row.insert("rq".into(), AttributeValue::B(packed.into()));
        table.put(row).await;
        let error = table
            .ledger
            .event_content(&key)
            .await
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error.downcast_ref::<UnreadableRequest>(), Some(&said));
        // The body alone stays readable.
        assert_eq!(table.body(&key).await, Ok(event.body().to_vec()));
    }
    table
        .edit(&key, |row| drop(row.insert("acc".into(), s("no sign"))))
        .await;
    assert_eq!(table.account(&key).await, None);
}

/// The request of an event takes its body out of the state row for few providers: each such event
/// costs one more write unit and one more read.
#[tokio::test]
async fn few_small_bodies_leave_the_state_row() {
    let file: Value = serde_json::from_str(include_str!("../data/vectors.json")).unwrap();
    let (with, without) = (Table::with_bucket().await, Table::with_bucket().await);
    let (mut events, mut moved) = (0, Vec::new());
    for vector in file["vectors"].as_array().unwrap() {
        let Some(event) = of_vector(vector, Keep::Provider) else {
            continue;
        };
        let bare = of_vector(vector, Keep::None).unwrap();
        let mut places = Vec::new();
        for (table, event) in [(&with, event), (&without, bare)] {
            let inbox = table.inbox(table.ledger.clone());
            for stored in inbox.store(&event, NOW).await.unwrap() {
                // A vector can conflict with an earlier one of the same preset.
                let row = table.ledger.event(&stored.key).await.unwrap();
                places.push(row.is_none_or(|row| row.body_at == BodyAt::Inline));
            }
        }
        let (with, without) = places.split_at(places.len() / 2);
        events += 1;
        if with != without {
            moved.push(vector["id"].to_string());
        }
    }
    assert!(events > 200, "{events}");
    println!("{} of {events} moved", moved.len());
    assert!(
        moved.len() * 100 <= events * 8,
        "{} of {events}: {moved:?}",
        moved.len()
    );
}

/// The event of a vector that needs nothing but its secrets.
fn of_vector(vector: &Value, keep: Keep) -> Option<Event> {
    let said = |value: &Value| value.as_str().map(str::to_owned);
    let request = &vector["request"];
    let mut preset = Preset::embedded(&said(&vector["provider"])?, &BTreeMap::new()).ok()?;
    preset.settings.context.keep = keep;
    let verifier = Verifier {
        source: format!("{}-main", preset.id),
        preset,
        variant: said(&vector["variant"])?,
        trust: Trust::default(),
        config: "0123456789ab".into(),
    };
    let headers = request["headers"].as_array()?.iter();
    let headers = headers.map(|pair| Some((said(&pair[0])?, said(&pair[1])?)));
    let envelope = Envelope {
        method: said(&request["method"])?,
        url: said(&request["url"])?,
        headers: headers.collect::<Option<Vec<_>>>()?.into_iter().collect(),
        body: STANDARD.decode(said(&request["body_b64"])?).ok()?.into(),
        received_at: UnixMillis::from_secs(vector["now"].as_i64()?),
    };
    let secrets = vector["secrets"].as_array()?.iter();
    let secrets: Vec<Secret> = secrets
        .map(|secret| Some(Secret::new("current.1", said(secret)?)))
        .collect::<Option<_>>()?;
    match verifier.verify(&envelope, &secrets) {
        Ok(Arrival::Event(event)) => Some(*event),
        _ => None,
    }
}
