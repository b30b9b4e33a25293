//! The test vectors of the providers, over HTTP. The running catcher gives each request its
//! expected response.
//!
//! The catcher uses the clock of this machine, and each source has its own URL. The test therefore
//! signs some requests again with the same secret: those whose signature covers the URL, or a time
//! that is checked.

mod again;
mod file;
mod found;
mod sources;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use shared::webhook::event::{EventKey, Sha};
use shared::webhook::preset::Kind;

use self::again::{Again, again};
use self::file::{Post, Vector};
use self::found::{events, refusals};
use super::support::{Inbox, Item, headers, unique};

#[tokio::test]
async fn githubs_published_example_is_believed_and_no_other_body() {
    let inbox = Inbox::shared().await;
    let id = unique();
    let signed = headers(&[
        (
            "X-Hub-Signature-256",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        ),
        ("X-GitHub-Event", "ping"),
        ("X-GitHub-Delivery", &id),
        ("Content-Type", "text/plain"),
    ]);
    let body = b"Hello, World!";
    for at in 0..body.len() {
        let mut forged = *body;
        forged[at] ^= 1;
        let answer = inbox.post("github-vectors", &signed, &forged).await;
        assert_eq!(answer.status, 401, "{:?}", String::from_utf8_lossy(&forged));
    }
    assert_eq!(
        inbox.find(&EventKey::new("github-vectors", &id)).await,
        None
    );
    let answer = inbox.post("github-vectors", &signed, body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    inbox.is_unharmed();
}

/// The test first sends the requests that must be rejected, because the ledger must be empty after
/// them.
#[tokio::test]
async fn every_vector_meets_its_verdict_over_http() {
    let (vectors, refused) = sources::configurable(file::vectors());
    let inbox = sources::start(&vectors).await;
    let mut run = Run::new(&inbox);
    for vector in refused {
        assert_ne!(vector.verdict(), "valid", "{}", vector.id);
        run.left_out.insert(vector.id);
    }
    for vector in &vectors {
        match (vector.verdict(), again(vector)) {
            // No client sends such a URL, and the gateway rejects it.
            ("invalid", _) if vector.post.target.contains(['"', '{', '}']) => {
                run.left_out.insert(vector.id.clone());
            }
            ("invalid", _) => run.refused(vector, &vector.post, vector.reasons()).await,
            ("valid", Again::Signed(signed)) => {
                for (post, reasons) in signed.refused {
                    run.refused(vector, &post, reasons).await;
                }
            }
            _ => {}
        }
    }
    assert_eq!(
        events(&inbox).await,
        [],
        "a rejected request is in the ledger"
    );
    run.tells_why();
    for vector in &vectors {
        let again = again(vector);
        let post = match &again {
            Again::No => &vector.post,
            Again::Signed(signed) => &signed.post,
            Again::Cannot => {
                run.left_out.insert(vector.id.clone());
                continue;
            }
        };
        match vector.verdict() {
            "handshake" => run.answered(vector, post).await,
            "valid" => run.kept(vector, post).await,
            // The provider does not sign.
            "unverified" if vector.scheme().kind == Kind::None => run.kept(vector, post).await,
            "unverified" => run.waits(vector, post).await,
            _ => {}
        }
    }
    run.finds_its_rows().await;
    println!("{} presets: {:?}", run.presets.len(), run.counts);
    println!("{} not posted: {:?}", run.left_out.len(), run.left_out);
    run.was_thorough();
    inbox.is_unharmed();
}

/// The requests so far, and their expected results.
struct Run<'i> {
    inbox: &'i Inbox,
    refusals: BTreeMap<&'i str, Vec<(&'i str, BTreeSet<&'i str>)>>,
    rows: Vec<(&'i Vector, Sha)>,
    left_out: BTreeSet<String>,
    presets: BTreeSet<&'i str>,
    counts: BTreeMap<&'static str, usize>,
}

impl<'i> Run<'i> {
    fn new(inbox: &'i Inbox) -> Self {
        Self {
            inbox,
            refusals: BTreeMap::new(),
            rows: Vec::new(),
            left_out: BTreeSet::new(),
            presets: BTreeSet::new(),
            counts: BTreeMap::new(),
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    async fn post(&mut self, vector: &'i Vector, post: &Post) -> super::support::Answer {
        let preset = vector.verifier.preset.id.as_str();
        self.presets.insert(preset);
        let names: Vec<_> = post
            .headers
            .iter()
            .map(|(name, _)| name.to_lowercase())
            .collect();
        let different: BTreeSet<_> = names.iter().collect();
        if different.len() < names.len() {
            self.count("with a repeated header");
        }
        if post.is_base64() {
            self.count("in base64");
        }
        self.inbox
            .request(&post.method, &post.target, &post.headers, &post.body)
            .await
    }

    async fn refused(&mut self, vector: &'i Vector, post: &Post, reasons: BTreeSet<&'i str>) {
        self.count("refused");
        let answer = self.post(vector, post).await;
        let undecided = reasons.contains("no_secret");
        let refusal = vector.verifier.preset.ack.bad_signature;
        let expected = match post.method.as_str() {
            "POST" if undecided => 503,
            "POST" => refusal,
            _ => 405,
        };
        assert_eq!(answer.status, expected, "{}: {answer:?}", vector.id);
        if expected == refusal {
            let refusals = self.refusals.entry(&vector.source).or_default();
            refusals.push((&vector.id, reasons));
        }
    }

    async fn answered(&mut self, vector: &'i Vector, post: &Post) {
        self.count("handshakes");
        let answer = self.post(vector, post).await;
        let expected = &vector.expect["response"];
        // The HTTP API has routes for POST and for the methods of handshakes.
        let routed = matches!(post.method.as_str(), "POST" | "GET" | "HEAD");
        let status = if routed {
            expected["status"].as_u64()
        } else {
            Some(404)
        };
        assert_eq!(
            Some(answer.status.into()),
            status,
            "{}: {answer:?}",
            vector.id
        );
        if let Some(body) = expected["body"].as_str() {
            assert_eq!(answer.text(), body, "{}", vector.id);
        }
        if !expected["json"].is_null() {
            let json: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(json, expected["json"], "{}", vector.id);
        }
        for (name, value) in expected["headers"].as_object().into_iter().flatten() {
            assert_eq!(answer.header(name), value.as_str(), "{}: {name}", vector.id);
        }
    }

    /// Until its document is fetched, the request is not an event.
    async fn waits(&mut self, vector: &'i Vector, post: &Post) {
        self.count("to be fetched");
        let answer = self.post(vector, post).await;
        assert!(answer.asks_for_another_try(), "{}: {answer:?}", vector.id);
    }

    async fn kept(&mut self, vector: &'i Vector, post: &Post) {
        self.count("kept");
        let answer = self.post(vector, post).await;
        // The scheme can verify other methods than POST, but the catcher stores only POST requests.
        if post.method != "POST" {
            assert_eq!(answer.status, 405, "{}: {answer:?}", vector.id);
            return;
        }
        let ack = &vector.verifier.preset.ack;
        assert_eq!(answer.status, ack.ok, "{}: {answer:?}", vector.id);
        // A signed request that is not an event has no row either.
        if vector.expect["event"].is_null() {
            return;
        }
        assert_eq!(answer.text(), ack.body, "{}", vector.id);
        self.rows.push((vector, Sha::of(&post.body)));
    }

    /// Checks that the log contains an accepted reason for each rejection, in the order of the
    /// requests. In a minute, ten requests of a source get one line each. Each later line counts
    /// many requests.
    fn tells_why(&self) {
        let logged = refusals(self.inbox);
        for (source, refusals) in &self.refusals {
            let mut told = 0;
            for (reason, count) in &logged[*source] {
                told += count;
                assert!(told <= refusals.len(), "{source}: more than were refused");
                let (id, allowed) = &refusals[told - 1];
                assert!(
                    allowed.contains(reason.as_str()),
                    "{id}: {reason}, not {allowed:?}"
                );
            }
            assert!(told >= refusals.len().min(10), "{source}: only {told}");
        }
    }

    /// Checks that each event has a row with its body, its type and the secret that verified it.
    async fn finds_its_rows(&self) {
        let rows = events(self.inbox).await;
        for (vector, sha) in &self.rows {
            let text = |row: &Item, name: &str| row.get(name).map(|it| it.as_s().unwrap().clone());
            let mut fitting = rows.iter().filter(|row| {
                let key = EventKey::from_pk(&text(row, "pk").unwrap()).unwrap();
                // An event of a batch contains the id of the batch.
                let batch = text(row, "bat");
                let in_batch = batch.is_some_and(|batch| batch.ends_with(&sha.hex()));
                let alone = row["sha"].as_b().unwrap().as_ref() == sha.0;
                // If an earlier request contained the same event, the row has the body of that
                // request.
                let by_content =
                    vector.first_id().is_none() && vector.verifier.preset.event.batch.is_some();
                let known = by_content || vector.first_id() == Some(key.id());
                key.source() == vector.source && (alone || in_batch || known)
            });
            let kind = vector.kind();
            let kept_well = |row: &Item| {
                let kind = kind.is_none_or(|kind| text(row, "ty").as_deref() == Some(kind));
                let label = vector.expect["matched_secret"].as_u64();
                let label = label.map(|index| format!("{index}.1"));
                kind && (label.is_none() || text(row, "kid") == label)
            };
            assert!(
                fitting.any(kept_well),
                "{} has a missing or wrong row",
                vector.id
            );
        }
    }

    fn was_thorough(&self) {
        let at_least = |what: &str, least: usize| {
            let count = self.counts[what];
            assert!(count >= least, "only {count} were {what}");
        };
        at_least("refused", 400);
        at_least("kept", 300);
        at_least("handshakes", 15);
        at_least("with a repeated header", 5);
        at_least("in base64", 20);
        assert!(self.presets.len() >= 60, "{:?}", self.presets);
    }
}
