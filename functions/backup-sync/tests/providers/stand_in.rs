//! A server that plays a provider.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::Response;
use shared::base::clock::UnixMillis;
use tokio::task::JoinHandle;

use super::play::{Answer, Happened, Page, Play, Request, Skip};

/// How a request fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    /// 429 with `Retry-After: 1`.
    TooMany,
    ServerError,
    /// A truncated response.
    BadPage,
}

pub(crate) struct StandIn {
    pub(crate) base: String,
    world: Arc<World>,
    server: JoinHandle<()>,
}

struct World {
    play: Arc<Play>,
    base: String,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    /// The events, oldest first.
    events: Vec<Happened>,
    requests: usize,
    failures: VecDeque<Failure>,
    asked_again: BTreeSet<String>,
    /// Events that are listed but cannot be fetched.
    gone: BTreeSet<String>,
    /// The provider has forgotten the positions in the list up to this one.
    forgotten: Option<usize>,
    elsewhere: Option<String>,
    /// The requests of the actions.
    effects: Vec<Request>,
    /// Changes every request before it is processed, and every response.
    hears: Option<fn(&mut Request)>,
    says: Option<fn(&mut Answer)>,
}

impl StandIn {
    pub(crate) async fn start(play: Arc<Play>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let world = Arc::new(World {
            play,
            base: base.clone(),
            log: Mutex::default(),
        });
        let router = Router::new().fallback(answer).with_state(world.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            base,
            world,
            server,
        }
    }

    pub(crate) fn happen(&self, event: Happened) {
        let mut log = self.world.log();
        log.events.push(event);
        log.events.sort_by_key(|event| event.at);
    }

    /// Makes the next requests fail like this, one request for each failure.
    pub(crate) fn fail(&self, failures: &[Failure]) {
        self.world.log().failures.extend(failures);
    }

    pub(crate) fn requests(&self) -> usize {
        self.world.log().requests
    }

    pub(crate) fn asked_again(&self) -> BTreeSet<String> {
        self.world.log().asked_again.clone()
    }

    /// Returns the requests that the actions sent to `/app`.
    pub(crate) fn effects(&self) -> Vec<Request> {
        self.world.log().effects.clone()
    }

    /// Records that the inbox has acknowledged the event.
    pub(crate) fn delivered(&self, id: &str) {
        let mut log = self.world.log();
        for event in log.events.iter_mut().filter(|event| event.id == id) {
            event.status = 200;
        }
    }

    pub(crate) fn forget(&self, id: &str) {
        self.world.log().gone.insert(id.to_owned());
    }

    pub(crate) fn forget_places(&self) {
        let mut log = self.world.log();
        log.forgotten = Some(log.events.len());
    }

    /// Changes every request before it is processed.
    pub(crate) fn mishear(&self, hears: fn(&mut Request)) {
        self.world.log().hears = Some(hears);
    }

    /// Changes every response.
    pub(crate) fn misspeak(&self, says: fn(&mut Answer)) {
        self.world.log().says = Some(says);
    }

    /// Ends all failures and changes.
    pub(crate) fn recover(&self) {
        let mut log = self.world.log();
        (log.hears, log.says, log.elsewhere) = (None, None, None);
    }

    /// Removes the events after a time.
    pub(crate) fn undo_after(&self, time: UnixMillis) {
        self.world.log().events.retain(|event| event.at <= time);
    }

    /// Makes every page name this URL as the next page.
    pub(crate) fn point_elsewhere(&self, url: &str) {
        self.world.log().elsewhere = Some(url.to_owned());
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl World {
    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &Request) -> Answer {
        let mut log = self.log();
        let mut request = request.clone();
        if let Some(hears) = log.hears {
            hears(&mut request);
        }
        let mut answer = self.heard(&request, &mut log);
        if let Some(says) = log.says {
            says(&mut answer);
        }
        answer
    }

    fn heard(&self, request: &Request, log: &mut Log) -> Answer {
        log.requests += 1;
        let failure = log.failures.pop_front();
        match failure {
            Some(Failure::TooMany) => {
                return Answer {
                    headers: vec![("retry-after", "1".to_owned())],
                    ..Answer::status(429)
                };
            }
            Some(Failure::ServerError) => return Answer::status(502),
            Some(Failure::BadPage) | None => {}
        }
        let mut answer = self.good(request, log);
        if failure.is_some() {
            let half = answer.body.len() / 2;
            answer.body.truncate(half);
        }
        if let Some(url) = &log.elsewhere {
            answer.body = answer
                .body
                .replace(&format!("{}/", self.base), &format!("{url}#"));
        }
        answer
    }

    fn good(&self, request: &Request, log: &mut Log) -> Answer {
        if request.is("POST", "/app") {
            log.effects.push(request.clone());
            return Answer::status(200);
        }
        let parts: Vec<&str> = request.path.split('/').collect();
        let named = log.events.iter().find(|event| {
            let number = event.number.to_string();
            parts.contains(&event.id.as_str()) || parts.contains(&number.as_str())
        });
        if let Some(event) = named {
            if log.gone.contains(&event.id) {
                return Answer::status(404);
            }
            if request.method == "POST" {
                let id = event.id.clone();
                log.asked_again.insert(id);
            }
        }
        if let Some(answer) = self.play.other_answer(request, &log.events) {
            return answer;
        }
        match self.play.ask(request) {
            Err(status) => Answer::status(status),
            Ok(asked) => {
                if let (Some(forgotten), Skip::Count(count)) = (log.forgotten, &asked.skip)
                    && *count < forgotten
                {
                    return Answer::status(412);
                }
                let mut listed: Vec<&Happened> = log.events.iter().collect();
                if self.play.newest_first {
                    listed.reverse();
                }
                listed.retain(|event| asked.since.is_none_or(|since| event.at >= since));
                let begin = match &asked.skip {
                    Skip::Nothing => 0,
                    Skip::Count(count) => (*count).min(listed.len()),
                    Skip::Before(time) => {
                        let at = listed.iter().position(|event| event.at < *time);
                        at.unwrap_or(listed.len())
                    }
                    Skip::After(id) => match listed.iter().position(|event| event.id == *id) {
                        Some(at) => at + 1,
                        None => return Answer::status(400),
                    },
                };
                let end = (begin + self.play.size).min(listed.len());
                let shown = &listed[begin..end];
                self.play.page_of(Page {
                    items: shown.iter().map(|event| self.play.item_of(event)).collect(),
                    end,
                    last: shown.last().map(|event| event.id.clone()),
                    more: end < listed.len(),
                    request,
                })
            }
        }
    }
}

async fn answer(State(world): State<Arc<World>>, request: axum::extract::Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let query = head.uri.query().unwrap_or_default().split('&');
    let decoded = |text: &str| {
        let spaced = text.replace('+', " ");
        let decoded = percent_encoding::percent_decode_str(&spaced);
        decoded.decode_utf8_lossy().into_owned()
    };
    let request = Request {
        method: head.method.to_string(),
        path: decoded(head.uri.path()),
        query: query
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (decoded(name), decoded(value)))
            .collect(),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect::<BTreeMap<_, _>>(),
        body: String::from_utf8(body.to_vec()).unwrap(),
        base: world.base.clone(),
    };
    let answer = world.answer(&request);
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(answer.body)).unwrap()
}
