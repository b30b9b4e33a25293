//! Validates a `[[sync]]` table.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};

use super::{Auth, Next, Page, Put, Request, Sorted, Sync, SyncKind, TimeUnit, fill_text};
use crate::webhook::preset::Location;

impl Sync {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.docs.starts_with("https://"),
            "docs must be the https:// URL of the list's documentation"
        );
        ensure!(
            self.id.0.is_empty() != self.composite.is_empty(),
            "set either id or composite to identify an event"
        );
        let times = self.time.iter().flat_map(|time| &time.at.0);
        let named = self.id.0.iter().chain(&self.composite).chain(times);
        for at in named.chain(&self.event_type.0).chain(&self.delivered) {
            ensure!(
                matches!(
                    at,
                    Location::Item(_) | Location::Const(_) | Location::BodySha256
                ),
                "{at}: for a value of an item, use item:, const: or body:sha256"
            );
        }
        self.check_span().context("time span")?;
        self.check_body()?;
        self.check_page().context("page")?;
        if let Auth::Exchange { url, .. } = &self.auth {
            self.check_host(url).context("auth")?;
        }
        self.check_requests()
    }

    fn check_span(&self) -> anyhow::Result<()> {
        let minutes = |unit| unit == TimeUnit::MinutesAgo;
        if let Some(time) = &self.time {
            ensure!(
                !time.at.0.is_empty() && !minutes(time.unit),
                "time needs at least one location, and the unit s, ms or rfc3339"
            );
        }
        ensure!(
            self.mark.is_none() || (!self.filters() && self.sorted == Sorted::No),
            "a list with a mark continues at the mark; remove {{since}} and sorted"
        );
        ensure!(
            self.mark.is_none() || self.kind == SyncKind::ChangeCursor,
            "mark needs kind = \"change-cursor\""
        );
        ensure!(
            self.mark.is_some()
                || self.filters()
                || self.time.is_some()
                || self.retention_days.is_some(),
            "the request has no {{since}} and the items have no time, so each run reads the whole \
             list; set retention_days to limit it"
        );
        ensure!(
            self.sorted == Sorted::No || self.time.is_some(),
            "sorted needs the time of the items"
        );
        let until = self.request.mentions("{until}");
        ensure!(
            !until || !minutes(self.since.unit),
            "{{until}} cannot have the unit minutes-ago"
        );
        Ok(())
    }

    fn check_body(&self) -> anyhow::Result<()> {
        ensure!(
            self.no_body.is_none() || matches!(self.no_body, Some(Location::Item(_))),
            "no_body must be an item: location"
        );
        match &self.body {
            None | Some(Location::Item(_)) => {}
            Some(Location::Json(_)) => ensure!(
                self.fetch.is_some(),
                "body = \"json:…\" is a part of the fetched document, so it needs fetch; add \
                 fetch, or use item:…"
            ),
            Some(other) => bail!("body = \"{other}\": use an item: or json: location"),
        }
        ensure!(
            self.redeliver.is_none() || self.time.is_some(),
            "redeliver needs the time of a delivery; without time, each run would repeat the \
             request"
        );
        ensure!(
            self.kind == SyncKind::DeliveryLog
                || (self.redeliver.is_none() && self.delivered.is_none()),
            "redeliver and delivered need kind = \"delivery-log\""
        );
        Ok(())
    }

    fn check_page(&self) -> anyhow::Result<()> {
        let put = match &self.page {
            Page::Cursor { to, .. } | Page::Offset { to, .. } | Page::Number { to, .. } => Some(to),
            Page::Once | Page::LinkHeader | Page::NextUrl { .. } => None,
        };
        if let Some(Put::Body(_)) = put {
            ensure!(
                self.request.body.is_some(),
                "page.to is in the body, but the request has no body"
            );
        }
        if let Page::NextUrl { next, .. } = &self.page {
            ensure!(
                !matches!(next, Next::Last(_)),
                "the URL of the next page must be at a json: or rel: location"
            );
        }
        if let Page::Cursor { next, .. } = &self.page {
            ensure!(
                !matches!(next, Next::Rel(_)),
                "a rel: location contains a URL; use style = \"next-url\""
            );
        }
        if let Page::Offset { size, .. } | Page::Number { size, .. } = &self.page {
            ensure!(*size > 0, "size must be the number of items of a full page");
        }
        Ok(())
    }

    fn check_requests(&self) -> anyhow::Result<()> {
        let begin = self.mark.as_ref().and_then(|mark| mark.begin.as_ref());
        let lists = [Some(&self.request), begin];
        for request in lists.into_iter().flatten() {
            ensure!(
                !request.mentions("{item:"),
                "only fetch and redeliver can contain {{item:…}}; remove it from the request {}",
                request.url
            );
        }
        let ones = [self.fetch.as_ref(), self.redeliver.as_ref()];
        for request in lists.into_iter().chain(ones).flatten() {
            self.check_request(request)
                .with_context(|| format!("request {}", request.url))?;
        }
        Ok(())
    }

    /// Returns the URLs of all requests that contain the secret.
    pub(crate) fn urls(&self) -> impl Iterator<Item = &str> {
        let begin = self.mark.as_ref().and_then(|mark| mark.begin.as_ref());
        let ones = [begin, self.fetch.as_ref(), self.redeliver.as_ref()];
        let requests = ones.into_iter().flatten().map(|one| one.url.as_str());
        let token = match &self.auth {
            Auth::Exchange { url, .. } => Some(url.as_str()),
            _ => None,
        };
        [self.request.url.as_str()]
            .into_iter()
            .chain(requests)
            .chain(token)
    }

    /// Returns whether a request, header or credential of the list contains the field.
    pub(super) fn uses(&self, name: &str) -> bool {
        self.texts()
            .any(|text| fields_in(text).any(|field| field == name))
    }

    /// Returns all texts that can contain a field.
    fn texts(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        let begin = self.mark.as_ref().and_then(|mark| mark.begin.as_ref());
        let requests = [Some(&self.request), begin, self.fetch.as_ref()];
        let requests = requests.into_iter().chain([self.redeliver.as_ref()]);
        let auth: Vec<&str> = match &self.auth {
            Auth::Basic { user, password } => vec![user, password],
            Auth::GithubApp { issuer } => vec![issuer],
            Auth::Exchange { url, user, form } => {
                let others = user.iter().chain(form.values()).map(String::as_str);
                std::iter::once(url.as_str()).chain(others).collect()
            }
            Auth::Bearer {} | Auth::Header { .. } | Auth::Query { .. } => Vec::new(),
        };
        let headers = self.headers.values().map(String::as_str);
        Box::new(
            requests
                .flatten()
                .flat_map(Request::texts)
                .chain(auth)
                .chain(headers),
        )
    }

    fn check_request(&self, request: &Request) -> anyhow::Result<()> {
        self.check_host(&request.url)?;
        for text in request.texts() {
            for name in fields_in(text) {
                ensure!(
                    self.fields.contains_key(name),
                    "fields does not declare {{field:{name}}}; add the field"
                );
            }
        }
        if let Some(body) = &request.body {
            // Placeholders are inside strings, so the body must be valid JSON after they are filled
            // in.
            let filled = fill_text(body, "0", "0", true);
            let json: Result<BTreeMap<String, serde_json::Value>, _> =
                serde_json::from_str(&filled);
            json.context("the body is not a JSON object")?;
        }
        Ok(())
    }
}

impl Sync {
    /// Checks the host of a URL, because the host receives the secret.
    fn check_host(&self, url: &str) -> anyhow::Result<()> {
        let (_, after) = url.split_once("://").context("invalid URL")?;
        let host = after.split('/').next().unwrap_or_default();
        for name in fields_in(host) {
            let field = self.fields.get(name);
            ensure!(
                field.is_none_or(|field| field.allow.is_some()),
                "field {name} is part of the host, so the field needs an allow pattern"
            );
        }
        ensure!(
            !host.contains("{item:"),
            "an item must not choose the host of a request"
        );
        Ok(())
    }
}

/// The names of the fields in a text.
fn fields_in(text: &str) -> impl Iterator<Item = &str> {
    text.split("{field:").skip(1).filter_map(|after| {
        let (name, _) = after.split_once('}')?;
        Some(name.strip_suffix("|path").unwrap_or(name))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::webhook::preset::Preset;

    /// Parses a preset in whose `[[sync]]` table `to` replaces `from`.
    fn with(from: &str, to: &str) -> anyhow::Result<Preset> {
        const SYNC: &str = "kind = \"delivery-log\"\ndocs = \"https://acme.test\"\nchecked = \"2026-11\"\n\
            auth = { kind = \"bearer\" }\nid = [\"item:id\"]\ntime = { at = [\"item:at\"] }\n\
            request = { method = \"POST\", url = \"https://{field:site}.acme.test/{field:hook}\", body = '{\"q\":\"{since}\"}' }\n\
            page = { style = \"cursor\", to = \"body:after\", next = \"json:next\" }\n\
            fetch = { url = \"https://{field:site}.acme.test/{item:id}\" }\n\
            fields.site = { what = \"the site\", allow = '^[a-z]+$' }\n\
            fields.hook = { what = \"the hook\" }\n";
        assert!(SYNC.contains(from), "{from}");
        let text = format!(
            "schema = 1\nid = \"a\"\nname = \"A\"\ndocs = \"https://acme.test\"\n\
             checked = \"2026-11\"\n[[verify]]\nkind = \"hmac\"\nsig = {{ from = \"header:x\" }}\n\
             [event]\n[[sync]]\n{}",
            SYNC.replacen(from, to, 1)
        );
        Preset::parse(&text, &BTreeMap::new())
    }

    #[test]
    fn what_is_wrong_with_a_sync_is_said() {
        with("id", "id").unwrap();
        for (from, to, said) in [
            ("id = [\"item:id\"]\n", "", "to identify an event"),
            ("item:id", "json:id", "item:, const: or body:sha256"),
            (
                "time = { at = [\"item:at\"] }",
                "sorted = \"newest-first\"",
                "needs the time",
            ),
            ("{since}", "all", "an order"),
            ("json:next", "rel:next", "next-url"),
            ("json:next", "next", "use json:a.b"),
            ("body:after", "after", "use query:NAME"),
            (
                ", body = '{\"q\":\"{since}\"}'",
                "",
                "the request has no body",
            ),
            ("'{\"q\":\"{since}\"}'", "'[]'", "not a JSON object"),
            (", allow = '^[a-z]+$'", "", "part of the host"),
            (
                "https://{field:site}.acme.test/{item:id}",
                "https://{item:id}",
                "must not choose the host",
            ),
            (
                "{field:hook}",
                "{field:hok}",
                "does not declare {field:hok}",
            ),
            ("{field:hook}", "{item:id}", "only fetch and redeliver"),
            (
                "delivery-log",
                "event-log\"\ndelivered = \"item:s",
                "delivery-log",
            ),
            (
                "fields.hook",
                "mark = { at = \"m\", refused = [] }\nfields.hook",
                "a list with a mark",
            ),
            (
                "fields.hook",
                "body = \"header:x\"\nfields.hook",
                "item: or json:",
            ),
            ("fields.hook", "fiels.hook", "`fields`"),
            ("{ kind = \"bearer\" }", "{ kind = \"beerer\" }", "`bearer`"),
        ] {
            // A list without a start time does not need `sorted`, because a run reads the whole
            // list.
            let text = with(from, to);
            if said == "an order" {
                text.unwrap();
                continue;
            }
            let error = format!("{:#}", text.map(|_| ()).unwrap_err());
            assert!(error.contains(said), "{to}\n{error}");
        }
    }

    #[test]
    fn every_field_of_an_embedded_list_stands_somewhere() {
        let mut count = 0;
        for id in Preset::ids() {
            let preset = Preset::embedded(id, &BTreeMap::new()).unwrap();
            for sync in &preset.syncs {
                count += 1;
                assert!(sync.request.url.starts_with("https://"), "{id}");
                for name in sync.fields.keys() {
                    assert!(sync.uses(name), "{id}: {name}");
                }
            }
        }
        assert!(count >= 44, "{count}");
    }
}
