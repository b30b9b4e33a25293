//! The built-in HTTP action posts an event, signed as its setting `sign` says.

use shared::aws::outbound::{Answer, SendError};
use shared::aws::secrets::Secret;
use shared::delivery::breaker::CallResult;
use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;
use shared::sources::Signing;
use shared::sources::policy::IdempotencySupport;

use super::Work;
use super::request::EventRequest;

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
    // An effect that is already done needs no request.
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
    let request = match event.request(url, signing, secret, key, now) {
        Ok(request) => request,
        Err(error) => return Effect::NotApplied(Outcome::retry(format!("{error:#}"))),
    };
    let headers: Vec<(&str, &str)> = request.headers.iter().collect();
    let answer = work
        .outbound
        .post(&request.url, &headers, request.body, now);
    work.effect(answer.await)
}

/// Converts a response to an effect. Retries are safe if the receiver supports idempotency keys, so
/// only errors that a retry cannot fix are permanent.
pub(super) fn effect(answer: Result<Answer, SendError>) -> Effect {
    let answer = match answer {
        Ok(answer) => answer,
        Err(SendError::NotSent(error)) => return Effect::NotApplied(Outcome::retry(error)),
        Err(SendError::OutcomeUnknown(error)) => return Effect::Unknown { error },
    };
    let error = format!("the destination answered {}", answer.status);
    let replayed = answer.replayed;
    match answer.status {
        200..=299 => Effect::Done {
            note: answer.status.to_string(),
        },
        // The receiver stored this response under the key. It would return the same response to a
        // retry.
        503 if replayed => Effect::Failed { error, replayed },
        // The receiver did not process the request. Retry later, or when the first request with
        // this key has ended.
        408 | 409 | 425 | 429 | 503 => Effect::NotApplied(Outcome::Retry {
            error,
            after: answer.retry_after,
        }),
        300..=399 => Effect::NotApplied(Outcome::permanent(format!(
            "{error}; redirects are not followed"
        ))),
        400..=499 => Effect::NotApplied(Outcome::permanent(error)),
        _ => Effect::Failed { error, replayed },
    }
}

/// Returns the health of the destination after a response. A destination that rejects one event is
/// still healthy.
pub(super) fn heard(answer: &Result<Answer, SendError>) -> CallResult {
    match answer {
        Ok(answer) if matches!(answer.status, 408 | 429 | 500..=599) => CallResult::Failure,
        Ok(_) => CallResult::Success,
        Err(_) => CallResult::Failure,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_status_says_what_became_of_the_effect() {
        let of = |status| effect(Ok(answer(status, false)));
        assert_eq!(of(204), Effect::Done { note: "204".into() });
        for status in [408, 409, 425, 429, 503] {
            let Effect::NotApplied(Outcome::Retry { after, .. }) = of(status) else {
                panic!("{status}")
            };
            assert_eq!(after, Some(Duration::from_secs(7)));
        }
        for status in [301, 307, 400, 401, 404, 410, 422] {
            assert!(
                matches!(of(status), Effect::NotApplied(Outcome::Permanent { .. })),
                "{status}"
            );
        }
        for status in [500, 502, 504, 100, 600] {
            let failed = matches!(
                of(status),
                Effect::Failed {
                    replayed: false,
                    ..
                }
            );
            assert!(failed, "{status}");
        }
        let cut_off = effect(Err(SendError::OutcomeUnknown("timeout".into())));
        assert!(matches!(cut_off, Effect::Unknown { .. }));
    }

    #[test]
    fn a_stored_answer_means_what_it_meant_the_first_time() {
        let of = |status| effect(Ok(answer(status, true)));
        assert_eq!(of(200), Effect::Done { note: "200".into() });
        for status in [500, 503] {
            let failed = matches!(of(status), Effect::Failed { replayed: true, .. });
            assert!(failed, "{status}");
        }
        let refused = matches!(of(402), Effect::NotApplied(Outcome::Permanent { .. }));
        assert!(refused);
    }

    #[test]
    fn a_destination_is_unwell_when_it_cannot_work_and_not_when_it_will_not() {
        for status in [408, 429, 500, 503, 599] {
            assert_eq!(
                heard(&Ok(answer(status, false))),
                CallResult::Failure,
                "{status}"
            );
        }
        for status in [200, 301, 400, 401, 404, 409, 422, 425] {
            assert_eq!(
                heard(&Ok(answer(status, false))),
                CallResult::Success,
                "{status}"
            );
        }
        assert_eq!(
            heard(&Err(SendError::NotSent("refused".into()))),
            CallResult::Failure
        );
    }

    fn answer(status: u16, replayed: bool) -> Answer {
        Answer {
            status,
            retry_after: Some(Duration::from_secs(7)),
            replayed,
            ..Answer::default()
        }
    }
}
