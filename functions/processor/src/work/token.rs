//! The lease that a worker gets, and passes with each request about the event.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use shared::base::clock::UnixMillis;
use shared::webhook::event::EventKey;

use super::caller::Caller;

/// The version of the token.
const VERSION: u8 = 1;

/// The longest token: the longest key of an event in JSON and base64, with a margin.
const LONGEST: usize = 4096;

/// The name of a worker that gives none.
pub(super) const UNNAMED: &str = "worker";

/// The longest name of a worker.
pub(super) const LONGEST_NAME: usize = 40;

/// A lease. The token is not a secret and not signed: it is good only for the role that claimed the
/// event, and the row must have the same epoch and the same owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaseToken {
    pub(super) key: EventKey,
    pub(super) epoch: u64,
    /// The owner of the row.
    pub(super) owner: String,
    /// The parts of the owner's name.
    holder: Holder,
}

/// What the name of an owner says: `w:{digest of the role}:{time of the claim}:{worker}/{random}`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    digest: String,
    claimed_at: UnixMillis,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    v: u8,
    pk: String,
    epoch: u64,
    own: String,
}

/// Returns the first part of the owner's name for a claim. The ledger adds random characters.
pub(super) fn owner_of(caller: &Caller, worker: &str, now: UnixMillis) -> String {
    format!("w:{}:{}:{worker}", caller.digest(), now.0)
}

impl LeaseToken {
    /// Returns the token of a claim. `None` if the owner is not the name of a worker.
    pub(super) fn new(key: EventKey, epoch: u64, owner: &str) -> Option<Self> {
        Some(Self {
            holder: Holder::read(owner)?,
            owner: owner.to_owned(),
            key,
            epoch,
        })
    }

    pub(super) fn encode(&self) -> String {
        let stored = Stored {
            v: VERSION,
            pk: self.key.pk(),
            epoch: self.epoch,
            own: self.owner.clone(),
        };
        // These fields are always valid JSON.
        let json = serde_json::to_vec(&stored).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(json)
    }

    pub(super) fn decode(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let json = URL_SAFE_NO_PAD.decode(text).ok()?;
        let stored: Stored = serde_json::from_slice(&json).ok()?;
        let key = EventKey::from_pk(&stored.pk)?;
        let known = stored.v == VERSION;
        known.then(|| Self::new(key, stored.epoch, &stored.own))?
    }

    /// Returns whether this role claimed the event.
    pub(super) fn is_of(&self, caller: &Caller) -> bool {
        self.holder.digest == caller.digest()
    }

    /// Returns what stands for the role that claimed the event.
    pub(super) fn role(&self) -> &str {
        &self.holder.digest
    }

    /// Returns when the event was claimed.
    pub(super) fn claimed_at(&self) -> UnixMillis {
        self.holder.claimed_at
    }
}

impl Holder {
    fn read(owner: &str) -> Option<Self> {
        let mut parts = owner.strip_prefix("w:")?.splitn(3, ':');
        let (digest, time, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let (worker, random) = rest.rsplit_once('/')?;
        let is_hex = |text: &str| text.len() == 12 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let is_time = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
        if !is_hex(digest) || !is_hex(random) || !is_time || !is_name(worker) {
            return None;
        }
        Some(Self {
            digest: digest.to_owned(),
            claimed_at: UnixMillis(time.parse().ok()?),
        })
    }
}

/// Returns whether a text can be the name of a worker.
pub(super) fn is_name(text: &str) -> bool {
    let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(in_name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn caller(name: &str) -> Caller {
        Caller::of(&format!("arn:aws:iam::111122223333:role/{name}")).unwrap()
    }

    fn token() -> LeaseToken {
        let owner = owner_of(&caller("triage"), "agent-7", UnixMillis(1_795_169_681_000));
        let key = EventKey::new("github-org", "a#b");
        LeaseToken::new(key, 3, &format!("{owner}/0123456789ab")).unwrap()
    }

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let token = token();
        let again = LeaseToken::decode(&token.encode()).unwrap();
        assert_eq!(again, token);
        assert_eq!(again.claimed_at(), UnixMillis(1_795_169_681_000));
        assert!(again.is_of(&caller("triage")) && !again.is_of(&caller("other")));
    }

    #[test]
    fn other_texts_are_no_tokens() {
        let owner = token().owner;
        let of = |json: &serde_json::Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let with = |name: &str, value: serde_json::Value| {
            let mut all = json!({ "v": 1, "pk": "E#s#1", "epoch": 1, "own": owner });
            all[name] = value;
            of(&all)
        };
        assert!(LeaseToken::decode(&with("more", json!(1))).is_some());
        for text in [
            String::new(),
            "e30".to_owned(),
            "%".to_owned(),
            "a".repeat(LONGEST + 1),
            with("v", json!(2)),
            with("pk", json!("Q#s#1")),
            with("pk", json!(null)),
            with("epoch", json!(-1)),
            with("own", json!("processor/0123456789ab")),
            with("own", json!("w:0123456789ab:1:a b/0123456789ab")),
            with("own", json!("w:0123456789ab:x:a/0123456789ab")),
            with(
                "own",
                json!("w:0123456789ab:99999999999999999999:a/0123456789ab"),
            ),
            with("own", json!("w:0123456789ab:1:a/0123")),
            with("own", json!("w:0123456789ab:1:a")),
        ] {
            assert_eq!(LeaseToken::decode(&text), None, "{text}");
        }
    }

    #[test]
    fn a_name_of_a_worker_fits_into_an_owner() {
        for name in ["a", "triage-1", "A.b_c", &"x".repeat(40)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "a:b", "a/b", "a b", "ä", "a\n", &"x".repeat(41)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
