//! Signs a request for the current time and the URL of the test.

use std::collections::BTreeSet;
use std::time::Duration;

use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::{Location, Scheme};
use shared::webhook::sign::{can_sign, signed};

use super::file::{Post, Vector, has_timely_token, signs_url};

/// A secret that no source has. It is valid in every format of a secret.
const ANOTHER: &str = "0000000000000000000000000000000000000000000000000000000000000000";

pub(super) enum Again {
    /// The vector is valid without a new signature.
    No,
    Signed(Box<Signed>),
    /// The signing key is not available.
    Cannot,
}

pub(super) struct Signed {
    pub(super) post: Post,
    /// The requests that must be rejected, each with the accepted reasons.
    pub(super) refused: Vec<(Post, BTreeSet<&'static str>)>,
}

pub(super) fn again(vector: &Vector) -> Again {
    let scheme = vector.scheme();
    if !is_bound(scheme) || !vector.is_signed() {
        return Again::No;
    }
    let now = UnixMillis::now();
    let index = vector.expect["matched_secret"].as_u64().unwrap_or(0);
    let index = usize::try_from(index).unwrap();
    let (true, Some(secret)) = (can_sign(scheme), vector.secrets.get(index)) else {
        return Again::Cannot;
    };
    let at = |secret: &str, at: UnixMillis| {
        let draft = draft(scheme, &vector.post, at);
        let signed = signed(scheme, &Secret::new("again", secret), draft, at).ok()?;
        Some(post(&vector.post.method, &signed))
    };
    let Some(post) = at(secret, now) else {
        return Again::Cannot;
    };
    let mut refused = Vec::new();
    if vector.verdict() == "valid" {
        refused.push((at(ANOTHER, now).unwrap(), BTreeSet::from(["bad_signature"])));
        if let Some(ts) = scheme.ts.as_ref().filter(|ts| ts.enforce) {
            let minute = 60;
            let shift = |by: i64| Duration::from_secs(u64::try_from(by + minute).unwrap());
            let (late, early) = (now - shift(ts.past), now + shift(ts.future));
            let reason = |reason| BTreeSet::from([reason]);
            refused.push((at(secret, late).unwrap(), reason("timestamp_too_old")));
            refused.push((at(secret, early).unwrap(), reason("timestamp_in_future")));
        }
    }
    Again::Signed(Box::new(Signed { post, refused }))
}

/// Returns whether a signature covers the URL, or a time that is checked.
fn is_bound(scheme: &Scheme) -> bool {
    let timely = scheme.ts.as_ref().is_some_and(|ts| ts.enforce);
    timely || has_timely_token(scheme) || signs_url(scheme)
}

/// Returns the request without its signature.
fn draft(scheme: &Scheme, post: &Post, at: UnixMillis) -> Envelope {
    let mut proofs = names(&scheme.sig.from);
    proofs.extend(scheme.sig.also.iter().flat_map(names));
    proofs.extend(scheme.ts.iter().flat_map(|ts| names(&ts.from)));
    proofs.extend(scheme.jwt.iter().flat_map(|jwt| names(&jwt.from)));
    let headers = post.headers.iter();
    let headers = headers.filter(|(name, _)| !proofs.contains(&name.to_lowercase()));
    let hash = scheme.body_hash.as_ref().map(|hash| &hash.from);
    let target = match hash {
        Some(Location::Query(_)) => post.target.split('?').next().unwrap(),
        _ => &post.target,
    };
    Envelope {
        method: post.method.clone(),
        // The host of the local HTTP API.
        url: format!("https://127.0.0.1{target}"),
        headers: headers.cloned().collect(),
        body: post.body.clone().into(),
        received_at: at,
    }
}

fn post(method: &str, envelope: &Envelope) -> Post {
    let target = envelope.url.strip_prefix("https://127.0.0.1").unwrap();
    let headers = envelope.headers.iter();
    Post {
        method: method.into(),
        target: target.into(),
        headers: headers
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        body: envelope.body.to_vec(),
    }
}

fn names(at: &Location) -> Vec<String> {
    match at {
        Location::Header(names) => names.clone(),
        _ => Vec::new(),
    }
}

impl Vector {
    /// Returns whether the expected result needs a signature.
    fn is_signed(&self) -> bool {
        match self.verdict() {
            "valid" => true,
            "handshake" => {
                let mut handshakes = self.verifier.preset.handshakes.iter();
                let signed = handshakes.any(|handshake| handshake.require_signature);
                signed && self.expect["response"]["status"].as_u64() < Some(300)
            }
            _ => false,
        }
    }
}
