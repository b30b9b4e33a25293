//! An example of an action in Rust: opens an issue in a tracker for each event.
//!
//! `params.url` accepts `{"title", "event"}` as JSON and answers with the issue's `number`.
//! `params.secret`, if set, names the bearer token.
//!
//! The tracker must support the `Idempotency-Key`. For a tracker without support, use
//! [`IdempotencySupport::Ignored`]. An operator then decides about each attempt with an unknown
//! outcome, unless the action can ask the tracker
//! ([`once_asking`](shared::delivery::effects::Effects::once_asking)). For a tracker that also
//! stores failures under the key, as Stripe does, use [`IdempotencySupport::HonouredWithFailures`].

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;
use shared::sources::policy::IdempotencySupport;

use super::Work;

pub(super) async fn open_issue(work: &Work<'_>, params: &BTreeMap<String, String>) -> Outcome {
    let Some(url) = params.get("url") else {
        return Outcome::retry("open-issue needs params.url");
    };
    let bearer = match params.get("secret") {
        Some(name) => match work.secret(name).await {
            Ok(secret) => Some(format!("Bearer {}", secret.expose())),
            Err(error) => return Outcome::retry(format!("{error:#}")),
        },
        None => None,
    };
    let title = format!("{} from {}", work.row.kind, work.row.key.source());
    let id = work.row.id();
    let run_id = work.row.run_id(&id);
    let issue = json!({ "title": title, "event": id.as_str() }).to_string();

    work.effects
        .once(
            "open-issue",
            IdempotencySupport::Honoured,
            async |key: &str| {
                let traceparent = work.effects.traceparent(key);
                let mut headers = vec![
                    ("idempotency-key", key),
                    ("traceparent", traceparent.as_str()),
                    ("mitt-run-id", run_id.as_str()),
                    ("content-type", "application/json"),
                ];
                headers.extend(bearer.as_deref().map(|token| ("authorization", token)));
                let answer = work
                    .outbound
                    .post(url, &headers, issue.into(), work.timeout, (work.clock)())
                    .await;
                let number = answer.as_ref().ok().and_then(|answer| {
                    let answer: Value = serde_json::from_slice(answer.body.as_ref()?).ok()?;
                    answer["number"].as_u64()
                });
                match (work.effect(answer), number) {
                    (Effect::Done { .. }, Some(number)) => Effect::Done {
                        note: format!("issue {number}"),
                    },
                    (effect, _) => effect,
                }
            },
        )
        .await
}
