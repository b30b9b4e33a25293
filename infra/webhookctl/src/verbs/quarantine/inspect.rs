//! `quarantine inspect`: shows one rejected request.

use std::fmt::Write as _;

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::rejected::RejectedRequest;
use shared::webhook::envelope::is_credential;
use shared::webhook::event::{EventId, Proven};

use super::finding::{Found, what};
use super::list::status;
use super::reach::Keys;
use crate::cli::{Global, HeldInspectArgs};
use crate::output::count::thousands;
use crate::output::safe::{capped, safe_bytes};
use crate::output::time::{age, rfc3339};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;

/// The maximum length of a printed line. The sender chooses the length of a value.
const LINE_CAP: usize = 1000;

const HIDDEN: &str = "hidden; --reveal shows it";

#[derive(Serialize)]
struct Document {
    id: String,
    source: String,
    status: &'static str,
    reason: String,
    what: &'static str,
    finding: String,
    next_action: String,
    event: Option<String>,
    received_at: String,
    method: String,
    url: String,
    address: Option<String>,
    config: String,
    headers: Vec<Header>,
    body: Body,
}

#[derive(Serialize)]
struct Header {
    name: String,
    /// The value of the header; `None` if it is hidden.
    value: Option<String>,
}

#[derive(Serialize)]
struct Body {
    bytes: u64,
    sha256: String,
    content_type: String,
    /// The body as text, with `--reveal` and if the body is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

pub(super) async fn inspect(
    args: HeldInspectArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let held = find(&inbox, &args.id, now).await?;
    let keys = Keys::read(&inbox, global, &args.secrets_at, now).await.ok();
    let found = Found::new(&held, &inbox.config, keys.as_ref());
    let all_secret = inbox.config.source(&held.source).is_none_or(|source| {
        let scheme = source.verifier.preset.scheme(&source.verifier.variant);
        scheme.is_none_or(|scheme| scheme.proves == Proven::Token)
    });
    let document = document(&found, args.reveal, all_secret);
    let text = text(&document, &held, args.reveal, now.0);
    out.document("quarantine.request", &document, &document.id, &text)?;
    if found.secret().is_none() && held.released.is_none() {
        out.tip(&format!("webhookctl verify {}", document.id));
    }
    Ok(Exit::Done)
}

pub(in crate::verbs) async fn find(
    inbox: &Deployment,
    wanted: &str,
    now: UnixMillis,
) -> anyhow::Result<RejectedRequest> {
    let mut found = match EventId::times(wanted) {
        Some(_) => {
            let sources = inbox.sources();
            inbox
                .quarantine
                .with_id_prefix(&sources, wanted, now)
                .await?
        }
        None => Vec::new(),
    };
    match found.len() {
        0 => Err(CliError::not_found(
            "quarantine.not_found",
            format!("no rejected request '{wanted}' in {}", inbox.name),
        )
        .note("no id starts with this text; the quarantine keeps requests for 7 days")
        .tip("webhookctl quarantine list --flat")
        .into()),
        1 => Ok(found.remove(0)),
        count => {
            let details = found.iter().take(10).map(|held| {
                let age = age(held.received_at.0, now.0);
                format!("{}  {}  {}  {age}", held.id, held.source, held.reason)
            });
            Err(CliError::not_found(
                "quarantine.ambiguous_id",
                format!("'{wanted}' matches {count} requests"),
            )
            .details(details.collect())
            .into())
        }
    }
}

fn document(found: &Found<'_>, reveal: bool, all_secret: bool) -> Document {
    let held = found.held;
    let body = held.body().ok().filter(|_| reveal);
    let as_text = body
        .as_ref()
        .and_then(|body| Some(std::str::from_utf8(body).ok()?.to_owned()));
    let base64 = body
        .filter(|_| as_text.is_none())
        .map(|body| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, body));
    let headers = held.headers.iter().map(|(name, value)| Header {
        name: name.to_owned(),
        value: (reveal || is_open(name, all_secret)).then(|| value.to_owned()),
    });
    let content_type = held.headers.all("content-type").next();
    Document {
        id: held.id.to_string(),
        source: held.source.clone(),
        status: status(held),
        reason: held.reason.clone(),
        what: what(&held.reason),
        finding: found.text(),
        next_action: next_action(found),
        event: held
            .released
            .as_ref()
            .and_then(|released| released.key.clone()),
        received_at: rfc3339(held.received_at.0),
        method: held.method.clone(),
        url: url(&held.url, reveal),
        address: held.address().map(str::to_owned),
        config: held.config.clone(),
        headers: headers.collect(),
        body: Body {
            bytes: held.body_len,
            sha256: held.sha.hex(),
            content_type: content_type.unwrap_or_default().to_owned(),
            text: as_text,
            base64,
        },
    }
}

/// Returns whether a header may be shown. If any header can contain the token, only headers that
/// never contain it may be shown.
fn is_open(name: &str, all_secret: bool) -> bool {
    let plain = matches!(
        name,
        "accept" | "content-length" | "content-type" | "host" | "user-agent"
    ) || name.starts_with("x-forwarded-");
    !is_credential(name) && (plain || !all_secret)
}

/// Hides the query string, because some senders put secrets into it.
fn url(url: &str, reveal: bool) -> String {
    match url.split_once('?') {
        Some((path, _)) if !reveal => format!("{path}?… ({HIDDEN})"),
        _ => url.to_owned(),
    }
}

fn next_action(found: &Found<'_>) -> String {
    if let Some(released) = &found.held.released {
        return match &released.key {
            Some(key) => format!("none; see `webhookctl inbox inspect {key}`"),
            None => "none".to_owned(),
        };
    }
    if found.secret().is_some() {
        return "reverify: the request is genuine".to_owned();
    }
    match found.held.reason.as_str() {
        "bad_signature" => {
            "fix the secret, then reverify; none if the request is forged".to_owned()
        }
        _ => "none, unless the source is misconfigured".to_owned(),
    }
}

fn text(document: &Document, held: &RejectedRequest, reveal: bool, now: i64) -> String {
    let received = format!(
        "{} ({})",
        document.received_at,
        age(held.received_at.0, now)
    );
    let body = format!(
        "{} bytes  {}  sha256 {}",
        thousands(document.body.bytes),
        document.body.content_type,
        document.body.sha256
    );
    let reason = format!("{}: {}", document.reason, document.what);
    let request = format!("{} {}", document.method, document.url);
    let lines = [
        ("id", document.id.as_str()),
        ("source", &document.source),
        ("status", document.status),
        ("reason", &reason),
        ("finding", &document.finding),
        ("next_action", &document.next_action),
        ("received_at", &received),
        ("request", &request),
        ("from", document.address.as_deref().unwrap_or("-")),
        ("body", &body),
    ];
    let mut text = lines.iter().fold(String::new(), |text, (name, value)| {
        text + &format!("{name:<11}  {}\n", capped(value, LINE_CAP))
    });
    text += "\nHeaders\n";
    for header in &document.headers {
        let value = header.value.as_deref().unwrap_or(HIDDEN);
        let line = format!("{}: {value}", header.name);
        let _ = writeln!(text, "  {}", capped(&line, LINE_CAP));
    }
    if reveal {
        text += "\nBody\n";
        match held.body() {
            Ok(body) => {
                for line in body.split(|byte| *byte == b'\n') {
                    let _ = writeln!(text, "  {}", safe_bytes(line));
                }
            }
            Err(_) => text += "  damaged: the stored body differs from the received body\n",
        }
    }
    text
}
