//! The most frequent calls to AWS, without the SDK.
//!
//! The SDK takes more instructions to prepare a call than the rest of the catcher takes for a webhook,
//! and a client of the SDK takes as many to create. So the functions send the first attempt of their
//! frequent calls by themselves. The SDK makes all other attempts and all other calls: if the first
//! attempt gets no answer, or an answer that its caller does not expect, the caller sends the same
//! request again with the SDK. The SDK then retries it, and returns its typed error.

mod sign;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::result::ConnectorError;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use http::{Request, Uri};

use super::Lazy;
use crate::base::backoff::jitter;
use crate::base::clock::UnixMillis;
use crate::base::env::env_var;
use sign::{Signer, Stamp};

const AGENT: &str = concat!("mitt/", env!("CARGO_PKG_VERSION"));

/// The longest wait before the SDK repeats a call.
const PAUSE: Duration = Duration::from_millis(50);

/// Sends one HTTP request, and reads the whole response.
pub trait SendRequest: fmt::Debug + Send + Sync {
    /// Sends the request. `connect` limits the time to open a connection.
    fn send(
        &self,
        request: Request<Bytes>,
        connect: Duration,
    ) -> BoxFuture<'static, Result<Reply, ConnectorError>>;
}

/// A response of a service.
#[derive(Clone)]
pub struct Reply {
    pub status: u16,
    pub body: Bytes,
}

/// A response can contain customer data.
impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({}, {} bytes)", self.status, self.body.len())
    }
}

/// A service with a JSON protocol, in which every call is a POST of JSON to the same path.
/// <https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html>
#[derive(Debug)]
pub(super) struct Service {
    /// The name in the endpoint and in a signature.
    pub(super) name: &'static str,
    /// The last part of the environment variable `AWS_ENDPOINT_URL_…`.
    pub(super) setting: &'static str,
    /// The part of the header `x-amz-target` before the name of the operation.
    pub(super) target: &'static str,
    pub(super) content_type: &'static str,
}

pub(super) static DYNAMODB: Service = Service {
    name: "dynamodb",
    setting: "DYNAMODB",
    target: "DynamoDB_20120810",
    content_type: "application/x-amz-json-1.0",
};

pub(super) static SQS: Service = Service {
    name: "sqs",
    setting: "SQS",
    target: "AmazonSQS",
    content_type: "application/x-amz-json-1.0",
};

pub(super) static SSM: Service = Service {
    name: "ssm",
    setting: "SSM",
    target: "AmazonSSM",
    content_type: "application/x-amz-json-1.1",
};

/// Sends single attempts of calls to one service. Clones share the signing key.
#[derive(Clone)]
pub(crate) struct Direct(Arc<Sender>);

struct Sender {
    http: Arc<dyn SendRequest>,
    service: &'static Service,
    uri: Uri,
    host: HeaderValue,
    signer: Signer,
    credentials: SharedCredentialsProvider,
    connect: Duration,
    attempt: Duration,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Direct({})", self.0.uri)
    }
}

/// What all services of a process share.
pub(super) struct Common<'a> {
    pub(super) http: Arc<dyn SendRequest>,
    pub(super) region: &'a str,
    pub(super) credentials: SharedCredentialsProvider,
    pub(super) connect: Duration,
    pub(super) attempt: Duration,
}

impl Direct {
    /// Returns `None` for an endpoint that only the SDK can use.
    pub(super) fn new(
        service: &'static Service,
        endpoint: Option<String>,
        common: Common<'_>,
    ) -> Option<Self> {
        let endpoint = match endpoint {
            Some(endpoint) => endpoint,
            None => regional(service.name, common.region)?,
        };
        let uri: Uri = endpoint.parse().ok()?;
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let authority = uri.authority().filter(|_| is_bare)?;
        let host = HeaderValue::from_str(authority.as_str()).ok()?;
        Some(Self(Arc::new(Sender {
            http: common.http,
            service,
            host,
            signer: Signer::new(common.region, service.name),
            uri,
            credentials: common.credentials,
            connect: common.connect,
            attempt: common.attempt,
        })))
    }

    /// Sends one attempt, and reads the answer with `read`. Returns `None` if the service did not answer
    /// in time, or if `read` does. It is then unknown whether the service applied the call, and the
    /// SDK sends it again.
    pub(crate) async fn send<T>(
        &self,
        operation: &str,
        body: impl Into<Bytes>,
        read: impl FnOnce(&Reply) -> Option<T>,
    ) -> Option<T> {
        let sender = &self.0;
        let body = body.into();
        let attempt = async {
            let request = sender.request(operation, body).await?;
            sender.http.send(request, sender.connect).await.ok()
        };
        let reply = tokio::time::timeout(sender.attempt, attempt).await;
        let reply = reply.ok().flatten();
        let answer = reply.as_ref().and_then(read);
        if answer.is_none() {
            let (service, status) = (sender.service.name, reply.map_or(0, |reply| reply.status));
            tracing::debug!(service, operation, status, "the SDK repeats a direct call");
            tokio::time::sleep(PAUSE.mul_f64(jitter())).await;
        }
        answer
    }
}

impl Sender {
    async fn request(&self, operation: &str, body: Bytes) -> Option<Request<Bytes>> {
        let credentials = self.credentials.provide_credentials().await.ok()?;
        // The service compares the time of the signature with its own clock.
        let stamp = Stamp::of(UnixMillis::now());
        let target = HeaderValue::try_from(format!("{}.{operation}", self.service.target)).ok()?;
        let token = credentials.session_token();
        let mut token = token.map(HeaderValue::from_str).transpose().ok()?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        let content_type = HeaderValue::from_static(self.service.content_type);
        // In the order of their names, as the signature needs them.
        let mut signed = Vec::with_capacity(5);
        signed.push((CONTENT_TYPE, content_type));
        signed.push((HOST, self.host.clone()));
        signed.push((sign::DATE, stamp.header()));
        signed.extend(token.map(|token| (sign::TOKEN, token)));
        signed.push((TARGET, target));
        let authorization = self.signer.sign(&signed, &body, &credentials, &stamp)?;
        let mut request = Request::post(self.uri.clone()).body(body).ok()?;
        let headers = request.headers_mut();
        headers.reserve(signed.len() + 3);
        headers.extend(signed);
        headers.insert(AUTHORIZATION, authorization);
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        // Lambda detects a loop of functions by the trace of the invocation.
        // <https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html>
        headers.extend(trace(env_var("_X_AMZN_TRACE_ID")));
        Some(request)
    }
}

pub(super) const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const TRACE: HeaderName = HeaderName::from_static("x-amzn-trace-id");

fn trace(invocation: Option<String>) -> Option<(HeaderName, HeaderValue)> {
    Some((TRACE, HeaderValue::try_from(invocation?).ok()?))
}

/// Returns the endpoint of a service in the Regions of the partitions `aws` and `aws-cn`. The SDK
/// knows all other endpoints.
/// <https://docs.aws.amazon.com/general/latest/gr/rande.html>
fn regional(service: &str, region: &str) -> Option<String> {
    let parts: Vec<&str> = region.split('-').collect();
    let [area, part, number] = parts.as_slice() else {
        return None;
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase());
    let suffix = match *area {
        "us" | "eu" | "ap" | "sa" | "ca" | "me" | "af" | "il" | "mx" => "amazonaws.com",
        "cn" => "amazonaws.com.cn",
        _ => return None,
    };
    (is_number && is_word).then(|| format!("https://{service}.{region}.{suffix}"))
}

/// A client of a service, with which a function can send frequent calls directly. Clones share the
/// client.
#[derive(Debug)]
pub struct ServiceClient<C> {
    sdk: Lazy<C>,
    /// The direct sender, and a client for the attempts after the first.
    direct: Option<(Direct, Lazy<C>)>,
}

impl<C> ServiceClient<C> {
    pub(super) fn with_direct(sdk: Lazy<C>, direct: Option<(Direct, Lazy<C>)>) -> Self {
        Self { sdk, direct }
    }

    /// Replaces the SDK clients.
    #[cfg(test)]
    pub(crate) fn with_rest(self, sdk: Lazy<C>) -> Self {
        let direct = self.direct.map(|(direct, _)| (direct, sdk.clone()));
        Self { sdk, direct }
    }

    /// Returns the direct sender, if calls may use it.
    pub(crate) fn direct(&self) -> Option<&Direct> {
        self.direct.as_ref().map(|(direct, _)| direct)
    }

    /// Returns the SDK client for the attempts of a call after the direct one.
    pub(crate) fn rest(&self) -> &C {
        self.direct.as_ref().map_or(&*self.sdk, |(_, rest)| rest)
    }
}

/// A client that sends all calls with the SDK.
impl<C: Send + 'static> From<C> for ServiceClient<C> {
    fn from(client: C) -> Self {
        Self::with_direct(client.into(), None)
    }
}

impl<C> Clone for ServiceClient<C> {
    fn clone(&self) -> Self {
        Self::with_direct(self.sdk.clone(), self.direct.clone())
    }
}

impl<C> Deref for ServiceClient<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.sdk
    }
}
