//! The built-in HTTP destination: the event's exact body, signed by us as Standard Webhooks.

use std::collections::BTreeMap;

use anyhow::Context as _;
use shared::effects::Effect;
use shared::envelope::Envelope;
use shared::outbound::{Answer, Trouble};
use shared::outcome::Outcome;
use shared::preset::Preset;
use shared::sign::sign;

use super::Work;

/// Posts the event. The idempotency key is the same in every attempt; it is the `webhook-id` as
/// well, so that receivers of either habit drop a repetition.
pub(super) async fn forward(work: &Work<'_>, name: &str, url: &str, secret: &str) -> Outcome {
    let secret = match work.secret(secret).await {
        Ok(secret) => secret,
        Err(error) => return Outcome::retry(format!("{error:#}")),
    };
    work.effects
        .keyed(name, async |key: &str| {
            let now = (work.clock)();
            let envelope = Envelope {
                method: "POST".to_owned(),
                url: url.to_owned(),
                headers: [("webhook-id", key)].into_iter().collect(),
                body: work.body.clone(),
                received_at: now,
            };
            let signed = Preset::embedded("standard-webhooks", &BTreeMap::new())
                .and_then(|preset| {
                    preset
                        .scheme("default")
                        .cloned()
                        .context("it has a default")
                })
                .and_then(|scheme| sign(&scheme, &secret, &envelope, now));
            let signed = match signed {
                Ok(signed) => signed,
                Err(error) => return Effect::Not(Outcome::retry(format!("{error:#}"))),
            };
            let id = work.row.id();
            let attempt = work.row.attempts.to_string();
            let mut headers = vec![
                ("webhook-id", key),
                ("idempotency-key", key),
                ("mitt-event-id", id.as_str()),
                ("mitt-source", work.row.key.source()),
                ("mitt-attempt", attempt.as_str()),
            ];
            if let Some(content_type) = &work.row.content_type {
                headers.push(("content-type", content_type));
            }
            // A type that is no header value is one that its receiver finds in the body.
            if !work.row.kind.is_empty()
                && work.row.kind.bytes().all(|b| (b' '..=b'~').contains(&b))
            {
                headers.push(("mitt-event-type", &work.row.kind));
            }
            headers.extend(
                signed
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str())),
            );
            effect(
                work.outbound
                    .post(url, &headers, work.body.clone(), now)
                    .await,
            )
        })
        .await
}

/// What an answer says of the effect. A receiver that honours keys makes repeating safe, so only
/// what will not get better is given up.
pub(super) fn effect(answer: Result<Answer, Trouble>) -> Effect {
    let answer = match answer {
        Ok(answer) => answer,
        Err(Trouble::NotSent(error)) => return Effect::Not(Outcome::retry(error)),
        Err(Trouble::Unclear(error)) => return Effect::Unknown { error },
    };
    let error = format!("the destination answered {}", answer.status);
    match answer.status {
        200..=299 => Effect::Done {
            note: answer.status.to_string(),
        },
        // It was not taken up: later, or when the first request with this key has ended.
        408 | 409 | 425 | 429 | 503 => Effect::Not(Outcome::Retry {
            error,
            after: answer.retry_after,
        }),
        300..=399 => Effect::Not(Outcome::permanent(format!(
            "{error}; redirects are not followed"
        ))),
        400..=499 => Effect::Not(Outcome::permanent(error)),
        _ => Effect::Unknown { error },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_status_says_what_became_of_the_effect() {
        let of = |status| {
            effect(Ok(Answer {
                status,
                retry_after: Some(Duration::from_secs(7)),
                body: None,
            }))
        };
        assert_eq!(of(204), Effect::Done { note: "204".into() });
        for status in [408, 409, 425, 429, 503] {
            let Effect::Not(Outcome::Retry { after, .. }) = of(status) else {
                panic!("{status}")
            };
            assert_eq!(after, Some(Duration::from_secs(7)));
        }
        for status in [301, 307, 400, 401, 404, 410, 422] {
            assert!(
                matches!(of(status), Effect::Not(Outcome::Permanent { .. })),
                "{status}"
            );
        }
        for status in [500, 502, 504, 100, 600] {
            assert!(matches!(of(status), Effect::Unknown { .. }), "{status}");
        }
    }
}
