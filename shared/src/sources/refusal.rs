//! A fault of a sources file, with the settings that it is about.

use std::ops::Range;

use anyhow::Error;

use crate::base::setting_path::{AtSetting, Step};
use crate::base::toml_error::{message, redacted};

/// Why a document is not a valid configuration. The message contains no value that may be a secret.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub message: String,
    /// The setting, and the settings on which the fault also depends. Empty if the parser of the
    /// settings found the fault.
    pub paths: Vec<Vec<Step>>,
    /// The bytes of the file at which the parser found the fault.
    pub span: Option<Range<usize>>,
}

impl Refusal {
    pub(super) fn of_parser(error: &toml::de::Error) -> Self {
        Self {
            message: with_hint(error, message(error)),
            paths: Vec::new(),
            span: error.span(),
        }
    }

    pub(super) fn of_check(error: &Error, text: &str) -> Self {
        let at = error.downcast_ref::<AtSetting>();
        let said = at.map_or(error, AtSetting::error);
        Self {
            message: redacted(&format!("{said:#}"), text),
            paths: at.map(AtSetting::paths).unwrap_or_default(),
            span: None,
        }
    }
}

/// Says what to do about a setting that Mitt does not have yet.
pub(super) fn with_hint(error: &toml::de::Error, said: String) -> String {
    if error.message().starts_with("unknown field `leases`") {
        said.replace(&message(error), LEASES)
    } else {
        said
    }
}

const LEASES: &str = "leases is not supported yet; remove the setting, and limit the number of workers \
     instead";
