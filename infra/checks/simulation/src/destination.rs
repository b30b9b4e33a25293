//! The endpoint to which events are forwarded. It supports idempotency keys, and fails in every way
//! in which an endpoint can fail.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Request;
use serde_json::{Value, json};
use shared::aws::outbound::{Answer, Inside, SendError};
use tokio::time::sleep;

use crate::clock;
use crate::crash_injection;
use crate::rng::Dice;
use crate::scenario::{Nature, Scenario, Without};
use crate::webhook;
use crate::world::Shared;

/// The state of the destination.
pub struct Destination {
    keys: HashSet<String>,
    /// The number of times that each event was carried out, and the number of times that it was
    /// requested.
    pub done: Vec<u32>,
    pub asked: Vec<u32>,
    /// The version of each entity at the destination. If the request contains a version, the
    /// destination ignores a version older than its own.
    pub versions: HashMap<usize, usize>,
    stable_key: bool,
    honest: bool,
    trouble: u64,
    dice: Dice,
}

enum Deed {
    Unreached,
    Answered(u16),
    Done,
    /// The effect happens, but the answer reports an error.
    DoneAnd(u16),
    DoneAndCut,
    DoneAndSilent,
    Silent,
    /// The effect happens after the caller has timed out.
    Late(Duration),
    Kills,
}

impl Destination {
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            keys: HashSet::new(),
            done: vec![0; scenario.events],
            asked: vec![0; scenario.events],
            versions: HashMap::new(),
            stable_key: scenario.without != Some(Without::StableKey),
            honest: scenario.without != Some(Without::Deed),
            trouble: scenario.destination_trouble,
            dice: Dice::new(scenario.seed, 2),
        }
    }

    fn deed(&mut self, nature: Nature) -> Deed {
        match nature {
            Nature::Unwanted => return Deed::Answered(422),
            Nature::Killer => return Deed::Kills,
            Nature::Harmless if !self.dice.hits(self.trouble) => {
                let idle = !self.honest && self.dice.hits(100);
                return if idle {
                    Deed::Answered(200)
                } else {
                    Deed::Done
                };
            }
            Nature::Harmless => {}
        }
        match self.dice.below(9) {
            0 => Deed::Unreached,
            1 => Deed::Answered(503),
            2 => Deed::Answered(429),
            3 => Deed::Answered(500),
            4 => Deed::DoneAnd(500),
            5 => Deed::DoneAndCut,
            6 => Deed::DoneAndSilent,
            7 => Deed::Silent,
            _ => Deed::Late(Duration::from_millis(self.dice.between(1_000, 90_000))),
        }
    }

    /// Carries an event out, unless a request with this key was carried out before.
    fn carry_out(&mut self, effect: Effect) {
        if !self.keys.insert(effect.key) {
            return;
        }
        if let Some(done) = self.done.get_mut(effect.event) {
            *done += 1;
        }
        if let Some((entity, version)) = effect.place {
            let has = self.versions.entry(entity).or_insert(version);
            *has = if effect.told {
                version.max(*has)
            } else {
                version
            };
        }
    }
}

/// Returns the connection of the production code to the destination.
pub fn inside(world: &Shared) -> Inside {
    let world = world.clone();
    Arc::new(move |request| {
        let world = world.clone();
        Box::pin(async move {
            match request.url().host_str() {
                Some("api.ebay.com") => Ok(keys(&world, &request)),
                _ => answer(&world, &request).await,
            }
        })
    })
}

/// Answers as the provider's API, which returns public keys to a caller with a token.
/// <https://developer.ebay.com/api-docs/commerce/notification/resources/public_key/methods/getPublicKey>
fn keys(world: &Shared, request: &Request) -> Answer {
    let path = request.url().path();
    if path == "/identity/v1/oauth2/token" {
        return document(&json!({ "access_token": "of-the-application" }));
    }
    let kid = path.rsplit('/').next().unwrap_or_default();
    if world.lock().witness.gave_out(kid) {
        document(&json!({ "key": webhook::ebay_public_key() }))
    } else {
        of(404)
    }
}

fn document(value: &Value) -> Answer {
    Answer {
        body: Some(value.to_string().into()),
        ..of(200)
    }
}

async fn answer(world: &Shared, request: &Request) -> Result<Answer, SendError> {
    let header = |name: &str| {
        let value = request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let body = request
        .body()
        .and_then(reqwest::Body::as_bytes)
        .unwrap_or_default();
    let Some(event) = webhook::event_of(body) else {
        return Ok(of(400));
    };
    let attempt = header("mitt-attempt").parse().unwrap_or(0);
    let told = !header("mitt-entity-version").is_empty();
    let (deed, latency, effect) = {
        let mut world = world.lock();
        let world = &mut *world;
        if clock::elapsed() < Duration::from_millis(world.scenario.missing_for_ms) {
            return Ok(of(404));
        }
        let place = world.scenario.order.map(|order| order.place(event));
        if let Some((_, version)) = place {
            world.witness.asked_in_order(event, version, attempt);
        }
        let nature = world.scenario.nature(event);
        let destination = &mut world.destination;
        if let Some(asked) = destination.asked.get_mut(event) {
            *asked += 1;
        }
        let mut key = header("idempotency-key");
        if !destination.stable_key {
            key.push_str(&header("mitt-attempt"));
        }
        let latency = Duration::from_millis(destination.dice.between(5, 400));
        let effect = Effect {
            event,
            key,
            place,
            told,
        };
        (destination.deed(nature), latency, effect)
    };
    sleep(latency).await;
    act(world, deed, effect).await
}

/// What a request asks the destination to do.
struct Effect {
    event: usize,
    key: String,
    /// The entity and the version of the event.
    place: Option<(usize, usize)>,
    /// Whether the request contains the version.
    told: bool,
}

async fn act(world: &Shared, deed: Deed, effect: Effect) -> Result<Answer, SendError> {
    let carry_out = |effect| world.lock().destination.carry_out(effect);
    match deed {
        Deed::Unreached => Err(SendError::NotSent("simulated".to_owned())),
        Deed::Answered(status) => Ok(of(status)),
        Deed::Done => {
            carry_out(effect);
            Ok(of(200))
        }
        Deed::DoneAnd(status) => {
            carry_out(effect);
            Ok(of(status))
        }
        Deed::DoneAndCut => {
            carry_out(effect);
            Err(SendError::OutcomeUnknown("simulated".to_owned()))
        }
        Deed::DoneAndSilent => {
            carry_out(effect);
            Err(silence().await)
        }
        Deed::Silent => Err(silence().await),
        Deed::Late(by) => {
            let world = world.clone();
            tokio::spawn(async move {
                sleep(by).await;
                world.lock().destination.carry_out(effect);
            });
            Err(silence().await)
        }
        Deed::Kills => {
            crash_injection::kill_the_worker();
            std::future::pending().await
        }
    }
}

fn of(status: u16) -> Answer {
    Answer {
        status,
        body: Some(Bytes::new()),
        ..Answer::default()
    }
}

/// Returns the error of the HTTP client for a missing answer.
async fn silence() -> SendError {
    sleep(Duration::from_secs(20)).await;
    SendError::OutcomeUnknown("timed out".to_owned())
}
