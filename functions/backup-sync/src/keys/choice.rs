//! Chooses the documents that one run requests, and their order.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::keyring::Fetched;
use shared::inbox::rejected::{Named, RejectedRequest, sender};
use shared::sources::Source;
use shared::webhook::verify::Wanted;

/// The maximum number of documents of one source that are requested in one run. An hour has twelve
/// runs, and fewer senders than these runs request documents.
pub(super) const MOST: usize = 12;

/// The wait before a failed fetch of a document is repeated. It doubles with each try, up to the
/// maximum.
const WAIT: Duration = Duration::from_secs(600);
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The age at which a key set is fetched again.
const STALE: Duration = Duration::from_secs(6 * 3600);

/// The age from which a key set is fetched again because a request names a key that is not in it.
pub(super) const NEWEST: Duration = Duration::from_secs(300);

/// A document to request.
#[derive(Debug)]
pub(super) struct Choice<'n> {
    pub(super) document: Wanted,
    /// The record that counts the tries of the document. `None` if no request names the document,
    /// or if only requests that older code stored name it.
    pub(super) named: Option<&'n Named>,
}

/// A document that requests name.
struct Candidate<'n> {
    named: Option<&'n Named>,
    sender: String,
    /// When the document was first named, and when it was last named.
    at: UnixMillis,
    last: UnixMillis,
    tries: u32,
    tried_at: Option<UnixMillis>,
}

/// Chooses the documents to request now. The document that the source always needs comes first.
/// After it, the documents of the senders alternate.
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

/// Returns each document that requests name, without repetition.
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
        // If several senders name the document, it belongs to the sender with the fewest failed
        // fetches.
        if of(&one.sender) < of(&known.sender) {
            known.sender.clone_from(&one.sender);
            known.named = Some(one);
        }
        known.at = known.at.min(one.at);
        known.last = known.last.max(one.last);
        known.tries = known.tries.saturating_add(one.tries);
        known.tried_at = known.tried_at.max(one.tried_at);
    }
    // A request that older code stored has no record of its document.
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

/// Returns the number of failed fetches for each sender.
fn failures(named: &[Named]) -> HashMap<&str, u32> {
    let mut failed: HashMap<&str, u32> = HashMap::new();
    for one in named {
        let of = failed.entry(&one.sender).or_default();
        *of = of.saturating_add(one.tries);
    }
    failed
}

/// Orders the documents. The senders alternate, and the sender with the fewest failed fetches comes
/// first. For each sender, the documents with the fewest tries come first.
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

/// Returns whether the document is already fetched. A certificate or a named key does not change,
/// but a key set that was fetched before the request arrived can lack its key.
fn has(fetched: &Fetched, document: &Wanted, last: UnixMillis, now: UnixMillis) -> bool {
    let at = fetched.fetched_at(document);
    at.is_some_and(|at| match document {
        Wanted::Certificate(_) | Wanted::PublicKey(_) | Wanted::Key(_) => true,
        Wanted::KeySet(_) => at > last || now.since(at) < NEWEST,
    })
}

fn is_due(tries: u32, tried_at: Option<UnixMillis>, now: UnixMillis) -> bool {
    let doubled = tries.saturating_sub(1).min(8);
    let wait = (WAIT * 2_u32.pow(doubled)).min(LONGEST_WAIT);
    tries == 0 || tried_at.is_none_or(|at| now.since(at) >= wait)
}
