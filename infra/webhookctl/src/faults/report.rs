//! The error for an invalid sources file.

use std::path::Path;

use super::{Fault, find};
use crate::output::{CliError, Exit};

/// Returns the error for a file that `error` rejects, with all faults of the file. `dev` accepts URLs
/// of this machine.
pub(crate) fn invalid(file: &Path, text: &str, dev: bool, error: &anyhow::Error) -> CliError {
    let faults = find(text, dev);
    if faults.is_empty() {
        return new(format!("{} is invalid: {error:#}", file.display()));
    }
    of_faults(file, &faults)
}

/// Returns the error for a file with these faults.
pub(crate) fn of_faults(file: &Path, faults: &[Fault]) -> CliError {
    let file = file.display();
    let objects = faults.iter().map(serde_json::to_value);
    let objects = objects.filter_map(Result::ok).collect();
    let error = match faults {
        [fault] => new(format!("{file} is invalid: {}", fault.text())),
        faults => new(format!("{file} is invalid: {} faults", faults.len()))
            .details(faults.iter().map(Fault::text).collect()),
    };
    error.faults(objects)
}

fn new(message: String) -> CliError {
    CliError::new("sources.invalid", Exit::No, message)
        .tip("correct the file, then run `webhookctl sources check`")
}
