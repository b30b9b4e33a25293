//! Plays the providers. They deliver each event once, many events twice, and deliver an event again
//! if the answer is not 2xx.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use shared::base::clock::UnixMillis;
use tokio::sync::Semaphore;

use crate::fault_schedule::{Protection, Sky};
use crate::history::History;
use crate::sender::{Canaries, Kind, SOURCES, Webhook};

/// The number of parallel requests. Lambda starts a process for each. With more processes than the
/// machine can run, the test would measure the machine.
const AT_ONCE: usize = 6;

/// How many times a provider tries a delivery.
const TRIES: u32 = 8;

/// The time that a provider waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Load {
    sky: Arc<Sky>,
    history: Arc<History>,
    canaries: Canaries,
    /// The URL up to and including `/in/`.
    front: String,
    client: reqwest::Client,
    slots: Semaphore,
    captured: Mutex<Vec<Posted>>,
}

/// How the judge classifies a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Signed by the provider.
    Event,
    /// Not signed, or signed with another secret, or with a signature from a handshake.
    Forged,
    /// A copy of a captured request, or another request with its signature.
    Copy,
    /// Not signed, and answered without storing an event.
    Handshake,
}

/// A request to post. A request with a `query` uses GET.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) source: &'static str,
    pub(crate) id: String,
    pub(crate) delivery: String,
    pub(crate) role: Role,
    pub(crate) kind: &'static str,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) query: Option<String>,
    /// The query of the URL of a POST.
    pub(crate) copy_query: Option<String>,
}

/// The number of acknowledged requests that the stranger captures.
const CAPTURED: usize = 24;

/// One delivery of an event.
struct Delivery {
    webhook: Arc<Webhook>,
    number: usize,
    genuine: bool,
}

impl Load {
    pub(crate) fn new(
        sky: &Arc<Sky>,
        history: &Arc<History>,
        canaries: &Canaries,
        front: String,
    ) -> Self {
        Self {
            sky: Arc::clone(sky),
            history: Arc::clone(history),
            canaries: canaries.clone(),
            front,
            client: shared::aws::outbound::unguarded(PATIENCE).unwrap(),
            slots: Semaphore::new(AT_ONCE),
            captured: Mutex::default(),
        }
    }

    /// Returns the acknowledged requests that the stranger has captured.
    pub(crate) fn captured(&self) -> Vec<Posted> {
        self.captured.lock().unwrap().clone()
    }

    /// Delivers all events.
    pub(crate) async fn deliver_all(&self) {
        let events = self.sky.weather.deliveries * 10 / 13;
        self.deliver(0..events).await;
    }

    /// Delivers these events. Gives up after the last try.
    pub(crate) async fn deliver(&self, events: Range<usize>) {
        let deliveries = self.deliveries(events);
        stream::iter(&deliveries)
            .for_each_concurrent(4 * AT_ONCE, |delivery| self.insist(delivery))
            .await;
    }

    /// Returns the deliveries of these events. Three of ten events are delivered twice, the second
    /// time at once or much later. One request in a hundred is forged.
    fn deliveries(&self, events: Range<usize>) -> Vec<Delivery> {
        let dice = &self.sky.dice;
        let mut placed = Vec::new();
        for number in events {
            let webhook = Arc::new(self.webhook(number, true));
            placed.push((number, Arc::clone(&webhook), 0, true));
            if number % 10 < 3 {
                let later = [0, 1, 30, 300][dice.below(4)];
                placed.push((number + later, webhook, 1, true));
            }
            if number % 100 == 50 {
                placed.push((number, Arc::new(self.webhook(number, false)), 0, false));
            }
        }
        placed.sort_by_key(|(place, ..)| *place);
        placed
            .into_iter()
            .map(|(_, webhook, number, genuine)| Delivery {
                webhook,
                number,
                genuine,
            })
            .collect()
    }

    fn webhook(&self, number: usize, genuine: bool) -> Webhook {
        let word = if genuine { "evt" } else { "forged" };
        let dice = &self.sky.dice;
        // Poison events are delivered early, because they take the longest time.
        let kind = match self.sky.weather.poison {
            Some(every)
                if number % (every / 4) == 7 && number < self.sky.weather.deliveries / 5 =>
            {
                Kind::Poison
            }
            Some(every) if number % (2 * every) == 9 => Kind::Permanent,
            _ if self.is_held(number) => Kind::Held,
            _ => Kind::Plain,
        };
        // Some bodies fit into the state row, some need a separate row, and some are stored in the
        // bucket.
        let filler = match (self.sky.weather.cells, number % 100) {
            (true, n) if n % 3 == 0 => 90_000,
            (false, 3) => 90_000,
            (true, n) if n % 3 == 1 => 3_000,
            (false, n) if n % 5 == 0 => 3_000,
            _ => 60,
        };
        let id = format!("{word}_{}_{number}", self.sky.weather.seed);
        let sources = self.sky.weather.sources;
        let source = sources[number % sources.len()];
        Webhook::new(source, &id, kind, filler, &self.canaries, genuine, dice)
    }

    fn is_held(&self, number: usize) -> bool {
        let every = self.sky.weather.held;
        every.is_some_and(|every| number % every == 11 % every)
    }

    async fn insist(&self, delivery: &Delivery) {
        for attempt in 0..TRIES {
            let status = self.post(delivery, attempt).await;
            // A forger does not retry after 401, because this answer is final.
            if status.is_some_and(|status| status < 300 || status == 401) {
                return;
            }
            self.sky.count("deliveries tried again");
            let wait = Duration::from_millis(200) * 2_u32.pow(attempt.min(4));
            tokio::time::sleep(self.sky.dice.between(wait / 2, wait)).await;
        }
        self.sky.count("deliveries given up");
    }

    async fn post(&self, delivery: &Delivery, attempt: u32) -> Option<u16> {
        let webhook = &delivery.webhook;
        let secret = self.canaries.secret_of(delivery.genuine);
        let bearer = ("authorization", self.canaries.header.clone());
        let headers = webhook.headers(secret).into_iter().chain([bearer]);
        let posted = Posted {
            source: webhook.source,
            id: webhook.id.clone(),
            delivery: format!("{}.{attempt}", delivery.number),
            role: if delivery.genuine {
                Role::Event
            } else {
                Role::Forged
            },
            kind: webhook.kind.word(),
            headers: headers
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            body: webhook.body.clone(),
            query: None,
            copy_query: None,
        };
        let answer = self.send(&posted).await;
        let status = answer.map(|(status, _)| status);
        if delivery.genuine && status.is_some_and(|status| status < 300) {
            self.may_be_captured(webhook, posted);
        }
        status
    }

    /// Records some captured requests of each source.
    fn may_be_captured(&self, webhook: &Webhook, posted: Posted) {
        let mut captured = self.captured.lock().unwrap();
        let of_source = captured.iter().filter(|one| one.source == posted.source);
        let few = of_source.count() < CAPTURED / SOURCES.len();
        let plain = webhook.kind == Kind::Plain && webhook.body.len() < 2_000;
        if self.sky.weather.stranger && few && plain && self.sky.dice.chance(0.2) {
            captured.push(posted);
        }
    }

    /// Sends a request, and records it with its answer.
    pub(crate) async fn send(&self, posted: &Posted) -> Option<(u16, String)> {
        let slot = self.slots.acquire().await.unwrap();
        let (source, id) = (posted.source, &posted.id);
        self.history.sent(&json!({
            "at": UnixMillis::now().0, "source": source, "id": id, "delivery": posted.delivery,
            "sha": hex::encode(Sha256::digest(&posted.body)), "kind": posted.kind,
            "valid": posted.role == Role::Event, "role": posted.role.word(),
        }));
        let url = format!("{}/in/{source}", self.front);
        let request = match (&posted.query, &posted.copy_query) {
            (Some(query), _) => self.client.get(format!("{url}?{query}")),
            (None, Some(query)) => self.client.post(format!("{url}?{query}")),
            (None, None) => self.client.post(url),
        };
        let mut request = request.body(posted.body.clone());
        for (name, value) in &posted.headers {
            request = request.header(name, value);
        }
        let began = Instant::now();
        // The gateway answers for a function that has died. This answer is not an answer of the
        // function.
        let mut answer = None;
        if self.is_taken_for_a_handshake(posted) {
            answer = Some((200, String::new()));
        } else if let Ok(response) = request.send().await {
            let status = response.status().as_u16();
            answer = Some((status, response.text().await.unwrap_or_default()));
        }
        let took = u64::try_from(began.elapsed().as_millis()).unwrap();
        drop(slot);
        if self.sky.is_without(Protection::HonestAnswer) {
            answer = Some((200, String::new()));
        }
        self.history.answer(&json!({
            "at": UnixMillis::now().0, "source": source, "id": id, "delivery": posted.delivery,
            "status": answer.as_ref().map(|(status, _)| status), "took_ms": took,
        }));
        answer
    }

    /// Returns whether a handshake without a guard would mistake the event for a handshake because
    /// of its text.
    fn is_taken_for_a_handshake(&self, posted: &Posted) -> bool {
        let text = String::from_utf8_lossy(&posted.body);
        self.sky.is_without(Protection::HandshakeGuard)
            && posted.role == Role::Event
            && posted.source == "woo-main"
            && text.contains("&webhook_id=")
    }
}

impl Role {
    /// Returns the word for this class in the history.
    fn word(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Forged => "forged",
            Self::Copy => "copy",
            Self::Handshake => "handshake",
        }
    }
}
