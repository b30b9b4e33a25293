//! Converts a stored event back to a request.

use bytes::Bytes;
use shared::inbox::ledger::{BodyAt, Ledger, MissingBody, Row};
use shared::webhook::context::RequestContext;
use shared::webhook::event::EventKey;
use shared::webhook::preset::{Location, Scheme};

use crate::samples::{Draft, Signed};

/// An event with its exact body and its request.
pub(crate) struct Stored {
    pub(crate) row: Row,
    pub(crate) body: Bytes,
    /// `None` if Mitt fetched the event, or if its source stores no requests.
    pub(crate) request: Option<RequestContext>,
}

/// The reason why an event cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The event does not exist.
    Event,
    Body(MissingBody),
    /// The body is in the bucket, and the bucket name is unknown.
    Bucket,
}

impl Missing {
    /// Returns the reason as text. If the operator can correct it, the text says how.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Event => "the event no longer exists",
            Self::Body(MissingBody::Gone) => "its body has expired or was erased",
            Self::Body(MissingBody::Damaged) => {
                "its body is damaged: the stored bytes differ from the received bytes"
            }
            Self::Bucket => "its body is in the bucket for large bodies; set --body-bucket",
        }
    }
}

impl Stored {
    /// Reads the event with its body and its request, without changes.
    pub(crate) async fn read(
        ledger: &Ledger,
        key: &EventKey,
    ) -> anyhow::Result<Result<Self, Missing>> {
        let Some(row) = ledger.event(key).await? else {
            return Ok(Err(Missing::Event));
        };
        if matches!(row.body_at, BodyAt::Bucket(_)) && !ledger.has_bucket() {
            return Ok(Err(Missing::Bucket));
        }
        let Some((row, content)) = ledger.event_content(key).await? else {
            return Ok(Err(Missing::Event));
        };
        let content = content.map_err(Missing::Body);
        Ok(content.map(|content| Self {
            row,
            body: content.body,
            request: content.request.map(|kept| kept.context),
        }))
    }

    /// Returns the URL with the query of the provider's request.
    pub(crate) fn url(&self, url: &str) -> String {
        let request = self.request.as_ref();
        let query = request.and_then(|request| request.query.as_deref());
        match query.filter(|query| !query.is_empty()) {
            Some(query) if url.contains('?') => format!("{url}&{query}"),
            Some(query) => format!("{url}?{query}"),
            None => url.to_owned(),
        }
    }

    /// Returns the stored request, with the signature of the provider.
    pub(crate) fn as_kept(&self, url: &str) -> Signed {
        Signed {
            url: self.url(url),
            headers: self.headers(),
            body: self.body.clone(),
        }
    }

    /// Returns the request without its signature, and the original signature.
    pub(crate) fn unsigned(&self, scheme: &Scheme) -> (Draft, Option<String>) {
        let (signatures, headers): (Vec<_>, Vec<_>) = self
            .headers()
            .into_iter()
            .partition(|(name, _)| holds_signature(scheme, name));
        let draft = Draft {
            preset: self.row.preset.clone(),
            kind: self.row.kind.clone(),
            id: self.row.key.id().to_owned(),
            headers,
            query: Vec::new(),
            body: self.body.clone(),
        };
        (draft, signatures.into_iter().next().map(|(_, value)| value))
    }

    /// Returns the stored headers, also those with a signature.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let of_request = self
            .request
            .iter()
            .flat_map(|request| request.headers.iter());
        let mut headers: Vec<(String, String)> = of_request
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let content_type = self.row.content_type.iter();
        let content_type = content_type.map(|value| ("content-type", value));
        let in_row = self.row.headers.iter();
        let in_row = in_row.map(|(name, value)| (name.as_str(), value));
        for (name, value) in in_row.chain(content_type) {
            if !headers.iter().any(|(known, _)| known == name) {
                headers.push((name.to_owned(), value.clone()));
            }
        }
        headers.push((
            "x-webhookctl-event".to_owned(),
            self.row.id().as_str().to_owned(),
        ));
        headers
    }
}

/// Returns whether the header of this name contains the provider's signature.
fn holds_signature(scheme: &Scheme, name: &str) -> bool {
    let token = scheme.jwt.iter().map(|jwt| &jwt.from);
    let mut places = std::iter::once(&scheme.sig.from)
        .chain(&scheme.sig.also)
        .chain(token);
    places.any(|place| match place {
        Location::Header(names) => names.iter().any(|known| known == name),
        Location::HeaderNumbered(prefix) => name.starts_with(prefix),
        _ => false,
    })
}
