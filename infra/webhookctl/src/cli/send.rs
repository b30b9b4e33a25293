//! The arguments of `send`.

use std::path::PathBuf;

use clap::Args;

use super::bodies::BodiesAt;
use super::values::{self, Assignment, Rate, SecretFrom, Tamper};

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one field for each command-line flag"
)]
pub struct SendArgs {
    /// Provider to imitate, or source to send as; `--list` shows the providers
    #[arg(value_name = "PRESET|SOURCE", required_unless_present_any = ["list", "event"])]
    pub preset: Option<String>,
    /// Send a stored event again with a new signature, to the local stack or to the URL in --to
    ///
    /// Takes an id, a unique prefix of it, the provider's event id, or `source:event-id`. The
    /// signature uses the secret of the local stack, or the secret of this machine that `webhookctl
    /// listen --resign` uses. The original signature is in the header
    /// `X-Webhookctl-Original-Signature`. In a deployment, the command only reads the event, and
    /// the audit log records who read it.
    #[arg(long, value_name = "ID", conflicts_with_all = [
        "preset", "event_type", "data", "file", "id", "account", "tamper", "duplicate", "count", "rate",
        "list", "new_key", "public_key", "key_from", "variant", "param",
    ])]
    pub event: Option<String>,
    /// URL to send to [default: the running local stack]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Source to send as, if several sources have this preset
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Variant of the preset, if it has several [default: default]
    #[arg(long, value_name = "NAME", requires = "to")]
    pub variant: Option<String>,
    /// Parameter of the preset (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::assignment, requires = "to")]
    pub param: Vec<Assignment>,
    /// Type of the event [default: the type of the preset's first sample]
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Change a field of the sample; `+PATH=VALUE` adds one (repeatable)
    #[arg(long, value_name = "PATH=VALUE", value_parser = values::assignment)]
    pub set: Vec<Assignment>,
    /// Send this body instead of a sample; `-` reads stdin
    #[arg(short = 'd', long, value_name = "BODY", conflicts_with = "set")]
    pub data: Option<String>,
    /// Send the body in this file instead of a sample; `-` reads stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["set", "data"])]
    pub file: Option<PathBuf>,
    /// Where to read the secret: `-` (stdin), `file:PATH` or `env:NAME`
    #[arg(long, value_name = "PLACE", value_parser = values::secret_from)]
    pub secret_from: Option<SecretFrom>,
    /// Where to read the private key to sign with, in place of the provider's: PKCS #8 in PEM
    ///
    /// Use this flag with a preset whose provider publishes a public key. The location is `-`
    /// (stdin), `file:PATH` or `env:NAME`. A running `dev` has created a key for each of its sources
    /// that uses Ed25519 or ECDSA.
    #[arg(long, value_name = "PLACE", value_parser = values::secret_from,
          conflicts_with = "secret_from")]
    pub key_from: Option<SecretFrom>,
    /// Create a test key pair in FILE, print its public key as a source must store it, and send
    /// nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_from", "public_key"])]
    pub new_key: Option<PathBuf>,
    /// Print the public key of --key-from as a source must store it, and send nothing
    #[arg(long, requires = "key_from")]
    pub public_key: bool,
    /// The provider's event id [default: a new one]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Account of the event, at the location where the source or the preset reads it
    #[arg(long, value_name = "ACCOUNT")]
    pub account: Option<String>,
    /// Make the request invalid after signing
    #[arg(long, value_name = "WHAT")]
    pub tamper: Option<Tamper>,
    /// Send the same event twice
    #[arg(long)]
    pub duplicate: bool,
    /// Number of events to send
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Rate of sending: 20/s, 100/m
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub rate: Option<Rate>,
    /// Wait for the final status; exit 6 if it is not `done`
    #[arg(long)]
    pub wait: bool,
    /// List the presets, and how each can be sent
    #[arg(long)]
    pub list: bool,
    /// Print the request as a curl command instead of sending it
    #[arg(long, conflicts_with = "wait")]
    pub curl: bool,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}
