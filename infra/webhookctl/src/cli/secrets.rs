//! Arguments of `secrets`.

use clap::{Args, Subcommand, ValueEnum};

use super::quarantine::SecretsAt;
use super::values::{self, SecretFrom};
use crate::output::CliError;

#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// List the stored secrets and the missing ones; prints no values
    #[command(visible_alias = "ls")]
    List(SecretsListArgs),
    /// Store a secret, and print its fingerprint
    ///
    /// Without a flag, the command stores the secret with which a provider signs its webhooks. The
    /// value comes from stdin, a prompt or --from, and is never an argument. The functions use the
    /// newest value of a name. If the name already has a value, the command needs --replace, except
    /// in the running `dev`.
    Put(SecretsPutArgs),
    /// Create a key pair: store the private key, and print the public key
    ///
    /// Mitt signs with the private key (PKCS #8 in PEM), and the receiver verifies with the public
    /// key. Without --preset and --algorithm, the command uses the scheme of the action with sign =
    /// "provider" that has this secret.
    Keypair(SecretsKeypairArgs),
}

/// The kind of a secret. Each kind has its own function and its own path.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct KindArgs {
    /// A secret that signs what Mitt sends to a destination
    #[arg(long, conflicts_with = "provider_api")]
    pub egress: bool,
    /// An API key with which Mitt calls a provider
    #[arg(long)]
    pub provider_api: bool,
}

/// The kind of a secret, as a part of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretKind {
    /// Verifies what providers send. The catcher reads it.
    Ingress,
    /// Signs what Mitt sends. The processor reads it.
    Egress,
    /// Calls the API of a provider. backup-sync reads it.
    ProviderApi,
}

#[derive(Debug, Args)]
pub struct SecretsListArgs {
    #[command(flatten)]
    pub kind: KindArgs,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct SecretsPutArgs {
    /// Name of the secret; by default, a source has a secret of its own name
    pub name: String,
    #[command(flatten)]
    pub kind: KindArgs,
    /// Where to read the secret: `-` (stdin), `file:PATH` or `env:NAME` [default: stdin]
    #[arg(long, value_name = "PLACE", value_parser = from)]
    pub from: Option<SecretFrom>,
    /// Remove the values that the name already has
    ///
    /// For the secret of a provider, `sources rotate-secret` accepts the old and the new value
    /// until the provider has changed over.
    #[arg(long)]
    pub replace: bool,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct SecretsKeypairArgs {
    /// Name of the secret
    pub name: String,
    #[command(flatten)]
    pub kind: KindArgs,
    /// Preset whose signatures the receiver verifies; sets the algorithm and the form of the public
    /// key
    #[arg(long, value_name = "PRESET", conflicts_with = "algorithm")]
    pub preset: Option<String>,
    /// Variant of the preset [default: default]
    #[arg(long, value_name = "NAME", requires = "preset")]
    pub variant: Option<String>,
    /// Algorithm of a key in PEM [default: ed25519]
    #[arg(long, value_name = "NAME", value_enum)]
    pub algorithm: Option<KeyAlgorithm>,
    /// Remove the values that the name already has
    #[arg(long)]
    pub replace: bool,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

/// An algorithm for which the CLI can create a key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyAlgorithm {
    Ed25519,
    EcdsaP256,
}

impl KindArgs {
    /// Returns the kind that a flag selects.
    pub(crate) fn given(self) -> Option<SecretKind> {
        match (self.egress, self.provider_api) {
            (true, _) => Some(SecretKind::Egress),
            (false, true) => Some(SecretKind::ProviderApi),
            (false, false) => None,
        }
    }
}

impl SecretKind {
    pub(crate) const ALL: [Self; 3] = [Self::Ingress, Self::Egress, Self::ProviderApi];

    /// Returns the part of the path.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
            Self::ProviderApi => "provider-api",
        }
    }

    /// Returns the flag that selects the kind, with a space before it.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::Ingress => "",
            Self::Egress => " --egress",
            Self::ProviderApi => " --provider-api",
        }
    }
}

fn from(text: &str) -> Result<SecretFrom, CliError> {
    // The value may be the secret itself, so the error does not repeat it.
    values::secret_from(text).map_err(|_| {
        CliError::usage(
            "usage.secret_from",
            "--from takes a location, not the secret itself",
        )
        .tip("pass --from with - (stdin), file:PATH or env:NAME")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_place_of_its_location_is_not_repeated() {
        assert_eq!(from("env:A").unwrap(), SecretFrom::Env("A".to_owned()));
        let error = from("whsec_s3cret").unwrap_err();
        assert_eq!(error.code, "usage.secret_from");
        assert!(!format!("{error:?}").contains("s3cret"));
    }
}
