//! The changes of events, as they happen. All pages share one follower of the inbox, which stops
//! when no page listens.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Stored;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, broadcast};
use tokio::time::{Instant, sleep_until};

use super::refusal::Refusal;
use super::server::Console;
use crate::cli::{Command, InboxCommand, SelectionArgs, TailArgs};
use crate::output::format::json_line;
use crate::output::time::When;
use crate::output::{CliError, Format};
use crate::reads::{Pairs, Question, Reader};
use crate::selection::Selection;
use crate::target::Deployment;
use crate::verbs::inbox::{Follow, Line, is_wanted, refuse_unusable};

/// The number of changes that a slow page can be behind.
const BEHIND: usize = 1024;

/// The number of changes that are kept for pages that connect again.
const RECENT: usize = 1000;

/// The interval of the empty lines, which keep the connection open.
const QUIET: Duration = Duration::from_secs(15);

/// The maximum number of queries a second. Each look makes four for each source.
const QUERIES: usize = 50;

#[derive(Clone)]
struct Seen {
    line: Line,
    stored: Arc<Stored>,
}

#[derive(Clone)]
enum News {
    Seen(Seen),
    Failed(CliError),
}

#[derive(Default)]
pub(super) struct Live(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    /// `None` if no follower runs.
    follower: Option<broadcast::Sender<News>>,
    recent: VecDeque<Seen>,
}

/// A page that listens.
struct Listener {
    args: TailArgs,
    selection: Selection,
    inbox: Deployment,
    news: broadcast::Receiver<News>,
    /// The changes that the page has missed.
    missed: VecDeque<Seen>,
    quiet_until: Instant,
    ended: bool,
    _place: OwnedSemaphorePermit,
}

/// Answers with one line for each change.
pub(super) async fn stream(
    console: &Arc<Console>,
    pairs: &Pairs,
    headers: &HeaderMap,
) -> Result<Response, Refusal> {
    let place = Arc::clone(&console.streams).try_acquire_owned();
    let place = place.map_err(|_| {
        let message = "four pages follow the inbox already";
        let error = CliError::failed("console.streams", message).tip("close a tab of the console");
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, error)
    })?;
    let question = Question::new("inbox.tail", pairs)?;
    let args = tail_args(&console.reader, &question)?;
    let explained = |error| console.reader.global().explained(&error);
    let inbox = console.reader.inbox().await.map_err(explained)?;
    let now = UnixMillis::now().0;
    let selection = Selection::new(&args.selection, &inbox, now).map_err(explained)?;
    let (news, recent) = console.live.listen(&console.reader);
    let since = headers.get("last-seen").and_then(|text| text.to_str().ok());
    let since = since.and_then(|text| When::parse(text).ok());
    let missed = since.map(|when| when.millis(now)).map(|since| {
        let later = recent.into_iter().filter(|seen| seen.line.at > since);
        later.collect()
    });
    let listener = Listener {
        args,
        selection,
        inbox,
        news,
        missed: missed.unwrap_or_default(),
        quiet_until: Instant::now(),
        ended: false,
        _place: place,
    };
    let lines = stream::unfold(listener, |mut listener| async {
        let line = listener.next().await?;
        Some((Ok::<_, std::convert::Infallible>(line), listener))
    });
    let kind = [(header::CONTENT_TYPE, "application/jsonl")];
    Ok((kind, Body::from_stream(lines)).into_response())
}

fn tail_args(reader: &Reader, question: &Question) -> Result<TailArgs, CliError> {
    match reader.parsed(&question.line("jsonl"))?.command {
        Command::Inbox(InboxCommand::Tail(args)) => {
            refuse_unusable(&args)?;
            Ok(args)
        }
        _ => Err(CliError::failed(
            "failed",
            "the table of reads has no inbox tail",
        )),
    }
}

impl Listener {
    /// Returns the next line, or an empty one after a quiet time. The first line is empty, so that
    /// the page knows that it listens.
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        loop {
            let news = if let Some(seen) = self.missed.pop_front() {
                News::Seen(seen)
            } else {
                tokio::select! {
                    () = sleep_until(self.quiet_until) => {
                        self.quiet_until = Instant::now() + QUIET;
                        return Some(Bytes::from_static(b"\n"));
                    }
                    // A page that is too far behind connects again.
                    news = self.news.recv() => news.ok()?,
                }
            };
            match news {
                News::Seen(seen) if self.wants(&seen).await => {
                    return json_line(&seen.line).ok().map(Bytes::from);
                }
                News::Seen(_) => {}
                News::Failed(error) => {
                    self.ended = true;
                    return Some(error.render(Format::Jsonl, false).into());
                }
            }
        }
    }

    async fn wants(&self, seen: &Seen) -> bool {
        if !is_wanted(&self.args, &seen.line)
            || !self.selection.follows(&seen.stored.row, &self.inbox)
        {
            return false;
        }
        let rows = vec![Stored::clone(&seen.stored)];
        let of_body = self.selection.by_body(&self.inbox, rows).await;
        of_body.is_ok_and(|rows| !rows.is_empty())
    }
}

impl Live {
    /// Returns the news from now on, and the recent changes. Starts the follower if none runs.
    fn listen(&self, reader: &Reader) -> (broadcast::Receiver<News>, Vec<Seen>) {
        let mut shared = lock(&self.0);
        let recent = shared.recent.iter().cloned().collect();
        if let Some(follower) = &shared.follower {
            return (follower.subscribe(), recent);
        }
        let (tell, news) = broadcast::channel(BEHIND);
        shared.follower = Some(tell);
        let (reader, shared) = (reader.clone(), Arc::clone(&self.0));
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || {
            let Err(error) = runtime.block_on(follow(&reader, &shared)) else {
                return;
            };
            let follower = lock(&shared).follower.take();
            if let Some(follower) = follower {
                let _ = follower.send(News::Failed(reader.global().explained(&error)));
            }
        });
        (news, recent)
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follows the inbox until no page listens.
async fn follow(reader: &Reader, shared: &Mutex<Shared>) -> anyhow::Result<()> {
    loop {
        let inbox = reader.inbox().await?;
        let now = UnixMillis::now().0;
        let selection = Selection::new(&SelectionArgs::default(), &inbox, now)?;
        let mut follow = Follow::new(&selection, &inbox);
        let every = interval(inbox.sources().len());
        // Another configuration has other sources.
        while Arc::ptr_eq(&reader.inbox().await?.config, &inbox.config) {
            let seen = follow.look_at_rows(UnixMillis::now().0).await?;
            if !shared_with_pages(shared, seen) {
                return Ok(());
            }
            tokio::time::sleep(every).await;
        }
    }
}

/// Passes the changes to the pages. Returns whether a page listens.
fn shared_with_pages(shared: &Mutex<Shared>, seen: Vec<(Line, Arc<Stored>)>) -> bool {
    let mut shared = lock(shared);
    for (line, stored) in seen {
        let seen = Seen { line, stored };
        if shared.recent.len() == RECENT {
            shared.recent.pop_front();
        }
        shared.recent.push_back(seen.clone());
        if let Some(follower) = &shared.follower {
            let _ = follower.send(News::Seen(seen));
        }
    }
    let listened = shared
        .follower
        .as_ref()
        .is_some_and(|follower| follower.receiver_count() > 0);
    if !listened {
        shared.follower = None;
    }
    listened
}

/// Returns the interval between two looks at this number of sources.
fn interval(sources: usize) -> Duration {
    let millis = sources.saturating_mul(4 * 1000) / QUERIES;
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX).max(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_sources_are_looked_at_less_often() {
        let seconds = [1, 12, 25, 100].map(|sources| interval(sources).as_secs());
        assert_eq!(seconds, [1, 1, 2, 8]);
    }
}
