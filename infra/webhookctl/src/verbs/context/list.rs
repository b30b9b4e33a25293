//! `context list`: lists the contexts.

use serde::Serialize;
use shared::base::clock::UnixMillis;

use crate::cli::Global;
use crate::output::{Column, Exit, List, Printer};
use crate::target::{Chosen, Context, Contexts, Local};

#[derive(Serialize)]
struct ContextRow {
    context: String,
    /// Whether the options and the files select this context.
    in_use: bool,
    account: Option<String>,
    region: Option<String>,
    stack: Option<String>,
    note: Option<String>,
}

pub(super) fn list(global: &Global, out: &mut Printer) -> anyhow::Result<Exit> {
    let contexts = Contexts::read()?;
    let in_use = match Chosen::find(&global.target) {
        Ok(Chosen::Local(_)) => Some("local".to_owned()),
        Ok(Chosen::Deployed(deployed)) => Some(deployed.name),
        Err(_) => global.target.context.clone().or(contexts.default.clone()),
    };
    let is_used = |name: &str| in_use.as_deref() == Some(name);
    let all = contexts.all.iter();
    let mut items: Vec<ContextRow> = all
        .map(|(name, context)| ContextRow::new(name, context, is_used(name)))
        .collect();
    if let Some(local) = Local::find()? {
        items.push(ContextRow {
            context: "local".to_owned(),
            in_use: is_used("local"),
            account: None,
            region: Some("127.0.0.1".to_owned()),
            stack: Some(".mitt".to_owned()),
            note: Some(format!("running, pid {}", local.pid)),
        });
    }
    let files: Vec<String> = contexts
        .read
        .iter()
        .map(|it| it.display().to_string())
        .collect();
    out.list(&List {
        id: "context",
        footer: (!files.is_empty()).then(|| files.join(", ")),
        empty: "No context is configured, and no `webhookctl dev` is running in this folder."
            .to_owned(),
        tip: Some("webhookctl context add NAME --stack STACK --region REGION".to_owned()),
        ..List::new(
            "context.list",
            in_use.as_deref().unwrap_or_default(),
            UnixMillis::now(),
            columns(),
            items,
        )
    })?;
    Ok(Exit::Done)
}

impl ContextRow {
    fn new(name: &str, context: &Context, in_use: bool) -> Self {
        let notes = [
            (context.protected, "protected"),
            (context.read_only, "read-only"),
            (
                context.names.table.is_none(),
                "resource names are missing; run context add NAME --refresh",
            ),
        ];
        let notes = notes.iter().filter(|(applies, _)| *applies);
        let notes: Vec<&str> = notes.map(|(_, note)| *note).collect();
        Self {
            in_use,
            context: name.to_owned(),
            account: context.account.clone(),
            region: context.region.clone(),
            stack: context.stack.clone().or(context.names.table.clone()),
            note: (!notes.is_empty()).then(|| notes.join(", ")),
        }
    }
}

fn columns() -> Vec<Column<'static, ContextRow>> {
    vec![
        Column::whole("", "in_use")
            .essential()
            .shown(|row: &ContextRow| if row.in_use { "*" } else { "" }.to_owned()),
        Column::whole("CONTEXT", "context").essential(),
        Column::whole("ACCOUNT", "account").dash(),
        Column::whole("REGION", "region").dash(),
        Column::text("STACK", "stack", 12).dash(),
        Column::text("NOTE", "note", 12).lesser(),
    ]
}
