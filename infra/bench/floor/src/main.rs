//! The minimum cost of a catcher. This program has the loop of the runtime, the HMAC of the body, a
//! signed `PutItem`, a signed `SendMessage` and the answer, with only the standard library and
//! SHA-256.
//!
//! It has no error handling, no retries and no TLS. It is only for comparison and must not be
//! deployed.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

fn main() -> anyhow::Result<()> {
    let mut runtime = Connection::to(&variable("AWS_LAMBDA_RUNTIME_API")?);
    let mut catcher = Catcher::from_env()?;
    loop {
        let next = "/2018-06-01/runtime/invocation/next";
        let (head, event) = runtime.ask("GET", next, "", b"")?;
        let id = head
            .lines()
            .find_map(|line| line.strip_prefix("lambda-runtime-aws-request-id: "))
            .context("the event has no id")?;
        let status = if catcher.catch(&event)? { 200 } else { 401 };
        let answer = format!(r#"{{"statusCode":{status},"body":""}}"#);
        let path = format!("/2018-06-01/runtime/invocation/{id}/response");
        runtime.ask("POST", &path, "", answer.as_bytes())?;
    }
}

struct Catcher {
    stores: Connection,
    signer: Signer,
    secret: String,
    table: String,
    queue: String,
}

struct Signer {
    key: String,
    secret: String,
    token: String,
    region: String,
}

impl Catcher {
    fn from_env() -> anyhow::Result<Self> {
        let url = variable("AWS_ENDPOINT_URL")?;
        Ok(Self {
            stores: Connection::to(url.trim_start_matches("http://")),
            signer: Signer {
                key: variable("AWS_ACCESS_KEY_ID")?,
                secret: variable("AWS_SECRET_ACCESS_KEY")?,
                token: variable("AWS_SESSION_TOKEN")?,
                region: variable("AWS_REGION")?,
            },
            secret: variable("SIGNING_SECRET")?,
            table: variable("MITT_TABLE")?,
            queue: variable("MITT_QUEUE_URL")?,
        })
    }

    /// Verifies a webhook. Stores a valid webhook, and sends a message for it.
    fn catch(&mut self, event: &[u8]) -> anyhow::Result<bool> {
        let event: Value = serde_json::from_slice(event)?;
        let body = event["body"].as_str().context("no body")?;
        let signature = event["headers"]["stripe-signature"].as_str();
        if !verified(&self.secret, signature.unwrap_or_default(), body)? {
            return Ok(false);
        }
        let webhook: Value = serde_json::from_str(body)?;
        let key = format!("E#stripe-main#{}", webhook["id"].as_str().context("no id")?);
        let put = json!({
            "TableName": self.table,
            "Item": {"pk": {"S": key}, "sk": {"S": "M"}, "b": {"S": body}, "st": {"S": "new"}},
            "ConditionExpression": "attribute_not_exists(pk)",
        });
        self.call("dynamodb", "DynamoDB_20120810.PutItem", &put)?;
        let send = json!({"QueueUrl": self.queue, "MessageBody": json!({"key": key}).to_string()});
        self.call("sqs", "AmazonSQS.SendMessage", &send)?;
        Ok(true)
    }

    fn call(&mut self, service: &str, target: &str, body: &Value) -> anyhow::Result<()> {
        let body = body.to_string();
        let host = self.stores.address.clone();
        let headers = self.signer.headers(service, target, &host, &body)?;
        let (head, said) = self.stores.ask("POST", "/", &headers, body.as_bytes())?;
        let is_duplicate = String::from_utf8_lossy(&said).contains("ConditionalCheckFailed");
        ensure!(head.contains(" 200 ") || is_duplicate, "{target}: {head}");
        Ok(())
    }
}

/// <https://docs.stripe.com/webhooks#verify-manually>
fn verified(secret: &str, signature: &str, body: &str) -> anyhow::Result<bool> {
    let (mut time, mut wanted) = ("", "");
    for part in signature.split(',') {
        match part.split_once('=') {
            Some(("t", value)) => time = value,
            Some(("v1", value)) => wanted = value,
            _ => {}
        }
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())?;
    mac.update(time.as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    let is_recent = now().abs_diff(time.parse()?) < 300;
    Ok(is_recent && mac.verify_slice(&hex::decode(wanted)?).is_ok())
}

impl Signer {
    /// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>
    fn headers(
        &self,
        service: &str,
        target: &str,
        host: &str,
        body: &str,
    ) -> anyhow::Result<String> {
        const SIGNED: &str = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target";
        const KIND: &str = "application/x-amz-json-1.0";
        let (day, time) = day_and_time(now());
        let date = format!("{day}T{time}Z");
        let (token, region) = (&self.token, &self.region);
        let digest = hex::encode(Sha256::digest(body));
        let canonical = format!(
            "POST\n/\n\ncontent-type:{KIND}\nhost:{host}\nx-amz-date:{date}\n\
             x-amz-security-token:{token}\nx-amz-target:{target}\n\n{SIGNED}\n{digest}"
        );
        let scope = format!("{day}/{region}/{service}/aws4_request");
        let digest = hex::encode(Sha256::digest(canonical));
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{digest}");
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [&day, region, service, "aws4_request", &text] {
            let mut mac = Hmac::<Sha256>::new_from_slice(&key)?;
            mac.update(part.as_bytes());
            key = mac.finalize().into_bytes().to_vec();
        }
        let (id, signature) = (&self.key, hex::encode(key));
        Ok(format!(
            "content-type: {KIND}\r\nx-amz-date: {date}\r\nx-amz-security-token: {token}\r\n\
             x-amz-target: {target}\r\nauthorization: AWS4-HMAC-SHA256 Credential={id}/{scope}, \
             SignedHeaders={SIGNED}, Signature={signature}\r\n"
        ))
    }
}

/// A persistent connection.
struct Connection {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Connection {
    fn to(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            stream: None,
        }
    }

    /// Sends a request. Returns the head of the answer, with names in lower case, and its body.
    fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> anyhow::Result<(String, Vec<u8>)> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.address)?;
            stream.set_nodelay(true)?;
            self.stream = Some(BufReader::new(stream));
        }
        let (host, length) = (&self.address, body.len());
        let mut request = String::with_capacity(1024);
        write!(
            request,
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n{headers}\r\n"
        )?;
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body);
        let stream = self.stream.as_mut().context("no connection")?;
        stream.get_mut().write_all(&bytes)?;
        read(stream)
    }
}

fn read(stream: &mut BufReader<TcpStream>) -> anyhow::Result<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let from = head.len();
        ensure!(stream.read_line(&mut head)? > 0, "the connection ended");
        let line = head[from..].trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((head, body))
}

/// Formats a time in seconds as a date and a time of day, such as `20260131` and `235959`.
/// <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>
fn day_and_time(now: u64) -> (String, String) {
    let (days, second) = (now / 86_400 + 719_468, now % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    (
        format!("{year:04}{month:02}{day:02}"),
        format!("{hour:02}{minute:02}{second:02}"),
    )
}

#[expect(
    clippy::disallowed_methods,
    reason = "the floor does not use the shared crate"
)]
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the floor does not use the shared crate"
)]
fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let texts = [0, 951_782_399, 1_767_225_600].map(day_and_time);
        let days = texts.each_ref().map(|(day, _)| day.as_str());
        assert_eq!(days, ["19700101", "20000228", "20260101"]);
        assert_eq!(texts[1].1, "235959");
    }
}
