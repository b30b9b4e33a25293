//! Stripe, for a source that receives thin events.

use serde_json::{Value, json};

use super::super::play::{Asked, Happened, Play, Skip, Webhook, time};
use super::refused;

/// The object to which all events belong.
pub(crate) const OBJECT: &str = "in_7";

/// <https://docs.stripe.com/api/v2/core/events/list>
pub(crate) fn stripe_thin() -> Play {
    fn event(event: &Happened) -> Value {
        let object =
            json!({"id": OBJECT, "type": "invoice", "url": format!("/v1/invoices/{OBJECT}")});
        json!({"id": event.id, "object": "v2.core.event", "type": "v1.invoice.paid", "livemode": false, "created": event.rfc3339(), "context": null, "related_object": object})
    }
    Play {
        settings: "variant = \"thin\"\nfields = { version = \"2026-09-30.endive\" }".to_owned(),
        newest_first: true,
        asked: |request| {
            let is_allowed = request.is_bearer(super::super::play::KEY)
                && request.header("stripe-version") == "2026-09-30.endive";
            refused(request.is("GET", "/v2/core/events"), is_allowed)?;
            Ok(Asked {
                since: time(request.query("created[gte]")),
                skip: Skip::count(request.query("page")),
            })
        },
        item: event,
        page: |page| {
            let since = page.request.query("created[gte]").unwrap_or_default();
            let next = page.more.then(|| {
                format!(
                    "/v2/core/events?limit=100&created[gte]={since}&page={}",
                    page.end
                )
            });
            json!({"data": page.items, "next_page_url": next, "previous_page_url": null}).into()
        },
        // The object changes with each event. Its actual fields do not matter here.
        other: |request, events| {
            let is_object = request.is("GET", &format!("/v1/invoices/{OBJECT}"));
            is_object.then(|| {
                json!({"id": OBJECT, "object": "invoice", "status": "paid", "revision": events.len()})
                    .into()
            })
        },
        webhook: Some(("secret of the webhooks", |happened| {
            Webhook::json(&[], &event(happened))
        })),
        kind: |_| "v1.invoice.paid".to_owned(),
        ..Play::of("stripe")
    }
}
