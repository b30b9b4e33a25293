//! `success`, `permanent`, `refused_for` and `permanent_errors`: what the answer of a destination
//! means for the event.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::duration;
use crate::base::setting_path::At as _;

/// The longest `refused_for`. An operator should learn of a refusal within a day.
const LONGEST_REFUSED: Duration = Duration::from_secs(24 * 3600);

/// The default of `refused_for`: six attempts with the default waits.
const REFUSED_FOR: Duration = Duration::from_secs(3 * 3600);

/// Response statuses for which a retry cannot succeed: the resource is gone, the body is too large,
/// or the content is invalid.
const PERMANENT: [u16; 3] = [410, 413, 422];

/// The longest name of an error type, and the most names.
const LONGEST_NAME: usize = 100;
const MOST_NAMES: usize = 50;

/// What the answers of an action's destination mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerRules {
    success: Statuses,
    permanent: Statuses,
    /// How long after the first attempt the last attempt on a refusal may begin.
    pub refused_for: Duration,
    permanent_errors: Vec<String>,
    /// Whether the text of an answer is kept, and not only its status.
    pub keep_text: bool,
}

/// How much of an answer is kept.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FileKeep {
    Text,
    Status,
}

/// A set of HTTP statuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Statuses(Vec<RangeInclusive<u16>>);

/// The settings as they are in the file.
#[derive(Default)]
pub(super) struct FileAnswers {
    pub(super) success: Option<Vec<FileStatus>>,
    pub(super) permanent: Option<Vec<FileStatus>>,
    pub(super) refused_for: Option<String>,
    pub(super) permanent_errors: Option<Vec<String>>,
    pub(super) answers: Option<FileKeep>,
}

/// A status such as `409`, or a class such as `"4xx"`.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum FileStatus {
    Number(i64),
    Class(String),
    Other(IgnoredAny),
}

impl Default for AnswerRules {
    fn default() -> Self {
        Self {
            success: Statuses(vec![200..=299]),
            permanent: Statuses(PERMANENT.map(|status| status..=status).into()),
            refused_for: REFUSED_FOR,
            permanent_errors: Vec::new(),
            keep_text: true,
        }
    }
}

impl AnswerRules {
    /// Whether an answer with this status means that the effect is done.
    pub fn is_success(&self, status: u16) -> bool {
        self.success.contains(status)
    }

    /// Whether an answer with this status means that no attempt can succeed. `success` comes first.
    pub fn is_permanent(&self, status: u16) -> bool {
        self.permanent.contains(status) && !self.is_success(status)
    }

    /// Whether an error of this type means that no attempt of the Lambda function can succeed.
    pub fn is_permanent_error(&self, kind: &str) -> bool {
        self.permanent_errors.iter().any(|known| known == kind)
    }
}

impl FileAnswers {
    pub(super) fn checked(self) -> anyhow::Result<AnswerRules> {
        let mut rules = AnswerRules::default();
        if let Some(success) = &self.success {
            rules.success = Statuses::checked(success).within("success")?;
            check_redirects(&rules.success).at("success")?;
        }
        if let Some(permanent) = &self.permanent {
            rules.permanent = Statuses::checked(permanent).within("permanent")?;
            check_disjoint(&rules).at("permanent").needs("success")?;
        }
        if let Some(refused_for) = &self.refused_for {
            rules.refused_for = longest_refusal(refused_for).at("refused_for")?;
        }
        rules.keep_text = !matches!(self.answers, Some(FileKeep::Status));
        if let Some(names) = self.permanent_errors {
            check_names(&names).at("permanent_errors")?;
            rules.permanent_errors = names;
        }
        Ok(rules)
    }
}

fn check_redirects(success: &Statuses) -> anyhow::Result<()> {
    ensure!(
        !success.meets(&(300..=399)),
        "success cannot contain a redirect (3xx): the processor does not follow redirects, so the \
         effect did not happen"
    );
    Ok(())
}

fn check_disjoint(rules: &AnswerRules) -> anyhow::Result<()> {
    if let Some(both) = rules.success.common(&rules.permanent) {
        bail!("status {both} is in success and in permanent; remove it from one of them");
    }
    Ok(())
}

fn longest_refusal(text: &str) -> anyhow::Result<Duration> {
    let refused_for = duration::parse(text).context("refused_for")?;
    ensure!(
        refused_for <= LONGEST_REFUSED,
        "refused_for must be at most 24h"
    );
    Ok(refused_for)
}

impl Statuses {
    fn checked(listed: &[FileStatus]) -> anyhow::Result<Self> {
        ensure!(
            !listed.is_empty(),
            "the list is empty; list at least one status"
        );
        let ranges = listed.iter().enumerate();
        let ranges = ranges.map(|(index, status)| status.range().at(index));
        Ok(Self(ranges.collect::<anyhow::Result<_>>()?))
    }

    fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }

    fn meets(&self, other: &RangeInclusive<u16>) -> bool {
        self.0
            .iter()
            .any(|range| range.start() <= other.end() && other.start() <= range.end())
    }

    /// The first status that is in both sets.
    fn common(&self, other: &Self) -> Option<u16> {
        (200..=599).find(|status| self.contains(*status) && other.contains(*status))
    }
}

impl FileStatus {
    fn range(&self) -> anyhow::Result<RangeInclusive<u16>> {
        let range = match self {
            Self::Number(number) => u16::try_from(*number).ok().map(|status| status..=status),
            Self::Class(text) => match text.as_str() {
                "2xx" => Some(200..=299),
                "3xx" => Some(300..=399),
                "4xx" => Some(400..=499),
                "5xx" => Some(500..=599),
                _ => None,
            },
            Self::Other(_) => None,
        };
        range
            .filter(|range| (200..=599).contains(range.start()))
            .with_context(|| {
                let found = match self {
                    Self::Number(number) => format!("invalid status {number}"),
                    Self::Class(text) if text.len() <= 5 => format!("invalid status {text:?}"),
                    _ => "invalid status".to_owned(),
                };
                format!("{found}; use a number from 200 to 599, or a class such as \"4xx\"")
            })
    }
}

fn check_names(names: &[String]) -> anyhow::Result<()> {
    ensure!(
        (1..=MOST_NAMES).contains(&names.len()),
        "permanent_errors must list 1 to {MOST_NAMES} error types"
    );
    let is_name = |name: &String| {
        (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
    };
    ensure!(
        names.iter().all(is_name),
        "permanent_errors: an error type has 1 to {LONGEST_NAME} characters and no spaces, such as \
         \"ValidationError\""
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        success: Option<Vec<FileStatus>>,
        permanent: Option<Vec<FileStatus>>,
        refused_for: Option<String>,
        permanent_errors: Option<Vec<String>>,
        answers: Option<FileKeep>,
    }

    fn read(text: &str) -> anyhow::Result<AnswerRules> {
        let file: File = toml::from_str(text)?;
        let answers = FileAnswers {
            success: file.success,
            permanent: file.permanent,
            refused_for: file.refused_for,
            permanent_errors: file.permanent_errors,
            answers: file.answers,
        };
        answers.checked()
    }

    #[test]
    fn the_defaults_say_what_each_status_means() {
        let rules = read("").unwrap();
        assert_eq!(rules, AnswerRules::default());
        let of = |test: &dyn Fn(u16) -> bool| (0..=999).filter(|s| test(*s)).collect::<Vec<_>>();
        let success: Vec<u16> = (200..=299).collect();
        assert_eq!(of(&|status| rules.is_success(status)), success);
        assert_eq!(of(&|status| rules.is_permanent(status)), [410, 413, 422]);
        assert_eq!(rules.refused_for, Duration::from_secs(3 * 3600));
    }

    #[test]
    fn statuses_are_numbers_and_classes() {
        let rules = read("success = [\"2xx\", 409]\npermanent = [\"4xx\"]");
        let error = format!("{:#}", rules.unwrap_err());
        assert!(error.contains("status 409 is in success and in permanent"));
        let rules = read("success = [200, 409]\npermanent = [400, \"5xx\"]\nrefused_for = \"0s\"");
        let rules = rules.unwrap();
        assert!(rules.is_success(409) && !rules.is_success(201));
        assert!(rules.is_permanent(400) && rules.is_permanent(503) && !rules.is_permanent(410));
        assert_eq!(rules.refused_for, Duration::ZERO);
    }

    #[test]
    fn the_text_of_answers_is_kept_unless_the_file_says_otherwise() {
        assert!(read("").unwrap().keep_text);
        assert!(read("answers = \"text\"").unwrap().keep_text);
        assert!(!read("answers = \"status\"").unwrap().keep_text);
    }

    #[test]
    fn success_comes_before_the_default_of_permanent() {
        let rules = read("success = [\"2xx\", 410]").unwrap();
        assert!(rules.is_success(410) && !rules.is_permanent(410) && rules.is_permanent(413));
    }

    #[test]
    fn a_wrong_answer_rule_is_rejected_with_what_is_expected() {
        let expected = "use a number from 200 to 599, or a class such as \"4xx\"";
        for (text, said) in [
            ("success = []", "success: the list is empty"),
            ("success = [302]", "cannot contain a redirect"),
            ("success = [\"3xx\"]", "cannot contain a redirect"),
            ("success = [\"2XX\"]", expected),
            ("success = [\"20x\"]", "invalid status \"20x\""),
            ("success = [99]", "invalid status 99"),
            ("success = [600]", expected),
            ("success = [-200]", "invalid status -200"),
            ("success = [65736]", "invalid status 65736"),
            ("success = [true]", expected),
            ("success = [2.5]", expected),
            ("success = [[200]]", expected),
            (
                "permanent = [\"whsec_secret\"]",
                "permanent: invalid status;",
            ),
            ("permanent = [200]", "status 200 is in success"),
            ("permanent = [\"2xx\"]", "status 200 is in success"),
            (
                "refused_for = \"3 parsecs\"",
                "refused_for: invalid duration",
            ),
            ("refused_for = \"25h\"", "at most 24h"),
            ("permanent_errors = []", "1 to 50 error types"),
            ("permanent_errors = [\"\"]", "no spaces"),
            ("permanent_errors = [\"a b\"]", "no spaces"),
            ("answers = \"all\"", "expected `text` or `status`"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
