//! The first help page: commands in groups. clap does not support groups for subcommands.

use std::fmt::Write as _;

use clap::Command;

use super::{MORE_HELP, START_HERE, with_headings};

/// The groups and their commands, in the order of the page.
pub(super) const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Look",
        &[
            "status", "console", "inbox", "verify", "sync", "trial", "log", "doctor",
        ],
    ),
    (
        "Act",
        &[
            "replay",
            "dlq",
            "quarantine",
            "hold",
            "reconcile",
            "erase",
            "work",
        ],
    ),
    ("Develop", &["dev", "send", "listen", "presets", "mcp"]),
    (
        "Set up",
        &[
            "init",
            "sources",
            "secrets",
            "endpoint",
            "policies",
            "context",
            "completions",
        ],
    ),
];

/// Returns the tree with this first page. The commands of the tree have the order of the page.
pub(in crate::cli) fn in_groups(tree: Command) -> Command {
    let place = |name: &str| {
        let mut names = GROUPS.iter().flat_map(|(_, names)| *names);
        names.position(|known| *known == name)
    };
    let tree = tree.mut_subcommands(|command| match place(command.get_name()) {
        Some(place) => command.display_order(place),
        None => command,
    });
    let below = [START_HERE, MORE_HELP].map(|text| with_headings(text, tree.get_styles()));
    let template = template(&tree);
    tree.help_template(template).after_help(below.join("\n\n"))
}

fn template(tree: &Command) -> String {
    let (heading, literal) = (
        tree.get_styles().get_header(),
        tree.get_styles().get_literal(),
    );
    let all = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = all.map(|name| name.len()).max().unwrap_or_default();
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n\n");
    for (group, names) in GROUPS {
        let _ = writeln!(text, "{heading}{group}:{heading:#}");
        for command in names.iter().filter_map(|name| tree.find_subcommand(name)) {
            let name = command.get_name();
            let gap = width - name.len();
            let about = command.get_about().cloned().unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name}{literal:#}{:gap$}  {about}", "");
        }
        text.push('\n');
    }
    let _ = write!(
        text,
        "{heading}Options:{heading:#}\n{{options}}{{after-help}}"
    );
    text
}
