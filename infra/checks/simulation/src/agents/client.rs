//! Requests of a worker to the functions, as a client makes them: it repeats a request that gets no
//! answer until the lease ends.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use processor::{Payload, Reply};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::ROLE;
use crate::clock;
use crate::crash_injection::{Ended, Role, at_risk};
use crate::run::Run;

/// The time after which the gateway answers for the function.
const GATEWAY: Duration = Duration::from_secs(29);

/// Share of answers, in ten-thousandths, that do not reach the worker.
const LOST: u64 = 300;

/// What became of a request.
#[derive(Debug)]
pub(super) enum Said {
    /// The answer, and the time at which its request was sent.
    Yes(Value, Instant),
    /// The lease is lost, or the request is refused.
    No,
    /// No answer arrived before the end of the lease.
    Nothing,
}

/// Sends a request until it is answered, or until this time. `lease` is the event and the fencing
/// token of the lease.
pub(super) async fn post(
    run: &Rc<Run>,
    place: &str,
    (fields, lease): (&Value, Option<(usize, i128)>),
    until: Instant,
) -> anyhow::Result<Said> {
    for attempt in 0.. {
        let sent = Instant::now();
        if let Some((status, body)) = send(run, place, fields, lease).await? {
            match status {
                200 => return Ok(Said::Yes(body, sent)),
                400..500 => return Ok(Said::No),
                _ => {}
            }
        }
        let most = 1_000 << attempt.min(6);
        let pause = run.world.lock().dice.between(most / 2, most);
        let pause = Duration::from_millis(pause);
        if Instant::now() + pause > until {
            break;
        }
        sleep(pause).await;
    }
    Ok(Said::Nothing)
}

/// Sends a request once. Returns `None` if the answer is lost.
async fn send(
    run: &Rc<Run>,
    place: &str,
    fields: &Value,
    lease: Option<(usize, i128)>,
) -> anyhow::Result<Option<(u16, Value)>> {
    let payload = json!({
        "rawPath": format!("/work/{place}"),
        "requestContext": { "authorizer": { "iam": { "userArn": ROLE } } },
        "body": fields.to_string(),
    });
    let payload: Payload = serde_json::from_value(payload).context("build a request")?;
    let sandbox = run.processor()?;
    let deadline = clock::skewed(sandbox.skew_ms, clock::read) + GATEWAY;
    let (at_work, skew_ms) = (sandbox.clone(), sandbox.skew_ms);
    let work = async move { at_work.function.handle(payload, deadline).await };
    let work = at_risk(Role::Processor, work, skew_ms, GATEWAY, &run.world);
    if let Some((event, epoch)) = lease {
        let mut world = run.world.lock();
        world.witness.leased(work.invocation(), event, epoch);
    }
    // A function that freezes continues after the gateway has answered for it.
    let work = tokio::task::spawn_local(Box::pin(work));
    let Ok(Ok(Ended::Returned { value, .. })) = timeout(GATEWAY, work).await else {
        return Ok(None);
    };
    run.give_back(sandbox);
    let Reply::Answer(answer) = value else {
        return Ok(None);
    };
    if run.world.lock().dice.hits(LOST) {
        return Ok(None);
    }
    let body = serde_json::from_str(answer.body()).context("an answer is JSON")?;
    Ok(Some((answer.status(), body)))
}
