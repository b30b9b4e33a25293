//! What the head of each page shows: the inbox, the operator, and what the console may do.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use shared::base::clock::UnixMillis;

use super::refusal::Refusal;
use super::server::Console;
use super::session::IDLE;
use crate::audit::who;
use crate::output::format::json_line;
use crate::target::Deployment;

#[derive(Deserialize)]
pub(super) struct Code {
    pub(super) code: String,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own in the document"
)]
#[derive(Serialize)]
struct Facts {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The time when the session ends without further use.
    until: String,
    context: String,
    region: Option<String>,
    account: Option<String>,
    /// The AWS identity of the operator; `None` if AWS does not tell it.
    who: Option<String>,
    write: bool,
    private: bool,
    protected: bool,
    local: bool,
    /// The version of the sources in force; `None` if they come from a file.
    sources_version: Option<u64>,
}

pub(super) async fn current(console: &Console) -> Result<Response, Refusal> {
    facts(console, None).await
}

pub(super) async fn with_token(console: &Console, token: String) -> Result<Response, Refusal> {
    facts(console, Some(token)).await
}

async fn facts(console: &Console, token: Option<String>) -> Result<Response, Refusal> {
    let opened = console.reader.inbox().await;
    let inbox = opened.map_err(|error| console.reader.global().explained(&error))?;
    let who = console.who.get_or_init(|| operator(&inbox)).await.clone();
    let idle = i64::try_from(IDLE.as_millis()).unwrap_or(i64::MAX);
    let deployed = inbox.deployed.as_ref();
    let of_arn = || who.as_deref().and_then(|arn| arn.split(':').nth(4));
    let facts = Facts {
        token,
        until: UnixMillis(UnixMillis::now().0 + idle).rfc3339(),
        context: inbox.name.clone(),
        region: inbox.region().map(str::to_owned),
        account: deployed
            .and_then(|it| it.account.clone())
            .or_else(|| of_arn().map(str::to_owned)),
        write: console.options.write,
        private: console.options.private,
        protected: inbox.is_protected(),
        local: inbox.local.is_some(),
        sources_version: inbox.version,
        who,
    };
    let body = json_line(&facts).map_err(|error| super::server::failed(&error))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Returns the operator. The page works without it.
pub(super) async fn operator(inbox: &Deployment) -> Option<String> {
    who(inbox).await.ok()
}
