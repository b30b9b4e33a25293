//! Calls the API of workers. Requests are signed with the credentials of the caller.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use local::names::{ACCESS_KEY, REGION, SECRET_KEY};
use serde_json::Value;
use shared::aws::CallPolicy;
use shared::aws::outbound;
use shared::base::clock::UnixMillis;

use crate::cli::{Global, WorkAt};
use crate::forward::Address;
use crate::output::{CliError, Exit};
use crate::target::{Chosen, aws};
use crate::verbs::send::post::cause;

/// How long a call takes at most. API Gateway answers within 30 s.
const PATIENCE: Duration = Duration::from_secs(35);

/// The service of the signature.
const SERVICE: &str = "execute-api";

/// The answer of an operation.
pub(in crate::verbs) enum Asked {
    Answered(Value),
    /// An answer other than 200: the code of the API, and the error for the caller.
    Refused {
        reason: String,
        error: CliError,
    },
}

/// The API of one queue.
pub(in crate::verbs) struct Client {
    http: reqwest::Client,
    /// The URL of the queue, without a slash at its end.
    url: String,
    queue: String,
    region: String,
    credentials: SharedCredentialsProvider,
}

impl Client {
    /// Finds the API: the URL of the flag, the deployment, or the running `dev`.
    pub(in crate::verbs) fn find(at: &WorkAt, global: &Global) -> anyhow::Result<Self> {
        if !shared::sources::is_name(&at.queue) {
            let error = CliError::usage("work.queue", "invalid name of a queue");
            return Err(error
                .tip("use the `queue` of an action of kind pull")
                .into());
        }
        let base = match &at.api {
            Some(url) => url.clone(),
            None => base(global)?,
        };
        let url = base.trim_end_matches('/');
        if Address::parse(url, None).is_ok() {
            let key = at.role.as_deref().unwrap_or(ACCESS_KEY);
            let keys = Credentials::from_keys(key, SECRET_KEY, None);
            let http = outbound::to_this_machine(url, PATIENCE)?;
            let credentials = SharedCredentialsProvider::new(keys);
            return Ok(Self::new(
                http,
                url,
                &at.queue,
                REGION.to_owned(),
                credentials,
            ));
        }
        if !url.starts_with("https://") {
            let error = CliError::usage("work.api", "the URL of the API must begin with https://");
            return Err(error.tip("use the output ApiUrl of the stack").into());
        }
        // The host name of the API names its Region.
        let mut target = global.target.clone();
        let region = region_in(url).map(str::to_owned);
        target.region = target.region.or_else(|| region.clone());
        let aws = aws(&target, CallPolicy::LONG)?;
        let region = region.unwrap_or_else(|| aws.region().to_owned());
        let credentials = aws.sdk_config("EXECUTE_API").credentials_provider();
        let credentials = credentials.context("find the credentials of the caller")?;
        let http = outbound::unguarded(PATIENCE)?;
        Ok(Self::new(http, url, &at.queue, region, credentials))
    }

    fn new(
        http: reqwest::Client,
        base: &str,
        queue: &str,
        region: String,
        credentials: SharedCredentialsProvider,
    ) -> Self {
        Self {
            http,
            url: format!("{base}/work/{queue}"),
            queue: queue.to_owned(),
            region,
            credentials,
        }
    }

    /// Returns the base URL of the API, for a program that calls it.
    pub(in crate::verbs) fn base(&self) -> &str {
        let end = self.url.len() - "/work/".len() - self.queue.len();
        self.url.get(..end).unwrap_or_default()
    }

    pub(in crate::verbs) fn queue(&self) -> &str {
        &self.queue
    }

    /// Calls one operation, and returns its answer.
    pub(in crate::verbs) async fn call(&self, op: &str, body: &Value) -> Result<Value, CliError> {
        match self.ask(op, body).await? {
            Asked::Answered(answer) => Ok(answer),
            Asked::Refused { error, .. } => Err(error),
        }
    }

    /// Calls one operation. An error means that there is no answer.
    pub(in crate::verbs) async fn ask(&self, op: &str, body: &Value) -> Result<Asked, CliError> {
        let response = self.send(op, body).await?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await;
        let bytes = bytes.map_err(|error| unreachable(&cause(error)))?;
        let answer = serde_json::from_slice::<Value>(&bytes);
        Ok(match answer {
            Ok(answer) if status == 200 => Asked::Answered(answer),
            answer => {
                let answer = answer.unwrap_or_default();
                Asked::Refused {
                    reason: answer["error"].as_str().unwrap_or_default().to_owned(),
                    error: refused(status, &answer),
                }
            }
        })
    }

    async fn send(&self, op: &str, body: &Value) -> Result<reqwest::Response, CliError> {
        let (url, body) = (format!("{}/{op}", self.url), body.to_string());
        let credentials = self.credentials.provide_credentials().await;
        // The error of the provider says how to get credentials.
        let credentials = credentials.map_err(|error| {
            let source = std::error::Error::source(&error);
            let ours = source.and_then(|it| it.downcast_ref::<CliError>());
            ours.cloned().unwrap_or_else(|| {
                CliError::new("auth.none", Exit::Denied, "no AWS credentials were found")
                    .tip("run aws sso login, or pass --profile NAME")
            })
        })?;
        let headers = signed(&url, &body, &self.region, credentials)
            .map_err(|error| CliError::failed("work.sign", format!("{error:#}")))?;
        let mut request = self.http.post(&url).body(body);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let sent = request.send().await;
        sent.map_err(|error| unreachable(&cause(error)))
    }
}

/// Returns the base URL of the deployment, or of the running `dev`.
fn base(global: &Global) -> anyhow::Result<String> {
    let (name, url) = match Chosen::find(&global.target)? {
        Chosen::Local(local) => return Ok(local.url),
        Chosen::Deployed(deployed) => (deployed.name, deployed.names.url),
    };
    url.ok_or_else(|| {
        let message = format!("{name} does not name the URL of its API");
        let error = CliError::usage("context.no_names", message);
        error
            .tip("pass --api URL: the output ApiUrl of the stack")
            .into()
    })
}

/// Returns the Region in the host name of an API: `{id}.execute-api.{region}.amazonaws.com`.
fn region_in(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once(".execute-api.")?;
    rest.split('.').next()
}

/// Returns the headers of a signed request.
fn signed(
    url: &str,
    body: &str,
    region: &str,
    credentials: Credentials,
) -> anyhow::Result<Vec<(String, String)>> {
    let now = u64::try_from(UnixMillis::now().0).unwrap_or_default();
    let identity = credentials.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(SERVICE)
        .time(UNIX_EPOCH + Duration::from_millis(now))
        .settings(SigningSettings::default())
        .build();
    let params = params.context("sign a request")?.into();
    let kind = ("content-type", "application/json");
    let request = SignableRequest::new(
        "POST",
        url,
        [kind].into_iter(),
        SignableBody::Bytes(body.as_bytes()),
    );
    let (instructions, _) = sign(request.context("sign a request")?, &params)
        .context("sign a request")?
        .into_parts();
    let headers = instructions.headers().chain([kind]);
    Ok(headers
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

fn unreachable(why: &str) -> CliError {
    let message = format!("cannot reach the API of workers: {why}");
    CliError::failed("work.unreachable", message).tip("webhookctl doctor, or pass --api URL")
}

/// Returns the error for an answer that is not 200.
fn refused(status: u16, answer: &Value) -> CliError {
    let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    let (code, message) = (text("error"), text("message"));
    let what = if message.is_empty() {
        format!("the API of workers answered {status}")
    } else {
        message
    };
    match (status, code.as_str()) {
        (409, "moved") => CliError::refused("hold.moved", what).note("nothing was changed"),
        (409, "expired") => CliError::refused("hold.expired", what).note("nothing was changed"),
        (409, _) => CliError::not_found("work.lease_lost", what)
            .tip("stop the work; another worker can have the event"),
        (403, _) => CliError::new("work.not_allowed", Exit::Denied, what)
            .tip("webhookctl policies worker --help"),
        (404, "unknown_queue") => CliError::not_found("work.unknown_queue", what)
            .tip("add an action of kind pull with this queue to a source"),
        (404, "unknown_source" | "unknown_event") => {
            CliError::not_found("inbox.not_found", what).tip("webhookctl hold list")
        }
        (404, _) => {
            CliError::usage("work.no_api", what).tip("deploy the stack with WorkerApi=true")
        }
        (429 | 500..=599, _) => {
            CliError::failed("work.unavailable", what).tip("try again in some seconds")
        }
        _ => CliError::refused("work.refused", what),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_region_is_in_the_host_name_of_an_api() {
        let url = "https://a1b2.execute-api.eu-west-1.amazonaws.com";
        assert_eq!(region_in(url), Some("eu-west-1"));
        assert_eq!(region_in("https://api.example.com"), None);
    }

    #[test]
    fn a_request_is_signed_with_the_key_and_the_region() {
        let keys = Credentials::from_keys("triage-agent", "x", Some("token".to_owned()));
        let url = "https://api.example.com/work/triage/next";
        let headers = signed(url, "{}", "eu-west-1", keys).unwrap();
        let value = |name: &str| {
            let found = headers.iter().find(|(its, _)| its == name);
            found.map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        let authorization = value("authorization");
        assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=triage-agent/"));
        assert!(authorization.contains("/eu-west-1/execute-api/aws4_request"));
        assert!(authorization.contains("content-type;host;x-amz-date;x-amz-security-token"));
        assert_eq!(value("x-amz-security-token"), "token");
        assert_eq!(value("content-type"), "application/json");
    }

    #[test]
    fn an_answer_other_than_200_has_an_exit_code() {
        let error = |status, code: &str| {
            let body = json!({ "v": 1, "error": code, "message": "why" });
            refused(status, &body)
        };
        for (status, code, exit) in [
            (409, "lease_lost", Exit::NotFound),
            (409, "stale", Exit::NotFound),
            (403, "not_allowed", Exit::Denied),
            (422, "max_hold", Exit::Refused),
            (400, "invalid_request", Exit::Refused),
            (503, "unavailable", Exit::Failed),
        ] {
            let error = error(status, code);
            assert_eq!(
                (error.exit, error.message.as_str()),
                (exit, "why"),
                "{code}"
            );
        }
        assert_eq!(
            refused(502, &Value::Null).message,
            "the API of workers answered 502"
        );
    }
}
