//! A running `console`, and the requests of its page.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::folder::Folder;

/// The process is killed when the test ends.
pub(crate) struct Page {
    child: Child,
    pub(crate) port: u16,
    pub(crate) code: String,
    token: String,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    /// The status line and the headers.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Page {
    /// Starts a console with these arguments, and opens a session.
    pub(crate) fn open(folder: &Folder, more: &[&str]) -> anyhow::Result<Self> {
        let mut page = Self::start(folder, more)?;
        let session = page.session(&page.code)?;
        ensure!(session.status == 200, "{}: {}", session.head, session.body);
        let session: Value = serde_json::from_str(&session.body)?;
        let token = session["token"].as_str().context("a token")?;
        token.clone_into(&mut page.token);
        Ok(page)
    }

    pub(crate) fn start(folder: &Folder, more: &[&str]) -> anyhow::Result<Self> {
        let usual = ["console", "--port", "0", "--no-open", "-o", "json"];
        let mut command = folder.webhookctl(&[&usual[..], more].concat());
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("stdout is piped")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
        let address = ready["address"].as_str().context("an address")?;
        let (url, code) = address.split_once("/#code=").context("a code")?;
        let port = url.rsplit_once(':').context("a port")?.1.parse()?;
        Ok(Self {
            child,
            port,
            code: code.to_owned(),
            token: String::new(),
        })
    }

    /// Exchanges a code.
    pub(crate) fn session(&self, code: &str) -> anyhow::Result<Response> {
        self.post("/session", &json!({ "code": code }))
    }

    /// Returns the headers with which a page of ours asks.
    pub(crate) fn headers(&self) -> Vec<String> {
        vec![
            format!("Host: 127.0.0.1:{}", self.port),
            format!("Authorization: Bearer {}", self.token),
        ]
    }

    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Response> {
        self.send("GET", path, &self.headers(), "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> anyhow::Result<Response> {
        let mut headers = self.headers();
        headers.push(format!("Origin: http://127.0.0.1:{}", self.port));
        headers.push("Content-Type: application/json".to_owned());
        self.send("POST", path, &headers, &body.to_string())
    }

    /// Sends a request with exactly these headers.
    pub(crate) fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[String],
        body: &str,
    ) -> anyhow::Result<Response> {
        let mut stream = self.connect()?;
        let mut request = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n");
        for header in headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        if !body.is_empty() {
            request.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        // A server can answer and close the connection before it has read a large request.
        let _ = stream.write_all(format!("{request}\r\n{body}").as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer")?;
        let status = head.split(' ').nth(1).context("a status")?.parse()?;
        Ok(Response {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        })
    }

    pub(crate) fn connect(&self) -> anyhow::Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(stream)
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Returns the code of an error.
    pub(crate) fn code(&self) -> String {
        let error: Value = serde_json::from_str(&self.body).unwrap_or_default();
        error["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
