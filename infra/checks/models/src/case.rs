//! A configuration of a model, and the expected result.

use crate::checker::{Finding, Model, check};
use crate::property::Property;

/// The expected result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The protocol: every property holds.
    Holds,
    /// A protection is switched off, and this property no longer holds.
    Breaks(Property),
    /// A documented limit: the protocol does not promise this property, and it can be violated.
    Limit(Property),
}

/// One line of the table of results.
pub struct Case {
    pub model: &'static str,
    pub name: &'static str,
    pub expect: Expect,
    /// Whether the case is too large for `cargo test`.
    pub large: bool,
    run: Box<dyn Fn() -> Finding + Send + Sync>,
}

impl Case {
    pub fn new<M>(model: &'static str, name: &'static str, expect: Expect, of: M) -> Self
    where
        M: Model + Send + Sync + 'static,
    {
        Self {
            model,
            name,
            expect,
            large: false,
            run: Box::new(move || check(&of)),
        }
    }

    #[must_use]
    pub fn large(self) -> Self {
        Self {
            large: true,
            ..self
        }
    }

    pub fn check(&self) -> Finding {
        (self.run)()
    }

    /// Returns whether the finding is the expected result.
    pub fn is_as_expected(&self, finding: &Finding) -> bool {
        let broken = finding.broken.as_ref().map(|(property, _)| *property);
        match self.expect {
            Expect::Holds => broken.is_none(),
            Expect::Breaks(property) | Expect::Limit(property) => broken == Some(property),
        }
    }
}
