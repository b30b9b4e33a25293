//! The built-in HTTP action posts the exact body of the event, signed according to Standard
//! Webhooks.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Context as _, anyhow};
use shared::aws::outbound::{Answer, SendError};
use shared::aws::secrets::Secret;
use shared::delivery::breaker::CallResult;
use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;
use shared::sources::policy::IdempotencySupport;
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::{Preset, Scheme};
use shared::webhook::sign::sign;

use super::Work;

/// The signature scheme, read once for all events.
static SCHEME: LazyLock<anyhow::Result<Scheme>> = LazyLock::new(|| {
    let preset = Preset::embedded("standard-webhooks", &BTreeMap::new())?;
    preset
        .scheme("default")
        .cloned()
        .context("the preset standard-webhooks has no variant default")
});

/// Posts the event. The idempotency key is the same in every attempt. The `webhook-id` has the same
/// value, so that a receiver that checks either header drops a duplicate.
pub(super) async fn forward(
    work: &Work<'_>,
    name: &str,
    url: &str,
    secret: &str,
    keys: IdempotencySupport,
) -> Outcome {
    let secret = match work.secret(secret).await {
        Ok(secret) => secret,
        Err(error) => return Outcome::retry(format!("{error:#}")),
    };
    let call = async |key: &str| post(work, url, &secret, key).await;
    match keys {
        IdempotencySupport::Honoured => work.effects.keyed(name, call).await,
        other => work.effects.once(name, other, call).await,
    }
}

async fn post(work: &Work<'_>, url: &str, secret: &Secret, key: &str) -> Effect {
    let now = (work.clock)();
    let envelope = Envelope {
        method: "POST".to_owned(),
        url: url.to_owned(),
        headers: [("webhook-id", key)].into_iter().collect(),
        body: work.body.clone(),
        received_at: now,
    };
    let scheme = SCHEME.as_ref().map_err(|error| anyhow!("{error:#}"));
    let signed = match scheme.and_then(|scheme| sign(scheme, secret, &envelope, now)) {
        Ok(signed) => signed,
        Err(error) => return Effect::NotApplied(Outcome::retry(format!("{error:#}"))),
    };
    let id = work.row.id();
    let attempt = work.row.attempts.to_string();
    let mut headers = vec![
        ("webhook-id", key),
        ("idempotency-key", key),
        ("mitt-event-id", id.as_str()),
        ("mitt-source", work.row.key.source()),
        ("mitt-attempt", attempt.as_str()),
        ("mitt-proven", work.row.proven.as_str()),
    ];
    if let Some(content_type) = &work.row.content_type {
        headers.push(("content-type", content_type));
    }
    headers.extend(work.entity.iter().flat_map(|entity| entity.headers()));
    // A type that is not a valid header value is left out. The receiver can read it from the body.
    if !work.row.kind.is_empty() && work.row.kind.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        headers.push(("mitt-event-type", &work.row.kind));
    }
    headers.extend(
        signed
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
    );
    let body = work.body.clone();
    work.effect(work.outbound.post(url, &headers, body, now).await)
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
