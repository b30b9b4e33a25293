//! The providers: each event once, many twice, and again what was not answered with 2xx.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use serde_json::json;
use shared::clock::Millis;
use tokio::sync::Semaphore;

use crate::history::History;
use crate::sender::{Canaries, Kind, SOURCES, Webhook};
use crate::weather::{Protection, Sky};

/// Requests that are under way at the same time. Lambda starts a process for each; here, more
/// than the machine can run would measure the machine.
const AT_ONCE: usize = 6;

/// How often a provider tries a delivery.
const TRIES: u32 = 8;

/// How long a provider waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Load {
    sky: Arc<Sky>,
    history: Arc<History>,
    canaries: Canaries,
    /// Up to `/in/`.
    front: String,
    client: reqwest::Client,
    slots: Semaphore,
}

/// One of the deliveries of an event.
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
            client: shared::outbound::unguarded(PATIENCE).unwrap(),
            slots: Semaphore::new(AT_ONCE),
        }
    }

    /// Delivers all that there is to deliver.
    pub(crate) async fn deliver_all(&self) {
        let events = self.sky.weather.deliveries * 10 / 13;
        self.deliver(0..events).await;
    }

    /// Delivers these events, or gives them up.
    pub(crate) async fn deliver(&self, events: Range<usize>) {
        let deliveries = self.deliveries(events);
        stream::iter(&deliveries)
            .for_each_concurrent(4 * AT_ONCE, |delivery| self.insist(delivery))
            .await;
    }

    /// Of ten events three come twice, the second time at once or a good while later. One
    /// request in a hundred is a forgery.
    fn deliveries(&self, events: Range<usize>) -> Vec<Delivery> {
        let dice = &self.sky.dice;
        let mut placed = Vec::new();
        for number in events {
            let webhook = Arc::new(self.webhook(number, "evt"));
            placed.push((number, Arc::clone(&webhook), 0, true));
            if number % 10 < 3 {
                let later = [0, 1, 30, 300][dice.below(4)];
                placed.push((number + later, webhook, 1, true));
            }
            if number % 100 == 50 {
                placed.push((number, Arc::new(self.webhook(number, "forged")), 0, false));
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

    fn webhook(&self, number: usize, word: &str) -> Webhook {
        let dice = &self.sky.dice;
        // Poison comes early, because it takes longest.
        let kind = match self.sky.weather.poison {
            Some(every)
                if number % (every / 4) == 7 && number < self.sky.weather.deliveries / 5 =>
            {
                Kind::Poison
            }
            Some(every) if number % (2 * every) == 9 => Kind::Permanent,
            _ => Kind::Plain,
        };
        // Some bodies fit into the row, some have one of their own, some go to the bucket.
        let filler = match (self.sky.weather.cells, number % 100) {
            (true, n) if n % 3 == 0 => 90_000,
            (false, 3) => 90_000,
            (true, n) if n % 3 == 1 => 3_000,
            (false, n) if n % 5 == 0 => 3_000,
            _ => 60,
        };
        let id = format!("{word}_{}_{number}", self.sky.weather.seed);
        let source = SOURCES[number % SOURCES.len()];
        Webhook::new(source, &id, kind, filler, &self.canaries, dice)
    }

    async fn insist(&self, delivery: &Delivery) {
        for attempt in 0..TRIES {
            let status = self.post(delivery, attempt).await;
            // A forger learns nothing from trying again, and 401 is an answer.
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
        let slot = self.slots.acquire().await.unwrap();
        let webhook = &delivery.webhook;
        let secret = if delivery.genuine {
            self.canaries.secret.as_str()
        } else {
            "Zm9yZ2Vk"
        };
        let number = format!("{}.{attempt}", delivery.number);
        let (source, id) = (webhook.source, &webhook.id);
        self.history.sent(&json!({
            "at": Millis::now().0, "source": source, "id": id, "delivery": number,
            "sha": webhook.sha(), "kind": webhook.kind.word(), "valid": delivery.genuine,
        }));
        let mut request = self.client.post(format!("{}/in/{source}", self.front));
        for (name, value) in webhook.headers(secret) {
            request = request.header(name, value);
        }
        let request = request
            .header("authorization", &self.canaries.header)
            .body(webhook.body.clone());
        let began = Instant::now();
        let answer = request.send().await;
        let took = u64::try_from(began.elapsed().as_millis()).unwrap();
        drop(slot);
        // The gateway answers for a function that died; that is not the function's answer.
        let status = answer.ok().map(|answer| answer.status().as_u16());
        let status = if self.sky.is_without(Protection::HonestAnswer) {
            Some(200)
        } else {
            status
        };
        self.history.answer(&json!({
            "at": Millis::now().0, "source": source, "id": id, "delivery": number,
            "status": status, "took_ms": took,
        }));
        status
    }
}
