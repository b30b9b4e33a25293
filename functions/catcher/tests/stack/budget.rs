//! The catcher answers in time, whatever the stores do, and acknowledges only events that they have
//! stored.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use testkit::programs;

use local::Options;
use shared::inbox::spill::Spill;
use shared::webhook::event::EventKey;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use super::{
    bad_input::noise,
    support::{Answer, Inbox, options, unique, with},
};

/// The maximum time of a response. Slack waits for 3 s, and a release build must answer in 2.8 s. A
/// debug build has a little more time, because the machine may compile something else at the same
/// time.
const PROMISE: Duration = Duration::from_millis(if cfg!(debug_assertions) { 3_000 } else { 2_800 });

/// The faults from which a service can recover.
pub(crate) const FAULTS: [Fault; 4] = [
    Fault::Silent,
    Fault::Error,
    Fault::Throttled,
    Fault::Late(Duration::from_secs(2)),
];

/// The number of bytes that are forwarded in one step.
const CHUNK: usize = 64 * 1024;

/// How a broken service behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Accepts everything and never answers.
    Silent,
    /// Answers 500.
    Error,
    /// Answers with the throttling error of DynamoDB.
    Throttled,
    /// Processes requests, and answers late.
    Late(Duration),
    /// Has stopped, and does not start again.
    Gone,
}

/// A proxy in front of an emulated service.
pub(crate) struct Proxy {
    port: u16,
    listener: Option<Arc<TcpListener>>,
    upstream: Option<SocketAddr>,
    task: Option<JoinHandle<()>>,
    /// Connections to the proxy. A broken service answers each of them at most once.
    connections: Arc<AtomicUsize>,
}

impl Proxy {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            port: listener.local_addr().unwrap().port(),
            listener: Some(Arc::new(listener)),
            upstream: None,
            task: None,
            connections: Arc::default(),
        }
    }

    /// Starts to forward to the service at this address.
    async fn reach(&mut self, url: &str) {
        self.upstream = Some(url.strip_prefix("http://").unwrap().parse().unwrap());
        self.mend().await;
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) async fn mend(&mut self) {
        self.become_(None).await;
    }

    pub(crate) async fn break_down(&mut self, fault: Fault) {
        self.become_(Some(fault)).await;
    }

    /// Sets the fault. Closes open connections, so that the fault applies to the next request.
    async fn become_(&mut self, fault: Option<Fault>) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
        if matches!(fault, Some(Fault::Gone)) {
            self.listener = None;
            return;
        }
        let listener = Arc::clone(
            self.listener
                .as_ref()
                .expect("a stopped service does not return"),
        );
        let upstream = self.upstream.expect("the stack has been started");
        let count = Arc::clone(&self.connections);
        self.task = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                connections.spawn(serve(client, upstream, fault));
            }
        }));
    }
}

async fn serve(mut client: TcpStream, upstream: SocketAddr, fault: Option<Fault>) {
    match fault {
        Some(Fault::Silent | Fault::Gone) => {
            let mut ignored = [0; 4096];
            while client.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
        }
        Some(answer @ (Fault::Error | Fault::Throttled)) => {
            let mut seen = Vec::new();
            while !is_whole(&seen) {
                if client.read_buf(&mut seen).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let answer = if matches!(answer, Fault::Error) {
                "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            } else {
                THROTTLED
            };
            let _ = client.write_all(answer.as_bytes()).await;
        }
        None | Some(Fault::Late(_)) => {
            let delay = if let Some(Fault::Late(delay)) = fault {
                delay
            } else {
                Duration::ZERO
            };
            let Ok(server) = TcpStream::connect(upstream).await else {
                return;
            };
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            let asked = AtomicBool::new(false);
            tokio::join!(
                async {
                    let mut buffer = vec![0; CHUNK];
                    while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
                        asked.store(true, Ordering::Relaxed);
                        if to_server.write_all(&buffer[..count]).await.is_err() {
                            break;
                        }
                    }
                },
                async {
                    let mut buffer = vec![0; CHUNK];
                    while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
                        // Delays each response once, whatever its number of chunks.
                        if asked.swap(false, Ordering::Relaxed) {
                            tokio::time::sleep(delay).await;
                        }
                        if to_client.write_all(&buffer[..count]).await.is_err() {
                            break;
                        }
                    }
                },
            );
        }
    }
}

const THROTTLED: &str = concat!(
    "HTTP/1.1 400 Bad Request\r\ncontent-type: application/x-amz-json-1.0\r\n",
    "content-length: 102\r\nconnection: close\r\n\r\n",
    r#"{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"wait"} "#
);

/// Returns whether a request is complete, with head and body.
fn is_whole(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    request.len() >= end + 4 + length.map_or(0, |length| length.trim().parse().unwrap())
}

/// An inbox whose catcher reaches the stores through proxies.
pub(crate) struct Shaky {
    pub(crate) inbox: Inbox,
    pub(crate) dynamodb: Proxy,
    pub(crate) sqs: Proxy,
    pub(crate) ssm: Proxy,
    pub(crate) s3: Proxy,
    /// The proxy of DynamoDB for backup-sync.
    pub(crate) workers: Proxy,
    folder: PathBuf,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

impl Drop for Shaky {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Shaky {
    pub(crate) async fn start() -> Self {
        // The test measures the catcher, so the check of permissions is off.
        Self::start_with(Options {
            rights: None,
            ..options()
        })
        .await
    }

    pub(crate) async fn start_with(options: Options) -> Self {
        // Makes the tests run one at a time, so that they do not slow each other down.
        static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let alone = ALONE.lock().await;
        let (dynamodb, sqs, ssm, s3, workers) = (
            Proxy::new().await,
            Proxy::new().await,
            Proxy::new().await,
            Proxy::new().await,
            Proxy::new().await,
        );
        let proxies = [
            ("DYNAMODB", &dynamodb),
            ("SQS", &sqs),
            ("SSM", &ssm),
            ("S3", &s3),
        ];
        let folder = launchers(
            &proxies.map(|(service, proxy)| (service, proxy.port)),
            &[("DYNAMODB", workers.port)],
        );
        let inbox = Inbox::start(Options {
            binaries: folder.clone(),
            ..options
        })
        .await;
        let mut shaky = Self {
            inbox,
            dynamodb,
            sqs,
            ssm,
            s3,
            workers,
            folder,
            _alone: alone,
        };
        let at = shaky.inbox.stack.function_endpoints().clone();
        shaky.workers.reach(&at.dynamodb).await;
        for (proxy, url) in shaky
            .proxies()
            .into_iter()
            .zip([at.dynamodb, at.sqs, at.ssm, at.s3])
        {
            proxy.reach(&url).await;
        }
        shaky
    }

    fn proxies(&mut self) -> [&mut Proxy; 4] {
        [
            &mut self.dynamodb,
            &mut self.sqs,
            &mut self.ssm,
            &mut self.s3,
        ]
    }

    /// Posts a new event, and checks the time of the response.
    #[expect(clippy::print_stdout, reason = "`--nocapture` shows what was measured")]
    pub(crate) async fn post(&self, what: &str, body: &[u8]) -> (EventKey, Answer) {
        let id = unique();
        // The same bytes under another id would be quarantined.
        let body = [id.as_bytes(), body].concat();
        let headers = with(
            self.inbox.github(&id, &body),
            "content-type",
            "application/octet-stream",
        );
        let start = Instant::now();
        let answer = self.inbox.post("github-main", &headers, &body).await;
        let took = start.elapsed();
        println!(
            "{what}: {} after {:.2} s",
            answer.status,
            took.as_secs_f32()
        );
        assert!(
            took <= PROMISE,
            "{what}: {} only after {took:?}",
            answer.status
        );
        (EventKey::new("github-main", &id), answer)
    }

    pub(crate) async fn expect_kept(&self, what: &str, body: &[u8]) {
        let (key, answer) = self.post(what, body).await;
        assert_eq!(answer.status, 200, "{what}: {answer:?}");
        assert!(
            self.inbox.kept(&key).await.unwrap().ends_with(body),
            "{what}"
        );
    }

    pub(crate) async fn expect_another_try(&self, what: &str, body: &[u8]) -> EventKey {
        let (key, answer) = self.post(what, body).await;
        assert!(answer.asks_for_another_try(), "{what}: {answer:?}");
        key
    }

    /// Checks that the event is acknowledged, and that it is in the ledger after the drain.
    pub(crate) async fn expect_spilled(&self, what: &str, body: &[u8]) -> EventKey {
        let (key, answer) = self.post(what, body).await;
        assert_eq!(answer.status, 200, "{what}: {answer:?}");
        assert_eq!(self.waiting().await, 1, "{what}: it is in the spill queue");
        let report = self.drain().await;
        assert_eq!(
            (&report["messages"], &report["failed"]),
            (&1.into(), &0.into()),
            "{what}: {report}"
        );
        assert_eq!(self.waiting().await, 0, "{what}: it is drained");
        assert!(
            self.inbox.kept(&key).await.unwrap().ends_with(body),
            "{what}"
        );
        key
    }

    /// Runs the task that the schedule runs every minute.
    pub(crate) async fn drain(&self) -> serde_json::Value {
        let task = serde_json::json!({ "task": "drain" });
        self.inbox.invoke("BackupSync", &task).await.json().unwrap()
    }

    /// Returns the number of messages in the spill queue, including received ones.
    pub(crate) async fn waiting(&self) -> u64 {
        let sqs = self.inbox.stack.clients().sqs;
        let url = self.inbox.stack.queue_url("SpillQueue").unwrap();
        Spill::new(sqs, url).depth().await.unwrap()
    }
}

/// Creates a folder of programs that start the real functions with other endpoints. The programs
/// are needed because the stack overwrites endpoints in the environment with its own.
fn launchers(catcher: &[(&str, u16)], backup_sync: &[(&str, u16)]) -> PathBuf {
    use std::{fmt::Write as _, os::unix::fs::PermissionsExt as _};
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("functions-{}", unique()));
    std::fs::create_dir_all(&folder).unwrap();
    let real = programs().canonicalize().unwrap();
    std::os::unix::fs::symlink(real.join("processor"), folder.join("processor")).unwrap();
    for (name, ports) in [("catcher", catcher), ("backup-sync", backup_sync)] {
        let mut script = String::from("#!/bin/sh\n");
        for (service, port) in ports {
            writeln!(
                script,
                "export AWS_ENDPOINT_URL_{service}=http://127.0.0.1:{port}"
            )
            .unwrap();
        }
        writeln!(script, "exec '{}'", real.join(name).display()).unwrap();
        let path = folder.join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

#[tokio::test]
async fn without_the_ledger_an_event_is_spilled_in_time() {
    let mut shaky = Shaky::start().await;
    let large = noise(200_000);
    shaky.expect_kept("healthy, cold", b"").await;
    shaky.expect_kept("all well", b"").await;
    for fault in [&FAULTS[..], &[Fault::Gone]].concat() {
        shaky.dynamodb.break_down(fault).await;
        for (what, body) in [("", &b""[..]), (", large", &large)] {
            let key = shaky
                .expect_spilled(&format!("dynamodb {fault:?}{what}"), body)
                .await;
            let row = shaky.inbox.row(&key).await;
            assert!(row.contains_key("spl"), "{fault:?}{what}: {row:?}");
        }
        if !matches!(fault, Fault::Gone) {
            shaky.dynamodb.mend().await;
            shaky
                .expect_kept(&format!("after dynamodb {fault:?}"), b"")
                .await;
        }
    }
    shaky.inbox.is_unharmed();
}

#[tokio::test]
async fn without_the_queue_an_event_is_still_stored() {
    let mut shaky = Shaky::start().await;
    shaky.expect_kept("healthy, cold", b"").await;
    for fault in [&FAULTS[..], &[Fault::Gone]].concat() {
        shaky.sqs.break_down(fault).await;
        shaky.expect_kept(&format!("sqs {fault:?}"), b"").await;
    }
    shaky.inbox.is_unharmed();
}

#[tokio::test]
async fn without_the_bucket_only_bodies_beyond_a_message_have_to_wait() {
    let mut shaky = Shaky::start().await;
    let (large, largest) = (noise(200_000), noise(1_000_000));
    shaky.expect_kept("healthy, cold, large", &large).await;
    for fault in [&FAULTS[..], &[Fault::Gone]].concat() {
        shaky.s3.break_down(fault).await;
        let key = shaky
            .expect_another_try(&format!("s3 {fault:?}, largest"), &largest)
            .await;
        assert_eq!(
            shaky.inbox.find(&key).await,
            None,
            "a row points to a missing body"
        );
        shaky
            .expect_spilled(&format!("s3 {fault:?}, large"), &large)
            .await;
        shaky.expect_kept(&format!("s3 {fault:?}"), b"").await;
    }
    shaky.inbox.is_unharmed();
}

#[tokio::test]
async fn without_secrets_at_the_start_every_answer_is_503() {
    let mut shaky = Shaky::start().await;
    for fault in [&FAULTS[..], &[Fault::Gone]].concat() {
        shaky.ssm.break_down(fault).await;
        shaky
            .expect_another_try(&format!("ssm {fault:?}, cold"), b"")
            .await;
        shaky
            .expect_another_try(&format!("ssm {fault:?}, again"), b"")
            .await;
        let forged = with(
            shaky.inbox.github("1", b""),
            "x-hub-signature-256",
            "sha256=00",
        );
        let answer = shaky.inbox.post("github-main", &forged, b"").await;
        assert!(
            answer.asks_for_another_try(),
            "ssm {fault:?}, forged: {answer:?}"
        );
        if !matches!(fault, Fault::Gone) {
            shaky.ssm.mend().await;
            shaky
                .expect_kept(&format!("after ssm {fault:?}"), b"")
                .await;
        }
        shaky.inbox.is_unharmed();
        shaky.inbox.kill_catcher().await;
    }
}

#[tokio::test]
async fn two_hundred_secrets_are_no_reason_to_wait() {
    let mut shaky = Shaky::start().await;
    let path = shaky.inbox.stack.secrets_path("Catcher").unwrap();
    for n in 0..200 {
        let put = shaky.inbox.stack.clients().ssm.put_parameter();
        let put = put.name(format!("{path}/a-source-{n}/current"));
        let put = put.value(format!("secret {n}"));
        let kind = aws_sdk_ssm::types::ParameterType::SecureString;
        put.r#type(kind).send().await.unwrap();
    }
    // A page has ten parameters. If the catcher read one page after the other, this would take four
    // seconds.
    let late = Fault::Late(Duration::from_millis(200));
    shaky.ssm.break_down(late).await;
    shaky.expect_kept("200 secrets, cold", b"").await;
    shaky.inbox.is_unharmed();
}

#[tokio::test]
async fn a_refusal_is_a_refusal_in_time_whether_it_can_be_kept_or_not() {
    let mut shaky = Shaky::start().await;
    for fault in [&FAULTS[..], &[Fault::Gone]].concat() {
        shaky.expect_kept("healthy, cold", b"").await;
        shaky.dynamodb.break_down(fault).await;
        for again in ["first", "second"] {
            let forged = with(
                shaky.inbox.github("1", b""),
                "x-hub-signature-256",
                &format!("sha256={}", "0".repeat(64)),
            );
            let start = Instant::now();
            let answer = shaky.inbox.post("github-main", &forged, b"").await;
            let took = start.elapsed();
            assert_eq!(answer.status, 401, "dynamodb {fault:?}: {answer:?}");
            assert!(took <= PROMISE, "dynamodb {fault:?}: only after {took:?}");
            // A service that has just failed does not delay the next request.
            assert!(
                again == "first" || took < Duration::from_millis(500),
                "dynamodb {fault:?}, again: only after {took:?}"
            );
        }
        shaky.inbox.is_unharmed();
        if !matches!(fault, Fault::Gone) {
            shaky.dynamodb.mend().await;
            shaky.inbox.kill_catcher().await;
        }
    }
}

#[tokio::test]
async fn secrets_once_read_outlast_their_store() {
    let mut shaky = Shaky::start().await;
    shaky.expect_kept("healthy, cold", b"").await;
    for fault in [&FAULTS[..], &[Fault::Gone]].concat() {
        shaky.ssm.break_down(fault).await;
        shaky
            .expect_kept(&format!("ssm {fault:?}, warm"), b"")
            .await;
        let forged = with(
            shaky.inbox.github("1", b""),
            "x-hub-signature-256",
            "sha256=00",
        );
        let answer = shaky.inbox.post("github-main", &forged, b"").await;
        assert_eq!(answer.status, 401, "ssm {fault:?}, forged: {answer:?}");
    }
    shaky.inbox.is_unharmed();
}

#[tokio::test]
async fn many_slow_answers_together_do_not_take_longer_than_one_budget() {
    let mut shaky = Shaky::start().await;
    let large = noise(200_000);
    // At a cold start, a large delivery waits for four responses in sequence, and for the queue.
    for (late, kept) in [(200, true), (690, false)] {
        for proxy in shaky.proxies() {
            proxy
                .break_down(Fault::Late(Duration::from_millis(late)))
                .await;
        }
        let what = format!("every store {late} ms late, cold, large");
        if kept {
            shaky.expect_kept(&what, &large).await;
        } else {
            shaky.expect_another_try(&what, &large).await;
        }
        shaky.inbox.is_unharmed();
        shaky.inbox.kill_catcher().await;
    }
    for fault in [&FAULTS[..], &[Fault::Gone]].concat() {
        for proxy in shaky.proxies() {
            proxy.break_down(fault).await;
        }
        shaky
            .expect_another_try(&format!("every store {fault:?}, cold"), &large)
            .await;
        shaky.inbox.kill_catcher().await;
    }
}
