//! Runs the program: parses the arguments, prints every error in one format, handles closed pipes,
//! and returns the exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Command, FromArgMatches};

use super::args::{Cli, Global};
use super::help;
use super::tree::parsed_tree;
use super::values::{ColorChoice, Zone};
use crate::output::aws::{Place, rewrite};
use crate::output::{CliError, Exit, Format, Printer, StdoutClosed, Talk, Terminal, time};
use crate::target::Chosen;

/// Parses the arguments of this process, calls `handler`, and returns the exit code.
///
/// The handler returns an exit code or an error. This function prints a [`CliError`] unchanged, and
/// converts any other error to a [`CliError`] first.
pub fn run_with(handler: impl FnOnce(Cli, &mut Printer) -> anyhow::Result<Exit>) -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let cli = match parse(&args) {
        Ok(cli) => cli,
        Err(stop) => return stop.print(&args).into(),
    };
    let global = cli.global.clone();
    if cli.global.time == Zone::Local {
        time::show_local();
    }
    let mut printer =
        Printer::new(cli.global.format(), cli.global.terminal()).asking(cli.global.query.clone());
    let result = handler(cli, &mut printer);
    finish(result, &mut printer, || global.place()).into()
}

/// Returns the arguments, or the text to print instead of running a command.
pub fn parse(args: &[OsString]) -> Result<Cli, Stop> {
    let matches = parsed_tree()
        .try_get_matches_from(args)
        .map_err(|error| stopped(error, args))?;
    if let Some(page) = matches.subcommand_name().and_then(help::page) {
        return Err(Stop::Text(page));
    }
    let mut cli = Cli::from_arg_matches(&matches).map_err(Stop::from)?;
    cli.global = cli.global.without_empty();
    cli.global.checked_query().map_err(Stop::Ours)?;
    cli.checked_output().map_err(Stop::Ours)?;
    Ok(cli)
}

/// Converts an error of clap. If the word after `help` is an error code, clap reports it as an
/// unknown command, so this function looks for a help page first.
fn stopped(error: clap::Error, args: &[OsString]) -> Stop {
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::InvalidSubcommand => word,
        _ => return Stop::from(error),
    };
    if word == "version" && args.len() == 2 {
        return Stop::Text(parsed_tree().render_version().into());
    }
    if !args
        .windows(2)
        .any(|pair| pair[0] == "help" && pair[1] == word.as_str())
    {
        return Stop::from(error);
    }
    let tree = parsed_tree();
    let commands: Vec<&str> = tree.get_subcommands().map(Command::get_name).collect();
    match help::page_of_code(word, &commands) {
        Ok(page) => Stop::Text(page),
        Err(error) => Stop::Ours(error),
    }
}

/// The reason why no command runs.
#[derive(Debug)]
pub enum Stop {
    /// A help page that clap does not generate.
    Text(StyledStr),
    /// Help, version or a usage error, with the text of clap.
    Clap(clap::Error),
    /// An invalid value or an unknown topic. The text is from this program, not from clap.
    Ours(CliError),
}

impl From<clap::Error> for Stop {
    fn from(error: clap::Error) -> Self {
        let source = std::error::Error::source(&error);
        match source.and_then(|source| source.downcast_ref::<CliError>()) {
            Some(ours) => Self::Ours(ours.clone()),
            None => Self::Clap(error),
        }
    }
}

impl Stop {
    /// Returns the error for a caller that has no terminal.
    pub(crate) fn into_error(self) -> CliError {
        match self {
            Self::Ours(error) => error,
            Self::Clap(error) => in_our_shape(&error),
            Self::Text(_) => CliError::usage("usage.arguments", "this is a page of the help"),
        }
    }

    fn print(self, args: &[OsString]) -> Exit {
        let (format, terminal) = wanted(args);
        let mut printer = Printer::new(format, terminal);
        match self {
            Self::Text(text) => {
                // A closed pipe is not an error, so the result is ignored.
                let _ = printer.painted(&shown(&text, terminal.stdout.colour));
                Exit::Done
            }
            Self::Ours(error) => {
                printer.error(&error);
                error.exit
            }
            Self::Clap(error) if error.use_stderr() && format.is_json() => {
                printer.error(&in_our_shape(&error));
                Exit::Usage
            }
            Self::Clap(error) if error.kind() == ErrorKind::MissingSubcommand => {
                // A command line with only options prints the same help as an empty command line.
                printer.painted_talk(&shown(&screen(args), terminal.stderr.colour));
                Exit::Usage
            }
            Self::Clap(error) if error.use_stderr() => {
                printer.painted_talk(&shown(&error.render(), terminal.stderr.colour));
                Exit::Usage
            }
            Self::Clap(error) => {
                let _ = printer.painted(&shown(&error.render(), terminal.stdout.colour));
                Exit::Done
            }
        }
    }
}

fn shown(text: &StyledStr, colour: bool) -> String {
    if colour {
        text.ansi().to_string()
    } else {
        text.to_string()
    }
}

/// Returns the help of the last command in the arguments.
fn screen(args: &[OsString]) -> StyledStr {
    let mut tree = parsed_tree();
    tree.build();
    for arg in args.iter().skip(1) {
        if let Some(below) = tree.find_subcommand(arg) {
            tree = below.clone();
        }
    }
    tree.render_help()
}

fn finish(
    result: anyhow::Result<Exit>,
    printer: &mut Printer,
    place: impl FnOnce() -> Place,
) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(error)
            if error
                .chain()
                .any(<dyn std::error::Error>::is::<StdoutClosed>) =>
        {
            Exit::Done
        }
        Err(error) => {
            let error = rewrite(&error, &place());
            printer.error(&error);
            error.exit
        }
    }
}

impl Global {
    /// Converts an error of a command to an error with a cause and a fix.
    pub(crate) fn explained(&self, error: &anyhow::Error) -> CliError {
        rewrite(error, &self.place())
    }

    /// Returns the target of the requests, for error messages.
    pub fn place(&self) -> Place {
        if let Ok(Chosen::Deployed(deployed)) = Chosen::find(&self.target) {
            return deployed.place();
        }
        Place {
            context: self.target.context.clone(),
            region: self.target.region.clone(),
            table: self.target.table.clone(),
            endpoint_url: self.target.endpoint_url.clone(),
            other_region: None,
        }
    }

    fn terminal(&self) -> Terminal {
        let columns = self
            .terminal_width
            .as_deref()
            .and_then(|text| text.parse().ok());
        let talk = match self.tips.as_deref() {
            _ if self.quiet => Talk::Quiet,
            Some("0") => Talk::Plain,
            _ => Talk::All,
        };
        Terminal::detect(colour(self.color), columns, talk, !self.no_input)
    }
}

fn colour(choice: ColorChoice) -> Option<bool> {
    match choice {
        ColorChoice::Auto => None,
        ColorChoice::Always => Some(true),
        ColorChoice::Never => Some(false),
    }
}

/// Returns the format and the colour for an error in the arguments, from those options that can be
/// parsed.
///
/// clap stops at the first error, even with `ignore_errors`. So this function passes only the
/// options that set the format and the colour to clap.
fn wanted(args: &[OsString]) -> (Format, Terminal) {
    let mut known = vec![OsString::from("webhookctl")];
    let mut rest = args.iter().skip(1).take_while(|arg| *arg != "--");
    while let Some(arg) = rest.next() {
        let text = arg.to_string_lossy();
        let valued = matches!(text.as_ref(), "-o" | "--output" | "--color");
        if valued {
            known.extend([arg.clone()].into_iter().chain(rest.next().cloned()));
        } else if ["-o", "--output=", "--color="]
            .iter()
            .any(|start| text.starts_with(start))
        {
            known.push(arg.clone());
        }
    }
    let tree = Global::augment_args(Command::new("webhookctl")).args_override_self(true);
    let global = tree
        .try_get_matches_from(known)
        .and_then(|m| Global::from_arg_matches(&m))
        .ok();
    let terminal = |global: &Global| (global.format(), global.terminal());
    let plain = || {
        (
            Format::default(),
            Terminal::detect(None, None, Talk::All, false),
        )
    };
    global.as_ref().map_or_else(plain, terminal)
}

/// Converts an error of clap to an error with a code, for scripts.
fn in_our_shape(error: &clap::Error) -> CliError {
    let code = match error.kind() {
        ErrorKind::UnknownArgument => "usage.unknown_argument",
        ErrorKind::InvalidSubcommand => "usage.unknown_command",
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => "usage.value",
        ErrorKind::MissingRequiredArgument => "usage.missing_argument",
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "usage.missing_command"
        }
        _ => "usage.arguments",
    };
    let text = error.render().to_string();
    let message = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "missing command",
        _ => text
            .split("\n\n")
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .trim(),
    };
    let ours = CliError::usage(code, message.replace('\n', " "));
    let kinds = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ];
    let meant = kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    });
    match meant {
        Some(meant) => ours.tip(format!("did you mean '{meant}'?")),
        None => ours.tip("webhookctl --help"),
    }
}

#[cfg(test)]
mod tests;
