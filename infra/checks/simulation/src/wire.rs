//! The HTTP client of the AWS SDK, which gets its answers inside the process. It plays the network
//! between the production code and its stores, with faults.

pub mod dynamodb;
pub mod fate;
pub mod sqs;

use std::sync::Arc;
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use futures::future::BoxFuture;
use shared::aws::{Http, Reply as Answered, SendRequest};
use tokio::time::sleep;

use crate::crash_injection::{self, Role};
use crate::world::{Shared, World};
use fate::{Fate, Service};

/// Returns a client that reaches only the simulated stores and the simulated destination.
pub fn client(world: &Shared) -> Http {
    let wire = Wire(world.clone());
    let connector = SharedHttpConnector::new(wire.clone());
    Http {
        sdk: http_client_fn(move |_, _| connector.clone()),
        direct: Some(Arc::new(wire)),
    }
}

#[derive(Clone, Debug)]
struct Wire(Shared);

/// A request to a store.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function that sends the request.
    pub role: Role,
    pub invocation: u64,
    pub service: Service,
    pub operation: String,
    /// The path of an S3 object. It is empty for other services.
    pub path: String,
    pub body: Vec<u8>,
}

/// The answer of a store.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let world = self.0.clone();
        let call = Call::read(&request);
        HttpConnectorFuture::new(async move { pass(world, call).await })
    }
}

impl SendRequest for Wire {
    fn send(
        &self,
        request: http::Request<Bytes>,
        _: Duration,
    ) -> BoxFuture<'static, Result<Answered, ConnectorError>> {
        let world = self.0.clone();
        let request = HttpRequest::try_from(request.map(SdkBody::from));
        let call = request.map(|request| Call::read(&request));
        Box::pin(async move {
            let call = call.map_err(|error| ConnectorError::user(error.into()))?;
            let response = pass(world, call).await?;
            Ok(Answered {
                status: response.status().as_u16(),
                body: Bytes::copy_from_slice(response.body().bytes().unwrap_or_default()),
            })
        })
    }
}

impl Call {
    fn read(request: &HttpRequest) -> Self {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let (service, operation) = match target.split_once('.') {
            Some(("DynamoDB_20120810", operation)) => (Service::DynamoDb, operation),
            Some(("AmazonSQS", operation)) => (Service::Sqs, operation),
            Some(("AmazonSSM", operation)) => (Service::Ssm, operation),
            _ => (Service::S3, request.method()),
        };
        let uri = if service == Service::S3 {
            request.uri()
        } else {
            ""
        };
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let of_tags = query.split('&').any(|word| word == "tagging");
        let operation = if of_tags {
            format!("{operation} tagging")
        } else {
            operation.to_owned()
        };
        Self {
            role: crash_injection::role(),
            invocation: crash_injection::invocation(),
            service,
            operation,
            path: path.to_owned(),
            body: request.body().bytes().unwrap_or_default().to_vec(),
        }
    }
}

/// Applies a call to its store and returns the answer, or injects a fault.
async fn pass(world: Shared, call: Call) -> Result<HttpResponse, ConnectorError> {
    let (fate, latency) = world.lock().fate(call.service);
    if !latency.is_zero() {
        sleep(latency).await;
    }
    match fate {
        Fate::Arrives => response(apply(&world, &call)),
        Fate::Unreached => Err(cut("connection refused")),
        Fate::Refused(status, code) => response(refusal(status, code)),
        Fate::Hangs => never().await,
        Fate::AnswerCut => {
            apply(&world, &call);
            Err(cut("connection reset"))
        }
        Fate::AnswerLost => {
            apply(&world, &call);
            never().await
        }
        Fate::Late(by) => {
            // The call is applied even if its caller no longer waits.
            let late = tokio::spawn(async move {
                sleep(by).await;
                apply(&world, &call)
            });
            match late.await {
                Ok(reply) => response(reply),
                Err(_) => Err(cut("the simulation ended")),
            }
        }
    }
}

fn apply(world: &Shared, call: &Call) -> Reply {
    World::apply(&mut world.lock(), call)
}

/// Waits for longer than any caller.
async fn never<T>() -> T {
    loop {
        sleep(Duration::from_secs(24 * 3600)).await;
    }
}

fn refusal(status: u16, code: &str) -> Reply {
    let body = format!(r#"{{"__type":"com.amazonaws.simulated#{code}","message":"simulated"}}"#);
    Reply {
        status,
        body: body.into_bytes(),
    }
}

fn response(reply: Reply) -> Result<HttpResponse, ConnectorError> {
    let status = StatusCode::try_from(reply.status)
        .map_err(|error| ConnectorError::other(error.into(), None))?;
    Ok(HttpResponse::new(status, SdkBody::from(reply.body)))
}

fn cut(text: &'static str) -> ConnectorError {
    ConnectorError::io(text.into())
}
