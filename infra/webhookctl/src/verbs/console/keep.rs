//! Answers the same question from two tabs with one read.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};

/// How long an answer is good for other tabs.
const GOOD: Duration = Duration::from_secs(1);

/// The answers of the last second, and those under way, by question.
pub(super) struct Keep<A: Clone>(Arc<Mutex<Answers<A>>>);

struct Answers<A: Clone> {
    kept: HashMap<String, Kept<A>>,
    /// The number of changes. An answer from before a change is not kept.
    changes: u64,
}

enum Kept<A: Clone> {
    /// If all tabs that asked are gone, the read stops.
    UnderWay(WeakShared<BoxFuture<'static, A>>),
    Done(A, Instant),
}

impl<A: Clone> Default for Keep<A> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Answers {
            kept: HashMap::new(),
            changes: 0,
        })))
    }
}

impl<A: Clone + Send + Sync + 'static> Keep<A> {
    /// Returns the answer that is under way or a second old, or asks.
    pub(super) async fn once(
        &self,
        question: String,
        ask: impl Future<Output = A> + Send + 'static,
    ) -> A {
        let shared: Shared<BoxFuture<'static, A>> = {
            let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let changes = answers.changes;
            let kept = &mut answers.kept;
            kept.retain(|_, kept| kept.is_good());
            match kept.get(&question) {
                Some(Kept::Done(answer, _)) => return answer.clone(),
                Some(Kept::UnderWay(weak)) => weak.upgrade(),
                None => None,
            }
            .unwrap_or_else(|| {
                let (all, name) = (Arc::clone(&self.0), question.clone());
                let shared = async move {
                    let answer = ask.await;
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    if all.changes == changes {
                        let done = Kept::Done(answer.clone(), Instant::now());
                        all.kept.insert(name, done);
                    }
                    answer
                }
                .boxed()
                .shared();
                if let Some(weak) = shared.downgrade() {
                    kept.insert(question, Kept::UnderWay(weak));
                }
                shared
            })
        };
        shared.await
    }

    /// Forgets all answers, because something was changed.
    pub(super) fn forget(&self) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.kept.clear();
        answers.changes += 1;
    }
}

impl<A: Clone> Kept<A> {
    fn is_good(&self) -> bool {
        match self {
            Self::UnderWay(weak) => weak.upgrade().is_some(),
            Self::Done(_, at) => at.elapsed() < GOOD,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn the_same_question_is_asked_once() {
        let (keep, asked) = (Keep::default(), Arc::new(AtomicU32::new(0)));
        let ask = |name: &str| {
            let asked = Arc::clone(&asked);
            keep.once(name.to_owned(), async move {
                tokio::task::yield_now().await;
                asked.fetch_add(1, Ordering::Relaxed)
            })
        };
        let (a, b, other) = tokio::join!(ask("list"), ask("list"), ask("stats"));
        assert_eq!((a, b, other), (0, 0, 1));
        assert_eq!(ask("list").await, 0, "the answer is a moment old");
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        keep.forget();
        assert_eq!(ask("list").await, 2, "the answer is from before a change");
    }

    #[tokio::test]
    async fn an_answer_that_began_before_a_change_is_not_kept() {
        let keep = Keep::<u32>::default();
        let (done, under_way) = tokio::sync::oneshot::channel();
        let before = keep.once("list".to_owned(), async { under_way.await.unwrap_or(0) });
        let change = async {
            tokio::task::yield_now().await;
            keep.forget();
            done.send(1)
        };
        let (before, sent) = tokio::join!(before, change);
        assert_eq!((before, sent), (1, Ok(())));
        assert_eq!(keep.once("list".to_owned(), async { 7 }).await, 7);
    }

    #[tokio::test]
    async fn a_question_without_askers_stops() {
        let keep = Keep::<u32>::default();
        let asking = keep.once("list".to_owned(), futures::future::pending());
        assert!(asking.now_or_never().is_none());
        assert_eq!(keep.once("list".to_owned(), async { 7 }).await, 7);
    }
}
