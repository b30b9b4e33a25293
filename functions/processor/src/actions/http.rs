//! The built-in HTTP action posts the exact body of the event, signed according to Standard
//! Webhooks.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Context as _, anyhow};
use shared::aws::secrets::Secret;
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
    // An account is printable, so it is a valid header value.
    if let Some(account) = &work.row.account {
        let is_signed = if account.is_signed { "yes" } else { "no" };
        headers.extend([
            ("mitt-account", account.value.as_str()),
            ("mitt-account-signed", is_signed),
        ]);
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
