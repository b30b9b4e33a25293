//! A proxy in front of DynamoDB. It counts the requests, and a test can let it drop, delay or
//! answer a request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{Either, LocalBoxFuture, select};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

pub(crate) struct Proxy {
    pub(crate) url: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The operations that passed, in order.
    passed: Mutex<Vec<String>>,
    rules: Mutex<Vec<Rule>>,
}

/// The fault for requests with this operation and this text in their body.
struct Rule {
    operation: &'static str,
    containing: &'static str,
    deed: Deed,
}

enum Deed {
    /// DynamoDB executes the request, but the proxy drops the response.
    LoseAnswer,
    /// The request waits in the proxy.
    Hold(oneshot::Sender<()>, oneshot::Receiver<()>),
    /// DynamoDB reports a transaction in progress on the item.
    Conflict,
}

/// A request that waits in the proxy.
pub(crate) struct Held {
    pub(crate) arrived: oneshot::Receiver<()>,
    release: oneshot::Sender<()>,
}

impl Held {
    /// Starts a call, runs other code while the request of the call waits, and then releases the
    /// request.
    pub(crate) fn around<'a, C: 'a, T: 'a>(
        self,
        call: impl Future<Output = C> + 'a,
        meanwhile: impl Future<Output = T> + 'a,
    ) -> LocalBoxFuture<'a, (C, T)> {
        Box::pin(async move {
            let mut call = Box::pin(call);
            match select(&mut call, self.arrived).await {
                Either::Left(_) => panic!("the call ended without the expected request"),
                Either::Right((arrived, _)) => arrived.expect("the proxy is running"),
            }
            let done = meanwhile.await;
            self.release.send(()).expect("the request is still waiting");
            (call.await, done)
        })
    }
}

impl Proxy {
    pub(crate) async fn start(upstream: &str) -> Self {
        let upstream = upstream.trim_start_matches("http://").to_owned();
        let upstream = upstream.trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State::default());
        let served = Arc::clone(&state);
        // The task ends with the runtime of the test.
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (upstream, state) = (upstream.clone(), Arc::clone(&served));
                tokio::spawn(async move { state.serve(client, &upstream).await });
            }
        });
        Self { url, state }
    }

    /// Drops the response to the next matching request.
    pub(crate) fn lose_answer(&self, operation: &'static str, containing: &'static str) {
        self.rule(operation, containing, Deed::LoseAnswer);
    }

    /// Lets the next `times` requests of this operation conflict with a transaction.
    pub(crate) fn conflict(&self, operation: &'static str, times: usize) {
        self.conflict_on(operation, "", times);
    }

    pub(crate) fn conflict_on(
        &self,
        operation: &'static str,
        containing: &'static str,
        times: usize,
    ) {
        for _ in 0..times {
            self.rule(operation, containing, Deed::Conflict);
        }
    }

    /// Holds the next matching request in the proxy.
    pub(crate) fn hold(&self, operation: &'static str, containing: &'static str) -> Held {
        let (arrived_sender, arrived) = oneshot::channel();
        let (release, release_receiver) = oneshot::channel();
        let deed = Deed::Hold(arrived_sender, release_receiver);
        self.rule(operation, containing, deed);
        Held { arrived, release }
    }

    /// Returns the number of requests by operation.
    pub(crate) fn count(&self) -> BTreeMap<String, usize> {
        let passed = lock(&self.state.passed);
        passed.iter().fold(BTreeMap::new(), |mut count, operation| {
            *count.entry(operation.clone()).or_default() += 1;
            count
        })
    }

    fn rule(&self, operation: &'static str, containing: &'static str, deed: Deed) {
        lock(&self.state.rules).push(Rule {
            operation,
            containing,
            deed,
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let left = lock(&self.state.rules).len();
            assert_eq!(left, 0, "{left} expected requests did not arrive");
        }
    }
}

impl State {
    async fn serve(&self, client: TcpStream, upstream: &str) {
        let server = TcpStream::connect(upstream).await.unwrap();
        let (mut client, mut server) = (BufReader::new(client), BufReader::new(server));
        while let Some(request) = Message::read(&mut client).await {
            let operation = request.operation();
            lock(&self.passed).push(operation.clone());
            let deed = self.take(&operation, &String::from_utf8_lossy(&request.body));
            match deed {
                Some(Deed::Conflict) => {
                    if client.write_all(CONFLICT.as_bytes()).await.is_err() {
                        return;
                    }
                    continue;
                }
                Some(Deed::Hold(arrived, release)) => {
                    let _ = arrived.send(());
                    if release.await.is_err() {
                        return;
                    }
                    request.write(&mut server).await;
                }
                Some(Deed::LoseAnswer) => {
                    request.write(&mut server).await;
                    Message::read(&mut server).await;
                    return;
                }
                None => request.write(&mut server).await,
            }
            let Some(answer) = Message::read(&mut server).await else {
                return;
            };
            answer.write(&mut client).await;
        }
    }

    fn take(&self, operation: &str, body: &str) -> Option<Deed> {
        let mut rules = lock(&self.rules);
        let fits = |rule: &Rule| rule.operation == operation && body.contains(rule.containing);
        let index = rules.iter().position(fits)?;
        Some(rules.remove(index).deed)
    }
}

const CONFLICT: &str = concat!(
    "HTTP/1.1 400 Bad Request\r\ncontent-type: application/x-amz-json-1.0\r\n",
    "content-length: 98\r\n\r\n",
    r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionConflictException","message":"in conflict"}"#
);

/// An HTTP message, as bytes.
struct Message {
    head: String,
    body: Vec<u8>,
}

impl Message {
    async fn read(from: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if from.read_line(&mut head).await.ok()? == 0 {
                return None;
            }
        }
        let mut message = Self {
            head,
            body: Vec::new(),
        };
        // The SDK and the emulators send a `content-length`.
        let length = message.header("content-length");
        let length = length.map_or(0, |length| length.parse().unwrap());
        message.body.resize(length, 0);
        from.read_exact(&mut message.body).await.ok()?;
        Some(message)
    }

    async fn write(&self, to: &mut BufReader<TcpStream>) {
        // A client that has closed the connection needs no response.
        let _ = to.write_all(self.head.as_bytes()).await;
        let _ = to.write_all(&self.body).await;
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value.trim())
    }

    /// Returns the operation, such as `PutItem` from the header value `DynamoDB_20120810.PutItem`.
    fn operation(&self) -> String {
        let target = self.header("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next();
        operation.unwrap_or_default().to_owned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
