//! Lambda's API for the configuration of functions and their event source mappings, from the
//! template.
//! <https://docs.aws.amazon.com/lambda/latest/api/API_GetFunctionConfiguration.html>
//! <https://docs.aws.amazon.com/lambda/latest/api/API_ListEventSourceMappings.html>
//! <https://docs.aws.amazon.com/lambda/latest/api/API_GetAccountSettings.html>

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::template::{Mapping, Template};

pub(crate) fn routes(template: &Template) -> Router {
    Router::new()
        .route("/2015-03-31/functions/{name}/configuration", get(function))
        .route("/2015-03-31/event-source-mappings", get(mappings))
        .route("/2016-08-19/account-settings", get(account))
        .with_state(Arc::new(template.clone()))
}

/// Returns the limits of an account that is not new.
async fn account() -> Json<Value> {
    let executions = 1000;
    Json(json!({ "AccountLimit": {
        "ConcurrentExecutions": executions,
        "UnreservedConcurrentExecutions": executions,
    } }))
}

async fn function(State(template): State<Arc<Template>>, Path(name): Path<String>) -> Response {
    let found = template.functions.values().find(|it| it.name == name);
    let Some(function) = found else {
        let body = json!({"Type": "User", "Message": format!("Function not found: {name}")});
        let kind = [("x-amzn-errortype", "ResourceNotFoundException")];
        return (StatusCode::NOT_FOUND, kind, Json(body)).into_response();
    };
    let configuration = json!({
        "FunctionName": function.name,
        "FunctionArn": function.arn,
        "Timeout": function.timeout.as_secs(),
        "MemorySize": function.memory_mb,
        "State": "Active",
        "LastUpdateStatus": "Successful",
        "Environment": {"Variables": function.environment},
    });
    Json(configuration).into_response()
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Asked {
    function_name: Option<String>,
}

async fn mappings(
    State(template): State<Arc<Template>>,
    Query(asked): Query<Asked>,
) -> Json<Value> {
    let of = |mapping: &&Mapping| {
        let function = template.functions.get(&mapping.function);
        let name = function.map(|function| &function.name);
        asked.function_name.is_none() || name == asked.function_name.as_ref()
    };
    let shown = template
        .mappings
        .iter()
        .enumerate()
        .filter(|(_, it)| of(it));
    let shown: Vec<Value> = shown.map(|(at, it)| mapping(&template, at, it)).collect();
    Json(json!({ "EventSourceMappings": shown }))
}

fn mapping(template: &Template, at: usize, mapping: &Mapping) -> Value {
    let queue = template.queues.get(&mapping.queue);
    let function = template.functions.get(&mapping.function);
    let types: &[&str] = if mapping.reports_item_failures {
        &["ReportBatchItemFailures"]
    } else {
        &[]
    };
    json!({
        "UUID": format!("00000000-0000-4000-8000-{at:012}"),
        "EventSourceArn": queue.map(|queue| &queue.arn),
        "FunctionArn": function.map(|function| &function.arn),
        "BatchSize": mapping.batch_size,
        "MaximumBatchingWindowInSeconds": mapping.window.as_secs(),
        "State": "Enabled",
        "FunctionResponseTypes": types,
        "ScalingConfig": { "MaximumConcurrency": mapping.max_concurrency },
    })
}
