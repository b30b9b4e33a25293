//! `inbox body`: prints the exact bytes of a body.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use shared::inbox::ledger::{BodyAt, MissingBody, Row};
use shared::webhook::preset::Preset;

use super::find;
use crate::cli::{BodyArgs, Global};
use crate::output::count::plural;
use crate::output::{CliError, Exit, Printer, safe};
use crate::raw_json::Json;
use crate::target::Deployment;

#[derive(Serialize)]
struct Document {
    id: String,
    content_type: Option<String>,
    bytes: usize,
    sha256: Option<String>,
    /// The number of tokens of the provider that a mask replaces. `bytes` and `sha256` are of the
    /// stored body.
    masked: usize,
    /// The body as text, if it is UTF-8. Any other body is in `base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

pub(in crate::verbs) async fn body(
    args: BodyArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = args.bodies_at.open(global).await?;
    let row = find(&inbox, &args.id).await?;
    let stored = read_body(&inbox, &row).await?;
    let (body, masked) = if args.reveal {
        (stored.clone(), 0)
    } else {
        without_tokens(&row, &stored)
    };
    if masked > 0 {
        let tokens = plural(masked, "token");
        out.say(&format!(
            "{tokens} masked; --reveal prints the stored bytes"
        ));
    }
    if !out.format.is_table() {
        let text = std::str::from_utf8(&body).ok().map(str::to_owned);
        let document = Document {
            id: row.id().to_string(),
            content_type: row.content_type.clone(),
            bytes: stored.len(),
            masked,
            sha256: row.sha.map(|sha| sha.hex()),
            base64: text.is_none().then(|| STANDARD.encode(&body)),
            text,
        };
        out.document("inbox.body", &document, &document.id, "")?;
        return Ok(Exit::Done);
    }
    let shown = if args.pretty {
        let json = Json::parse(&body).ok_or_else(|| no_json(&row))?;
        Bytes::from(json.pretty())
    } else {
        body
    };
    if out.terminal.stdout.terminal && !args.raw && !is_harmless(&shown) {
        return Err(control_bytes(&args.id).into());
    }
    out.bytes(&shown)?;
    Ok(Exit::Done)
}

/// Returns the body of an event, or an error with the reason why the body is missing.
pub(in crate::verbs) async fn read_body(inbox: &Deployment, row: &Row) -> anyhow::Result<Bytes> {
    if matches!(row.body_at, BodyAt::Bucket(_)) && !inbox.ledger.has_bucket() {
        return Err(crate::selection::no_bucket().into());
    }
    let id = row.id();
    match inbox.ledger.event_body(&row.key).await? {
        Some(Ok(body)) => Ok(body.0),
        Some(Err(MissingBody::Damaged)) => Err(CliError::failed(
            "inbox.damaged_body",
            format!("the stored body of {id} is damaged: its hash does not match"),
        )
        .into()),
        Some(Err(MissingBody::Gone)) | None => {
            let why = match row.erased_at {
                Some(_) => "the body was erased",
                None => "the retention of the body has ended",
            };
            let message = format!("the body of {id} no longer exists");
            Err(CliError::not_found("inbox.no_body", message)
                .note(why)
                .into())
        }
    }
}

/// Returns the body without the tokens that the provider puts into it, and how many were masked. A
/// caller with such a token could send events.
pub(super) fn without_tokens(row: &Row, body: &Bytes) -> (Bytes, usize) {
    let preset = Preset::embedded(&row.preset, &BTreeMap::new()).ok();
    let masked = preset.and_then(|preset| preset.masked_body(body));
    match masked {
        Some((masked, count)) => (masked.into(), count),
        None => (body.clone(), 0),
    }
}

/// Returns whether the body has no control characters that a terminal would interpret.
fn is_harmless(body: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(body) else {
        return false;
    };
    let text = text.replace("\r\n", "\n").replace(['\n', '\t'], " ");
    matches!(safe(&text), Cow::Borrowed(_))
}

fn no_json(row: &Row) -> CliError {
    let message = format!(
        "the body of {} cannot be indented: it is not JSON",
        row.id()
    );
    CliError::new("inbox.no_json", Exit::No, message)
        .tip("leave out --pretty to print it unchanged")
}

fn control_bytes(id: &str) -> CliError {
    CliError::refused(
        "inbox.control_bytes",
        "the body contains control characters, which a terminal would interpret or hide",
    )
    .note("nothing was printed")
    .tip(format!(
        "webhookctl inbox body {id} > FILE, or --raw to print it anyway"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::safe::tests::corpus;

    #[test]
    fn only_what_is_plain_text_is_shown_to_a_terminal() {
        for body in ["{\n\t\"a\": 1\r\n}\n", "é 日本語", ""] {
            assert!(is_harmless(body.as_bytes()), "{body:?}");
        }
        for body in ["\x1b]0;owned\x07", "a\rb", "\0", "\u{202e}", "\u{9b}31m"] {
            assert!(!is_harmless(body.as_bytes()), "{body:?}");
        }
        assert!(!is_harmless(b"\xff\x9b"));
        let hostile = corpus()
            .iter()
            .filter(|text| !is_harmless(text.as_bytes()))
            .count();
        assert!(hostile > 15, "{hostile}");
    }
}
