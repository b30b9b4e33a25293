//! Makes the request of an event for an HTTP destination: the URL, the headers and the body for each
//! value of `sign`.
//!
//! The sender chooses the stored headers. Mitt removes its own names from them, so that a sender
//! cannot claim what is proven of an event.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use shared::aws::outbound::as_sent;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Row;
use shared::inbox::outcome::Outcome;
use shared::sources::Signing;
use shared::sources::url_template::{BadPath, UrlValues, fill, with_query};
use shared::webhook::context::RequestContext;
use shared::webhook::envelope::{Envelope, Headers};
use shared::webhook::event::{LONGEST_STORED_HEADER, Via};
use shared::webhook::preset::{Location, Preset, Scheme};
use shared::webhook::sign::{
    Original, Receiver, SignedRequest, SigningKey, outgoing, sign, unsignable,
};
use shared::webhook::verify::Verifier;

use crate::order::EntityHeaders;

/// The reasons of dead letters.
const STALE_SIGNATURE: &str = "stale_signature";
const BAD_PATH: &str = "bad_path";

/// The headers of the connection, and the headers with credentials. Mitt never forwards them.
const NEVER: [&str; 14] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "traceparent",
    "transfer-encoding",
    "upgrade",
];

/// The scheme of Standard Webhooks. It is read once for all events.
static STANDARD: LazyLock<anyhow::Result<Scheme>> = LazyLock::new(|| {
    let preset = Preset::embedded("standard-webhooks", &BTreeMap::new())?;
    preset
        .scheme("default")
        .cloned()
        .context("the preset standard-webhooks has no variant default")
});

/// The ids of a call.
#[derive(Clone, Copy)]
pub(super) struct CallIds<'c> {
    /// The idempotency key.
    pub(super) key: &'c str,
    /// The parent of what the destination does. A header that a sender chose never replaces it.
    pub(super) traceparent: &'c str,
}

/// An event and the stored parts of its request.
pub(super) struct EventRequest<'w> {
    pub(super) row: &'w Row,
    pub(super) body: &'w Bytes,
    pub(super) request: Option<&'w RequestContext>,
    pub(super) entity: Option<&'w EntityHeaders>,
    pub(super) verifier: &'w Verifier,
}

impl EventRequest<'_> {
    /// Returns the outcome of an event that Mitt does not send, because its values make no valid URL,
    /// or because its signature is not stored or too old. Returns `None` for other events.
    pub(super) fn unsendable(
        &self,
        url: &str,
        signing: &Signing,
        now: UnixMillis,
    ) -> Option<Outcome> {
        let unsendable = |reason, error| Some(Outcome::Unsendable { reason, error });
        if let Err(bad) = self.url(url) {
            return unsendable(BAD_PATH, bad.to_string());
        }
        if !matches!(signing, Signing::AsReceived { .. }) {
            return None;
        }
        if let Some(why) = self.lacks_signature(signing) {
            let scheme = signing.scheme(self.verifier);
            let can_sign = scheme.is_some_and(|scheme| unsignable(scheme).is_none());
            let mode = if can_sign { "provider" } else { "standard" };
            let error = format!("{why}; sign = {mode:?} signs such events");
            return unsendable(STALE_SIGNATURE, error);
        }
        if signing.is_stale(self.verifier, self.row.received_at, now) {
            let error = "the provider's signature is too old for the receiver; sign = \"provider\" \
                         signs each attempt anew";
            return unsendable(STALE_SIGNATURE, error.to_owned());
        }
        None
    }

    /// Makes the request. The caller has checked the event with [`unsendable`](Self::unsendable).
    pub(super) fn request(
        &self,
        url: &str,
        signing: &Signing,
        secret: Option<&Secret>,
        ids: CallIds<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<SignedRequest> {
        let url = self.url(url).map_err(|bad| anyhow!("{bad}"))?;
        let preset = &self.verifier.preset;
        let mut request = match signing {
            Signing::Standard { .. } => self.standard(url, secret, ids.key, now)?,
            Signing::Provider { signed_url, .. } => {
                self.as_provider(&url, signing, signed_url.as_deref(), secret, now)?
            }
            Signing::AsReceived { .. } => SignedRequest {
                url: self.with_query(&url),
                headers: self.kept().collect(),
                body: self.body.clone(),
            },
            Signing::Unsigned => SignedRequest {
                url,
                headers: self.kept_unsigned().collect(),
                body: self.body.clone(),
            },
        };
        // A receiver of the provider's requests reads the headers of the provider's scheme.
        let scheme = match signing {
            Signing::Provider { .. } | Signing::AsReceived { .. } => signing.scheme(self.verifier),
            Signing::Standard { .. } | Signing::Unsigned => None,
        };
        let theirs = |name: &str| scheme.is_some_and(|scheme| preset.uses_header(scheme, name));
        let made = matches!(signing, Signing::Standard { .. });
        let headers = request.headers.iter().filter(|(name, _)| {
            let is_ours = *name == "idempotency-key" || name.starts_with("mitt-");
            let is_standard = name.starts_with("webhook-");
            theirs(name) || !(is_ours || is_standard && !made)
        });
        let mut all: Vec<(String, String)> = headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        for (name, value) in self.ours(signing, ids) {
            if !all.iter().any(|(known, _)| known == name) && is_sendable(name, &value) {
                all.push((name.to_owned(), value));
            }
        }
        request.headers = all.into_iter().collect();
        Ok(request)
    }

    fn standard(
        &self,
        url: String,
        secret: Option<&Secret>,
        key: &str,
        now: UnixMillis,
    ) -> anyhow::Result<SignedRequest> {
        let secret = secret.context("the action has no secret")?;
        let scheme = STANDARD.as_ref().map_err(|error| anyhow!("{error:#}"))?;
        let envelope = Envelope {
            method: "POST".to_owned(),
            url,
            headers: [("webhook-id", key)].into_iter().collect(),
            body: self.body.clone(),
            received_at: now,
        };
        let signature = sign(scheme, secret, &envelope, now)?;
        let kept = self
            .kept_unsigned()
            .filter(|(name, _)| !name.starts_with("webhook-"));
        let kept = kept.chain([("webhook-id", key)]);
        let made = signature.iter();
        let made = made.map(|(name, value)| (name.as_str(), value.as_str()));
        Ok(SignedRequest {
            url: envelope.url,
            headers: kept.chain(made).collect(),
            body: envelope.body,
        })
    }

    fn as_provider(
        &self,
        url: &str,
        signing: &Signing,
        signed_url: Option<&str>,
        secret: Option<&Secret>,
        now: UnixMillis,
    ) -> anyhow::Result<SignedRequest> {
        let scheme = signing.scheme(self.verifier);
        let scheme = scheme.context("the preset has no such variant")?;
        let key = match secret {
            Some(secret) => SigningKey::parse(scheme, secret)?,
            None => SigningKey::Nothing,
        };
        let original = Original {
            id: self.row.key.id(),
            kind: &self.row.kind,
            headers: self.kept().collect(),
            body: self.body.clone(),
        };
        let url = as_sent(&self.with_query(url));
        let signed_url = signed_url.map(|signed_url| as_sent(&self.with_query(signed_url)));
        let receiver = Receiver {
            url: &url,
            signed_url: signed_url.as_deref(),
        };
        outgoing(
            &self.verifier.preset,
            scheme,
            &original,
            &key,
            receiver,
            now,
        )
    }

    /// Returns the URL of the request, as [`request`](Self::request) makes it.
    pub(super) fn target(&self, template: &str, signing: &Signing) -> Result<String, BadPath> {
        let url = self.url(template)?;
        Ok(match signing {
            Signing::Provider { .. } => as_sent(&self.with_query(&url)),
            Signing::AsReceived { .. } => self.with_query(&url),
            Signing::Standard { .. } | Signing::Unsigned => url,
        })
    }

    /// Returns the headers that Mitt sets.
    fn ours(&self, signing: &Signing, ids: CallIds<'_>) -> Vec<(&str, String)> {
        let row = self.row;
        let id = row.id();
        let mut ours = vec![
            ("idempotency-key", ids.key.to_owned()),
            ("traceparent", ids.traceparent.to_owned()),
            ("mitt-run-id", row.run_id(&id)),
            ("mitt-event-id", id.to_string()),
            ("mitt-source", row.key.source().to_owned()),
            ("mitt-attempt", row.attempts.to_string()),
            ("mitt-proven", row.proven.as_str().to_owned()),
            // A type that is not a valid header value is not sent. The receiver can read it from
            // the body.
            ("mitt-event-type", row.kind.clone()),
        ];
        if let Some(content_type) = &row.content_type {
            ours.push(("content-type", content_type.clone()));
        }
        if let Some(account) = &row.account {
            let is_signed = if account.is_signed { "yes" } else { "no" };
            ours.push(("mitt-account", account.value.clone()));
            ours.push(("mitt-account-signed", is_signed.to_owned()));
        }
        let query = self.request.and_then(|request| request.query.clone());
        ours.extend(query.map(|query| ("mitt-query", query)));
        ours.extend(self.tail().map(|path| ("mitt-path", path.to_owned())));
        ours.extend(self.delivery(signing).map(|id| ("mitt-delivery", id)));
        let entity = self.entity.iter().flat_map(|entity| entity.headers());
        ours.extend(entity.map(|(name, value)| (name, value.to_owned())));
        ours
    }

    /// Returns the provider's id of the delivery. With `sign = "standard"`, the idempotency key
    /// replaces a `webhook-id` of the provider.
    fn delivery(&self, signing: &Signing) -> Option<String> {
        let replaced = || match signing {
            Signing::Standard { .. } => self.kept().find(|(name, _)| *name == "webhook-id"),
            _ => None,
        };
        let delivery = self.row.delivery.clone();
        delivery.or_else(|| replaced().map(|(_, value)| value.to_owned()))
    }

    /// Returns the stored headers that Mitt may forward.
    fn kept(&self) -> impl Iterator<Item = (&str, &str)> {
        let request = self.request.map(|request| &request.headers);
        let in_request =
            move |name: &str| request.is_some_and(|headers| headers.all(name).next().is_some());
        let in_row = self.row.headers.iter();
        let in_row = in_row.map(|(name, value)| (name.as_str(), value.as_str()));
        let content_type = self.row.content_type.as_deref();
        let content_type = content_type.map(|value| ("content-type", value));
        let in_row = in_row
            .filter(|(name, _)| *name != "content-type")
            .chain(content_type)
            .filter(move |(name, _)| !in_request(name));
        let of_request = request.into_iter().flat_map(Headers::iter);
        in_row.chain(of_request).filter(|(name, value)| {
            !NEVER.contains(name) && !name.starts_with("mitt-") && is_sendable(name, value)
        })
    }

    /// Returns the same headers without the provider's signature, the values that belong to it, and
    /// the provider's user agent.
    fn kept_unsigned(&self) -> impl Iterator<Item = (&str, &str)> {
        let preset = &self.verifier.preset;
        self.kept().filter(|(name, _)| {
            *name != "user-agent"
                && !preset.is_signature_header(name)
                && !preset.is_signature_time(name)
        })
    }

    /// Returns the reason why the provider's signature is not stored. Returns `None` if it is stored.
    fn lacks_signature(&self, signing: &Signing) -> Option<&'static str> {
        if !matches!(self.row.via, Via::Webhook | Via::Spill) {
            return Some("Mitt fetched the event, so there is no signature of the provider");
        }
        let scheme = signing.scheme(self.verifier)?;
        let is_whole = |name: &str| {
            let stored = self.row.headers.get(name);
            let cut = stored.is_some_and(|value| value.len() >= LONGEST_STORED_HEADER);
            let request = self.request.map(|request| &request.headers);
            let again = request.and_then(|headers| headers.all(name).next());
            again.is_some() || stored.is_some() && !cut
        };
        let mut places = scheme.proof();
        let is_kept = places.any(|at| match at {
            Location::Header(names) => names.iter().any(|name| is_whole(name)),
            Location::HeaderNumbered(prefix) => is_whole(&format!("{prefix}1")),
            Location::Query(_) => self.request.is_some_and(|request| request.query.is_some()),
            _ => true,
        });
        (!is_kept).then_some("the provider's signature was not stored")
    }

    /// Returns the URL with the values of the event.
    fn url(&self, template: &str) -> Result<String, BadPath> {
        let account = self.row.account.as_ref();
        fill(
            template,
            &UrlValues {
                account: account.map(|account| account.value.as_str()),
                path: self.tail(),
                kind: Some(&self.row.kind),
            },
        )
    }

    /// Returns the rest of the request's path after the address of the source.
    fn tail(&self) -> Option<&str> {
        let path = self.request?.path.as_str();
        let public = self.verifier.trust.public_url.as_deref().map(path_of);
        let own = format!("/in/{}", self.verifier.source);
        let tail = [public.unwrap_or_default(), own.as_str()]
            .into_iter()
            .filter(|base| !base.is_empty())
            .find_map(|base| path.strip_prefix(base.trim_end_matches('/')))?;
        (tail.starts_with('/') && tail.len() > 1).then_some(tail)
    }

    /// Returns the URL with the query of the provider's request.
    fn with_query(&self, url: &str) -> String {
        let query = self.request.and_then(|request| request.query.as_deref());
        with_query(url, query)
    }
}

/// Returns the path of a URL that has no query.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("", |at| &rest[at..])
}

/// Returns whether a header is valid in a request. A stored header can have other characters. Stored
/// names are in lower case.
/// <https://www.rfc-editor.org/rfc/rfc9110#section-5>
fn is_sendable(name: &str, value: &str) -> bool {
    let of_name =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&b);
    let of_value = |b: u8| (b' '..=b'~').contains(&b) || b == b'\t';
    !name.is_empty()
        && !value.is_empty()
        && name.bytes().all(of_name)
        && value.bytes().all(of_value)
}

#[cfg(test)]
mod tests;
