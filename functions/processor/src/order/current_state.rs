//! Fetches the current state of an entity, which replaces the body of the event.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use shared::aws::outbound::SendError;
use shared::inbox::ledger::{Lease, VersionCheck};
use shared::inbox::outcome::Outcome;
use shared::sources::ordering::{Current, Entity, Order};

use super::{ActionInput, SKIPPED_STALE, Turn, UNORDERED, of_entity};
use crate::Processor;

/// The timeout of the request for the current state. The actions can use the rest of the effect
/// timeout.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

impl Processor {
    /// Returns the input of the actions, with the current state of the entity in place of the body
    /// of the event.
    pub(super) async fn current(
        &self,
        order: &Order,
        current: &Current,
        entity: &Entity,
        lease: &Lease,
        body: &Bytes,
        turn: &mut Turn,
    ) -> anyhow::Result<Result<ActionInput, Outcome>> {
        let state = match self.fetch(current, entity).await? {
            Ok(Some(state)) => state,
            Ok(None) => {
                let gone = of_entity(entity, None, Some("gone"));
                return Ok(Ok(ActionInput::event(body, Some(gone))));
            }
            Err(outcome) => return Ok(Err(outcome)),
        };
        let version = order.version_of(&state);
        if let Some(version) = &version {
            // Another worker has processed a newer state in the meantime.
            if self.raise(entity, version, lease).await? == VersionCheck::Stale {
                turn.remark = Some(SKIPPED_STALE);
                return Ok(Err(Outcome::Done));
            }
        } else {
            turn.remark = Some(UNORDERED);
        }
        let mut row = lease.row.clone();
        row.content_type = Some("application/json".to_owned());
        Ok(Ok(ActionInput {
            body: state,
            row: Some(row),
            entity: Some(of_entity(entity, version.as_ref(), Some("current"))),
            state: version.map(|version| version.written),
        }))
    }

    /// Fetches the current state. Returns `None` if the provider answered 404 or 410.
    async fn fetch(
        &self,
        current: &Current,
        entity: &Entity,
    ) -> anyhow::Result<Result<Option<Bytes>, Outcome>> {
        let now = (self.clock)();
        let bearer = match &current.secret {
            Some(name) => {
                let live = self.services.secrets.live(name, now).await?;
                let token = live.first();
                let token = token.with_context(|| format!("secret {name:?} not found"))?;
                Some(format!("Bearer {}", token.expose()))
            }
            None => None,
        };
        let mut headers = vec![("accept", "application/json")];
        headers.extend(bearer.as_deref().map(|token| ("authorization", token)));
        let url = current.url(entity);
        let get = self.outbound.get(&url, &[], &headers, now);
        let answer = match tokio::time::timeout(FETCH_TIMEOUT, get).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(SendError::NotSent(error) | SendError::OutcomeUnknown(error))) => {
                return Ok(Err(Outcome::retry(format!(
                    "could not fetch the current state: {error}"
                ))));
            }
            Err(_) => {
                return Ok(Err(Outcome::retry(
                    "could not fetch the current state: the request timed out",
                )));
            }
        };
        Ok(match (answer.status, answer.body) {
            (200..=299, Some(body)) => Ok(Some(body)),
            (404 | 410, _) => Ok(None),
            (status, _) => Err(Outcome::Retry {
                error: format!("could not fetch the current state: the provider answered {status}"),
                after: answer.retry_after,
            }),
        })
    }
}
