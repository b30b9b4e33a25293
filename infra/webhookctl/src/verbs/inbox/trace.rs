//! `inbox trace`: shows an event as a trace.

mod link;
mod otlp;
mod render;
mod spans;

use shared::base::clock::UnixMillis;
use shared::base::timing::{LEASE, LONG_LEASE};
use shared::inbox::ledger::{Row, UnreadableRequest};
use shared::sources::Source;

use super::find;
use crate::cli::{Global, TraceArgs};
use crate::output::format::json_document;
use crate::output::{Exit, Format, Printer};
use crate::target::Deployment;
use link::Link;
use spans::Trace;

/// The name of the schema without its version.
const SCHEMA: &str = "inbox.trace";

pub(in crate::verbs) async fn trace(
    args: TraceArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let row = find(&inbox, &args.id).await?;
    let source = inbox.config.source(row.key.source());
    let is_long = source.is_some_and(Source::is_long);
    let lease = if is_long { LONG_LEASE } else { LEASE };
    let trace = Trace::of(&row, lease, link(&inbox, &row).await?);
    if out.format == Format::Otlp {
        out.text(&json_document(&otlp::document(&trace, &inbox.name))?)?;
        return Ok(Exit::Done);
    }
    let text = render::text(&trace, UnixMillis::now().0);
    out.document(SCHEMA, &trace.document(), &trace.event, &text)?;
    Ok(Exit::Done)
}

/// Returns the trace that the provider named. A request that cannot be read does not hide the
/// trace.
async fn link(inbox: &Deployment, row: &Row) -> anyhow::Result<Option<Link>> {
    if let Some(sent) = row.headers.get("traceparent") {
        return Ok(Link::parse(sent));
    }
    match inbox.ledger.event_request(&row.key).await {
        Ok(kept) => {
            let mut sent = kept
                .iter()
                .flat_map(|it| it.context.headers.all("traceparent"));
            Ok(sent.next().and_then(Link::parse))
        }
        Err(error) if error.is::<UnreadableRequest>() => Ok(None),
        Err(error) => Err(error),
    }
}
