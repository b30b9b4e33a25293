//! The server of the console: a thread with a runtime of its own, so that six panels of a page read
//! at the same time.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OnceCell, Semaphore, oneshot};

use super::keep::Keep;
use super::live::Live;
use super::refusal::Refusal;
use super::session::{BadCode, Sessions};
use super::write::Writes;
use super::{api, assets, facts, guard, live, write};
use crate::cli::Global;
use crate::output::CliError;
use crate::reads::{Answer, Reader};

/// The usual port of a console.
const USUAL_PORT: u16 = 8788;

/// The maximum number of reads at the same time. Further reads wait.
const READS_AT_ONCE: usize = 8;

/// The maximum number of open streams.
const STREAMS: usize = 4;

/// The stack of each thread. Some commands need more than the default of 2 MB in a debug build.
const STACK: usize = 8 * 1024 * 1024;

pub(in crate::verbs) struct Options {
    /// Without it, the usual port, or a free one if another program uses the usual port.
    pub(in crate::verbs) port: Option<u16>,
    pub(in crate::verbs) write: bool,
    /// The page hides what senders wrote until the operator holds a key.
    pub(in crate::verbs) private: bool,
    /// How long a code is good. Without it, a code is good until it is used.
    pub(in crate::verbs) code_life: Option<Duration>,
}

/// What the terminal of the console prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::verbs) enum Notice {
    /// A page has a session.
    Opened,
    /// A code was used a second time.
    UsedAgain,
}

/// A running server. It stops when this value is dropped.
pub(in crate::verbs) struct Server {
    console: Arc<Console>,
    pub(in crate::verbs) notices: UnboundedReceiver<Notice>,
    _stop: oneshot::Sender<()>,
}

/// What all requests share.
pub(super) struct Console {
    pub(super) reader: Reader,
    pub(super) options: Options,
    pub(super) port: u16,
    pub(super) sessions: Sessions,
    pub(super) answers: Keep<Arc<Answer>>,
    pub(super) live: Live,
    pub(super) writes: Writes,
    pub(super) reads: Arc<Semaphore>,
    pub(super) streams: Arc<Semaphore>,
    /// The operator, read once.
    pub(super) who: OnceCell<Option<String>>,
    notices: UnboundedSender<Notice>,
}

impl Server {
    /// Starts the server for the inbox that the options of the command line select.
    pub(in crate::verbs) fn start(global: &Global, options: Options) -> anyhow::Result<Self> {
        let listener = match options.port {
            Some(port) => bind(port)?,
            None => bind(USUAL_PORT).or_else(|_| bind(0))?,
        };
        let (tell, notices) = unbounded_channel();
        let console = Arc::new(Console {
            reader: Reader::new(global, crate::verbs::run_boxed),
            port: listener.local_addr().context("read the port")?.port(),
            options,
            sessions: Sessions::default(),
            answers: Keep::default(),
            live: Live::default(),
            writes: Writes::default(),
            reads: Arc::new(Semaphore::new(READS_AT_ONCE)),
            streams: Arc::new(Semaphore::new(STREAMS)),
            who: OnceCell::new(),
            notices: tell,
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_stack_size(STACK)
            .thread_name("console")
            .enable_all()
            .build()
            .context("start the runtime of the console")?;
        let served = Arc::clone(&console);
        std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    ended = serve(listener, served) => if let Err(error) = ended {
                        tracing::warn!(error = format!("{error:#}"), "the console stopped");
                    },
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        });
        Ok(Self {
            console,
            notices,
            _stop: stop,
        })
    }

    /// Returns the address of the page, without a code.
    pub(in crate::verbs) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.console.port)
    }

    /// Returns the address of the page with a new code.
    pub(in crate::verbs) fn address(&self) -> anyhow::Result<String> {
        let life = self.console.options.code_life;
        let code = self.console.sessions.new_code(life, Instant::now())?;
        Ok(format!("{}#code={code}", self.url()))
    }

    /// Returns whether a replay of this process runs.
    pub(in crate::verbs) fn is_busy(&self) -> bool {
        self.console.writes.is_busy()
    }

    pub(in crate::verbs) fn end_sessions(&self) {
        self.console.sessions.end_all();
    }
}

fn bind(port: u16) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
        if error.kind() != std::io::ErrorKind::AddrInUse {
            return anyhow::Error::new(error).context(format!("listen on 127.0.0.1:{port}"));
        }
        let message = format!("port {port} is in use by another program");
        CliError::failed("console.port", message)
            .tip("webhookctl console --port 0 picks a free port")
            .into()
    })?;
    listener.set_nonblocking(true).context("set up the port")?;
    Ok(listener)
}

async fn serve(listener: TcpListener, console: Arc<Console>) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let router = Router::new().fallback(handle).with_state(console);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, service).await?)
}

async fn handle(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let (request, body) = request.into_parts();
    let answer = match guard::check(&request, console.port, peer.ip()) {
        Ok(()) => console.answer(&request, body).await,
        Err(refusal) => Err(refusal),
    };
    let mut response = answer.unwrap_or_else(Refusal::into_response);
    guard::seal(response.headers_mut());
    response
}

impl Console {
    async fn answer(self: &Arc<Self>, request: &Parts, body: Body) -> Result<Response, Refusal> {
        let path = request.uri.path();
        if path == "/session" {
            return self.session(request, body).await;
        }
        let Some(name) = path.strip_prefix("/api/") else {
            let asset = (request.method == Method::GET)
                .then(|| assets::find(&request.uri, &request.headers));
            return asset.flatten().ok_or_else(|| no_page(path));
        };
        self.authorized(request)?;
        if request.method == Method::POST {
            return if self.options.write {
                write::write(self, name, body).await
            } else {
                Err(no_page(path))
            };
        }
        if let Some(id) = name.strip_prefix("body/") {
            return api::body(self, id).await;
        }
        let pairs = api::pairs(&request.uri)?;
        if name == "inbox.tail" {
            return live::stream(self, &pairs, &request.headers).await;
        }
        api::read(self, name, &pairs).await
    }

    async fn session(&self, request: &Parts, body: Body) -> Result<Response, Refusal> {
        if request.method == Method::GET {
            self.authorized(request)?;
            return facts::current(self).await;
        }
        let code = api::json::<facts::Code>(body).await?.code;
        let token = self
            .sessions
            .exchange(&code, Instant::now())
            .map_err(|error| failed(&error))?;
        match token {
            Ok(token) => {
                let _ = self.notices.send(Notice::Opened);
                facts::with_token(self, token).await
            }
            Err(bad) => {
                if bad == BadCode::Used {
                    let _ = self.notices.send(Notice::UsedAgain);
                }
                Err(bad.error().into())
            }
        }
    }

    fn authorized(&self, request: &Parts) -> Result<(), Refusal> {
        let token = guard::bearer(&request.headers);
        if token.is_some_and(|token| self.sessions.accepts(token, Instant::now())) {
            return Ok(());
        }
        let message = "this page has no session, or its session has ended";
        let error = CliError::new("console.session", crate::output::Exit::Denied, message)
            .tip("press o in the terminal of the console, or start it again");
        Err(Refusal::new(StatusCode::UNAUTHORIZED, error))
    }
}

pub(super) fn failed(error: &anyhow::Error) -> Refusal {
    CliError::failed("failed", format!("{error:#}")).into()
}

pub(super) fn no_page(path: &str) -> Refusal {
    CliError::not_found(
        "console.no_page",
        format!("the console has no page '{path}'"),
    )
    .into()
}
