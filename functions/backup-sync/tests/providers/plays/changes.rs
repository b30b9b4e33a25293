//! Providers that list what has changed since a time.

use serde_json::{Value, json};
use shared::base::clock::UnixMillis;

use super::super::play::{Answer, Asked, KEY, Page, Play, Skip, time};
use super::{is_basic, refused};

/// <https://shopify.dev/docs/api/usage/pagination-graphql>
pub(crate) fn shopify() -> Play {
    Play {
        settings: "fields = { shop = \"acme\" }".to_owned(),
        asked: |request| {
            let path = "/admin/api/2026-10/graphql.json";
            refused(
                request.is("POST", path),
                request.header("x-shopify-access-token") == KEY,
            )?;
            let body = request.json();
            assert!(
                body["query"]
                    .as_str()
                    .unwrap()
                    .contains("changed:orders(first:100")
            );
            let q = body["variables"]["q"].as_str().unwrap();
            let since = q
                .strip_prefix("updated_at:>='")
                .and_then(|q| q.strip_suffix('\''));
            Ok(Asked {
                since: time(since),
                skip: Skip::count(body["variables"]["after"].as_str()),
            })
        },
        item: |event| json!({"id": format!("gid://shopify/Order/{}", event.number), "updatedAt": event.rfc3339()}),
        page: connection,
        ..Play::of("shopify")
    }
}

/// <https://linear.app/developers/pagination>
pub(crate) fn linear() -> Play {
    Play {
        asked: |request| {
            refused(
                request.is("POST", "/graphql"),
                request.header("authorization") == KEY,
            )?;
            let variables = request.json()["variables"].clone();
            Ok(Asked {
                since: time(variables["since"].as_str()),
                skip: Skip::count(variables["after"].as_str()),
            })
        },
        item: |event| json!({"id": event.id, "updatedAt": event.rfc3339()}),
        page: connection,
        ..Play::of("linear")
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "every play has this signature"
)]
fn connection(page: Page<'_>) -> Answer {
    let info = json!({"hasNextPage": page.more, "endCursor": page.end.to_string()});
    json!({"data": {"changed": {"nodes": page.items, "pageInfo": info}}}).into()
}

/// <https://developers.notion.com/reference/post-search>
pub(crate) fn notion() -> Play {
    Play {
        newest_first: true,
        asked: |request| {
            let good = request.is_bearer(KEY) && request.header("notion-version") == "2022-06-28";
            refused(request.is("POST", "/v1/search"), good)?;
            let body = request.json();
            assert_eq!(body["sort"]["direction"], "descending");
            Ok(Asked {
                since: None,
                skip: Skip::after(body["start_cursor"].as_str()),
            })
        },
        item: |event| {
            // Notion rounds the time down to the minute.
            let minute = UnixMillis(event.at.0.div_euclid(60_000) * 60_000);
            json!({"object": "page", "id": event.id, "last_edited_time": minute.rfc3339()})
        },
        page: |page| {
            let next = page.last.filter(|_| page.more);
            json!({"object": "list", "results": page.items, "next_cursor": next, "has_more": page.more}).into()
        },
        ..Play::of("notion")
    }
}

/// <https://developers.hubspot.com/docs/api-reference/latest/crm/search-the-crm>
pub(crate) fn hubspot() -> Play {
    Play {
        asked: |request| {
            let path = "/crm/v3/objects/contacts/search";
            refused(request.is("POST", path), request.is_bearer(KEY))?;
            let body = request.json();
            let filter = &body["filterGroups"][0]["filters"][0];
            assert_eq!(
                (&filter["propertyName"], &filter["operator"]),
                (&json!("lastmodifieddate"), &json!("GTE"))
            );
            let since = filter["value"].as_str().unwrap().parse().unwrap();
            Ok(Asked {
                since: Some(UnixMillis(since)),
                skip: Skip::count(body["after"].as_str()),
            })
        },
        settings: "fields = { objects = \"contacts\", property = \"lastmodifieddate\" }".to_owned(),
        item: |event| json!({"id": event.number.to_string(), "updatedAt": event.rfc3339(), "properties": {}}),
        page: |page| {
            let mut answer = json!({"total": 7, "results": page.items});
            if page.more {
                answer["paging"] = json!({"next": {"after": page.end.to_string()}});
            }
            answer.into()
        },
        ..Play::of("hubspot")
    }
}

/// <https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issue-search/>
pub(crate) fn jira() -> Play {
    Play {
        settings: "fields = { site = \"acme\", email = \"a@acme.test\" }".to_owned(),
        asked: |request| {
            let path = "/rest/api/3/search/jql";
            refused(
                request.is("GET", path),
                is_basic(request, "a@acme.test", KEY),
            )?;
            let jql = request.query("jql").unwrap();
            let ago = jql
                .strip_prefix("updated >= -")
                .and_then(|jql| jql.split_once('m'));
            let minutes: i64 = ago.unwrap().0.parse().unwrap();
            Ok(Asked {
                since: Some(UnixMillis(UnixMillis::now().0 - minutes * 60_000)),
                skip: Skip::count(request.query("nextPageToken")),
            })
        },
        item: |event| {
            let updated = event.rfc3339().replace('Z', "+0000");
            json!({"id": event.number.to_string(), "fields": {"updated": updated}})
        },
        page: |page| {
            let mut answer: Value = json!({"issues": page.items, "isLast": !page.more});
            if page.more {
                answer["nextPageToken"] = json!(page.end.to_string());
            }
            answer.into()
        },
        ..Play::of("jira")
    }
}
