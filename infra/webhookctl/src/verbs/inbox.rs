//! `inbox`: stored events.

mod list;

use shared::clock::Millis;

use super::view;
use crate::cli::{Global, InspectArgs};
use crate::inspect::{SCHEMA, document, full, seven_lines};
use crate::output::{Exit, Format, Printer};
use crate::place::Inbox;

pub(super) use crate::selection::{find_one as find, known_sources};
pub(super) use list::list;

pub(super) async fn inspect(
    args: InspectArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Inbox::open(global)?;
    let row = find(&inbox, &args.id).await?;
    let now = Millis::now().0;
    let event = view(&row, &inbox.config);
    let text = if args.full || out.format == Format::Wide {
        full(&event, now)
    } else {
        seven_lines(&event, now)
    };
    out.document(SCHEMA, &document(&event, now), &event.id, &text)?;
    if !args.full {
        out.tip(&format!("webhookctl inbox inspect {} --full", args.id));
    }
    Ok(Exit::Done)
}
