//! Lambda's `Invoke` API for the functions of the stack, with the features that operators use.
//! <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::lambda::{Functions, Outcome};
use super::lambda_config_api;
use super::{runtime, template::Template};

/// The API's server and its URL.
pub(crate) struct InvokeApi {
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl InvokeApi {
    pub(crate) fn serve(
        engine: &Handle,
        template: &Template,
        functions: Functions,
    ) -> anyhow::Result<Self> {
        let (listener, port) = runtime::listen(0)?;
        let names = template.functions.iter();
        let names = names.map(|(id, function)| (function.name.clone(), id.clone()));
        let known: Known = (Arc::new(names.collect()), functions);
        let router = Router::new()
            .route("/2015-03-31/functions/{name}/invocations", post(invoke))
            .with_state(known)
            .merge(lambda_config_api::routes(template));
        Ok(Self {
            url: format!("http://127.0.0.1:{port}"),
            task: runtime::serve(engine, listener, router)?,
        })
    }

    /// Stops accepting connections.
    pub(crate) fn close(&self) {
        self.task.abort();
    }
}

/// The logical ids by physical name, and the functions.
type Known = (Arc<BTreeMap<String, String>>, Functions);

async fn invoke(
    State((names, functions)): State<Known>,
    Path(name): Path<String>,
    payload: Bytes,
) -> Response {
    let Some(id) = names.get(&name) else {
        let body = json!({"Type": "User", "Message": format!("Function not found: {name}")});
        let kind = [("x-amzn-errortype", "ResourceNotFoundException")];
        return (StatusCode::NOT_FOUND, kind, body.to_string()).into_response();
    };
    match functions.invoke(id, payload).await {
        Ok(invocation) => match invocation.outcome {
            Outcome::Answered(answer) => answer.into_response(),
            Outcome::Failed(error) => {
                let body = json!({"errorType": error.kind, "errorMessage": error.message});
                ([("x-amz-function-error", "Unhandled")], body.to_string()).into_response()
            }
        },
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "cannot invoke {name}");
            let kind = [("x-amzn-errortype", "ServiceException")];
            (StatusCode::INTERNAL_SERVER_ERROR, kind, "{}").into_response()
        }
    }
}
