//! A proxy that records the requests of a client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};

/// The text before the name of the operation in each request to DynamoDB.
const TARGET: &str = "DynamoDB_20120810.";

pub(crate) struct Proxy {
    pub(crate) url: String,
    said: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Proxy {
    /// The task ends with the test's runtime.
    pub(crate) async fn start(upstream: &str) -> Self {
        let upstream = upstream
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let said = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&said);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, upstream.clone(), Arc::clone(&kept)));
            }
        });
        Self { url, said }
    }

    /// Returns the number of requests since the last call, by operation.
    pub(crate) fn operations(&self) -> BTreeMap<String, usize> {
        let said = std::mem::take(&mut *self.said.lock().unwrap());
        let mut count = BTreeMap::new();
        for connection in said {
            let text = String::from_utf8_lossy(&connection).into_owned();
            for request in text.split(TARGET).skip(1) {
                let name = request.split(|c: char| !c.is_ascii_alphanumeric()).next();
                *count.entry(name.unwrap().to_owned()).or_default() += 1;
            }
        }
        count
    }
}

async fn pass(client: TcpStream, upstream: String, said: Arc<Mutex<Vec<Vec<u8>>>>) {
    let place = {
        let mut said = said.lock().unwrap();
        said.push(Vec::new());
        said.len() - 1
    };
    let server = TcpStream::connect(upstream).await.unwrap();
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
        if let Some(kept) = said.lock().unwrap().get_mut(place) {
            kept.extend_from_slice(&buffer[..read]);
        }
        if to_server.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
