//! `verify`: shows step by step why a signature does or does not match.

mod document;
mod kept;
mod mask;
mod render;
mod request;
mod secrets;
mod wording;

use shared::base::clock::UnixMillis;
use shared::webhook::verify::{Arrival, Explained, NearMiss, Reason, Rejected};

use crate::cli::{Global, VerifyArgs};
use crate::output::{Exit, Printer};
use request::Question;

/// A request, and the result of its verification.
struct Answer {
    question: Question,
    explained: Explained,
    near: Option<NearMiss>,
    reveal: bool,
}

pub(super) async fn verify(
    args: VerifyArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let question = request::question(&args, global, UnixMillis::now()).await?;
    let answer = Answer::new(question, args.reveal);
    let document = document::document(&answer);
    let text = render::text(&answer);
    let id = args.id.as_deref().unwrap_or(&document.preset);
    out.document("verify", &document, id, &text)?;
    if let Some(tip) = wording::tip(&answer) {
        out.tip(&tip);
    }
    Ok(if answer.is_good() {
        Exit::Done
    } else {
        Exit::No
    })
}

impl Answer {
    fn new(question: Question, reveal: bool) -> Self {
        let Question {
            verifier,
            envelope,
            secrets,
            others,
            ..
        } = &question;
        let explained = verifier.explain(envelope, secrets);
        let near = verifier.near_miss(envelope, secrets, others);
        Self {
            question,
            explained,
            near,
            reveal,
        }
    }

    /// Returns whether the catcher would accept the request, or would answer a handshake with 2xx.
    fn is_good(&self) -> bool {
        match &self.explained.verdict {
            Ok(Arrival::Event(_)) => true,
            Ok(Arrival::Handshake(reply)) => reply.status < 300,
            Err(_) => false,
        }
    }

    fn reason(&self) -> Option<Reason> {
        match &self.explained.verdict {
            Err(Rejected(reason)) => Some(*reason),
            Ok(_) => None,
        }
    }

    /// Returns the number of the step with the near misses. A handshake has one step more before
    /// it.
    fn near_step(&self) -> usize {
        if self.explained.handshake { 7 } else { 6 }
    }

    /// Returns whether `verify` searched for near misses. It searches only if the request has a
    /// signature to compare.
    fn was_searched(&self) -> bool {
        let compared = [
            Reason::BadSignature,
            Reason::BadCredentials,
            Reason::BadBodyHash,
            Reason::BadUrlHash,
            Reason::MalformedSignature,
        ];
        self.near.is_some()
            || self
                .reason()
                .is_some_and(|reason| compared.contains(&reason))
    }
}
