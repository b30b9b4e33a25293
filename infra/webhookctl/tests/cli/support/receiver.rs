//! A tiny program on this machine that receives requests and gives each the same answer.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Channel, Sender, channel};
use std::time::Duration;

use anyhow::Context as _;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::Preset;
use shared::webhook::verify::{Arrival, Trust, Verifier};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const OK: &str =
    "HTTP/1.1 200 OK\r\ncontent-length: 11\r\nconnection: close\r\n\r\n{\"ok\":true}";

pub(crate) struct Receiver {
    pub(crate) port: u16,
    got: Channel<Got>,
}

/// A request that the program received.
pub(crate) struct Got {
    pub(crate) path: String,
    headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Receiver {
    pub(crate) fn start(answer: &'static str) -> anyhow::Result<Self> {
        Self::at(0, answer)
    }

    pub(crate) fn at(port: u16, answer: &'static str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let port = listener.local_addr()?.port();
        let (tell, got) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(stream, answer, &tell);
            }
        });
        Ok(Self { port, got })
    }

    pub(crate) fn next(&self) -> anyhow::Result<Got> {
        self.got.recv_timeout(PATIENCE).context("a request arrives")
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://localhost:{}/hooks", self.port)
    }
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Returns whether the request passes the verification of a preset with this secret.
    pub(crate) fn verifies(&self, preset: &str, url: &str, secret: &str) -> anyhow::Result<bool> {
        let verifier = Verifier {
            source: "s".into(),
            preset: Preset::embedded(preset, &BTreeMap::new())?,
            variant: "default".into(),
            trust: Trust::default(),
            config: String::new(),
        };
        let headers = self.headers.iter();
        let envelope = Envelope {
            method: "POST".into(),
            url: url.into(),
            headers: headers.map(|(name, it)| (name, it.as_str())).collect(),
            body: self.body.clone().into(),
            received_at: UnixMillis::now(),
        };
        let answer = verifier.verify(&envelope, &[Secret::new("s", secret)]);
        Ok(matches!(answer, Ok(Arrival::Event(_))))
    }
}

fn serve(mut stream: TcpStream, answer: &str, tell: &Sender<Got>) -> anyhow::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).context("a path")?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or("0", String::as_str);
    let mut body = vec![0; length.parse()?];
    reader.read_exact(&mut body)?;
    // The test receives the request first, because it may read it as soon as the answer arrives.
    let _ = tell.send(Got {
        path,
        headers,
        body,
    });
    stream.write_all(answer.as_bytes())?;
    Ok(())
}
