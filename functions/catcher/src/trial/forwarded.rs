//! Makes the request to the route of a trial from the request of the provider.

use anyhow::{Context as _, anyhow, bail};
use shared::aws::{RouteRequest, is_of_connection};
use shared::base::clock::UnixMillis;
use shared::delivery::effects::idempotency_key;
use shared::sources::url_template::{UrlValues, fill, with_query};
use shared::sources::{Signing, Source, Trial};
use shared::webhook::envelope::Envelope;
use shared::webhook::event::Event;
use shared::webhook::sign::{Original, Receiver, SigningKey, outgoing};

use crate::Catcher;
use crate::http::{BadBase64, Request};
use crate::trial::Verified;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A request of the provider.
pub(super) struct Forwarded {
    /// The request as received.
    received: Envelope,
    /// The same request at the public URL of the source.
    pub(super) verified: Envelope,
    /// The rest of the path after the address of the source.
    tail: Option<String>,
    cookies: String,
}

impl Forwarded {
    pub(super) fn new(
        source: &Source,
        request: Request,
        now: UnixMillis,
    ) -> Result<Self, BadBase64> {
        let tail = request.tail().map(str::to_owned);
        let cookies = request.cookies.join("; ");
        let received = request.into_envelope(now)?;
        Ok(Self {
            verified: source.verifier.at_public_url(received.clone()),
            received,
            tail,
            cookies,
        })
    }

    /// Returns the headers that the route gets: those of the request and the host that the provider
    /// called. The headers of the connection are not forwarded, and neither are the names that Mitt
    /// or a proxy sets, because the sender chooses the values.
    fn headers(&self) -> Vec<(String, String)> {
        let known = |name: &str| self.received.headers.all(name).next().is_some();
        let mut headers: Vec<_> = self
            .received
            .headers
            .iter()
            .filter(|(name, _)| !is_of_connection(name) && !is_set_by_mitt(name))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        // An HTTP API passes cookies separately from the other headers.
        if !self.cookies.is_empty() && !known("cookie") {
            headers.push(("cookie".to_owned(), self.cookies.clone()));
        }
        if let Some(host) = self.received.headers.all("host").next() {
            headers.push(("x-forwarded-host".to_owned(), host.to_owned()));
        }
        headers
    }

    /// Returns the URL of the route, with the query of the provider's request.
    fn url(&self, url: &str) -> anyhow::Result<String> {
        let values = UrlValues {
            path: self.tail.as_deref(),
            ..UrlValues::default()
        };
        let url = fill(url, &values).map_err(|bad| anyhow!("{bad}"))?;
        Ok(self.with_query(&url))
    }

    fn with_query(&self, url: &str) -> String {
        let query = self.received.url.split_once('?').map(|(_, query)| query);
        with_query(url, query)
    }
}

fn is_set_by_mitt(name: &str) -> bool {
    name.starts_with("mitt-") || matches!(name, "forwarded" | "x-forwarded-host")
}

impl Catcher {
    /// Returns the request to the route. Fails if the route needs a new signature and the request
    /// cannot be signed.
    pub(super) async fn route_request(
        &self,
        source: &Source,
        trial: &Trial,
        forwarded: &Forwarded,
        verified: &Verified,
    ) -> anyhow::Result<RouteRequest> {
        let url = forwarded.url(&trial.url)?;
        let mut request = RouteRequest {
            method: forwarded.received.method.clone(),
            url,
            headers: forwarded.headers(),
            body: forwarded.received.body.clone(),
        };
        let Some(event) = verified.genuine() else {
            if let (Some(why), Some(_)) = (verified.undecided(), &trial.signing) {
                bail!("the request could not be verified: {why}");
            }
            // A request that is not verified must not get a valid signature.
            return Ok(request);
        };
        if let Some(signing) = &trial.signing {
            request = self
                .signed(source, signing, request, forwarded, event)
                .await?;
        }
        // Mitt sends the same key for the event after the trial. The events of a batch have a key
        // each.
        if !event.is_batch() {
            let key = idempotency_key(event.key(), &trial.action, 0);
            request.headers.retain(|(name, _)| name != IDEMPOTENCY_KEY);
            request.headers.push((IDEMPOTENCY_KEY.to_owned(), key));
        }
        Ok(request)
    }

    /// Signs the request for the URL of the route.
    async fn signed(
        &self,
        source: &Source,
        signing: &Signing,
        request: RouteRequest,
        forwarded: &Forwarded,
        event: &Event,
    ) -> anyhow::Result<RouteRequest> {
        let scheme = signing.scheme(&source.verifier);
        let scheme = scheme.context("the preset has no such variant")?;
        let egress =
            self.services.egress.as_ref().context(
                "the catcher may not read the secret of the route; deploy with Trial=true",
            )?;
        let name = signing.secret().context("the action has no secret")?;
        let now = (self.clock)();
        let live = egress.live(name, now).await?;
        let secret = live.first();
        let secret = secret.with_context(|| format!("secret {name:?} not found"))?;
        let key = SigningKey::parse(scheme, secret)?;
        let original = Original {
            id: event.key().id(),
            kind: event.kind(),
            headers: request.headers.into_iter().collect(),
            body: request.body,
        };
        let signed_url = match signing {
            Signing::Provider { signed_url, .. } => signed_url.as_deref(),
            Signing::Standard { .. } | Signing::AsReceived { .. } | Signing::Unsigned => None,
        };
        let signed_url = signed_url.map(|url| forwarded.with_query(url));
        let receiver = Receiver {
            url: &request.url,
            signed_url: signed_url.as_deref(),
        };
        let preset = &source.verifier.preset;
        let signed = outgoing(preset, scheme, &original, &key, receiver, now)?;
        let headers = signed.headers.iter();
        Ok(RouteRequest {
            method: request.method,
            url: signed.url,
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            body: signed.body,
        })
    }
}
