//! The HTTP client of the AWS clients.
//!
//! The SDK's own HTTP client reads all root certificates of the operating system for each AWS
//! client. These reads took two thirds of the start time. The SDK's client also supports HTTP/2,
//! which none of the called services uses. This client creates its pool and its TLS configuration
//! only when it needs them. It reads the root certificates of the operating system only if Amazon's
//! root certificates cannot verify an endpoint.

pub(super) mod route;
mod trust;

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::connection::{CaptureSmithyConnection, ConnectionMetadata};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector as SmithyConnector, HttpConnectorFuture, HttpConnectorSettings,
    SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use aws_smithy_types::retry::ErrorKind;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Extensions, Uri};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::client::legacy::connect::{
    CaptureConnection, HttpConnector, HttpInfo, capture_connection,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower_service::Service;

use super::direct::{Reply, SendRequest};

/// The idle time after which TCP tests a connection.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// The HTTP client of all AWS clients, and of the calls that skip the SDK. Both use the same
/// connections.
pub fn https() -> Http {
    let https = Https::default();
    Http {
        sdk: SharedHttpClient::new(https.clone()),
        direct: Some(Arc::new(https)),
    }
}

/// The HTTP clients of a process.
#[derive(Clone, Debug)]
pub struct Http {
    pub sdk: SharedHttpClient,
    /// If it is `None`, the SDK sends every call.
    pub direct: Option<Arc<dyn SendRequest>>,
}

/// Keeps one connection pool for each connect timeout.
#[derive(Clone, Debug, Default)]
struct Https(Arc<Pools>);

#[derive(Debug, Default)]
struct Pools {
    tls: Tls,
    known: Mutex<Vec<(Option<Duration>, Pool, SharedHttpConnector)>>,
}

impl Https {
    fn pool(&self, limit: Option<Duration>) -> (Pool, SharedHttpConnector) {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool, connector)) = known.iter().find(|(of, _, _)| *of == limit) {
            return (pool.clone(), connector.clone());
        }
        let pool = Pool::new(limit, self.0.tls.clone());
        let connector = SharedHttpConnector::new(pool.clone());
        known.push((limit, pool.clone(), connector.clone()));
        (pool, connector)
    }

    /// Makes the next requests open new connections.
    fn forget(&self, limit: Option<Duration>) {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(of, _, _)| *of != limit);
    }
}

impl SendRequest for Https {
    fn send(
        &self,
        request: http::Request<Bytes>,
        connect: Duration,
    ) -> BoxFuture<'static, Result<Reply, ConnectorError>> {
        let (Pool(client), _) = self.pool(Some(connect));
        let pools = self.clone();
        Box::pin(async move {
            let answer = client.request(request.map(SdkBody::from)).await;
            let (head, body) = answer.map_err(|error| trouble(error.into()))?.into_parts();
            // The SDK also sends no further request on the connection of such a response, because the
            // host may be the cause.
            if head.status.is_server_error() {
                pools.forget(Some(connect));
            }
            let body = ByteStream::new(SdkBody::from_body_1_x(body))
                .collect()
                .await;
            let body = body.map_err(|error| ConnectorError::io(error.into()))?;
            Ok(Reply {
                status: head.status.as_u16(),
                body: body.into_bytes(),
            })
        })
    }
}

impl HttpClient for Https {
    /// Ignores the read timeout. It is never shorter than the attempt timeout, which the SDK
    /// enforces.
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        self.pool(settings.connect_timeout()).1
    }
}

/// The TLS configuration. It is created at the first TLS connection.
#[derive(Clone, Debug, Default)]
struct Tls(Arc<OnceLock<Arc<ClientConfig>>>);

impl Tls {
    fn config(&self) -> Arc<ClientConfig> {
        self.0.get_or_init(|| Arc::new(trust::config())).clone()
    }
}

#[derive(Clone, Debug)]
struct Pool(Client<Connect, SdkBody>);

impl Pool {
    fn new(limit: Option<Duration>, tls: Tls) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // With Nagle's algorithm, the second write of a request would wait for the ACK of the
        // first.
        tcp.set_nodelay(true);
        // A NAT gateway drops a connection that is idle for 350 s, and an invoked function can take
        // longer before it sends its first byte.
        // <https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-troubleshooting.html>
        tcp.set_keepalive(Some(KEEPALIVE));
        let pool = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(Connect { tcp, tls, limit });
        Self(pool)
    }
}

impl SmithyConnector for Pool {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let mut request = match request.try_into_http1x() {
            Ok(request) => request,
            Err(error) => {
                return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into())));
            }
        };
        // With this metadata, the SDK can close a connection after a failed response.
        let connection = capture_connection(&mut request);
        if let Some(capture) = request.extensions().get::<CaptureSmithyConnection>() {
            capture.set_connection_retriever(move || metadata(&connection));
        }
        let answer = self.0.request(request);
        HttpConnectorFuture::new(async move {
            let answer = answer.await.map_err(|error| trouble(error.into()))?;
            HttpResponse::try_from(answer.map(SdkBody::from_body_1_x))
                .map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

fn metadata(connection: &CaptureConnection) -> Option<ConnectionMetadata> {
    let poisoned = connection.clone();
    let connected = connection.connection_metadata();
    let mut known = Extensions::new();
    connected.as_ref()?.get_extras(&mut known);
    let info = known.get::<HttpInfo>();
    let mut metadata = ConnectionMetadata::builder()
        .proxied(false)
        .poison_fn(move || {
            if let Some(connected) = poisoned.connection_metadata().as_ref() {
                connected.poison();
            }
        });
    metadata
        .set_local_addr(info.map(HttpInfo::local_addr))
        .set_remote_addr(info.map(HttpInfo::remote_addr));
    Some(metadata.build())
}

/// Opens a connection, with or without TLS, within the connect timeout.
#[derive(Clone, Debug)]
struct Connect<R = GaiResolver> {
    tcp: HttpConnector<R>,
    tls: Tls,
    limit: Option<Duration>,
}

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

impl<R> Service<Uri> for Connect<R>
where
    HttpConnector<R>:
        Service<Uri, Response = TokioIo<TcpStream>, Error: Error + Send + Sync, Future: Send>,
    R: Clone + Send + 'static,
{
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Stream, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self {
            mut tcp,
            tls,
            limit,
        } = self.clone();
        let connecting = async move {
            if uri.scheme_str() == Some("http") {
                return Ok(MaybeHttpsStream::Http(tcp.call(uri).await?));
            }
            HttpsConnector::from((tcp, tls.config())).call(uri).await
        };
        Box::pin(async move {
            let Some(limit) = limit else {
                return connecting.await;
            };
            let connected = tokio::time::timeout(limit, connecting).await;
            connected.unwrap_or_else(|_| Err(TooLong(limit).into()))
        })
    }
}

/// The error for a connection that did not open within the connect timeout.
#[derive(Debug)]
struct TooLong(Duration);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot connect within {} ms", self.0.as_millis())
    }
}

impl Error for TooLong {}

/// Classifies an error in the same way as the SDK's own HTTP client. The class decides whether the
/// SDK retries the call.
fn trouble(error: BoxError) -> ConnectorError {
    if source::<TooLong>(error.as_ref()).is_some() {
        return ConnectorError::timeout(error);
    }
    let Some(cause) = source::<hyper::Error>(error.as_ref()) else {
        let connecting = source::<hyper_util::client::legacy::Error>(error.as_ref())
            .is_some_and(hyper_util::client::legacy::Error::is_connect);
        return if connecting || source::<std::io::Error>(error.as_ref()).is_some() {
            ConnectorError::io(error)
        } else {
            ConnectorError::other(error, None)
        };
    };
    if cause.is_timeout() {
        ConnectorError::timeout(error)
    } else if cause.is_user() {
        ConnectorError::user(error)
    } else if cause.is_closed() || cause.is_canceled() || source::<std::io::Error>(cause).is_some()
    {
        ConnectorError::io(error)
    } else if cause.is_incomplete_message() {
        ConnectorError::other(error, Some(ErrorKind::TransientError))
    } else {
        ConnectorError::other(error, None)
    }
}

/// Returns the outermost error of this type in the chain of sources.
fn source<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cannot_be_reached_is_worth_another_try() {
        let pool = Pool::new(Some(Duration::from_secs(5)), Tls::default());
        for url in ["http://127.0.0.1:1/", "https://127.0.0.1:1/"] {
            let request = HttpRequest::get(url).unwrap();
            let error = pool.call(request).await.unwrap_err();
            assert!(error.is_io(), "{url}: {error:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_takes_too_long_is_a_timeout() {
        // The listener never accepts the connection from its backlog, so the TLS handshake waits.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let pool = Pool::new(Some(Duration::from_millis(20)), Tls::default());
        let error = pool.call(HttpRequest::get(url).unwrap()).await.unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
    }
}
