//! Tests of single direct calls, and of what the SDK does after one.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};

use super::*;
use crate::aws::{Aws, CallPolicy, Http, https};

/// Keeps the last request, and gives no answer.
#[derive(Debug, Default)]
struct Kept(Mutex<Option<Request<Bytes>>>);

impl SendRequest for Kept {
    fn send(
        &self,
        request: Request<Bytes>,
        _: Duration,
    ) -> BoxFuture<'static, Result<Reply, ConnectorError>> {
        *self.0.lock().unwrap() = Some(request);
        Box::pin(async { Err(ConnectorError::io("no answer".into())) })
    }
}

#[tokio::test]
async fn a_request_has_the_headers_of_the_protocol() {
    let kept = Arc::new(Kept::default());
    let http = Http {
        direct: Some(kept.clone()),
        ..https()
    };
    let token = Some("token".to_owned());
    let credentials = Credentials::new("AKID", "secret", token, None, "test");
    let region = "eu-central-1".to_owned();
    let aws = Aws::over(http, region, credentials, None, CallPolicy::SHORT);
    let client = aws.queues();
    let sent = client
        .direct()
        .unwrap()
        .send("SendMessage", "{}", |_| Some(()));
    assert_eq!(sent.await, None);
    let request = kept.0.lock().unwrap().take().unwrap();
    assert_eq!(request.uri(), "https://sqs.eu-central-1.amazonaws.com/");
    let header = |name: &str| request.headers()[name].to_str().unwrap();
    assert_eq!(header("content-type"), "application/x-amz-json-1.0");
    assert_eq!(header("host"), "sqs.eu-central-1.amazonaws.com");
    assert_eq!(header("x-amz-target"), "AmazonSQS.SendMessage");
    assert_eq!(header("x-amz-security-token"), "token");
    let signed = "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target,";
    assert!(header("authorization").contains(signed));
    // The secret key is in no header, and no log shows the token or the signature.
    let shown = format!("{request:?}");
    for hidden in ["secret\"", "\"token\"", "Signature="] {
        assert!(!shown.contains(hidden), "{shown}");
    }
    // With one attempt, the SDK sends the call.
    let once = aws.with_patience(CallPolicy::ONCE);
    assert!(once.queues().direct().is_none());
}

#[test]
fn the_trace_of_the_invocation_is_sent_on() {
    let root = "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Lineage=1:a:0";
    let header = trace(Some(root.to_owned())).unwrap();
    assert_eq!(
        (header.0.as_str(), header.1.to_str().unwrap()),
        ("x-amzn-trace-id", root)
    );
    assert_eq!(trace(None), None);
    assert_eq!(trace(Some("\n".to_owned())), None);
}

#[tokio::test]
async fn the_endpoint_of_a_region_is_the_one_of_the_sdk() {
    let sdk = DefaultResolver::new();
    for region in [
        "us-east-1",
        "eu-central-1",
        "ap-southeast-7",
        "il-central-1",
        "mx-central-1",
        "cn-north-1",
    ] {
        let params = Params::builder().region(region.to_owned()).build().unwrap();
        let endpoint = sdk.resolve_endpoint(&params).await.unwrap();
        let ours = regional("dynamodb", region);
        assert_eq!(ours.as_deref(), Some(endpoint.url()), "{region}");
    }
    for region in [
        "us-gov-west-1",
        "us-iso-east-1",
        "eusc-de-east-1",
        "",
        "us-east",
    ] {
        assert_eq!(regional("dynamodb", region), None, "{region}");
    }
}

/// A service that answers all requests with one function. The function gets the number of requests
/// before, the number of the connection, and the time of the signature.
fn serve(
    answer: impl Fn(usize, usize, jiff::Timestamp) -> String + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let state = Arc::new((answer, AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for (connection, stream) in listener.incoming().enumerate() {
            let (state, stream) = (Arc::clone(&state), stream.unwrap());
            std::thread::spawn(move || {
                while let Some(signed_at) = signed_at(&stream) {
                    let number = state.1.fetch_add(1, Ordering::SeqCst);
                    let answer = (state.0)(number, connection, signed_at);
                    (&stream).write_all(answer.as_bytes()).unwrap();
                }
            });
        }
    });
    url
}

/// Reads a request, and returns the time of its signature.
fn signed_at(stream: &TcpStream) -> Option<jiff::Timestamp> {
    let (mut signed_at, mut length) = (None, 0);
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            if line.starts_with("POST") {
                continue;
            }
            break;
        };
        match name {
            "x-amz-date" => {
                let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", value).unwrap();
                signed_at = Some(time.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp());
            }
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    stream.read_exact(&mut vec![0; length]).ok()?;
    signed_at
}

fn response(status: &str, date: jiff::Timestamp, body: &str) -> String {
    let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT");
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ndate: {date}\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn aws(url: String) -> Aws {
    let credentials = Credentials::from_keys("AKID", "secret", None);
    Aws::new(
        "eu-central-1".to_owned(),
        credentials,
        Some(url),
        CallPolicy::SHORT,
    )
}

/// A Lambda function can continue after hours with a clock that has not yet been set.
#[tokio::test]
async fn a_clock_that_is_wrong_is_corrected_after_a_direct_call() {
    const REFUSED: &str = r#"{"__type":"com.amazon.coral.service#InvalidSignatureException",
        "message":"Signature expired"}"#;
    let url = serve(|_, _, signed_at| {
        let now = jiff::Timestamp::now() + Duration::from_secs(600);
        if now.duration_since(signed_at).abs() > jiff::SignedDuration::from_mins(5) {
            response("400 Bad Request", now, REFUSED)
        } else {
            response("200 OK", now, "{}")
        }
    });
    let table = crate::inbox::table::Table::new(aws(url).table(), "inbox");
    for _ in 0..2 {
        assert_eq!(table.get("read", ("a", "M")).await.unwrap(), None);
    }
}

#[tokio::test]
async fn the_connection_of_a_failed_response_is_not_used_again() {
    let connections: Arc<Mutex<Vec<usize>>> = Arc::default();
    let seen = Arc::clone(&connections);
    let url = serve(move |number, connection, _| {
        seen.lock().unwrap().push(connection);
        let status = if number == 0 { "503 Slow" } else { "200 OK" };
        response(status, jiff::Timestamp::now(), "{}")
    });
    let table = crate::inbox::table::Table::new(aws(url).table(), "inbox");
    for _ in 0..2 {
        assert_eq!(table.get("read", ("a", "M")).await.unwrap(), None);
    }
    assert_eq!(*connections.lock().unwrap(), [0, 1, 1]);
}
