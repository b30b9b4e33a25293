//! Providers that list their events.

use serde_json::{Value, json};
use shared::base::clock::UnixMillis;

use super::super::play::{Answer, Asked, Happened, KEY, Play, Request, Skip, Webhook, secs, time};
use super::{form, is_basic, refused};

const SECRET: &str = "secret of the webhooks";

/// <https://docs.stripe.com/api/events/list>
pub(crate) fn stripe() -> Play {
    fn event(event: &Happened) -> Value {
        json!({"id": event.id, "object": "event", "created": event.secs(), "type": "invoice.paid", "data": {"object": {"n": event.number}}})
    }
    Play {
        newest_first: true,
        asked: |request| {
            refused(request.is("GET", "/v1/events"), request.is_bearer(KEY))?;
            Ok(Asked {
                since: secs(request.query("created[gte]")),
                skip: Skip::after(request.query("starting_after")),
            })
        },
        item: event,
        page: |page| json!({"object": "list", "data": page.items, "has_more": page.more}).into(),
        webhook: Some((SECRET, |happened| Webhook::json(&[], &event(happened)))),
        kind: |_| "invoice.paid".to_owned(),
        ..Play::of("stripe")
    }
}

/// <https://workos.com/docs/reference/events/list>
pub(crate) fn workos() -> Play {
    fn event(event: &Happened) -> Value {
        json!({"object": "event", "id": event.id, "event": "user.created", "created_at": event.rfc3339(), "data": {"n": event.number}})
    }
    Play {
        newest_first: true,
        asked: |request| {
            refused(request.is("GET", "/events"), request.is_bearer(KEY))?;
            // The list contains events that were created after this date.
            let since = time(request.query("range_start")).map(|at| UnixMillis(at.0 + 1));
            let skip = Skip::after(request.query("after"));
            Ok(Asked { since, skip })
        },
        item: event,
        page: |page| {
            let after = page.last.filter(|_| page.more);
            json!({"object": "list", "data": page.items, "list_metadata": {"after": after, "before": null}}).into()
        },
        webhook: Some((SECRET, |happened| Webhook::json(&[], &event(happened)))),
        kind: |_| "user.created".to_owned(),
        ..Play::of("workos")
    }
}

/// <https://developer.paddle.com/api-reference/events/list-events>
pub(crate) fn paddle() -> Play {
    fn event(event: &Happened) -> Value {
        json!({"event_id": event.id, "event_type": "transaction.paid", "occurred_at": event.rfc3339(), "data": {"n": event.number}})
    }
    Play {
        newest_first: true,
        asked: |request| {
            refused(request.is("GET", "/events"), request.is_bearer(KEY))?;
            if request.query("order_by") != Some("id[DESC]") {
                return Err(400);
            }
            Ok(Asked {
                since: None,
                skip: Skip::after(request.query("after")),
            })
        },
        item: event,
        page: |page| {
            let last = page.last.unwrap_or_default();
            let base = &page.request.base;
            let next = format!("{base}/events?per_page=200&order_by=id%5BDESC%5D&after={last}");
            json!({"data": page.items, "meta": {"pagination": {"per_page": 200, "next": next, "has_more": page.more, "estimated_total": 9}}}).into()
        },
        webhook: Some((SECRET, |happened| {
            let mut body = event(happened);
            body["notification_id"] = json!(format!("ntf-{}", happened.number));
            Webhook::json(&[], &body)
        })),
        kind: |_| "transaction.paid".to_owned(),
        ..Play::of("paddle")
    }
}

/// <https://developer.paypal.com/api/webhooks/v1/webhooks-events-list>
pub(crate) fn paypal() -> Play {
    Play {
        settings: "fields = { client = \"app\" }".to_owned(),
        asked: |request| {
            let path = "/v1/notifications/webhooks-events";
            refused(request.is("GET", path), request.is_bearer("for-an-hour"))?;
            let end = time(request.query("end_time")).ok_or(400_u16)?;
            let since = time(request.query("start_time")).ok_or(400_u16)?;
            assert!(since < end);
            Ok(Asked {
                since: Some(since),
                skip: Skip::count(request.query("page")),
            })
        },
        item: |event| json!({"id": event.id, "create_time": event.rfc3339(), "event_type": "PAYMENT.SALE.COMPLETED", "resource": {"n": event.number}}),
        page: |page| {
            let request = page.request;
            let mut links = vec![json!({"href": request.base, "rel": "self", "method": "GET"})];
            if page.more {
                let (start, end) = (request.query("start_time"), request.query("end_time"));
                let href = format!(
                    "{}{}?page_size=20&start_time={}&end_time={}&page={}",
                    request.base,
                    request.path,
                    start.unwrap_or_default(),
                    end.unwrap_or_default(),
                    page.end
                );
                links.push(json!({"href": href, "rel": "next", "method": "GET"}));
            }
            json!({"events": page.items, "count": 1, "links": links}).into()
        },
        other: |request, _| {
            let wants = request.is("POST", "/v1/oauth2/token");
            wants.then(|| {
                let good = is_basic(request, "app", KEY) && form(request, "grant_type") == "client_credentials";
                if good {
                    json!({"access_token": "for-an-hour", "token_type": "Bearer", "expires_in": 32400}).into()
                } else {
                    Answer::status(401)
                }
            })
        },
        kind: |_| "PAYMENT.SALE.COMPLETED".to_owned(),
        ..Play::of("paypal")
    }
}

/// <https://developer.gocardless.com/api-reference/#events-list-events>
pub(crate) fn gocardless() -> Play {
    fn event(event: &Happened) -> Value {
        json!({"id": event.id, "created_at": event.rfc3339(), "resource_type": "payments", "action": "confirmed", "links": {"payment": event.number}})
    }
    Play {
        newest_first: true,
        asked: |request| {
            refused(request.is("GET", "/events"), request.is_bearer(KEY))?;
            if request.header("gocardless-version") != "2015-07-06" {
                return Err(400);
            }
            Ok(Asked {
                since: time(request.query("created_at[gte]")),
                skip: Skip::after(request.query("after")),
            })
        },
        item: event,
        page: |page| {
            let after = page.last.filter(|_| page.more);
            json!({"events": page.items, "meta": {"cursors": {"before": null, "after": after}, "limit": 500}}).into()
        },
        webhook: Some((SECRET, |happened| {
            let meta = json!({"webhook_id": format!("WB{}", happened.number)});
            Webhook::json(&[], &json!({"events": [event(happened)], "meta": meta}))
        })),
        kind: |_| "confirmed".to_owned(),
        ..Play::of("gocardless")
    }
}

/// <https://developer.squareup.com/reference/square/events-api/search-events>
pub(crate) fn square() -> Play {
    fn event(event: &Happened) -> Value {
        json!({"merchant_id": "M", "type": "payment.updated", "event_id": event.id, "created_at": event.rfc3339(), "data": {"n": event.number}})
    }
    Play {
        asked: |request| {
            refused(request.is("POST", "/v2/events"), request.is_bearer(KEY))?;
            let body = request.json();
            let filter = &body["query"]["filter"]["created_at"];
            Ok(Asked {
                since: time(filter["start_at"].as_str()),
                skip: Skip::count(body["cursor"].as_str()),
            })
        },
        item: event,
        page: |page| {
            let mut answer = json!({"events": page.items});
            if page.more {
                answer["cursor"] = json!(page.end.to_string());
            }
            answer.into()
        },
        webhook: Some((SECRET, |happened| Webhook::json(&[], &event(happened)))),
        kind: |_| "payment.updated".to_owned(),
        ..Play::of("square")
    }
}

/// <https://apidocs.chargebee.com/docs/api/events#list_events>
pub(crate) fn chargebee() -> Play {
    fn event(event: &Happened) -> Value {
        json!({"id": event.id, "occurred_at": event.secs(), "event_type": "customer_created", "content": {"n": event.number}})
    }
    Play {
        asked: |request| {
            refused(
                request.is("GET", "/api/v2/events"),
                is_basic(request, KEY, ""),
            )?;
            // The list contains events that occurred after this second.
            let since = secs(request.query("occurred_at[after]"));
            Ok(Asked {
                since: since.map(|at| UnixMillis(at.0 + 1_000)),
                skip: Skip::count(request.query("offset")),
            })
        },
        item: |happened| json!({"event": event(happened)}),
        page: |page| {
            let mut answer = json!({"list": page.items});
            if page.more {
                answer["next_offset"] = json!(page.end.to_string());
            }
            answer.into()
        },
        webhook: Some(("user:password", |happened| {
            Webhook::json(&[], &event(happened))
        })),
        kind: |_| "customer_created".to_owned(),
        ..Play::of("chargebee")
    }
}

/// <https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/events>
pub(crate) fn mailgun() -> Play {
    fn event(event: &Happened) -> Value {
        json!({"id": event.id, "event": "delivered", "timestamp": event.secs(), "recipient": format!("{}@acme.test", event.number)})
    }
    Play {
        settings: "fields = { domain = \"mg.acme.test\" }".to_owned(),
        asked: |request| {
            let list =
                request.method == "GET" && request.path.starts_with("/v3/mg.acme.test/events");
            refused(list, is_basic(request, "api", KEY))?;
            // The URL of a following page has the position in its path.
            let after = request.path.strip_prefix("/v3/mg.acme.test/events/");
            let packed = after.and_then(|packed| packed.split_once('.'));
            let (begin, skip) = match packed {
                None => (request.query("begin").map(str::to_owned), Skip::Nothing),
                Some((begin, count)) => (Some(begin.to_owned()), Skip::count(Some(count))),
            };
            Ok(Asked {
                since: secs(begin.as_deref()),
                skip,
            })
        },
        item: event,
        page: |page| {
            let request = page.request;
            let packed = request.path.strip_prefix("/v3/mg.acme.test/events/");
            let begin = match packed.and_then(|packed| packed.split_once('.')) {
                Some((begin, _)) => begin.to_owned(),
                None => request.query("begin").unwrap_or_default().to_owned(),
            };
            let next = format!(
                "{}/v3/mg.acme.test/events/{begin}.{}",
                request.base, page.end
            );
            json!({"items": page.items, "paging": {"next": next, "previous": next}}).into()
        },
        webhook: Some((SECRET, |happened| {
            let now = UnixMillis::now().secs().to_string();
            let signature = json!({"timestamp": now, "token": happened.id, "signature": ""});
            Webhook::json(
                &[],
                &json!({"signature": signature, "event-data": event(happened)}),
            )
        })),
        kind: |_| "delivered".to_owned(),
        ..Play::of("mailgun")
    }
}

/// <https://developer.okta.com/docs/reference/system-log-query/>
pub(crate) fn okta() -> Play {
    fn event(event: &Happened) -> Value {
        json!({"uuid": event.id, "published": event.rfc3339(), "eventType": "user.lifecycle.create", "target": [{"id": event.number}]})
    }
    Play {
        settings: "fields = { domain = \"acme.okta.com\", filter = 'eventType eq \"user.lifecycle.create\"' }".to_owned(),
        asked: |request| {
            let key = request.header("authorization") == format!("SSWS {KEY}");
            refused(request.is("GET", "/api/v1/logs"), key)?;
            if request.query("filter") != Some("eventType eq \"user.lifecycle.create\"") {
                return Err(400);
            }
            // Without an end time, there is always a next page.
            time(request.query("until")).ok_or(400_u16)?;
            Ok(Asked {
                since: time(request.query("since")),
                skip: Skip::count(request.query("after")),
            })
        },
        item: event,
        page: |page| {
            let request = page.request;
            let query = ["since", "until", "filter", "sortOrder"].map(|name| {
                let value = request.query(name).unwrap_or_default();
                let value = percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC);
                format!("{name}={value}")
            });
            let this = format!("{}{}?{}", request.base, request.path, query.join("&"));
            let mut link = format!("<{this}>; rel=\"self\"");
            if page.more {
                let next = format!(", <{this}&after={}>; rel=\"next\"", page.end);
                link.push_str(&next);
            }
            Answer {
                headers: vec![("link", link)],
                ..Value::from(page.items).into()
            }
        },
        webhook: Some((SECRET, |happened| {
            let body = json!({"eventId": "e", "eventType": "com.okta.event_hook", "eventTime": happened.rfc3339(), "data": {"events": [event(happened)]}});
            Webhook::json(&[], &body)
        })),
        kind: |_| "user.lifecycle.create".to_owned(),
        ..Play::of("okta")
    }
}

/// <https://docs.fireflies.ai/graphql-api/query/transcripts>
pub(crate) fn fireflies() -> Play {
    fn webhook(event: &Happened) -> Webhook {
        Webhook::json(
            &[],
            &json!({"event": "meeting.transcribed", "timestamp": event.at.0, "meeting_id": event.id}),
        )
    }
    fn asked(request: &Request) -> Result<Asked, u16> {
        refused(request.is("POST", "/graphql"), request.is_bearer(KEY))?;
        let body = request.json();
        assert!(body["query"].as_str().unwrap().contains("limit:50"));
        let variables = &body["variables"];
        Ok(Asked {
            since: time(variables["fromDate"].as_str()),
            skip: Skip::Count(usize::try_from(variables["skip"].as_u64().unwrap_or(0)).unwrap()),
        })
    }
    Play {
        size: 50,
        newest_first: true,
        asked,
        item: |event| json!({"id": event.id}),
        page: |page| json!({"data": {"transcripts": page.items}}).into(),
        webhook: Some((SECRET, webhook)),
        kind: |_| "meeting.transcribed".to_owned(),
        ..Play::of("fireflies")
    }
}

/// <https://docs.cdp.coinbase.com/api-reference/commerce-api/rest-api/events/list-events>
pub(crate) fn coinbase_commerce() -> Play {
    fn event(event: &Happened) -> Value {
        json!({"id": event.id, "resource": "event", "type": "charge:confirmed", "api_version": "2018-03-22", "created_at": event.rfc3339(), "data": {"code": event.number}})
    }
    Play {
        newest_first: true,
        asked: |request| {
            let is_allowed = request.header("x-cc-api-key") == KEY
                && request.header("x-cc-version") == "2018-03-22";
            refused(request.is("GET", "/events"), is_allowed)?;
            Ok(Asked {
                since: None,
                skip: Skip::after(request.query("starting_after")),
            })
        },
        item: event,
        page: |page| {
            // The URL names another list.
            let next = page
                .more
                .then(|| format!("{}/checkouts?limit=20", page.request.base));
            json!({"pagination": {"order": "desc", "starting_after": null, "next_uri": next}, "data": page.items}).into()
        },
        webhook: Some((SECRET, |happened| {
            let body = json!({"id": happened.number, "scheduled_for": happened.rfc3339(), "event": event(happened)});
            Webhook::json(&[], &body)
        })),
        kind: |_| "charge:confirmed".to_owned(),
        ..Play::of("coinbase-commerce")
    }
}
