//! The provider: sends each event until it is acknowledged, and some of them again.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use catcher::Request;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;
use tokio::time::sleep;

use crate::clock;
use crate::dice::Dice;
use crate::hazard::{Ended, Role, at_risk};
use crate::run::Run;
use crate::sandbox::SOURCE;
use crate::scenario::{RETRIES_MS, Scenario, Without, second_delivery_ms};

/// What the sender signs with.
pub const SECRET: &str = "whsec_of_the_simulated_sender";

/// How long it waits for an answer.
const WAITS: Duration = Duration::from_secs(10);

pub fn id_of(event: usize) -> String {
    format!("evt_{event:09}")
}

/// The event whose id stands in a body.
pub fn event_of(body: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once("\"evt_")?;
    rest.get(..9)?.parse().ok()
}

/// The event that a doorbell names.
pub fn event_of_doorbell(body: &str) -> Option<usize> {
    let (_, rest) = body.split_once("#evt_")?;
    rest.get(..9)?.parse().ok()
}

/// Small, larger than a row takes along, or larger than a row may be.
fn body_of(scenario: &Scenario, event: usize) -> String {
    let mut dice = Dice::new(scenario.seed, 0x62_6f64_7900 + event as u64);
    let len = match dice.below(1_000) {
        0 => 60_000,
        1..20 => 3_000,
        _ => dice.between(20, 200),
    };
    // Noise, so that it does not compress.
    let noise = (0..len).map(|_| char::from(b'a' + u8::try_from(dice.below(26)).unwrap_or(0)));
    let noise: String = noise.collect();
    let (entity, version) = scenario
        .order
        .map_or((event, 0), |order| order.place(event));
    format!(
        r#"{{"id":"{}","object":"event","type":"invoice.paid","created":{},"data":{{"object":{{"id":"in_{entity}"}},"noise":"{noise}"}}}}"#,
        id_of(event),
        1_767_571_200 + version,
    )
}

/// All first deliveries in their time.
pub async fn send_all(run: Rc<Run>) {
    let (line, span, seed) = {
        let world = run.world.lock();
        let scenario = &world.scenario;
        (line(scenario), scenario.arrive_in_ms, scenario.seed)
    };
    let mut dice = Dice::new(seed, 3);
    let events = line.len();
    for (place, event) in line.into_iter().enumerate() {
        let at = span * place as u64 / events.max(1) as u64;
        let wait = Duration::from_millis(at).saturating_sub(clock::elapsed());
        if !wait.is_zero() {
            sleep(wait).await;
        }
        spawn(&run, event, Duration::ZERO);
        let duplicates = run.world.lock().scenario.duplicates;
        if dice.hits(duplicates) {
            spawn(
                &run,
                event,
                Duration::from_millis(second_delivery_ms(&mut dice)),
            );
        }
    }
}

/// In which order the events come. The versions of an entity come shuffled, among those of others.
fn line(scenario: &Scenario) -> Vec<usize> {
    let mut line: Vec<usize> = (0..scenario.events).collect();
    if let Some(order) = scenario.order {
        let mut dice = Dice::new(scenario.seed, 4);
        let among = 5 * order.versions as u64;
        line.sort_by_cached_key(|event| {
            let (entity, _) = order.place(*event);
            ((entity * order.versions) as u64 + dice.below(among), *event)
        });
    }
    line
}

fn spawn(run: &Rc<Run>, event: usize, wait: Duration) {
    let run = run.clone();
    run.begin();
    tokio::task::spawn_local(async move {
        sleep(wait).await;
        if let Err(error) = until_acknowledged(&run, event).await {
            run.fail(error);
        }
        run.end();
    });
}

async fn until_acknowledged(run: &Run, event: usize) -> anyhow::Result<()> {
    for wait in RETRIES_MS {
        if deliver(run, event).await? {
            run.world.lock().witness.acknowledged(event);
            return Ok(());
        }
        sleep(Duration::from_millis(wait)).await;
    }
    Ok(())
}

/// Whether it was answered with 2xx in time.
async fn deliver(run: &Run, event: usize) -> anyhow::Result<bool> {
    let body = body_of(&run.world.lock().scenario, event);
    let request = request(&body)?;
    let sandbox = run.catcher()?;
    let answering = Box::pin(sandbox.function.answer(request));
    let answering = at_risk(Role::Catcher, answering, sandbox.skew_ms, WAITS, &run.world);
    let answered = tokio::time::timeout(WAITS, answering).await;
    let dishonest = run.world.lock().scenario.without == Some(Without::HonestAnswer);
    Ok(match answered {
        Ok(Ended::Returned { value, .. }) => dishonest || (200..300).contains(&value.status_code),
        Ok(Ended::Died) | Err(_) => {
            run.forget_catcher(&sandbox);
            false
        }
    })
}

/// As the HTTP API passes it.
fn request(body: &str) -> anyhow::Result<Request> {
    let at = clock::true_ms() / 1000;
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).context("any key is a key")?;
    mac.update(format!("{at}.{body}").as_bytes());
    let signature = hex::encode(mac.finalize().into_bytes());
    let event = json!({
        "version": "2.0",
        "rawPath": format!("/in/{SOURCE}"),
        "rawQueryString": "",
        "headers": {
            "content-type": "application/json",
            "stripe-signature": format!("t={at},v1={signature}"),
        },
        "requestContext": { "domainName": "simulated.example", "http": { "method": "POST" } },
        "body": body,
        "isBase64Encoded": false,
    });
    serde_json::from_value(event).context("a request of the HTTP API")
}
