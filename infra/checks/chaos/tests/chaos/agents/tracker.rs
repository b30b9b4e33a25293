//! Plays the tracker in which workers open tickets. It ignores idempotency keys. A caller can search
//! for the key that an earlier ticket has.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use testkit::wire::{Message, Socket, reset};
use tokio::net::{TcpListener, TcpStream};

use crate::fault_schedule::Sky;
use crate::history::History;

/// The time of a call that arrives late. It is longer than the lease of its worker, and no longer
/// than the time after which a search for the ticket counts.
const LATE: (Duration, Duration) = (Duration::from_secs(40), Duration::from_secs(75));

pub(crate) struct Tracker {
    pub(crate) url: String,
    inner: Arc<Inner>,
}

struct Inner {
    sky: Arc<Sky>,
    history: Arc<History>,
    /// The number of the first ticket with each reference.
    tickets: Mutex<HashMap<String, usize>>,
    /// The references of all calls, also of those that opened no ticket yet.
    called: Mutex<HashSet<String>>,
}

/// What the tracker does with a call.
#[derive(Clone, Copy)]
enum Answer {
    Opened,
    /// The ticket is opened, and the answer is lost.
    Lost,
    /// The caller waits without an answer, and the ticket is opened when it no longer waits.
    Late(Duration),
    /// No ticket is opened.
    Busy,
}

impl Tracker {
    pub(crate) async fn start(sky: &Arc<Sky>, history: &Arc<History>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let inner = Arc::new(Inner {
            sky: Arc::clone(sky),
            history: Arc::clone(history),
            tickets: Mutex::default(),
            called: Mutex::default(),
        });
        let served = Arc::clone(&inner);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let inner = Arc::clone(&served);
                tokio::spawn(async move { inner.serve(client).await });
            }
        });
        Self { url, inner }
    }

    /// Returns the number of events for which a worker has called.
    pub(crate) fn called(&self) -> usize {
        self.inner.called.lock().unwrap().len()
    }
}

impl Inner {
    async fn serve(&self, client: TcpStream) {
        let _ = client.set_nodelay(true);
        let mut client = Socket::new(client);
        while let Some(request) = Message::read(&mut client).await {
            let answered = match request.path().split_once("?reference=") {
                Some((_, key)) => self.search(key, &mut client).await,
                None => self.open(&request, &mut client).await,
            };
            if answered.is_none() {
                return;
            }
        }
    }

    /// Finds every ticket that was opened before the request.
    async fn search(&self, key: &str, client: &mut Socket) -> Option<()> {
        let found = self.tickets.lock().unwrap().get(key).copied();
        self.sky.count(match found {
            Some(_) => "tracker searched, found",
            None => "tracker searched, not found",
        });
        numbered(found).write(client).await.ok()
    }

    /// Opens a ticket, whether or not its caller is still there. Returns `None` if the connection has
    /// to be closed.
    async fn open(&self, request: &Message, client: &mut Socket) -> Option<()> {
        let ticket: Value = serde_json::from_slice(&request.body).ok()?;
        let key = ticket["reference"].as_str()?;
        self.called.lock().unwrap().insert(key.to_owned());
        let answer = self.decide();
        self.sky.count(format!("tracker {}", answer.word()));
        let dice = &self.sky.dice;
        let takes = dice.between(Duration::ZERO, self.sky.weather.work);
        let before = dice.between(Duration::ZERO, takes);
        tokio::time::sleep(match answer {
            Answer::Late(late) => late,
            _ => before,
        })
        .await;
        let opened = !matches!(answer, Answer::Busy);
        let number = opened.then(|| self.add(key));
        self.history.arrival(&json!({
            "at": UnixMillis::now().0, "action": "open-ticket", "source": ticket["source"],
            "id": ticket["event"], "run": ticket["run"], "key": key, "sha": null,
            "answer": answer.word(), "applied": opened,
        }));
        tokio::time::sleep(takes.saturating_sub(before)).await;
        match answer {
            Answer::Opened => numbered(number).write(client).await.ok(),
            Answer::Busy => {
                let busy = Message::answer(503, "application/json", "", "{}");
                busy.write(client).await.ok()
            }
            Answer::Lost | Answer::Late(_) => {
                reset(client);
                None
            }
        }
    }

    fn add(&self, key: &str) -> usize {
        let mut tickets = self.tickets.lock().unwrap();
        let next = tickets.len() + 1;
        *tickets.entry(key.to_owned()).or_insert(next)
    }

    fn decide(&self) -> Answer {
        let (sky, dice) = (&self.sky, &self.sky.dice);
        if !sky.is_stormy() || !dice.chance(sky.weather.downstream_faults) {
            return Answer::Opened;
        }
        match dice.below(3) {
            0 => Answer::Late(dice.between(LATE.0, LATE.1)),
            1 => Answer::Busy,
            _ => Answer::Lost,
        }
    }
}

impl Answer {
    fn word(self) -> &'static str {
        match self {
            Self::Opened => "200",
            Self::Lost => "lost",
            Self::Late(_) => "late",
            Self::Busy => "busy",
        }
    }
}

fn numbered(number: Option<usize>) -> Message {
    let body = json!({ "number": number }).to_string();
    Message::answer(200, "application/json", "", body)
}
