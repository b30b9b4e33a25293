//! Functions that another tool runs, such as `cargo lambda watch` or `sam local start-lambda`. Both
//! have the Invoke API of Lambda.
//! <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use reqwest::{Client, Response, StatusCode};

use super::{FunctionError, Outcome, reported};
use crate::clients::plain_http;

/// How long an invocation can take. This is the limit of Lambda, because a breakpoint or a build
/// can delay the answer by minutes.
const LIMIT: Duration = Duration::from_secs(900);

/// A function that another tool runs.
#[derive(Debug, Clone)]
pub(crate) struct Elsewhere {
    /// The URL of the Invoke API, such as `http://127.0.0.1:9000`.
    pub(crate) url: String,
    /// The names of the function, in the order in which they are tried: `cargo lambda watch` knows
    /// the binary, and `sam local start-lambda` knows the logical id.
    pub(crate) names: [String; 2],
}

impl Elsewhere {
    /// Runs the function once. If the tool does not answer, the invocation fails, and the caller
    /// treats it like every other failed invocation.
    pub(super) async fn invoke(&self, payload: Bytes) -> anyhow::Result<Outcome> {
        let http = plain_http(LIMIT)?;
        let [first, second] = &self.names;
        let mut answer = self.post(&http, first, payload.clone()).await;
        if answer
            .as_ref()
            .is_ok_and(|it| it.status() == StatusCode::NOT_FOUND)
        {
            answer = self.post(&http, second, payload).await;
        }
        match answer {
            Ok(answer) => outcome(answer).await,
            Err(error) => Ok(Outcome::Failed(FunctionError {
                kind: "Runtime.Unavailable".to_owned(),
                message: format!(
                    "no tool runs the function {first} at {}; start `cargo lambda watch` or `sam \
                     local start-lambda` ({})",
                    self.url,
                    error.without_url()
                ),
            })),
        }
    }

    async fn post(&self, http: &Client, name: &str, payload: Bytes) -> reqwest::Result<Response> {
        let url = format!("{}/2015-03-31/functions/{name}/invocations", self.url);
        http.post(url).body(payload).send().await
    }
}

async fn outcome(answer: Response) -> anyhow::Result<Outcome> {
    let status = answer.status();
    let failed = answer.headers().contains_key("x-amz-function-error");
    let body = answer
        .bytes()
        .await
        .context("read the function's response")?;
    Ok(if failed || !status.is_success() {
        Outcome::Failed(reported(&body))
    } else {
        Outcome::Answered(body)
    })
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::Path;
    use axum::routing::post;

    use super::*;

    const ROUTE: &str = "/2015-03-31/functions/{name}/invocations";

    async fn invoked(known: &'static str, error: bool) -> Outcome {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = move |Path(name): Path<String>, payload: Bytes| async move {
            let status = if name == known { 200 } else { 404 };
            let kind = if error {
                "x-amz-function-error"
            } else {
                "x-other"
            };
            (
                StatusCode::from_u16(status).unwrap(),
                [(kind, "Unhandled")],
                payload,
            )
        };
        let router = Router::new().route(ROUTE, post(answer));
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let names = ["catcher".to_owned(), "Catcher".to_owned()];
        let payload = r#"{"errorType":"T","errorMessage":"M"}"#.into();
        let outcome = Elsewhere { url, names }.invoke(payload).await.unwrap();
        server.abort();
        outcome
    }

    #[tokio::test]
    async fn each_tool_knows_one_of_the_names() {
        for known in ["catcher", "Catcher"] {
            let outcome = invoked(known, false).await;
            assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
        }
        let outcome = invoked("another", false).await;
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    }

    #[tokio::test]
    async fn an_error_of_the_function_is_passed_on() {
        let error = FunctionError {
            kind: "T".to_owned(),
            message: "M".to_owned(),
        };
        assert_eq!(invoked("catcher", true).await, Outcome::Failed(error));
    }

    #[tokio::test]
    async fn without_the_tool_the_invocation_fails_and_says_why() {
        let names = ["catcher".to_owned(), "Catcher".to_owned()];
        let url = "http://127.0.0.1:9".to_owned();
        let outcome = Elsewhere { url, names }.invoke(Bytes::new()).await.unwrap();
        let Outcome::Failed(error) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(error.kind, "Runtime.Unavailable");
        assert!(error.message.contains("cargo lambda watch"), "{error}");
    }
}
