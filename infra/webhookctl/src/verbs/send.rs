//! `send`: a signed test webhook, as the provider would send it.

mod body;
mod canary;
mod curl;
mod key;
mod list;
pub(in crate::verbs) mod post;
mod tamper;
pub(in crate::verbs) mod target;

use std::fmt::Write as _;

use serde::Serialize;
use shared::clock::Millis;

use crate::cli::{Global, SendArgs, Tamper};
use crate::output::table::{aligned, thousands};
use crate::output::{Exit, Printer};
use crate::preset_words as words;
use crate::samples::{Draft, Signed, Signer};
pub(super) use canary::{Canary, canary};
use target::Target;

/// What is told of one webhook.
#[derive(Serialize)]
struct Told {
    url: String,
    preset: String,
    #[serde(rename = "type")]
    kind: String,
    provider_id: String,
    bytes: usize,
    status: u16,
    took_ms: u128,
    /// The event's id, where the inbox can be looked into and has it.
    id: Option<String>,
    outcome: Option<String>,
    attempts: Option<u32>,
}

pub(super) async fn send(
    args: SendArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    if args.list {
        return list::list(out);
    }
    if let Some(file) = &args.new_key {
        return key::make(file, &args, out);
    }
    if args.public_key {
        return key::show(&args, out);
    }
    let target = Target::find(&args, global).await?;
    if let Some(tamper) = args.tamper {
        tamper::check(tamper, &target)?;
    }
    let mut exit = Exit::Done;
    for _ in 0..args.count {
        let draft = body::draft(&target, &args)?;
        let signed = sign(&target, &draft, args.tamper)?;
        if args.curl {
            out.text(&curl::command(&target.url_of(&signed), &signed))?;
            continue;
        }
        for _ in 0..=usize::from(args.duplicate) {
            let told = post::post(&target, &draft, &signed, args.wait).await?;
            if args.wait && told.outcome.as_deref() != Some("done") {
                exit = Exit::Partial;
            }
            let text = text(&told, &target, args.tamper);
            out.document("send", &told, told.id.as_deref().unwrap_or_default(), &text)?;
            if told.status == 401 && target.inbox.is_some() {
                out.tip(target.refused_tip());
            }
        }
    }
    Ok(exit)
}

fn sign(target: &Target, draft: &Draft, tamper: Option<Tamper>) -> anyhow::Result<Signed> {
    let scheme = target.scheme()?;
    let now = Millis::now();
    let at = match tamper {
        Some(Tamper::Timestamp) => now - tamper::too_old(scheme),
        _ => now,
    };
    let other;
    let signer = match tamper {
        Some(Tamper::Secret) => {
            other = Signer::random(scheme)?;
            &other
        }
        _ => &target.signer,
    };
    let verifier = &target.verifier;
    let signed = draft.sign(
        &verifier.preset,
        &verifier.variant,
        signer,
        &target.signed_url,
        at,
    )?;
    tamper::falsified(signed, tamper, scheme)
}

fn text(told: &Told, target: &Target, tamper: Option<Tamper>) -> String {
    let id = told.id.as_deref().unwrap_or_default();
    let scheme = target.scheme().ok();
    let message = scheme.map(words::message).unwrap_or_default();
    let after = match (tamper, &target.signer) {
        (None, Signer::Secret(secret)) => format!(" with secret {}", secret.label()),
        (None, Signer::KeyPair(pair)) => format!(" with a private key of {}", pair.algorithm()),
        (None, Signer::Nobody) => ", nothing is".to_owned(),
        (Some(Tamper::Body), _) => ", then one byte of the body changed".to_owned(),
        (Some(Tamper::Signature), _) => ", then one character of the signature changed".to_owned(),
        (Some(Tamper::Timestamp), _) => " with a time that is too old".to_owned(),
        (Some(Tamper::Secret), Signer::KeyPair(_)) => " with another private key".to_owned(),
        (Some(Tamper::Secret), _) => " with another secret".to_owned(),
    };
    let mut text = aligned(&[vec![
        format!("POST {}", told.url),
        told.preset.clone(),
        told.kind.clone(),
        told.provider_id.clone(),
    ]]);
    let bytes = thousands(told.bytes as u64);
    let _ = writeln!(text, "  signed {message}{after}, {bytes} bytes");
    let _ = writeln!(text, "{} in {}ms  {id}", told.status, told.took_ms);
    if let (Some(outcome), Some(attempts)) = (&told.outcome, told.attempts) {
        let plural = if attempts == 1 { "" } else { "s" };
        let _ = writeln!(text, "{outcome}, {attempts} attempt{plural}");
    }
    text
}
