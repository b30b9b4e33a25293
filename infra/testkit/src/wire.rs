//! HTTP/1.1 messages as bytes, which a test can forward, change and truncate.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

pub type Socket = BufReader<TcpStream>;

/// A message with a `content-length`, as the SDKs and the emulators send it.
#[derive(Clone, Debug)]
pub struct Message {
    /// The first line and the headers, including the empty line.
    pub head: String,
    pub body: Bytes,
}

impl Message {
    /// Reads the next message. Returns `None` if the connection has ended.
    pub async fn read(from: &mut Socket) -> Option<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if from.read_line(&mut head).await.ok()? == 0 {
                return None;
            }
        }
        let mut message = Self {
            head,
            body: Bytes::new(),
        };
        assert!(
            message.header("transfer-encoding").is_none(),
            "a message of unknown length: {}",
            message.head
        );
        let length = message
            .header("content-length")
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        from.read_exact(&mut body).await.ok()?;
        message.body = body.into();
        Some(message)
    }

    pub fn answer(status: u16, kind: &str, more: &str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let head = format!(
            "HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{more}\r\n",
            body.len()
        );
        Self { head, body }
    }

    pub async fn write(&self, to: &mut Socket) -> std::io::Result<()> {
        let mut bytes = Vec::with_capacity(self.head.len() + self.body.len());
        bytes.extend_from_slice(self.head.as_bytes());
        bytes.extend_from_slice(&self.body);
        to.write_all(&bytes).await?;
        to.flush().await
    }

    /// Writes the head and half of the body.
    pub async fn write_half(&self, to: &mut Socket) {
        let half = &self.body[..self.body.len() / 2];
        let _ = to.write_all(self.head.as_bytes()).await;
        let _ = to.write_all(half).await;
        let _ = to.flush().await;
        // The pause lets this half arrive before the connection ends.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value.trim())
    }

    /// Returns the message with another body.
    #[must_use]
    pub fn with_body(&self, body: Bytes) -> Self {
        let lines = self.head.split_inclusive("\r\n");
        let head = lines
            .map(|line| match line.split_once(':') {
                Some((name, _)) if name.eq_ignore_ascii_case("content-length") => {
                    format!("{name}: {}\r\n", body.len())
                }
                _ => line.to_owned(),
            })
            .collect();
        Self { head, body }
    }

    /// Returns the path of the request: `/path` for `GET /path`.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    pub fn is_ok(&self) -> bool {
        self.head.split(' ').nth(1) == Some("200")
    }
}

/// Ends a connection with a reset instead of a regular end.
pub fn reset(socket: &Socket) {
    let _ = socket.get_ref().set_zero_linger();
}
