//! The page that `webhookctl help options` prints.

use clap::builder::StyledStr;
use clap::{Arg, Args as _, Command};

use super::with_headings;
use crate::cli::Global;

const EXAMPLES: &str = "\
Examples:
  # The newest failed event of the deployment prod, as JSON
  webhookctl inbox list --status failed -n 1 -c prod -o json
  # The ids of failed events, by a JMESPath expression
  webhookctl inbox list --status failed --query 'items[].id'

More about formats, exit codes and contexts: webhookctl help output";

/// The options that every command accepts.
pub(super) fn page() -> StyledStr {
    let page = Global::augment_args(Command::new("options"))
        .about("Every command accepts these options, before or after its name.")
        .disable_help_flag(true)
        .mut_args(with_variable)
        .help_template("{about-with-newline}\n{all-args}{after-help}")
        .max_term_width(100);
    let examples = with_headings(EXAMPLES, page.get_styles());
    page.after_help(examples).render_help()
}

/// clap would also print the value of the variable, and could break the line before the name of the
/// variable.
fn with_variable(arg: Arg) -> Arg {
    let variable = arg
        .get_env()
        .map(|name| name.to_string_lossy().into_owned());
    match (variable, arg.get_help()) {
        (Some(variable), Some(help)) => {
            let help = format!("{help} [env:{variable}]");
            arg.help(help)
        }
        _ => arg,
    }
}
