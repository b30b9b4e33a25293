//! Reads the triggers of functions: routes of the HTTP API, queues and schedules.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use super::document::{Document, scalar_text};
use super::{Template, number, string};
use crate::schedule::Rate;

/// A route of the HTTP API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The route key, such as `POST /in/{source}` or `$default`.
    pub key: String,
    /// The function's logical id.
    pub function: String,
    /// The time that the gateway waits for the function.
    pub timeout: Duration,
    /// Whether callers sign their requests with AWS credentials.
    pub signed: bool,
}

/// A queue, and the function that gets its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub queue: String,
    pub function: String,
    pub batch_size: usize,
    pub window: Duration,
    pub max_concurrency: Option<usize>,
    pub reports_item_failures: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    pub id: String,
    pub function: String,
    pub rate: Rate,
    pub input: Value,
}

impl Template {
    pub(super) fn read_route(&self, document: &Document, id: &str) -> anyhow::Result<Route> {
        let key = string(document, id, "RouteKey")?;
        let well_formed = key == "$default"
            || key
                .split_once(' ')
                .is_some_and(|(_, path)| path.starts_with('/'));
        if !well_formed {
            bail!("resource {id}: invalid route key {key:?}; use one like \"POST /in/{{source}}\"");
        }
        let target = string(document, id, "Target")?;
        let integration = target
            .strip_prefix("integrations/")
            .with_context(|| format!("resource {id}: target {target:?} is not an integration"))?;
        let version = string(document, integration, "PayloadFormatVersion")?;
        if version != "2.0" {
            bail!("resource {integration}: unsupported payload format {version:?} (expected 2.0)");
        }
        let uri = string(document, integration, "IntegrationUri")?;
        let function = self
            .function_in(&uri)
            .with_context(|| format!("resource {integration}: {uri:?} contains no function"))?;
        let timeout = number(document, integration, "TimeoutInMillis")?;
        let timeout = timeout.map_or(GATEWAY_TIMEOUT, Duration::from_millis);
        let authorization = document.property(id, "AuthorizationType")?;
        let signed = match authorization.as_ref().and_then(Value::as_str) {
            None | Some("NONE") => false,
            Some("AWS_IAM") => true,
            Some(other) => {
                bail!("resource {id}: the local stack does not support the authorization {other:?}")
            }
        };
        Ok(Route {
            key,
            function,
            timeout,
            signed,
        })
    }

    pub(super) fn read_mapping(&self, document: &Document, id: &str) -> anyhow::Result<Mapping> {
        let source = string(document, id, "EventSourceArn")?;
        let queue = self.queues.iter().find(|(_, queue)| queue.arn == source);
        let (queue, _) =
            queue.with_context(|| format!("resource {id}: no queue has the ARN {source}"))?;
        let target = string(document, id, "FunctionName")?;
        let function = self
            .function_in(&target)
            .with_context(|| format!("resource {id}: no function has the name {target}"))?;
        let types = document
            .property(id, "FunctionResponseTypes")?
            .unwrap_or_default();
        let scaling = document.property(id, "ScalingConfig")?.unwrap_or_default();
        let window = number(document, id, "MaximumBatchingWindowInSeconds")?.unwrap_or(0);
        Ok(Mapping {
            queue: queue.clone(),
            function,
            batch_size: usize::try_from(number(document, id, "BatchSize")?.unwrap_or(10))?,
            window: Duration::from_secs(window),
            max_concurrency: match scaling.get("MaximumConcurrency").and_then(scalar_text) {
                None => None,
                Some(text) => Some(text.parse().with_context(|| {
                    format!("resource {id}: MaximumConcurrency {text:?} is not a number")
                })?),
            },
            reports_item_failures: types
                .as_array()
                .is_some_and(|types| types.contains(&"ReportBatchItemFailures".into())),
        })
    }

    /// Returns a schedule of a function, or `None` if the schedule is disabled.
    pub(super) fn read_schedule(
        &self,
        document: &Document,
        id: &str,
    ) -> anyhow::Result<Option<Schedule>> {
        if document
            .property(id, "State")?
            .is_some_and(|state| state == "DISABLED")
        {
            return Ok(None);
        }
        let expression = string(document, id, "ScheduleExpression")?;
        let rate = expression
            .parse()
            .with_context(|| format!("resource {id}"))?;
        let target = document.required(id, "Target")?;
        let arn = target["Arn"].as_str().unwrap_or_default();
        let function = self
            .function_in(arn)
            .with_context(|| format!("resource {id}: no function has the ARN {arn:?}"))?;
        let input = match target["Input"].as_str() {
            None => Value::Null,
            Some(text) => serde_json::from_str(text)
                .with_context(|| format!("resource {id}: the input is not JSON"))?,
        };
        Ok(Some(Schedule {
            id: id.to_owned(),
            function,
            rate,
            input,
        }))
    }

    /// Returns the function whose ARN is in `text`.
    fn function_in(&self, text: &str) -> Option<String> {
        // The longest ARN is checked first, because one name can be a prefix of another.
        let mut functions: Vec<_> = self.functions.iter().collect();
        functions.sort_by_key(|(_, function)| std::cmp::Reverse(function.arn.len()));
        let found = functions
            .into_iter()
            .find(|(_, function)| text.contains(&function.arn) || text == function.name);
        found.map(|(id, _)| id.clone())
    }
}

/// The default timeout of an API Gateway integration.
const GATEWAY_TIMEOUT: Duration = Duration::from_secs(30);
