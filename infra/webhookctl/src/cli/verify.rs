//! Arguments of `verify`.

use std::path::PathBuf;

use clap::Args;

use super::bodies::BodiesAt;
use super::quarantine::SecretsAt;
use super::values::{self, SecretFrom};
use crate::output::CliError;
use crate::output::time::When;

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Id of a rejected request or of a stored event, or a unique prefix of it
    #[arg(conflicts_with_all = ["body", "header", "method"])]
    pub id: Option<String>,
    /// Exact body of the request; `-` reads stdin
    #[arg(long, value_name = "FILE", help_heading = "Request")]
    pub body: Option<PathBuf>,
    /// Header of the request (repeatable)
    #[arg(
        short = 'H',
        long,
        value_name = "NAME: VALUE",
        value_parser = header,
        help_heading = "Request"
    )]
    pub header: Vec<(String, String)>,
    /// Method of the request [default: POST]
    #[arg(long, value_name = "METHOD", help_heading = "Request")]
    pub method: Option<String>,
    /// Public URL that the provider posted to, with its query
    #[arg(long, value_name = "URL", help_heading = "Request")]
    pub url: Option<String>,
    /// Time of receipt: 2m, 09:10, 2026-11-20T09:10:00Z [default: now, or the stored time]
    #[arg(long, value_name = "TIME", value_parser = values::when, help_heading = "Request")]
    pub at: Option<When>,

    /// Source whose preset and secrets to use
    #[arg(short, long, value_name = "SOURCE", help_heading = "Verification")]
    pub source: Option<String>,
    /// Preset to verify with, instead of the preset of the source
    #[arg(long, value_name = "PRESET", help_heading = "Verification")]
    pub preset: Option<String>,
    /// Variant of the preset [default: the variant of the source, or `default`]
    #[arg(long, value_name = "NAME", help_heading = "Verification")]
    pub variant: Option<String>,
    /// Parameter of the preset (repeatable)
    #[arg(
        long,
        value_name = "NAME=VALUE",
        requires = "preset",
        value_parser = parameter,
        help_heading = "Verification"
    )]
    pub param: Vec<(String, String)>,
    /// Where to read the secret, instead of from AWS: `-` (stdin), `file:PATH` or `env:NAME`
    /// (repeatable)
    #[arg(
        long,
        value_name = "PLACE",
        value_parser = values::secret_from,
        help_heading = "Verification"
    )]
    pub secret_from: Vec<SecretFrom>,
    /// A secret that is not in use, to check whether it signed the request (repeatable)
    #[arg(
        long,
        value_name = "PLACE",
        value_parser = values::secret_from,
        help_heading = "Verification"
    )]
    pub other_secret_from: Vec<SecretFrom>,

    /// Also show signatures, URL and body; never secrets
    #[arg(long)]
    pub reveal: bool,

    #[command(flatten)]
    pub secrets_at: SecretsAt,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

/// The value may be a credential, so an error does not repeat it.
fn header(text: &str) -> Result<(String, String), CliError> {
    match text.split_once(':') {
        Some((name, value)) if is_name(name) => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(
            CliError::usage("usage.header", "invalid header, expected NAME: VALUE")
                .tip("for example -H 'X-Signature: 5f2a…'"),
        ),
    }
}

fn is_name(name: &str) -> bool {
    let name = name.trim();
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':')
}

fn parameter(text: &str) -> Result<(String, String), CliError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(
            CliError::usage("usage.param", format!("'{text}' is not NAME=VALUE"))
                .tip("for example --param header=x-acme-signature"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_and_a_wrong_one_is_not_repeated() {
        let read = header("X-Signature:  t=1,v1=a:b ").unwrap();
        assert_eq!(read, ("X-Signature".to_owned(), "t=1,v1=a:b".to_owned()));
        for wrong in ["Bearer s3cret", ": s3cret", "a b: s3cret"] {
            let error = format!("{:?}", header(wrong).unwrap_err());
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_parameter_keeps_what_follows_the_first_sign() {
        let read = parameter("message={ts}=a").unwrap();
        assert_eq!(read, ("message".to_owned(), "{ts}=a".to_owned()));
        assert!(parameter("message").is_err() && parameter("=a").is_err());
    }
}
