//! `context show`: the values that commands use for a context.

use serde::Serialize;

use crate::cli::{ContextShowArgs, Global};
use crate::output::table::aligned;
use crate::output::{Exit, Printer};
use crate::target::{Chosen, Names};

#[derive(Serialize)]
struct Shown {
    context: String,
    stack: Option<String>,
    region: Option<String>,
    profile: Option<String>,
    account: Option<String>,
    sources: Option<String>,
    protected: bool,
    read_only: bool,
    names: Names,
}

pub(super) fn show(
    args: &ContextShowArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let mut global = global.clone();
    if args.name.is_some() {
        global.target.context.clone_from(&args.name);
    }
    let shown = match Chosen::find(&global.target)? {
        Chosen::Local(local) => Shown {
            context: "local".to_owned(),
            stack: None,
            region: None,
            profile: None,
            account: None,
            sources: Some(local.sources.display().to_string()),
            protected: false,
            read_only: false,
            names: local.names,
        },
        Chosen::Deployed(it) => Shown {
            context: it.name.clone(),
            stack: it.stack.clone(),
            region: it.region.clone(),
            profile: it.profile.as_ref().map(|profile| profile.name().to_owned()),
            account: it.account.clone(),
            sources: it.sources.as_ref().map(|file| file.display().to_string()),
            protected: it.protected,
            read_only: it.read_only,
            names: it.names.clone(),
        },
    };
    let id = shown.context.clone();
    out.document("context.show", &shown, &id, &text(&shown))?;
    Ok(Exit::Done)
}

fn text(shown: &Shown) -> String {
    let mut rows = vec![vec!["context".to_owned(), shown.context.clone()]];
    let mut line = |key: &str, value: &Option<String>| {
        if let Some(value) = value {
            rows.push(vec![key.to_owned(), value.clone()]);
        }
    };
    let yes = |it: bool| it.then(|| "yes".to_owned());
    line("stack", &shown.stack);
    line("region", &shown.region);
    line("profile", &shown.profile);
    line("account", &shown.account);
    line("sources", &shown.sources);
    line("protected", &yes(shown.protected));
    line("read-only", &yes(shown.read_only));
    for (key, _, value) in shown.names.clone().fields() {
        line(key, value);
    }
    aligned(&rows)
}
