//! `--tamper`: falsifies a request so that the catcher rejects it, or explains why the catcher
//! would accept it.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::Envelope;
use shared::webhook::event::Proven;
use shared::webhook::preset::{Code, Kind, Location, Part, Place, Scheme};
use shared::webhook::sign::{Algorithm, Means, means};

use super::target::Target;
use crate::cli::Tamper;
use crate::output::CliError;
use crate::samples::Signed;

/// How much older than the maximum age a falsified timestamp is.
const BEYOND: Duration = Duration::from_secs(3600);

/// Returns an error if the catcher would accept the falsified request, because such a test proves
/// nothing.
pub(super) fn check(tamper: Tamper, target: &Target) -> anyhow::Result<()> {
    let preset = &target.verifier.preset.id;
    match vain(tamper, target.scheme()?) {
        None => Ok(()),
        Some(why) => Err(CliError::usage("send.tamper", format!("{preset}: {why}"))
            .tip(format!("webhookctl sources presets {preset}"))
            .into()),
    }
}

/// Returns the reason why the catcher would accept such a request, or why it cannot be made.
fn vain(tamper: Tamper, scheme: &Scheme) -> Option<&'static str> {
    if means(scheme) == Means::Nothing {
        return Some("the preset has no signature, so there is nothing to falsify");
    }
    match tamper {
        Tamper::Secret if means(scheme) == Means::KeyPair(Algorithm::RsaSha256) => {
            Some("the CLI cannot generate an RSA key; pass another one with --key-from")
        }
        Tamper::Signature | Tamper::Secret => None,
        Tamper::Timestamp => window(scheme)
            .is_none()
            .then_some("the catcher does not check the age of a timestamp"),
        Tamper::Body => match scheme.proves {
            Proven::Body => None,
            Proven::Fields if in_body(scheme).next().is_some() => None,
            _ => Some("the proof does not cover the body: a changed body is accepted"),
        },
    }
}

/// Returns an age at which the catcher rejects a timestamp as too old.
pub(super) fn too_old(scheme: &Scheme) -> Duration {
    let window = window(scheme).and_then(|seconds| u64::try_from(seconds).ok());
    Duration::from_secs(window.unwrap_or_default()) + BEYOND
}

/// Returns the maximum age in seconds. `None` means that any age is accepted.
fn window(scheme: &Scheme) -> Option<i64> {
    match (&scheme.jwt, &scheme.ts) {
        // This scheme signs the `Date` header, and accepts an age of five minutes.
        _ if matches!(scheme.kind, Kind::Code(Code::Keygen(_))) => Some(300),
        (Some(jwt), _) if jwt.exp => Some(jwt.leeway),
        (Some(jwt), _) => jwt.iat_max_age.map(|most| most + jwt.leeway),
        (None, Some(ts)) if ts.enforce => Some(ts.past),
        _ => None,
    }
}

/// Changes the signed request.
pub(super) fn falsified(
    mut signed: Signed,
    tamper: Option<Tamper>,
    scheme: &Scheme,
) -> anyhow::Result<Signed> {
    match tamper {
        Some(Tamper::Body) if scheme.proves == Proven::Body => {
            let mut body = signed.body.to_vec();
            match body.last_mut() {
                Some(last) => *last ^= 1,
                None => body.push(b' '),
            }
            signed.body = Bytes::from(body);
        }
        Some(Tamper::Body) => {
            let mut values = in_body(scheme).filter_map(|at| value(scheme, at, &signed));
            let value = values
                .next()
                .context("the signed field is not in the body")?;
            signed.body = changed_in(&signed.body, &value)?;
        }
        Some(Tamper::Signature) => change_signature(&mut signed, scheme)?,
        _ => {}
    }
    Ok(signed)
}

fn change_signature(signed: &mut Signed, scheme: &Scheme) -> anyhow::Result<()> {
    let basic = Location::Header(vec!["authorization".to_owned()]);
    let at = match (&scheme.kind, &scheme.jwt) {
        (Kind::Basic, _) => &basic,
        (Kind::Jwt, Some(jwt)) => &jwt.from,
        _ => &scheme.sig.from,
    };
    let names = match at {
        Location::Header(names) => names.clone(),
        Location::HeaderNumbered(prefix) => vec![format!("{prefix}1")],
        Location::Query(_) => {
            let value = value(scheme, at, signed).context("the signature is not in the URL")?;
            signed.url = signed.url.replace(&value, &changed(&value));
            return Ok(());
        }
        _ => {
            let value = value(scheme, at, signed).context("the signature is not in the body")?;
            signed.body = changed_in(&signed.body, &value)?;
            return Ok(());
        }
    };
    for (name, value) in &mut signed.headers {
        if names.contains(name) {
            *value = changed(value);
        }
    }
    Ok(())
}

/// Returns the signed locations in the body.
fn in_body(scheme: &Scheme) -> impl Iterator<Item = &Location> {
    scheme.message.0.iter().filter_map(|part| match part {
        Part::At(at @ (Location::Json(_) | Location::Item(_) | Location::Form(_))) => Some(at),
        _ => None,
    })
}

/// Returns the value at a location. If the request has several items, returns the value of the
/// first item.
fn value(scheme: &Scheme, at: &Location, signed: &Signed) -> Option<String> {
    let envelope: Envelope = signed.envelope(UnixMillis(0));
    let items = scheme
        .for_each
        .as_ref()
        .map(|path| path.all(&envelope.body));
    let item = items.and_then(|items| items.ok()?.into_iter().next().flatten());
    let place = Place {
        item,
        ..Place::from(&envelope)
    };
    at.find(place)
        .ok()
        .flatten()
        .filter(|value| !value.is_empty())
}

/// Changes one alphanumeric character of a value in the body. These characters have only one form
/// in every encoding, so the search finds the value.
fn changed_in(body: &Bytes, value: &str) -> anyhow::Result<Bytes> {
    let runs = value.split(|c: char| !c.is_ascii_alphanumeric());
    let run = runs.max_by_key(|run| run.len()).unwrap_or_default();
    let mut body = body.to_vec();
    let at = body
        .windows(run.len().max(1))
        .position(|part| part == run.as_bytes());
    let at = at.context("the value is not in the body")?;
    let end = at + run.len();
    body.splice(at..end, changed(run).into_bytes());
    Ok(body.into())
}

/// Returns the text with another character near its end. The text keeps its form.
fn changed(text: &str) -> String {
    let place = text.chars().count().saturating_sub(8);
    let other = |c: char| match c {
        '1' => '2',
        '0' | '2'..='9' => '1',
        'a' => 'b',
        _ => 'a',
    };
    let characters = text.chars().enumerate();
    characters
        .map(|(index, c)| if index == place { other(c) } else { c })
        .collect()
}

#[cfg(test)]
mod tests;
