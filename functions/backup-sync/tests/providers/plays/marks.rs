//! Providers whose list of changes continues from a position.

use serde_json::{Value, json};

use super::super::play::{Answer, Asked, Happened, KEY, Page, Play, Request, Skip};
use super::{form, refused};

/// <https://developer.box.com/guides/events/enterprise-events/for-enterprise>
pub(crate) fn box_() -> Play {
    Play {
        settings: "fields = { client = \"app\", enterprise = \"9\" }".to_owned(),
        looks_back: false,
        from_now_on: true,
        asked: |request| {
            refused(
                request.is("GET", "/2.0/events"),
                request.is_bearer("for-an-hour"),
            )?;
            let streaming = request.query("stream_type") == Some("admin_logs_streaming");
            let position = request.query("stream_position").filter(|_| streaming);
            let skip = Skip::count(Some(position.ok_or(400_u16)?));
            Ok(Asked { since: None, skip })
        },
        item: |event| json!({"type": "event", "event_id": event.id, "created_at": event.rfc3339(), "event_type": "UPLOAD"}),
        page: |page| {
            let next = page.end.to_string();
            json!({"chunk_size": page.items.len(), "next_stream_position": next, "entries": page.items}).into()
        },
        other: |request, events| {
            if request.query("stream_position") == Some("now") {
                let now = events.len().to_string();
                return Some(
                    json!({"chunk_size": 0, "next_stream_position": now, "entries": []}).into(),
                );
            }
            let subject = [("box_subject_type", "enterprise"), ("box_subject_id", "9")];
            token(request, "/oauth2/token", "client_secret", &subject)
        },
        ..Play::of("box")
    }
}

/// <https://developers.asana.com/reference/getevents>
pub(crate) fn asana() -> Play {
    Play {
        settings: "fields = { resource = \"12\" }".to_owned(),
        looks_back: false,
        from_now_on: true,
        asked: |request| {
            refused(request.is("GET", "/api/1.0/events"), request.is_bearer(KEY))?;
            let skip = Skip::count(request.query("sync"));
            Ok(Asked { since: None, skip })
        },
        item: |event| json!({"user": {"gid": "1"}, "created_at": event.rfc3339(), "action": "changed", "resource": {"gid": event.number.to_string()}}),
        page: |page| {
            json!({"data": page.items, "sync": page.end.to_string(), "has_more": page.more}).into()
        },
        other: |request, events| {
            let begins = request.is("GET", "/api/1.0/events") && request.query("sync").is_none();
            begins.then(|| Answer {
                status: 412,
                ..json!({"sync": events.len().to_string(), "errors": [{"message": "Sync token invalid or too old."}]}).into()
            })
        },
        ..Play::of("asana")
    }
}

/// <https://airtable.com/developers/web/api/list-webhook-payloads>
pub(crate) fn airtable() -> Play {
    Play {
        settings: "fields = { base = \"app1\", webhook = \"ach1\" }".to_owned(),
        looks_back: false,
        asked: |request| {
            let path = "/v0/bases/app1/webhooks/ach1/payloads";
            refused(request.is("GET", path), request.is_bearer(KEY))?;
            // The first payload is number 1.
            let cursor: usize = request.query("cursor").unwrap_or("1").parse().unwrap();
            let skip = Skip::Count(cursor - 1);
            Ok(Asked { since: None, skip })
        },
        item: |event| json!({"timestamp": event.rfc3339(), "baseTransactionNumber": event.number, "payloadFormat": "v0"}),
        page: |page| {
            json!({"payloads": page.items, "cursor": page.end + 1, "mightHaveMore": page.more})
                .into()
        },
        ..Play::of("airtable")
    }
}

/// <https://learn.microsoft.com/en-us/graph/delta-query-overview>
pub(crate) fn microsoft_graph() -> Play {
    Play {
        params: "api = \"BASE\", login = \"BASE\"",
        settings: "fields = { resource = \"users/7/messages\", tenant = \"t\", client = \"app\" }"
            .to_owned(),
        looks_back: false,
        asked: |request| delta(request, "/v1.0/users/7/messages/delta"),
        item: |event| json!({"id": event.id, "@odata.etag": event.number.to_string()}),
        page: delta_page,
        other: graph_token,
        ..Play::of("microsoft-graph")
    }
}

pub(crate) fn microsoft_graph_directory() -> Play {
    Play {
        settings: "variant = \"directory\"\nfields = { resource = \"users\", tenant = \"t\", client = \"app\" }".to_owned(),
        from_now_on: true,
        asked: |request| delta(request, "/v1.0/users/delta"),
        other: |request, events| {
            if request.query("$deltatoken") == Some("latest") {
                let link = format!("{}{}?$deltatoken={}", request.base, request.path, events.len());
                return Some(json!({"value": [], "@odata.deltaLink": link}).into());
            }
            graph_token(request, events)
        },
        ..microsoft_graph()
    }
}

fn delta(request: &Request, path: &str) -> Result<Asked, u16> {
    refused(request.is("GET", path), request.is_bearer("for-an-hour"))?;
    let place = request.query("$skiptoken").or(request.query("$deltatoken"));
    Ok(Asked {
        since: None,
        skip: Skip::count(place),
    })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "every play has this signature"
)]
fn delta_page(page: Page<'_>) -> Answer {
    let this = format!("{}{}", page.request.base, page.request.path);
    let (name, token) = if page.more {
        ("@odata.nextLink", "skiptoken")
    } else {
        ("@odata.deltaLink", "deltatoken")
    };
    let mut answer = json!({"value": page.items});
    answer[name] = json!(format!("{this}?${token}={}", page.end));
    answer.into()
}

fn graph_token(request: &Request, _: &[Happened]) -> Option<Answer> {
    let scope = [("scope", "https://graph.microsoft.com/.default")];
    token(request, "/t/oauth2/v2.0/token", "client_secret", &scope)
}

/// <https://www.dropbox.com/developers/documentation/http/documentation#files-list_folder-continue>
pub(crate) fn dropbox() -> Play {
    Play {
        settings: "fields = { key = \"app\" }".to_owned(),
        looks_back: false,
        from_now_on: true,
        asked: |request| {
            let path = "/2/files/list_folder/continue";
            refused(request.is("POST", path), request.is_bearer("for-an-hour"))?;
            let body = request.json();
            let skip = Skip::count(Some(body["cursor"].as_str().ok_or(400_u16)?));
            Ok(Asked { since: None, skip })
        },
        item: |event| json!({".tag": "file", "path_lower": format!("/a b/{}", event.id), "rev": event.number.to_string()}),
        page: |page| {
            json!({"entries": page.items, "cursor": page.end.to_string(), "has_more": page.more})
                .into()
        },
        other: |request, events| {
            if request.is("POST", "/2/files/list_folder/get_latest_cursor") {
                assert_eq!(request.json()["recursive"], true);
                return Some(json!({"cursor": events.len().to_string()}).into());
            }
            token(request, "/oauth2/token", "refresh_token", &[])
        },
        ..Play::of("dropbox")
    }
}

/// Returns a token in exchange for the secret, which the request has in this field.
fn token(request: &Request, path: &str, secret: &str, others: &[(&str, &str)]) -> Option<Answer> {
    if !request.is("POST", path) {
        return None;
    }
    let good = form(request, secret) == KEY
        && form(request, "client_id") == "app"
        && others
            .iter()
            .all(|(name, value)| form(request, name) == *value);
    Some(if good {
        let answer: Value = json!({"access_token": "for-an-hour", "token_type": "bearer"});
        answer.into()
    } else {
        Answer::status(400)
    })
}
