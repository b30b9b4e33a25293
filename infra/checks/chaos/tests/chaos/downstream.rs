//! Plays the destination of the events. The destination supports idempotency keys, and otherwise
//! fails at random.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shared::base::clock::UnixMillis;
use tokio::net::{TcpListener, TcpStream};

use crate::caller::{Callers, Connection};
use crate::fault_schedule::{Protection, Sky};
use crate::history::{History, UNNAMED};
use crate::sender::{Kind, hash_id};
use testkit::wire::{Message, Socket, reset};

/// A time that is longer than the processor waits for an answer.
const TOO_LATE: Duration = Duration::from_secs(21);

pub(crate) struct Downstream {
    pub(crate) url: String,
    inner: Arc<Inner>,
}

struct Inner {
    sky: Arc<Sky>,
    history: Arc<History>,
    done: Mutex<HashSet<String>>,
    /// The processes of the processor. A poison event kills the one that calls.
    processors: Callers,
}

/// The effect of a call at the destination, and the response to the caller.
#[derive(Clone, Copy)]
enum Answer {
    /// The call is applied, and answered with success.
    Ok,
    Status(u16),
    /// The call is not applied, and the connection is reset.
    Refused,
    /// The call is applied, but not answered.
    Dropped,
    /// The call is applied, and the answer ends in its head or body.
    Cut,
    /// The call is applied after the caller has given up.
    Late,
    /// The call is applied, and answered with an error.
    DoneAnd500,
    Killed,
}

impl Downstream {
    pub(crate) async fn start(sky: &Arc<Sky>, history: &Arc<History>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let inner = Arc::new(Inner {
            sky: Arc::clone(sky),
            history: Arc::clone(history),
            done: Mutex::default(),
            processors: Callers::default(),
        });
        let served = Arc::clone(&inner);
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

    pub(crate) fn is_called_by(&self, processors: impl Fn() -> Vec<u32> + Send + Sync + 'static) {
        self.inner.processors.are(processors);
    }
}

impl Inner {
    async fn serve(&self, client: TcpStream, from: Connection) {
        let _ = client.set_nodelay(true);
        let mut client = Socket::new(client);
        while let Some(request) = Message::read(&mut client).await {
            if self.call(&request, &mut client, from).await.is_none() {
                return;
            }
        }
    }

    /// Handles a call. Returns `None` if the connection has to be closed.
    async fn call(&self, request: &Message, client: &mut Socket, from: Connection) -> Option<()> {
        let (action, source) = request.path().trim_start_matches('/').split_once('/')?;
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let key = request.header("idempotency-key")?.to_owned();
        let id = self.event(source, request, &body);
        let mut answer = self.decide(body["kind"].as_str().unwrap_or_default());
        let work = self.sky.weather.work;
        tokio::time::sleep(self.sky.dice.between(Duration::ZERO, work)).await;
        if matches!(answer, Answer::Late) {
            tokio::time::sleep(TOO_LATE).await;
        }
        if matches!(answer, Answer::Killed) && !self.kill(from).await {
            answer = Answer::Refused;
        }
        let applied = answer.does_it() && self.apply(&key);
        self.history.arrival(&json!({
            "at": UnixMillis::now().0, "action": action, "source": source, "id": id, "key": key,
            // An action such as an issue builds its own body, so the body has no hash to compare.
            "sha": (action == "http").then(|| hex::encode(Sha256::digest(&request.body))),
            "attempt": request.header("mitt-attempt"),
            "answer": answer.word(), "applied": applied,
        }));
        match answer {
            Answer::Refused => {
                reset(client);
                None
            }
            Answer::Killed | Answer::Dropped | Answer::Late => None,
            Answer::Cut => {
                said(200).write_half(client).await;
                reset(client);
                None
            }
            Answer::Ok => said(200).write(client).await.ok(),
            Answer::DoneAnd500 => said(500).write(client).await.ok(),
            Answer::Status(status) => said(status).write(client).await.ok(),
        }
    }

    /// Returns the provider's id of the event: from the event's body, or from the short id in the
    /// request.
    fn event(&self, source: &str, request: &Message, body: &Value) -> String {
        if source == "x-main" {
            return hash_id(&request.body);
        }
        if let (Some(id), Some(short)) = (body["id"].as_str(), request.header("mitt-event-id")) {
            self.history.names(short, id);
            return id.to_owned();
        }
        // The other action of the event can call earlier, or much later.
        UNNAMED.to_owned() + body["event"].as_str().unwrap_or_default()
    }

    fn decide(&self, kind: &str) -> Answer {
        match Kind::of(kind) {
            Kind::Poison => return Answer::Killed,
            Kind::Permanent => return Answer::Status(422),
            Kind::Plain | Kind::Held => {}
        }
        let (sky, dice) = (&self.sky, &self.sky.dice);
        if !sky.is_stormy() || !dice.chance(sky.weather.downstream_faults) {
            return Answer::Ok;
        }
        let answer = match dice.below(40) {
            0 => Answer::Late,
            1..8 => Answer::Refused,
            8..15 => Answer::Dropped,
            15..20 => Answer::Cut,
            20..25 => Answer::DoneAnd500,
            25..30 => Answer::Status(500),
            30..35 => Answer::Status(503),
            _ => Answer::Status(429),
        };
        sky.count(format!("downstream {}", answer.word()));
        answer
    }

    /// Applies an effect. Returns whether the effect is new and was not applied before.
    fn apply(&self, key: &str) -> bool {
        if self.sky.is_without(Protection::Deed) {
            return false;
        }
        let new = self.done.lock().unwrap().insert(key.to_owned());
        new || self.sky.is_without(Protection::Keys)
    }

    /// Kills the caller. Returns `false` if no process is found, because it is already dead.
    async fn kill(&self, caller: Connection) -> bool {
        let Some(process) = self.processors.find(caller).await else {
            return false;
        };
        self.history.death(process, "killed by poison");
        crate::killer::kill(process);
        self.sky.count("killed by poison");
        true
    }
}

impl Answer {
    fn does_it(self) -> bool {
        !matches!(self, Self::Status(_) | Self::Refused | Self::Killed)
    }

    fn word(self) -> String {
        match self {
            Self::Ok => "200".to_owned(),
            Self::Status(status) => status.to_string(),
            Self::Refused => "refused".to_owned(),
            Self::Dropped => "dropped".to_owned(),
            Self::Cut => "cut".to_owned(),
            Self::Late => "late".to_owned(),
            Self::DoneAnd500 => "done and 500".to_owned(),
            Self::Killed => "killed".to_owned(),
        }
    }
}

fn said(status: u16) -> Message {
    let more = if status == 429 {
        "retry-after: 1\r\n"
    } else {
        ""
    };
    Message::answer(status, "application/json", more, r#"{"number":4417}"#)
}
