//! Errors in four lines: what happened, what the command checked, what to run next, and a link to
//! the documentation.

use std::borrow::Cow;
use std::fmt;
use std::process::ExitCode;

use serde::Serialize;

use super::format::Format;
use super::safe::capped;
use super::style;

/// The maximum length of a line. An error message of a server can be a whole document.
const LINE_CAP: usize = 600;

/// The page with a section for each code.
const PAGE: &str = "infra/docs/errors.md";

/// The exit codes, which `webhookctl help output` explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success. A command that prints an empty list also succeeds.
    Done = 0,
    /// AWS, the network or the disk failed.
    Failed = 1,
    /// The command line has an unknown flag, an invalid value or a missing argument.
    Usage = 2,
    /// An object was not found, or more than one matches.
    NotFound = 3,
    /// The credentials are missing, have expired, or do not allow the action.
    Denied = 4,
    /// The result is negative, such as a failed check.
    No = 5,
    /// Some events failed, or the final status is not `done`.
    Partial = 6,
    /// The command refuses the change: the confirmation is missing or wrong, the plan has expired,
    /// or the context is read-only.
    Refused = 7,
    /// Another run holds the lock.
    Busy = 8,
    Timeout = 124,
    Interrupted = 130,
}

impl Exit {
    /// A file differs from the deployment. `sources diff` has its own meaning of this code, for CI.
    pub const DIFFERENT: Self = Self::Usage;

    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error for operators, with a code for scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    /// The code in the form `noun.problem`, such as `inbox.not_found`. A released code never
    /// changes.
    pub code: &'static str,
    pub message: String,
    pub exit: Exit,
    /// Further lines of the message, such as the events that match an ambiguous id.
    pub details: Box<[String]>,
    /// For scripts, the details as objects.
    pub faults: Option<Box<Faults>>,
    pub note: Option<Box<str>>,
    pub tip: Option<Box<str>>,
    /// A link that replaces the link to the section of the code.
    pub docs: Option<Box<str>>,
}

/// The faults of a file, as JSON objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(pub Vec<serde_json::Value>);

impl CliError {
    pub fn new(code: &'static str, exit: Exit, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            exit,
            details: Box::default(),
            faults: None,
            note: None,
            tip: None,
            docs: None,
        }
    }

    pub fn failed(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Exit::Failed, message)
    }

    pub fn usage(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Exit::Usage, message)
    }

    pub fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Exit::NotFound, message)
    }

    pub fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Exit::Refused, message)
    }

    #[must_use]
    pub fn details(mut self, details: Vec<String>) -> Self {
        self.details = details.into();
        self
    }

    /// Adds the objects that scripts get instead of the details.
    #[must_use]
    pub fn faults(mut self, faults: Vec<serde_json::Value>) -> Self {
        self.faults = Some(Box::new(Faults(faults)));
        self
    }

    #[must_use]
    pub fn note(mut self, note: impl Into<Box<str>>) -> Self {
        self.note = Some(note.into());
        self
    }

    #[must_use]
    pub fn tip(mut self, tip: impl Into<Box<str>>) -> Self {
        self.tip = Some(tip.into());
        self
    }

    /// Suggests the known word that is most similar to `word`. If none is similar, keeps the tip.
    #[must_use]
    pub fn did_you_mean<'a>(self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(word, known) {
            Some(meant) => self.tip(format!("did you mean '{meant}'?")),
            None => self,
        }
    }

    /// Suggests the known word that is most similar to `word`. If none is similar, lists all known
    /// words.
    #[must_use]
    pub fn one_of(self, word: &str, known: &[&str]) -> Self {
        self.tip(format!("one of: {}", known.join(", ")))
            .did_you_mean(word, known.iter().copied())
    }

    #[must_use]
    pub fn docs(mut self, docs: impl Into<Box<str>>) -> Self {
        self.docs = Some(docs.into());
        self
    }

    /// Returns the error in the form that is printed to stderr, with its line end.
    pub fn render(&self, format: Format, colour: bool) -> String {
        if format.is_json() {
            self.json()
        } else {
            self.text(colour)
        }
    }

    /// Returns the link to the documentation.
    fn more(&self) -> Cow<'_, str> {
        match self.docs.as_deref() {
            Some(docs) => Cow::Borrowed(docs),
            None => Cow::Owned(format!("{PAGE}#{}", anchor(self.code))),
        }
    }

    fn text(&self, colour: bool) -> String {
        let label = |style, label| style::paint(colour, style, label);
        let mut lines = vec![format!(
            "{} {} [{}]",
            label(style::ERROR, "error:"),
            capped(&self.message, LINE_CAP),
            self.code
        )];
        lines.extend(
            self.details
                .iter()
                .map(|d| format!("         {}", capped(d, LINE_CAP))),
        );
        let more = self.more();
        for (style, name, line) in [
            (style::DIM, "note:", self.note.as_deref()),
            (style::TIP, "tip:", self.tip.as_deref()),
            (style::DIM, "docs:", Some(&*more)),
        ] {
            if let Some(line) = line {
                let pad = " ".repeat("error:".len() - name.len());
                lines.push(format!(
                    "{pad}{} {}",
                    label(style, name),
                    capped(line, LINE_CAP)
                ));
            }
        }
        lines.join("\n") + "\n"
    }

    fn json(&self) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            error: Fields<'a>,
        }
        #[derive(Serialize)]
        struct Fields<'a> {
            code: &'a str,
            message: &'a str,
            exit: u8,
            #[serde(skip_serializing_if = "<[String]>::is_empty")]
            details: &'a [String],
            #[serde(skip_serializing_if = "Option::is_none")]
            faults: Option<&'a [serde_json::Value]>,
            #[serde(skip_serializing_if = "Option::is_none")]
            note: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            tip: Option<&'a str>,
            docs: &'a str,
        }
        let more = self.more();
        let error = Fields {
            code: self.code,
            message: &self.message,
            exit: self.exit.code(),
            details: if self.faults.is_none() {
                &self.details
            } else {
                &[]
            },
            faults: self.faults.as_ref().map(|faults| &*faults.0),
            note: self.note.as_deref(),
            tip: self.tip.as_deref(),
            docs: &more,
        };
        let json = serde_json::to_string(&Line { error }).expect("strings and numbers");
        super::safe::inert_json(json) + "\n"
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

/// Returns the anchor of a heading. GitHub removes dots from anchors.
/// <https://docs.github.com/en/get-started/writing-on-github/getting-started-with-writing-and-formatting-on-github/basic-writing-and-formatting-syntax#section-links>
pub(crate) fn anchor(heading: &str) -> String {
    heading.replace('.', "")
}

/// Returns the most similar known word, if one is similar enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::super::safe::tests::{corpus, is_inert};
    use super::*;

    fn not_found() -> CliError {
        CliError::not_found(
            "inbox.not_found",
            "no event 'evt_01KZ99999999' in prod (eu-west-1)",
        )
        .note("searched: inbox, quarantine, dead letters; kept for 35 or 90 days")
        .tip("the event may be in another deployment; contexts: prod, staging, local (-c NAME)")
    }

    #[test]
    fn an_error_is_four_lines() {
        assert_eq!(
            not_found().render(Format::Table, false),
            "error: no event 'evt_01KZ99999999' in prod (eu-west-1) [inbox.not_found]\n\
             \x20note: searched: inbox, quarantine, dead letters; kept for 35 or 90 days\n\
             \x20 tip: the event may be in another deployment; contexts: prod, staging, local (-c NAME)\n\
             \x20docs: infra/docs/errors.md#inboxnot_found\n"
        );
    }

    #[test]
    fn for_a_script_an_error_is_one_object() {
        let expected = concat!(
            r#"{"error":{"code":"inbox.not_found","#,
            r#""message":"no event 'evt_01KZ99999999' in prod (eu-west-1)","exit":3,"#,
            r#""note":"searched: inbox, quarantine, dead letters; kept for 35 or 90 days","#,
            r#""tip":"the event may be in another deployment; contexts: prod, staging, local (-c NAME)","#,
            r#""docs":"infra/docs/errors.md#inboxnot_found"}}"#,
            "\n"
        );
        assert_eq!(not_found().render(Format::Json, true), expected);
        assert_eq!(not_found().render(Format::Jsonl, true), expected);
    }

    #[test]
    fn matches_of_an_ambiguous_id_stand_below_the_error() {
        let error = CliError::not_found("inbox.ambiguous_id", "'evt_01M7' matches 2 events")
            .details(vec![
                "evt_01M7W76WNHE  stripe-main".into(),
                "evt_01M7W76WP20".into(),
            ])
            .docs("https://example.com");
        assert_eq!(
            error.render(Format::Table, false),
            "error: 'evt_01M7' matches 2 events [inbox.ambiguous_id]\n\
             \x20        evt_01M7W76WNHE  stripe-main\n\
             \x20        evt_01M7W76WP20\n\
             \x20docs: https://example.com\n"
        );
    }

    #[test]
    fn hostile_text_in_an_error_is_inert() {
        for text in corpus() {
            let error = CliError::failed("a.b", text.clone())
                .note(text.clone())
                .tip(text);
            let shown = error.render(Format::Csv, false);
            assert_eq!(shown.lines().count(), 4);
            assert!(shown.lines().all(is_inert));
            let json = error.render(Format::Json, false);
            assert!(is_inert(json.trim_end_matches('\n')));
            serde_json::from_str::<serde_json::Value>(&json).unwrap();
        }
    }

    #[test]
    fn a_near_word_is_found_and_a_far_one_is_not() {
        let known = [
            "received",
            "processing",
            "done",
            "failed",
            "dead_letter",
            "quarantined",
        ];
        assert_eq!(nearest("dead", known), Some("dead_letter"));
        assert_eq!(nearest("fialed", known), Some("failed"));
        assert_eq!(nearest("xyz", known), None);
    }

    #[test]
    fn exit_codes_are_those_of_the_help() {
        let codes = [Exit::Done, Exit::Busy, Exit::Timeout, Exit::Interrupted].map(Exit::code);
        assert_eq!(codes, [0, 8, 124, 130]);
    }
}
