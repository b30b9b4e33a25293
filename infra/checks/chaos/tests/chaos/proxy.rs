//! A proxy between the functions and one service. It makes requests fail, and records the writes
//! that the table accepted.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use tokio::net::{TcpListener, TcpStream};

use crate::caller::{Callers, Connection};
use crate::fault_schedule::Sky;
use crate::faults::{self, Fault};
use crate::history::{History, plain};
use crate::strip;
use testkit::wire::{Message, Socket, reset};

/// A proxy in front of one service. Its upstream address is set when the service has started.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) url: String,
    inner: Arc<Inner>,
}

struct Inner {
    service: &'static str,
    upstream: OnceLock<String>,
    sky: Arc<Sky>,
    history: Arc<History>,
    functions: Callers,
}

impl Proxy {
    pub(crate) async fn start(
        service: &'static str,
        sky: &Arc<Sky>,
        history: &Arc<History>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let inner = Arc::new(Inner {
            service,
            upstream: OnceLock::new(),
            sky: Arc::clone(sky),
            history: Arc::clone(history),
            functions: Callers::default(),
        });
        let served = Arc::clone(&inner);
        // The task ends when the runtime of the test ends.
        tokio::spawn(async move {
            let here = listener.local_addr().unwrap();
            while let Ok((client, peer)) = listener.accept().await {
                let inner = Arc::clone(&served);
                let connection = Connection { peer, here };
                tokio::spawn(async move { inner.serve(client, connection).await });
            }
        });
        Self { url, inner }
    }

    pub(crate) fn stand_before(&self, url: &str) {
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        self.inner.upstream.set(address.to_owned()).unwrap();
    }

    /// Sets the client processes, so that the history can name the writer of a row.
    pub(crate) fn is_called_by(&self, processes: impl Fn() -> Vec<u32> + Send + Sync + 'static) {
        self.inner.functions.are(processes);
    }
}

impl Inner {
    async fn serve(&self, client: TcpStream, connection: Connection) {
        let Some(upstream) = self.upstream.get() else {
            return;
        };
        let Ok(server) = TcpStream::connect(upstream).await else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        // The process must be found now, while it is alive.
        let by = self.functions.find(connection).await;
        let (mut client, mut server) = (Socket::new(client), Socket::new(server));
        while let Some(request) = Message::read(&mut client).await {
            let fault = self.sky.fault(self.service, &request);
            if self
                .pass(&request, fault, by, &mut client, &mut server)
                .await
                .is_none()
            {
                return;
            }
        }
    }

    /// Forwards a request. Returns `None` if the connection has to be closed.
    async fn pass(
        &self,
        request: &Message,
        fault: Option<Fault>,
        by: Option<u32>,
        client: &mut Socket,
        server: &mut Socket,
    ) -> Option<()> {
        match fault {
            Some(Fault::Refuse) => {
                reset(client);
                return None;
            }
            Some(Fault::Error) => return faults::error(self.service).write(client).await.ok(),
            Some(Fault::Throttle) => {
                return faults::throttled(self.service).write(client).await.ok();
            }
            Some(Fault::Late(time)) => tokio::time::sleep(time).await,
            Some(Fault::Twice) => {
                self.ask(request, by, server).await?;
            }
            Some(Fault::LoseAnswer | Fault::CutAnswer) | None => {}
        }
        let answer = self.ask(request, by, server).await?;
        match fault {
            Some(Fault::LoseAnswer) => None,
            Some(Fault::CutAnswer) => {
                answer.write_half(client).await;
                reset(client);
                None
            }
            _ => answer.write(client).await.ok(),
        }
    }

    /// Calls the service. The call continues even if the caller has given up.
    async fn ask(
        &self,
        request: &Message,
        by: Option<u32>,
        server: &mut Socket,
    ) -> Option<Message> {
        let stripped = strip::strip(request, self.sky.weather.without);
        stripped
            .as_ref()
            .unwrap_or(request)
            .write(server)
            .await
            .ok()?;
        let answer = Message::read(server).await?;
        if self.service == "DYNAMODB"
            && answer.is_ok()
            && let Some(write) = state_row_write(request, by, &answer)
        {
            self.history.write(&write);
        }
        Some(answer)
    }
}

/// Returns a write of a state row that the table accepted, with the epoch of its writer.
fn state_row_write(request: &Message, by: Option<u32>, answer: &Message) -> Option<Value> {
    let target = request.header("x-amz-target")?;
    let operation = target.rsplit('.').next()?;
    if !matches!(operation, "PutItem" | "UpdateItem") {
        return None;
    }
    let asked: Value = serde_json::from_slice(&request.body).ok()?;
    let key = asked.get("Key").or(asked.get("Item"))?;
    let pk = key["pk"]["S"].as_str()?;
    if key["sk"]["S"] != "M" || !pk.starts_with("E#") {
        return None;
    }
    let told: Value = serde_json::from_slice(&answer.body).ok()?;
    // Each update of a state row must request the row after the update. Without this row, the judge
    // would miss the update, and would not know who settled an event.
    let after = asked.get("Item").or(told.get("Attributes"))?;
    let said = |name: &str| asked["ExpressionAttributeValues"].get(name).map(plain);
    let kept = |name: &str| after.get(name).map_or(Value::Null, plain);
    Some(json!({
        "at": UnixMillis::now().0,
        "operation": operation,
        "pk": pk,
        "condition": asked["ConditionExpression"],
        "update": asked["UpdateExpression"].as_str().unwrap_or_default(),
        "epoch": said(":epoch"),
        "owner": said(":own"),
        "by": by,
        "seen": said(":seen").is_some(),
        "after": {
            "st": kept("st"), "epoch": kept("epoch"), "run": kept("run"),
            "att": kept("att"), "cr": kept("cr"), "own": kept("own"),
            "due": kept("due"),
        },
    }))
}
