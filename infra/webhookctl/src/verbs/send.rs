//! `send`: sends a signed test webhook, as the provider would.

mod account;
mod body;
mod canary;
mod curl;
mod event;
pub(in crate::verbs) mod key;
mod list;
pub(in crate::verbs) mod post;
mod render;
mod sample;
mod tamper;
pub(in crate::verbs) mod target;
mod watch;

use std::path::Path;

use serde::Serialize;
use shared::base::clock::UnixMillis;

use crate::cli::{Global, SecretFrom, SendArgs, Tamper};
use crate::output::{CliError, Exit, Printer};
use crate::samples::{Draft, Signed, Signer};
pub(super) use canary::{Canary, canary};
use render::{Sum, Words};
pub(super) use sample::{Sent, sample, usual_source};
use target::Target;
use watch::Watch;

/// The result of one webhook.
#[derive(Default, Serialize)]
struct Told {
    url: String,
    preset: String,
    #[serde(rename = "type")]
    kind: String,
    provider_id: String,
    bytes: usize,
    status: u16,
    took_ms: u128,
    /// The id of the event. It is missing if the inbox cannot be read, or does not have the event.
    id: Option<String>,
    outcome: Option<String>,
    outcome_ms: Option<u128>,
    attempts: Option<u32>,
    /// Whether the inbox already had the event, because `--duplicate` sent it before.
    duplicate: bool,
    /// The id in the quarantine, if the catcher rejected the request.
    quarantined: Option<String>,
    /// A note beside the id in the text output.
    #[serde(skip)]
    note: String,
    /// The id of the stored event that was sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    /// The beginning of the response, if the target is not a Mitt inbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<String>,
}

pub(super) async fn send(
    args: SendArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    if args.list {
        return list::list(out);
    }
    one_reader_of_stdin(&args)?;
    if args.event.is_some() {
        return Box::pin(event::again(&args, global, out)).await;
    }
    if let Some(file) = &args.new_key {
        return key::make(file, &args, out);
    }
    if args.public_key {
        return key::show(&args, out);
    }
    let target = Box::pin(Target::find(&args, global)).await?;
    if let Some(tamper) = args.tamper {
        tamper::check(tamper, &target)?;
    }
    let given = body::given(&args)?;
    let mut note = body::no_sample(&target, &args);
    let watch = Watch::new(args.wait, out);
    let http = post::client(&target.url)?;
    let words = Words::new(&target, args.tamper).short(args.count > 1);
    let mut sum = Sum::default();
    let mut exit = Exit::Done;
    let mut pace = args.rate.map(|rate| tokio::time::interval(rate.0));
    for _ in 0..args.count {
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        let draft = body::draft(&target, &args, given.as_ref())?;
        if let Some(note) = note.take() {
            out.say(&note);
        }
        let signed = sign(&target, &draft, args.tamper)?;
        if args.curl {
            out.text(&curl::command(&target.url_of(&signed), &signed))?;
            continue;
        }
        let mut first = None;
        for _ in 0..=usize::from(args.duplicate) {
            let mut told = post::post(&http, &target, &draft, &signed, &watch).await?;
            if args.wait && told.outcome.as_deref() != Some("done") {
                exit = Exit::Partial;
            }
            told.duplicate = first.is_some() && first == told.id;
            sum.add(&told);
            tell(&told, &words, &target, out)?;
            first = told.id;
        }
    }
    if args.count > 1 && !args.curl && out.format.is_table() {
        out.say(&sum.text());
    }
    Ok(exit)
}

fn tell(told: &Told, words: &Words, target: &Target, out: &mut Printer) -> anyhow::Result<()> {
    let id = told.id.as_deref().unwrap_or_default();
    out.document("send", told, id, &words.text(told))?;
    if told.status == 401 && target.inbox.is_some() {
        out.tip(&target.refused_tip(told.quarantined.as_deref()));
    }
    Ok(())
}

fn one_reader_of_stdin(args: &SendArgs) -> Result<(), CliError> {
    let body = args.data.as_deref() == Some("-") || args.file.as_deref() == Some(Path::new("-"));
    let secrets = [&args.secret_from, &args.key_from];
    if body && secrets.contains(&&Some(SecretFrom::Stdin)) {
        return Err(
            CliError::usage("send.stdin", "stdin can be used for one input only")
                .tip("read the other inputs from files: --file body.json --secret-from file:PATH"),
        );
    }
    Ok(())
}

fn sign(target: &Target, draft: &Draft, tamper: Option<Tamper>) -> anyhow::Result<Signed> {
    let scheme = target.scheme()?;
    let now = UnixMillis::now();
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
    let signed = target.sign(draft, signer, at)?;
    tamper::falsified(signed, tamper, scheme)
}
