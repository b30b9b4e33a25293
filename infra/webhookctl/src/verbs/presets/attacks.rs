//! Changes genuine requests in the ways of an attacker. The catcher must refuse each of them.

use std::time::Duration;

use serde::Serialize;
use shared::aws::secrets::Secret;
use shared::webhook::envelope::Envelope;
use shared::webhook::event::Proven;
use shared::webhook::preset::{Kind as SchemeKind, Scheme};
use shared::webhook::sign::{Algorithm, KeyPair, Means, means};
use shared::webhook::verify::{Arrival, Verifier, is_key};

use crate::vectors::Vector;

/// The number of bytes of a body that are changed, one at a time.
const CHANGES: usize = 16;

/// How much later a captured request arrives again. No window is that long.
const LATER: Duration = Duration::from_secs(366 * 24 * 3600);

/// An attack on the genuine requests of a preset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Attack {
    /// The number of changed requests, and how many of them were refused.
    pub(super) tried: usize,
    pub(super) refused: usize,
    /// Why no request was tried, if none was: what the scheme does not have.
    pub(super) reason: Option<&'static str>,
    /// The genuine requests whose changed form was accepted.
    pub(super) accepted: Vec<String>,
}

/// The three attacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Attacks {
    pub(super) changed_body: Attack,
    pub(super) other_secret: Attack,
    pub(super) old_request: Attack,
}

impl Attacks {
    /// Tries the attacks on a genuine request.
    pub(super) fn try_on(&mut self, vector: &Vector) {
        let verifier = &vector.verifier;
        let Some(scheme) = verifier.preset.scheme(&verifier.variant) else {
            return;
        };
        self.changed_body
            .try_all(vector, changed_bodies(vector, scheme));
        self.other_secret
            .try_all(vector, other_secrets(vector, scheme));
        self.old_request
            .try_all(vector, old_request(vector, scheme));
    }

    pub(super) fn each(&self) -> [&Attack; 3] {
        [&self.changed_body, &self.other_secret, &self.old_request]
    }
}

impl Attack {
    fn try_all(
        &mut self,
        vector: &Vector,
        changed: Result<Vec<(Envelope, Vec<Secret>)>, &'static str>,
    ) {
        let changed = match changed {
            Ok(changed) => changed,
            Err(reason) => {
                self.reason.get_or_insert(reason);
                return;
            }
        };
        for (envelope, secrets) in changed {
            self.tried += 1;
            if is_accepted(&vector.verifier, &envelope, &secrets) {
                if self.accepted.last() != Some(&vector.id) {
                    self.accepted.push(vector.id.clone());
                }
            } else {
                self.refused += 1;
            }
        }
    }

    /// Returns the result in a cell of a table.
    pub(super) fn text(&self) -> String {
        match (self.tried, self.reason) {
            (0, Some(reason)) => reason.to_owned(),
            (0, None) => "-".to_owned(),
            (tried, _) => format!("{}/{tried}", self.refused),
        }
    }
}

/// Returns whether the catcher would store the request as an event.
fn is_accepted(verifier: &Verifier, envelope: &Envelope, secrets: &[Secret]) -> bool {
    matches!(verifier.verify(envelope, secrets), Ok(Arrival::Event(_)))
}

/// Changes single bytes of the body, if the signature proves the body.
fn changed_bodies(
    vector: &Vector,
    scheme: &Scheme,
) -> Result<Vec<(Envelope, Vec<Secret>)>, &'static str> {
    if scheme.proves != Proven::Body {
        return Err(match scheme.proves {
            Proven::Body | Proven::Fields => "fields only",
            Proven::Origin | Proven::Token | Proven::Nothing => "not signed",
        });
    }
    let body = &vector.envelope.body;
    let step = (body.len() / CHANGES).max(1);
    let changes = (0..body.len()).step_by(step).map(|at| {
        let mut changed = body.to_vec();
        if let Some(byte) = changed.get_mut(at) {
            *byte ^= 1;
        }
        let envelope = Envelope {
            body: changed.into(),
            ..vector.envelope.clone()
        };
        (envelope, vector.secrets.clone())
    });
    Ok(changes.collect())
}

/// Replaces the secrets by other valid ones.
fn other_secrets(
    vector: &Vector,
    scheme: &Scheme,
) -> Result<Vec<(Envelope, Vec<Secret>)>, &'static str> {
    if !scheme.needs_secret() {
        return Err("no secret");
    }
    let others = vector.secrets.iter().map(|secret| other(scheme, secret));
    let others: Option<Vec<Secret>> = others.collect();
    let others = others.filter(|others| !others.is_empty());
    let others = others.ok_or("no other key")?;
    Ok(vec![(vector.envelope.clone(), others)])
}

/// Returns another secret of the same form.
fn other(scheme: &Scheme, secret: &Secret) -> Option<Secret> {
    let label = secret.label();
    if let Means::KeyPair(algorithm) = means(scheme) {
        // A key pair for RSA takes seconds.
        let is_fast = algorithm != Algorithm::RsaSha256;
        let pair = is_fast.then(|| KeyPair::generate(algorithm).ok())??;
        return Some(Secret::new(label, pair.public(scheme.key).ok()?));
    }
    let text = secret.expose();
    let places = (0..text.len()).filter(|at| text.as_bytes()[*at].is_ascii_alphanumeric());
    // A change in the middle is not in a prefix such as `whsec_`, and not in padding bits.
    let mut places: Vec<usize> = places.collect();
    places.sort_by_key(|at| at.abs_diff(text.len() / 2));
    let changed = places.into_iter().map(|at| {
        let next = match text.as_bytes()[at] {
            b'9' => b'0',
            b'f' | b'z' => b'a',
            b'F' | b'Z' => b'A',
            byte => byte + 1,
        };
        let mut changed = text.as_bytes().to_vec();
        changed[at] = next;
        Secret::new(label, String::from_utf8_lossy(&changed))
    });
    let mut usable = changed.filter(|changed| is_key(scheme, changed));
    usable.next()
}

/// Lets a captured request arrive again much later, if the scheme signs a time.
fn old_request(
    vector: &Vector,
    scheme: &Scheme,
) -> Result<Vec<(Envelope, Vec<Secret>)>, &'static str> {
    let has_window = scheme.ts.as_ref().is_some_and(|ts| ts.enforce);
    let expires = |jwt: &shared::webhook::preset::Jwt| jwt.exp || jwt.iat_max_age.is_some();
    let has_time =
        has_window || scheme.kind == SchemeKind::Jwt && scheme.jwt.as_ref().is_some_and(expires);
    if !has_time {
        return Err("no time");
    }
    let envelope = Envelope {
        received_at: vector.envelope.received_at + LATER,
        ..vector.envelope.clone()
    };
    Ok(vec![(envelope, vector.secrets.clone())])
}
