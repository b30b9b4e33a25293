//! Applies the conditions of `--where` and `--header`, which need the body rows of events.

use futures::{StreamExt as _, TryStreamExt as _};
use shared::base::json_path::scalar;
use shared::inbox::ledger::{BodyAt, Cost, Row, Stored};
use shared::webhook::context::RequestContext;

use super::{Field, Selection};
use crate::output::CliError;
use crate::output::count::thousands;
use crate::target::Deployment;

/// The maximum number of bodies that a command reads. A thorough selection has no limit.
const MOST_BODIES: usize = 10_000;

/// The number of bodies read in parallel.
const AT_ONCE: usize = 16;

impl Selection {
    /// Returns whether the command must read bodies.
    pub(super) fn needs_bodies(&self) -> bool {
        !self.fields.is_empty() || !self.headers.is_empty()
    }

    /// Returns the maximum number of bodies to read.
    pub(super) fn most_bodies(&self) -> usize {
        if self.thorough {
            usize::MAX - 1
        } else {
            MOST_BODIES
        }
    }

    /// Returns the message that the command prints before it reads bodies. Returns an error if
    /// there are too many bodies.
    pub(super) fn will_read(&self, count: usize) -> Result<String, CliError> {
        let most = self.most_bodies();
        let flag = if self.fields.is_empty() {
            "--header"
        } else {
            "--where"
        };
        if count > most {
            let message = format!("{flag} would read more than {} bodies", thousands(most));
            return Err(CliError::usage("inbox.too_many_bodies", message)
                .note("no bodies were read")
                .tip("narrow the selection with --source, --type, --status, --since or --until"));
        }
        let (s, since) = (if count == 1 { "y" } else { "ies" }, self.since_words());
        let text = format!("{flag} reads up to {} bod{s} {since}", thousands(count));
        Ok(text.trim_end().to_owned())
    }

    /// Returns the rows whose body has all required values.
    pub(super) async fn with_fields(
        &self,
        inbox: &Deployment,
        rows: Vec<Stored>,
        cost: &mut Cost,
    ) -> anyhow::Result<Vec<Stored>> {
        if !self.needs_bodies() {
            return Ok(rows);
        }
        let read = rows.into_iter().map(|stored| async move {
            let (has_headers, mut cost) = self.has_headers(inbox, &stored).await?;
            if self.fields.is_empty() || !has_headers {
                return anyhow::Ok((has_headers.then_some(stored), cost));
            }
            if matches!(stored.row.body_at, BodyAt::Bucket(_)) && !inbox.ledger.has_bucket() {
                return Err(no_bucket().into());
            }
            let (body, of_body) = inbox.ledger.body_of(&stored).await?;
            cost += of_body;
            let has = body.is_some_and(|body| self.fields.iter().all(|field| field.is_in(&body.0)));
            anyhow::Ok((has.then_some(stored), cost))
        });
        let read: Vec<_> = futures::stream::iter(read)
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let mut kept = Vec::new();
        for (stored, used) in read {
            *cost += used;
            kept.extend(stored);
        }
        Ok(kept)
    }
}

impl Selection {
    /// Returns whether the request has all required headers.
    async fn has_headers(
        &self,
        inbox: &Deployment,
        stored: &Stored,
    ) -> anyhow::Result<(bool, Cost)> {
        if self.headers.is_empty() {
            return Ok((true, Cost::default()));
        }
        let (request, cost) = inbox.ledger.request_of(stored).await?;
        let request = request.as_ref().map(|kept| &kept.context);
        let has = has_headers(&self.headers, request, &stored.row);
        Ok((has, cost))
    }
}

/// Returns whether the request of an event has all these headers. Without a stored request, the
/// headers of the row are compared.
pub(crate) fn has_headers(
    wanted: &[(String, String)],
    request: Option<&RequestContext>,
    row: &Row,
) -> bool {
    wanted.iter().all(|(name, value)| match request {
        Some(request) => request.headers.all(name).any(|one| one == value),
        None => row.headers.get(name) == Some(value),
    })
}

/// Returns the error for a body in the bucket, if the bucket name is unknown.
pub(crate) fn no_bucket() -> CliError {
    let message = "a body is in the bucket for large bodies, but the bucket name is unknown";
    CliError::usage("inbox.no_bucket", message)
        .tip("pass --body-bucket NAME, the output BodyBucket of the stack")
}

impl Field {
    /// Returns whether the body has this value at the path. If the path has several values, one
    /// equal value is sufficient.
    fn is_in(&self, body: &[u8]) -> bool {
        let found = self
            .path
            .all(body)
            .unwrap_or_default()
            .into_iter()
            .flatten();
        let mut texts = found.filter_map(|raw| scalar(raw).ok().flatten());
        texts.any(|text| text == self.value)
    }
}
