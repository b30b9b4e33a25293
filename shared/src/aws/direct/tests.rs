//! Tests of single direct calls.

use std::sync::Mutex;

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
