//! A server in front of an emulated service that forwards the calls that the caller's role permits.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use tokio::runtime::Handle;

use super::{Guard, Service, call::Call, call::calls};
use crate::clients::plain_http;
use crate::runtime::{listen, serve as serve_router};

struct Gate {
    guard: Arc<Guard>,
    service: Service,
    upstream: String,
    client: reqwest::Client,
}

/// Serves the gate in front of the service at `upstream`, and returns its URL.
pub(super) fn serve(
    engine: &Handle,
    guard: Arc<Guard>,
    service: Service,
    upstream: &str,
) -> anyhow::Result<String> {
    let (listener, port) = listen(0)?;
    let gate = Gate {
        guard,
        service,
        upstream: upstream.to_owned(),
        client: plain_http(LONGEST)?,
    };
    let router = Router::new()
        .fallback(answer)
        .layer(DefaultBodyLimit::disable())
        .with_state(Arc::new(gate));
    serve_router(engine, listener, router)?;
    Ok(format!("http://127.0.0.1:{port}"))
}

/// The timeout of a call. A long poll takes up to 20 s.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(60);

async fn answer(
    State(gate): State<Arc<Gate>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let role = role(&headers).unwrap_or_default();
    let calls = calls(gate.service, &method, &uri, &headers, &body);
    for call in &calls {
        if !gate.guard.permits(role, call) {
            return refused(gate.service, role, call);
        }
    }
    let answer = match gate.pass_on(method, &uri, headers.clone(), body).await {
        Ok(answer) => answer,
        Err(error) => {
            let error = anyhow::Error::new(error);
            tracing::error!(
                error = format!("{error:#}"),
                "a local service did not respond"
            );
            return StatusCode::BAD_GATEWAY.into_response();
        }
    };
    // S3 returns 404 for a missing object only if the caller may list the bucket.
    if let (Service::S3, StatusCode::NOT_FOUND, [call]) =
        (gate.service, answer.status(), calls.as_slice())
        && call.action == "s3:GetObject"
    {
        let bucket = call.on.split('/').next().unwrap_or_default();
        if !gate
            .guard
            .permits(role, &Call::new("s3:ListBucket", bucket.to_owned()))
        {
            return refused(gate.service, role, call);
        }
    }
    answer
}

impl Gate {
    async fn pass_on(
        &self,
        method: Method,
        uri: &Uri,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> reqwest::Result<Response> {
        // Headers that belong to this connection only.
        for name in [
            header::HOST,
            header::CONNECTION,
            header::CONTENT_LENGTH,
            header::TRANSFER_ENCODING,
            header::EXPECT,
        ] {
            headers.remove(name);
        }
        let at = uri.path_and_query().map_or("/", |at| at.as_str());
        let request = self
            .client
            .request(method, format!("{}{at}", self.upstream));
        let answer = request.headers(headers).body(body).send().await?;
        let (status, mut headers) = (answer.status(), answer.headers().clone());
        for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
            headers.remove(name);
        }
        let body = answer.bytes().await?;
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// Returns the access key of the signature, which is the name of a role.
fn role(headers: &HeaderMap) -> Option<&str> {
    let signature = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (_, credential) = signature.split_once("Credential=")?;
    credential.split('/').next()
}

/// Returns the access error in the format of each service.
fn refused(service: Service, role: &str, call: &Call) -> Response {
    let message = format!(
        "User: {role} is not authorized to perform: {} on resource: {} because no identity-based policy \
         allows the {} action",
        call.action, call.on, call.action
    );
    if service == Service::S3 {
        let body = format!("<Error><Code>AccessDenied</Code><Message>{message}</Message></Error>");
        let kind = [(header::CONTENT_TYPE, "application/xml")];
        return (StatusCode::FORBIDDEN, kind, body).into_response();
    }
    let code = match service {
        Service::DynamoDb => "com.amazon.coral.service#AccessDeniedException",
        Service::Sqs => "com.amazonaws.sqs#AccessDenied",
        _ => "AccessDeniedException",
    };
    let kind = [(header::CONTENT_TYPE, "application/x-amz-json-1.0")];
    let body = json!({ "__type": code, "message": message }).to_string();
    (StatusCode::BAD_REQUEST, kind, body).into_response()
}
