//! The built-in HTTP action posts an event. Its setting `sign` determines the signature.

use shared::aws::secrets::Secret;
use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;
use shared::sources::Signing;
use shared::sources::policy::IdempotencySupport;

use super::Work;
use super::request::{CallIds, EventRequest};

/// Posts the event. The idempotency key is the same in every attempt.
pub(super) async fn forward(
    work: &Work<'_>,
    name: &str,
    url: &str,
    signing: &Signing,
    keys: IdempotencySupport,
) -> Outcome {
    let Some(source) = work.source else {
        return Outcome::retry("the source of the event is not configured");
    };
    let event = EventRequest {
        row: work.row,
        body: work.body,
        request: work.request,
        entity: work.entity,
        verifier: &source.verifier,
    };
    // An effect that is already settled sends no request, so its event cannot be unsendable.
    if !work.effects.is_settled(name)
        && let Some(outcome) = event.unsendable(url, signing, (work.clock)())
    {
        return outcome;
    }
    let secret = match signing.secret() {
        Some(secret) => match work.secret(secret).await {
            Ok(secret) => Some(secret),
            Err(error) => return Outcome::retry(format!("{error:#}")),
        },
        None => None,
    };
    let call = async |key: &str| post(work, &event, url, signing, secret.as_ref(), key).await;
    match keys {
        IdempotencySupport::Honoured => work.effects.keyed(name, call).await,
        other => work.effects.once(name, other, call).await,
    }
}

async fn post(
    work: &Work<'_>,
    event: &EventRequest<'_>,
    url: &str,
    signing: &Signing,
    secret: Option<&Secret>,
    key: &str,
) -> Effect {
    let now = (work.clock)();
    let ids = CallIds {
        key,
        traceparent: &work.effects.traceparent(key),
    };
    let request = match event.request(url, signing, secret, ids, now) {
        Ok(request) => request,
        Err(error) => return Effect::NotApplied(Outcome::retry(format!("{error:#}"))),
    };
    let headers: Vec<(&str, &str)> = request.headers.iter().collect();
    let answer = work
        .outbound
        .post(&request.url, &headers, request.body, work.timeout, now);
    work.effect(answer.await)
}
