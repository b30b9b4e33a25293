//! Signs requests as senders do, without the code under test.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{DEMO_SECRET, Inbox};

/// Headers as a sender sends them. A header can occur several times.
pub type Headers = Vec<(String, String)>;

impl Inbox {
    /// Returns the headers of a request to `github-main`.
    pub fn github(&self, id: &str, body: &[u8]) -> Headers {
        let signature = hex(DEMO_SECRET.as_bytes(), &[body]);
        self.must_not_log(&signature);
        headers(&[
            ("content-type", "application/json"),
            ("x-github-delivery", id),
            ("x-github-event", "push"),
            ("x-hub-signature-256", &format!("sha256={signature}")),
        ])
    }

    /// Returns the headers for a source whose scheme signs a time. The time can be any text.
    pub fn timed(&self, source: &str, id: &str, at: &str, body: &[u8]) -> Headers {
        let secret = DEMO_SECRET.as_bytes();
        let at_dot = format!("{at}.");
        let given = match source {
            "stripe-main" => {
                let signature = hex(secret, &[at_dot.as_bytes(), body]);
                self.must_not_log(&signature);
                headers(&[("stripe-signature", &format!("t={at},v1={signature}"))])
            }
            "slack-main" => {
                let signature = hex(secret, &[format!("v0:{at}:").as_bytes(), body]);
                self.must_not_log(&signature);
                headers(&[
                    ("x-slack-request-timestamp", at),
                    ("x-slack-signature", &format!("v0={signature}")),
                ])
            }
            "standard-main" => {
                let key = STANDARD.decode(DEMO_SECRET).unwrap();
                let message = format!("{id}.{at}.");
                let signature = STANDARD.encode(mac(&key, &[message.as_bytes(), body]));
                self.must_not_log(&signature);
                headers(&[
                    ("webhook-id", id),
                    ("webhook-timestamp", at),
                    ("webhook-signature", &format!("v1,{signature}")),
                ])
            }
            _ => panic!("{source} signs no time"),
        };
        [given, headers(&[("content-type", "application/json")])].concat()
    }
}

/// The response to a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns whether the response asks the sender to retry.
    pub fn asks_for_another_try(&self) -> bool {
        self.status == 503 && self.header("retry-after").is_some()
    }
}

/// Sends HTTP/1.1 on a socket, so that no client adds headers.
pub async fn http(
    front: &str,
    method: &str,
    target: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> Answer {
    use std::fmt::Write as _;
    let address = front.strip_prefix("http://").unwrap();
    let mut head = format!("{method} {target} HTTP/1.1\r\nhost: {address}\r\n");
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    write!(
        head,
        "content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )
    .unwrap();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();
    // A rejection can arrive before the whole body is sent.
    let _ = socket.write_all(body).await;
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes).await;
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.expect("a response has a head");
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let (status, fields) = head.split_once("\r\n").unwrap();
    Answer {
        status: status.split(' ').nth(1).unwrap().parse().unwrap(),
        headers: fields
            .split("\r\n")
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .filter(|(name, _)| name != "date")
            .collect(),
        body: bytes.split_off(end + 4).into(),
    }
}

pub fn headers(headers: &[(&str, &str)]) -> Headers {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    headers.iter().map(owned).collect()
}

/// Returns the headers with this header changed or added.
pub fn with(mut headers: Headers, name: &str, value: &str) -> Headers {
    headers.retain(|(known, _)| known != name);
    headers.push((name.to_owned(), value.to_owned()));
    headers
}

pub fn hex(key: &[u8], message: &[&[u8]]) -> String {
    hex::encode(mac(key, message))
}

pub fn mac(key: &[u8], message: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    for piece in message {
        mac.update(piece);
    }
    mac.finalize().into_bytes().to_vec()
}
