//! Simulates the providers. They send each event until it is acknowledged, and send some events a
//! second time.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;

use crate::clock;
use crate::crash_injection::{Ended, Role, at_risk};
use crate::rng::Dice;
use crate::run::Run;
use crate::scenario::{RETRIES_MS, Scenario, Without, second_delivery_ms};
use crate::stranger;
use crate::webhook::{self, MAILGUN, Webhook};

/// The timeout of a sender.
const WAITS: Duration = Duration::from_secs(10);

/// The time after which a sender of Mailgun stops. Mailgun signs the time only once, and stops
/// retrying before the signature is too old.
const GIVES_UP: Duration = Duration::from_secs(8 * 3600);

/// Returns the event of a message.
pub fn event_of_message(body: &str) -> Option<usize> {
    let (_, rest) = body.split_once("#evt_")?;
    rest.get(..9)?.parse().ok()
}

/// Sends the first delivery of each event at its time.
pub async fn send_all(run: Rc<Run>) {
    let (line, scenario) = {
        let world = run.world.lock();
        (line(&world.scenario), world.scenario.clone())
    };
    let mut dice = Dice::new(scenario.seed, 3);
    for (place, event) in line.into_iter().enumerate() {
        let at = webhook::first_sent_ms(&scenario, place);
        let wait = Duration::from_millis(at).saturating_sub(clock::elapsed());
        if !wait.is_zero() {
            sleep(wait).await;
        }
        spawn(&run, event, Duration::ZERO);
        if dice.hits(scenario.duplicates) {
            let later = Duration::from_millis(second_delivery_ms(&mut dice));
            let lasting = webhook::source_of(&scenario, event) != MAILGUN;
            if lasting || later < GIVES_UP {
                spawn(&run, event, later);
            }
        }
    }
}

/// Returns the order in which events are sent. The versions of an entity are mixed with those of
/// other entities.
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

async fn until_acknowledged(run: &Rc<Run>, event: usize) -> anyhow::Result<()> {
    let scenario = run.world.lock().scenario.clone();
    let gives_up = webhook::source_of(&scenario, event) == MAILGUN;
    let began = clock::elapsed();
    for wait in RETRIES_MS {
        let webhook = webhook::genuine(&scenario, event);
        let answer = send(run, &webhook).await?;
        let status = answer.map(|answer| answer.status);
        run.world.lock().told(event, status);
        let dishonest = scenario.without == Some(Without::HonestAnswer) && status.is_some();
        if dishonest || status.is_some_and(|status| (200..300).contains(&status)) {
            run.world.lock().witness.acknowledged(event);
            stranger::may_capture(run, event, webhook);
            return Ok(());
        }
        let wait = Duration::from_millis(wait);
        if gives_up && clock::elapsed() + wait > began + GIVES_UP {
            return Ok(());
        }
        sleep(wait).await;
    }
    Ok(())
}

/// The answer to a sender.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// Sends a request. Returns `None` if no answer arrives in time.
pub async fn send(run: &Run, webhook: &Webhook) -> anyhow::Result<Option<Answer>> {
    let request = webhook.request()?;
    let sandbox = run.catcher()?;
    let answering = Box::pin(sandbox.function.answer(request));
    let answering = at_risk(Role::Catcher, answering, sandbox.skew_ms, WAITS, &run.world);
    let answered = tokio::time::timeout(WAITS, answering).await;
    Ok(match answered {
        Ok(Ended::Returned { value, .. }) => Some(Answer {
            status: value.status_code,
            body: value.body,
        }),
        Ok(Ended::Died) | Err(_) => {
            run.forget_catcher(&sandbox);
            None
        }
    })
}
