//! The sessions of the console: a code that is good once becomes a token.
//!
//! There are no cookies, because a browser sends them to every port of 127.0.0.1. The page keeps the
//! token and sends it in a header. The process stores only hashes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::output::CliError;

/// How long a token is good without use.
pub(super) const IDLE: Duration = Duration::from_secs(8 * 60 * 60);

/// The maximum number of used codes that are recognised.
const MOST_USED: usize = 100;

type Hash = [u8; 32];

#[derive(Default)]
pub(super) struct Sessions(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    code: Option<Code>,
    used: Vec<Hash>,
    tokens: Vec<Token>,
}

struct Code {
    hash: Hash,
    /// The end of its life. Without it, the code is good until it is used.
    until: Option<Instant>,
}

struct Token {
    hash: Hash,
    last_use: Instant,
}

/// Why a code is not exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadCode {
    Unknown,
    Expired,
    /// The code was good once. Another program on this machine may have used it.
    Used,
}

impl Sessions {
    /// Makes a new code. The previous code is no longer good.
    pub(super) fn new_code(&self, life: Option<Duration>, now: Instant) -> anyhow::Result<String> {
        let code = random()?;
        self.lock().code = Some(Code {
            hash: hash(&code),
            until: life.map(|life| now + life),
        });
        Ok(code)
    }

    /// Exchanges the code for a token.
    pub(super) fn exchange(
        &self,
        code: &str,
        now: Instant,
    ) -> anyhow::Result<Result<String, BadCode>> {
        let token = random()?;
        let mut inner = self.lock();
        let given = hash(code);
        if inner.used.iter().any(|used| same(used, &given)) {
            return Ok(Err(BadCode::Used));
        }
        let Some(known) = inner.code.take_if(|known| same(&known.hash, &given)) else {
            return Ok(Err(BadCode::Unknown));
        };
        if known.until.is_some_and(|until| now >= until) {
            return Ok(Err(BadCode::Expired));
        }
        if inner.used.len() == MOST_USED {
            inner.used.remove(0);
        }
        inner.used.push(given);
        inner.tokens.push(Token {
            hash: hash(&token),
            last_use: now,
        });
        Ok(Ok(token))
    }

    /// Returns whether the token is good, and notes its use.
    pub(super) fn accepts(&self, token: &str, now: Instant) -> bool {
        let mut inner = self.lock();
        inner
            .tokens
            .retain(|token| now.saturating_duration_since(token.last_use) < IDLE);
        let given = hash(token);
        let known = inner.tokens.iter_mut();
        let mut known = known.filter(|token| same(&token.hash, &given));
        known.next().is_some_and(|token| {
            token.last_use = now;
            true
        })
    }

    /// Ends all sessions.
    pub(super) fn end_all(&self) {
        let mut inner = self.lock();
        inner.tokens.clear();
        inner.code = None;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BadCode {
    pub(super) fn error(self) -> CliError {
        let (code, message) = match self {
            Self::Unknown | Self::Expired => (
                "console.code",
                "the code of this address is not valid or has expired",
            ),
            Self::Used => (
                "console.code_used",
                "the code of this address was used before; another program may have a session",
            ),
        };
        CliError::new(code, crate::output::Exit::Denied, message)
            .tip("press n in the terminal of the console, or start it again")
    }
}

/// Returns 256 random bits, as text.
fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("random bytes: {error}"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn hash(text: &str) -> Hash {
    Sha256::digest(text.as_bytes()).into()
}

fn same(a: &Hash, b: &Hash) -> bool {
    a.ct_eq(b).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_good_once() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let code = sessions.new_code(Some(IDLE), now).unwrap();
        let token = sessions.exchange(&code, now).unwrap().unwrap();
        assert!(sessions.accepts(&token, now));
        let again = sessions.exchange(&code, now).unwrap();
        assert_eq!(again, Err(BadCode::Used));
        assert!(sessions.accepts(&token, now), "the first session stays");
        assert!(!sessions.accepts(&code, now));
    }

    #[test]
    fn a_code_expires_and_a_new_one_replaces_it() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let minute = Duration::from_secs(60);
        let old = sessions.new_code(Some(minute), now).unwrap();
        let new = sessions.new_code(Some(minute), now).unwrap();
        assert_eq!(sessions.exchange(&old, now).unwrap(), Err(BadCode::Unknown));
        let late = sessions.exchange(&new, now + minute).unwrap();
        assert_eq!(late, Err(BadCode::Expired));
        let kept = sessions.new_code(None, now).unwrap();
        assert!(sessions.exchange(&kept, now + IDLE).unwrap().is_ok());
    }

    #[test]
    fn a_token_ends_after_eight_hours_without_use_or_with_all_others() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let token = || {
            let code = sessions.new_code(None, now).unwrap();
            sessions.exchange(&code, now).unwrap().unwrap()
        };
        let (a, b) = (token(), token());
        let later = now + IDLE / 2;
        assert!(sessions.accepts(&a, later));
        let last = later + IDLE / 2;
        assert!(sessions.accepts(&a, last) && !sessions.accepts(&b, last));
        sessions.end_all();
        assert!(!sessions.accepts(&a, last));
    }
}
