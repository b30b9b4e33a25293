//! Chooses the documents that one run requests, and their order.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::keyring::Fetched;
use shared::inbox::rejected::{Named, RejectedRequest, sender};
use shared::sources::Source;
use shared::webhook::verify::Wanted;

/// The most documents of one source that are requested in one run. In the twelve runs of an hour,
/// these are more than the number of senders.
pub(super) const MOST: usize = 12;

/// The wait before a document that could not be fetched is requested again. It doubles with each
/// try, up to the longest.
const WAIT: Duration = Duration::from_secs(600);
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// A key set is fetched again after this time.
const STALE: Duration = Duration::from_secs(6 * 3600);

/// A key set is also fetched again if a request names a key that it lacks, but at most once in this
/// time.
pub(super) const NEWEST: Duration = Duration::from_secs(300);

/// A document to request.
#[derive(Debug)]
pub(super) struct Choice<'n> {
    pub(super) document: Wanted,
    /// The record that counts its tries. `None` for a document that no request names, and for one
    /// that only a request stored by older code names.
    pub(super) named: Option<&'n Named>,
}

/// A document that requests name.
struct Candidate<'n> {
    named: Option<&'n Named>,
    sender: String,
    /// When it was first named, and when last.
    at: UnixMillis,
    last: UnixMillis,
    tries: u32,
    tried_at: Option<UnixMillis>,
}

/// Chooses the documents to request now. The document that the source always needs goes first; then
/// the senders take turns.
pub(super) fn choose<'n>(
    source: &Source,
    named: &'n [Named],
    held: &[RejectedRequest],
    fetched: &Fetched,
    now: UnixMillis,
) -> Vec<Choice<'n>> {
    let always = source.verifier.wanted_always();
    let mut all = candidates(source, named, held, fetched);
    let by_request = always.as_ref().and_then(|document| all.remove(document));
    let mut choices = Vec::new();
    if let Some(document) = always {
        let failed = fetched.failed(&document);
        let tried = failed.or_else(|| {
            let request = by_request.as_ref()?;
            Some((request.tries, request.tried_at?))
        });
        let stale = fetched
            .fetched_at(&document)
            .is_none_or(|at| now.since(at) > STALE);
        let asked = by_request.is_some_and(|request| !has(fetched, &document, request.last, now));
        if (stale || asked) && tried.is_none_or(|(tries, at)| is_due(tries, Some(at), now)) {
            let named = None;
            choices.push(Choice { document, named });
        }
    }
    all.retain(|document, one| {
        !has(fetched, document, one.last, now) && is_due(one.tries, one.tried_at, now)
    });
    choices.extend(in_turn(all, named));
    choices.truncate(MOST);
    choices
}

/// Returns the documents that requests name, each once.
fn candidates<'n>(
    source: &Source,
    named: &'n [Named],
    held: &[RejectedRequest],
    fetched: &Fetched,
) -> BTreeMap<Wanted, Candidate<'n>> {
    let failed = failures(named);
    let of = |sender: &str| failed.get(sender).copied().unwrap_or(0);
    let mut all: BTreeMap<Wanted, Candidate<'n>> = BTreeMap::new();
    for one in named {
        let entry = all.entry(one.document.clone());
        let known = entry.or_insert_with(|| Candidate {
            named: Some(one),
            sender: one.sender.clone(),
            at: one.at,
            last: one.last,
            tries: 0,
            tried_at: None,
        });
        // The document counts for the sender with the fewest failed fetches.
        if of(&one.sender) < of(&known.sender) {
            known.sender.clone_from(&one.sender);
            known.named = Some(one);
        }
        known.at = known.at.min(one.at);
        known.last = known.last.max(one.last);
        known.tries = known.tries.saturating_add(one.tries);
        known.tried_at = known.tried_at.max(one.tried_at);
    }
    // The documents of requests that older code stored have no record.
    for request in held {
        let Ok(envelope) = request.envelope() else {
            continue;
        };
        let Some(document) = source.verifier.wanted(&envelope) else {
            continue;
        };
        let entry = all.entry(document);
        let known = entry.or_insert_with(|| Candidate {
            named: None,
            sender: sender(&envelope.headers),
            at: request.received_at,
            last: request.received_at,
            tries: 0,
            tried_at: None,
        });
        known.last = known.last.max(request.received_at);
    }
    for (document, known) in &mut all {
        if let Some((tries, at)) = fetched.failed(document) {
            known.tries = known.tries.max(tries);
            known.tried_at = known.tried_at.max(Some(at));
        }
    }
    all
}

/// How many fetches have failed for each sender.
fn failures(named: &[Named]) -> HashMap<&str, u32> {
    let mut failed: HashMap<&str, u32> = HashMap::new();
    for one in named {
        let of = failed.entry(&one.sender).or_default();
        *of = of.saturating_add(one.tries);
    }
    failed
}

/// Orders the documents. The senders take turns, the one with the fewest failed fetches first. Of
/// each sender, the documents with the fewest tries come first.
fn in_turn<'n>(all: BTreeMap<Wanted, Candidate<'n>>, named: &[Named]) -> Vec<Choice<'n>> {
    let failed = failures(named);
    let mut all: Vec<(Wanted, Candidate<'n>)> = all.into_iter().collect();
    all.sort_by_key(|(_, one)| (one.tries, one.at));
    let mut turns: HashMap<String, u32> = HashMap::new();
    let mut ordered: Vec<_> = all
        .into_iter()
        .map(|(document, one)| {
            let first = || failed.get(one.sender.as_str()).copied().unwrap_or(0);
            let turn = turns.entry(one.sender.clone()).or_insert_with(first);
            let mine = *turn;
            *turn = turn.saturating_add(1);
            let named = one.named;
            ((mine, one.tries, one.at), Choice { document, named })
        })
        .collect();
    ordered.sort_by_key(|(turn, _)| *turn);
    ordered.into_iter().map(|(_, choice)| choice).collect()
}

/// Whether the document is already fetched. A certificate or a named key does not change, but a key
/// set that was fetched before the request can lack its key.
fn has(fetched: &Fetched, document: &Wanted, last: UnixMillis, now: UnixMillis) -> bool {
    let at = fetched.fetched_at(document);
    at.is_some_and(|at| match document {
        Wanted::Certificate(_) | Wanted::Key(_) => true,
        Wanted::KeySet(_) => at > last || now.since(at) < NEWEST,
    })
}

fn is_due(tries: u32, tried_at: Option<UnixMillis>, now: UnixMillis) -> bool {
    let doubled = tries.saturating_sub(1).min(8);
    let wait = (WAIT * 2_u32.pow(doubled)).min(LONGEST_WAIT);
    tries == 0 || tried_at.is_none_or(|at| now.since(at) >= wait)
}
