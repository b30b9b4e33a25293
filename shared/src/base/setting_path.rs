//! The path of the setting that an error is about, such as `source[0].retry.attempts`.
//!
//! The error text does not change. Only tools that show positions in a file read the path.

use std::borrow::Cow;
use std::fmt;

use anyhow::Error;

/// A step from a table or an array to a value in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Key(Cow<'static, str>),
    Index(usize),
    /// The element of an array with this value of `name`.
    Named(String),
    /// The whole file. The steps before it do not count.
    File,
}

impl From<&'static str> for Step {
    fn from(key: &'static str) -> Self {
        Self::Key(Cow::Borrowed(key))
    }
}

impl From<String> for Step {
    fn from(key: String) -> Self {
        Self::Key(Cow::Owned(key))
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// An error with the setting that it is about, and with other settings that it depends on.
#[derive(Debug)]
pub(crate) struct AtSetting {
    /// The paths, each from the inside to the outside. The first one is the setting.
    paths: Vec<Vec<Step>>,
    error: Error,
}

impl AtSetting {
    /// Returns the paths from the outside to the inside. The first one is the setting.
    pub(crate) fn paths(&self) -> Vec<Vec<Step>> {
        let outside_in = |path: &Vec<Step>| {
            let inner = path.iter().take_while(|step| **step != Step::File);
            let mut path: Vec<_> = inner.cloned().collect();
            path.reverse();
            path
        };
        self.paths.iter().map(outside_in).collect()
    }

    /// The error without its place.
    pub(crate) fn error(&self) -> &Error {
        &self.error
    }
}

impl fmt::Display for AtSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for AtSetting {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Adds the path of a setting to an error.
pub(crate) trait At<T> {
    /// Adds a step to the path: the error is about this key or element of the table or array, or
    /// about a value in it.
    fn at(self, step: impl Into<Step>) -> anyhow::Result<T>;

    /// Like [`at`](Self::at), with the key as a context of the error text.
    fn within(self, key: &'static str) -> anyhow::Result<T>;

    /// States that the error also depends on another setting of the same table.
    fn needs(self, key: &'static str) -> anyhow::Result<T>;

    /// States that the error also depends on a table of the file.
    fn needs_of_file(self, key: &'static str) -> anyhow::Result<T>;
}

impl<T, E: Into<Error>> At<T> for Result<T, E> {
    fn at(self, step: impl Into<Step>) -> anyhow::Result<T> {
        self.map_err(|error| {
            let step = step.into();
            placed(error.into(), |paths| {
                for path in paths {
                    path.push(step.clone());
                }
            })
        })
    }

    fn within(self, key: &'static str) -> anyhow::Result<T> {
        self.map_err(|error| error.into().context(key)).at(key)
    }

    fn needs(self, key: &'static str) -> anyhow::Result<T> {
        self.map_err(|error| placed(error.into(), |paths| paths.push(vec![key.into()])))
    }

    fn needs_of_file(self, key: &'static str) -> anyhow::Result<T> {
        let path = vec![key.into(), Step::File];
        self.map_err(|error| placed(error.into(), |paths| paths.push(path)))
    }
}

fn placed(mut error: Error, change: impl FnOnce(&mut Vec<Vec<Step>>)) -> Error {
    if let Some(at) = error.downcast_mut::<AtSetting>() {
        change(&mut at.paths);
        return error;
    }
    let mut paths = vec![Vec::new()];
    change(&mut paths);
    Error::new(AtSetting { paths, error })
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn an_error_has_a_path_and_keeps_its_text() {
        let cause = Err::<(), _>(anyhow!("too long")).context("invalid duration");
        let error = cause
            .at("waits")
            .needs("attempts")
            .within("retry")
            .at(2)
            .at("source");
        let error = error.context("the file").unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "the file: retry: invalid duration: too long"
        );
        let at = error.downcast_ref::<AtSetting>().unwrap();
        let path = |last: &'static str| -> Vec<Step> {
            vec!["source".into(), 2.into(), "retry".into(), last.into()]
        };
        assert_eq!(at.paths(), [path("waits"), path("attempts")]);
        assert_eq!(format!("{:#}", at.error()), "invalid duration: too long");

        let outside = Err::<(), _>(anyhow!("not allowed")).needs_of_file("forward");
        let outside = outside.at("url").at("action").unwrap_err();
        let at = outside.downcast_ref::<AtSetting>().unwrap();
        let url: Vec<Step> = vec!["action".into(), "url".into()];
        assert_eq!(at.paths(), [url, vec!["forward".into()]]);
    }
}
