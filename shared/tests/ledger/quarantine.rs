//! Tests rejected requests in the table. Mitt counts a request before it stores it, and verifies it
//! later with its time of receipt.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use bytes::Bytes;
use futures::future::join_all;
use local::clients;
use shared::aws::secrets::Secret;
use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;
use shared::inbox::Inbox;
use shared::inbox::ledger::{Item, Ledger, Received};
use shared::inbox::queue::Queue;
use shared::inbox::rejected::{
    DOCUMENTS, Entered, KEEP, NAMED, NewRejection, RejectedRequest, RejectedRequests, SENDERS,
    StoreResult, Verdict,
};
use shared::sources::Config;
use shared::webhook::envelope::Envelope;
use shared::webhook::sign::sign;
use shared::webhook::verify::Reason;

use crate::support::{NOW, Table, after, noise, quick, s, text};

const LONG: Duration = Duration::from_secs(30);

/// The time when an operator lists the requests, one day after their receipt.
const LATER: UnixMillis = UnixMillis(NOW.0 + 24 * 3_600_000);

fn config(limits: &str) -> Config {
    let file = format!(
        "schema = 1\n[[source]]\nname = \"stripe-main\"\npreset = \"stripe\"\nquarantine = {{ {limits} }}\naction = [{{ kind = \"keep\" }}]"
    );
    Config::parse(&file).unwrap()
}

fn secret() -> Secret {
    Secret::new("next.1", "whsec_of_tomorrow")
}

/// Returns a request that is signed at [`NOW`] with a secret that the deployment does not have.
fn request(config: &Config, body: impl Into<Bytes>) -> Envelope {
    let mut envelope = Envelope {
        method: "POST".into(),
        url: "https://hooks.example.test/in/stripe-main".into(),
        headers: std::iter::empty::<(&str, &str)>().collect(),
        body: body.into(),
        received_at: NOW,
    };
    let verifier = &config.source("stripe-main").unwrap().verifier;
    let scheme = verifier.preset.scheme("default").unwrap();
    let proof = sign(scheme, &secret(), &envelope, NOW).unwrap();
    envelope.headers = proof
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    envelope
}

async fn keep(quarantine: &RejectedRequests, config: &Config, envelope: &Envelope) -> StoreResult {
    let refused = NewRejection {
        source: config.source("stripe-main").unwrap(),
        envelope,
        reason: Reason::BadSignature,
        route: None,
        secrets: &[],
    };
    let kept = quarantine.store(&refused, envelope.received_at, LONG).await;
    kept.unwrap()
}

async fn held(quarantine: &RejectedRequests) -> Vec<RejectedRequest> {
    let held = quarantine.held("stripe-main", NOW - LONG, LATER, LATER);
    held.await.unwrap()
}

#[tokio::test]
async fn racing_processes_together_keep_to_the_budget_of_the_day() {
    let table = Table::fresh().await;
    let config = config("per_day = 20, bytes_per_day = \"100KB\"");
    let processes: Vec<_> = (0..8)
        .map(|_| RejectedRequests::new(table.db.clone(), &table.name))
        .collect();
    let small = request(&config, "{}");
    let all = (0..80).map(|n| keep(&processes[n % 8], &config, &small));
    let all = join_all(all).await;
    let here = all
        .iter()
        .filter(|kept| matches!(kept, StoreResult::Stored(_)))
        .count();
    assert_eq!(here, 20);
    assert_eq!(table.all().await.len(), 21, "and one tally item");
    // Each process finds once that the quota is used up, and then sends no more requests.
    assert!(
        all.iter()
            .filter(|kept| **kept == StoreResult::QuotaSpent)
            .count()
            >= 8
    );
    for process in &processes {
        assert_eq!(keep(process, &config, &small).await, StoreResult::Skipped);
    }
    // The next day has its own quota.
    let tomorrow = Envelope {
        received_at: LATER,
        ..small
    };
    assert!(matches!(
        keep(&processes[0], &config, &tomorrow).await,
        StoreResult::Stored(_)
    ));
}

#[tokio::test]
async fn a_request_outlives_the_count_of_its_day() {
    let table = Table::fresh().await;
    let config = config("per_day = 20, bytes_per_day = \"100KB\"");
    let quarantine = RejectedRequests::new(table.db.clone(), &table.name);
    let kept = keep(&quarantine, &config, &request(&config, "{}")).await;
    assert!(matches!(kept, StoreResult::Stored(_)), "{kept:?}");
    let found = async |now| {
        let held = quarantine.held("stripe-main", NOW - LONG, now, now).await;
        held.unwrap().len()
    };
    // DynamoDB deletes the count a week after the first request of the day.
    let begins = Day::of(NOW).begins();
    let week = begins + KEEP;
    assert_eq!((found(LATER).await, found(week).await), (1, 1));
    let counts = table.all().await.into_iter();
    let counts = counts.filter(|row| text(row, "sk") == "N");
    for count in counts.collect::<Vec<_>>() {
        let pk = text(&count, "pk");
        table.delete(&pk, "N").await;
    }
    assert_eq!(found(week).await, 1);
    assert_eq!(
        found(LATER).await,
        0,
        "no request is stored without a count"
    );
}

/// Returns a request from this address to a PayPal source. The request names a certificate.
fn naming(address: &str, certificate: usize) -> Envelope {
    let url = format!("https://api.paypal.com/v1/notifications/certs/{certificate}");
    let headers = [
        ("paypal-cert-url", url.as_str()),
        ("x-forwarded-for", address),
    ];
    Envelope {
        method: "POST".into(),
        url: "https://hooks.example.test/in/paypal-main".into(),
        headers: headers.into_iter().collect(),
        body: "{}".into(),
        received_at: NOW,
    }
}

fn paypal(quarantine: &str) -> Config {
    let file = format!(
        "schema = 1\n[[source]]\nname = \"paypal-main\"\npreset = \"paypal\"\n\
         quarantine = {{ {quarantine} }}\naction = [{{ kind = \"keep\" }}]"
    );
    Config::parse(&file).unwrap()
}

/// Receives a request that names a certificate. Each request has its own process, so that only the
/// limits in the table apply.
async fn name(db: &Client, table: &Table, config: &Config, envelope: &Envelope) -> StoreResult {
    let quarantine = RejectedRequests::new(db.clone(), &table.name);
    let refused = NewRejection {
        source: config.source("paypal-main").unwrap(),
        envelope,
        reason: Reason::NotFetched,
        route: None,
        secrets: &[],
    };
    quarantine.store(&refused, NOW, LONG).await.unwrap()
}

fn is_stored(kept: &StoreResult) -> bool {
    matches!(kept, StoreResult::Stored(_))
}

#[tokio::test]
async fn one_sender_takes_no_document_away_from_another() {
    let table = Table::fresh().await;
    let config = paypal("per_day = 2");
    let name = async |address: &str, certificate| {
        name(&table.db, &table, &config, &naming(address, certificate)).await
    };
    let most = usize::try_from(DOCUMENTS).unwrap();
    for certificate in 0..most {
        let kept = name("198.51.100.7", certificate).await;
        assert_eq!(is_stored(&kept), certificate < 2, "{kept:?}");
    }
    assert_eq!(
        name("198.51.100.7", most).await,
        StoreResult::TooManyDocuments
    );
    assert_eq!(
        name("198.51.100.7", 0).await,
        StoreResult::OnlyNoted,
        "the certificate is known"
    );
    // The source stores only two requests. Mitt still records the certificates that other requests
    // name.
    assert_eq!(name("203.0.113.9", 1_000).await, StoreResult::OnlyNoted);
    let quarantine = RejectedRequests::new(table.db.clone(), &table.name);
    let named = quarantine.named("paypal-main", NOW - NAMED, NOW);
    let named = named.await.unwrap();
    assert_eq!(named.len(), most + 1);
    let tried = &named[0];
    assert_eq!((tried.tries, tried.tried_at), (0, None));
    quarantine.note_try(tried, after(5)).await.unwrap();
    let named = quarantine.named("paypal-main", NOW - NAMED, NOW);
    let named = named.await.unwrap();
    let again = named.iter().find(|one| one.document == tried.document);
    let again = again.unwrap();
    assert_eq!((again.tries, again.tried_at), (1, Some(after(5))));
    // In the next hour, requests from the address may name other certificates.
    let tally = quarantine.tally("paypal-main", NOW).await.unwrap();
    assert_eq!(tally, None, "no request was rejected");
}

#[tokio::test]
async fn three_requests_are_stored_for_a_document_also_at_the_same_time() {
    let table = Table::fresh().await;
    let config = paypal("");
    let request = naming("198.51.100.7", 0);
    let name = async |db: &Client| name(db, &table, &config, &request).await;
    let (proxy, _) = table.through_proxy().await;
    let held = proxy.hold("UpdateItem", "attribute_not_exists(v)");
    // Another request records the document just before this one does.
    let slow = quick(&proxy.url);
    let (slow, first) = held.around(name(&slow), name(&table.db)).await;
    assert!(is_stored(&first), "{first:?}");
    assert_eq!(slow, StoreResult::OnlyNoted);
    for expected in [true, true, false] {
        let kept = name(&table.db).await;
        assert_eq!(is_stored(&kept), expected, "{kept:?}");
    }
}

#[tokio::test]
async fn a_sender_does_not_use_the_slots_of_other_senders() {
    let table = Table::fresh().await;
    let config = paypal("");
    let request = naming("198.51.100.7", 0);
    assert!(is_stored(&name(&table.db, &table, &config, &request).await));
    let is_slot = |item: &Item| item.contains_key("own");
    let slot = table.all().await.into_iter().find(is_slot).unwrap();
    let sk = text(&slot, "sk").clone();
    let (hour, _) = sk.split_once('#').unwrap();
    for place in 0..SENDERS {
        let mut slot = slot.clone();
        slot.insert("sk".into(), s(format!("{hour}#{place:02}")));
        slot.insert("own".into(), s("another sender"));
        table.put(slot).await;
    }
    let kept = name(&table.db, &table, &config, &naming("198.51.100.7", 1)).await;
    assert_eq!(kept, StoreResult::TooManyDocuments);
}

#[tokio::test]
async fn a_failed_fetch_creates_no_item_for_a_document_that_expired() {
    let table = Table::fresh().await;
    let config = paypal("");
    let request = naming("198.51.100.7", 0);
    assert!(is_stored(&name(&table.db, &table, &config, &request).await));
    let quarantine = RejectedRequests::new(table.db.clone(), &table.name);
    let named = quarantine.named("paypal-main", NOW - NAMED, NOW);
    let named = named.await.unwrap();
    let of_document = |item: &Item| item.contains_key("v");
    let stored = table.all().await.into_iter().find(of_document).unwrap();
    let delete = table.db.delete_item().table_name(&table.name);
    let delete = delete
        .key("pk", stored["pk"].clone())
        .key("sk", stored["sk"].clone());
    delete.send().await.unwrap();
    let left = table.all().await.len();
    quarantine.note_try(&named[0], after(5)).await.unwrap();
    assert_eq!(table.all().await.len(), left);
}

#[tokio::test]
async fn bytes_are_counted_as_they_are_stored() {
    let table = Table::fresh().await;
    let quarantine = RejectedRequests::new(table.db.clone(), &table.name);
    let config = config("bytes_per_day = \"100KB\"");
    let half = request(&config, noise(45_000));
    for expected in [true, true, false] {
        let kept = keep(&quarantine, &config, &half).await;
        assert_eq!(matches!(kept, StoreResult::Stored(_)), expected, "{kept:?}");
    }
    let tally = quarantine.tally("stripe-main", NOW).await.unwrap().unwrap();
    let stored: u64 = held(&quarantine).await.iter().map(|held| held.stored).sum();
    assert_eq!((tally.requests, tally.bytes), (2, stored));
    assert!(tally.is_spent());
}

#[tokio::test]
async fn a_request_is_judged_by_its_time_of_receipt_and_enters_once() {
    let table = Table::fresh().await;
    let quarantine = RejectedRequests::new(table.db.clone(), &table.name);
    let config = config("");
    let sent = request(&config, r#"{"id":"evt_1","type":"invoice.paid"}"#);
    let StoreResult::Stored(id) = keep(&quarantine, &config, &sent).await else {
        panic!("expected the request to be stored")
    };
    let found = quarantine.with_id_prefix(&["stripe-main"], &id.as_str()[..16], LATER);
    let found = found.await.unwrap();
    let [one] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((&one.id, one.received_at), (&id, NOW));

    // One day later, the request is verified with a secret of that day, and with the time window of
    // its receipt.
    let verifier = &config.source("stripe-main").unwrap().verifier;
    let wrong = one.verdict(verifier, &[Secret::new("current.1", "wrong")]);
    assert!(
        matches!(wrong, Verdict::Refused(Reason::BadSignature)),
        "{wrong:?}"
    );
    let Verdict::Genuine(event) = one.verdict(verifier, &[secret()]) else {
        panic!("the signature is valid")
    };
    let inbox = Inbox {
        ledger: Ledger::new(table.db.clone(), &table.name, None),
        queue: Queue::new(clients::sqs("http://127.0.0.1:9"), "http://127.0.0.1:9/q"),
    };
    let entered = quarantine
        .release(&inbox, one, &event, LATER)
        .await
        .unwrap();
    assert_eq!(entered, Entered::New);
    let row = table.ledger.event(event.key()).await.unwrap().unwrap();
    assert_eq!(row.received_at, NOW);
    let released = held(&quarantine).await[0].released.clone().unwrap();
    assert_eq!(released.key.as_deref(), Some("stripe-main:evt_1"));
    assert_eq!(released.at, LATER);

    // If a release crashed before it recorded its result, the next release runs again, and the
    // first record stays.
    let entered = quarantine.release(&inbox, one, &event, LATER + LONG).await;
    assert_eq!(entered.unwrap(), Entered::Known);
    assert_eq!(held(&quarantine).await[0].released, Some(released));
    let again = table
        .ledger
        .receive(&event, LATER + LONG * 2)
        .await
        .unwrap();
    assert!(matches!(again, Received::Open { .. }), "{again:?}");
}

#[tokio::test]
async fn what_was_purged_does_not_come_back() {
    let table = Table::fresh().await;
    let quarantine = RejectedRequests::new(table.db.clone(), &table.name);
    let config = config("");
    for body in ["one", "two"] {
        keep(&quarantine, &config, &request(&config, body)).await;
    }
    let all = held(&quarantine).await;
    quarantine.purge(&all[0]).await.unwrap();
    let stored = table.all().await.len();
    quarantine
        .mark_released(&all[0], None, after(1))
        .await
        .unwrap();
    let left = held(&quarantine).await;
    assert_eq!(
        left.iter().map(|held| &held.id).collect::<Vec<_>>(),
        [&all[1].id]
    );
    // The call stores no item for the purged request.
    assert_eq!(table.all().await.len(), stored);
}
