//! A model under certain rules, and what is expected of it.

use crate::checker::{Finding, Model, check};
use crate::property::Property;

/// What a check of a case has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The protocol as it is: everything holds.
    Holds,
    /// A protection is switched off, and this is what it protected.
    Breaks(Property),
    /// Outside what the protocol promises: this can happen, and it is said so.
    Limit(Property),
}

/// One line of the table.
pub struct Case {
    pub model: &'static str,
    pub name: &'static str,
    pub expect: Expect,
    /// Too large for the ordinary tests.
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

    /// Whether a finding is the expected one.
    pub fn is_as_expected(&self, finding: &Finding) -> bool {
        let broken = finding.broken.as_ref().map(|(property, _)| *property);
        match self.expect {
            Expect::Holds => broken.is_none(),
            Expect::Breaks(property) | Expect::Limit(property) => broken == Some(property),
        }
    }
}
