//! Stores a value under the name of a secret, for `secrets put` and `secrets keypair`.

use std::fmt::Write as _;

use local::names::random_id;
use serde::Serialize;
use shared::aws::secrets::{Secret, Secrets, short};
use shared::base::clock::UnixMillis;

use super::used_by::used_by;
use crate::audit::Change;
use crate::cli::{Global, SecretKind, SecretsAt};
use crate::output::error::nearest;
use crate::output::{CliError, Exit, Printer};
use crate::target::{Deployment, Names};
use crate::verbs::sources::{Rotation, next_slot};

/// The longest name of a secret.
const LONGEST_NAME: usize = 40;

/// The largest value of a standard parameter.
/// <https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html>
const LARGEST: usize = 4096;

/// The name of a secret, and the store in which the functions look for it.
pub(super) struct Place {
    pub(super) inbox: Deployment,
    pub(super) kind: SecretKind,
    pub(super) name: String,
    store: Secrets,
}

/// The command that changes a secret, and its options.
pub(super) struct Why<'w> {
    pub(super) verb: Verb,
    pub(super) reason: Option<&'w str>,
    pub(super) replace: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Verb {
    Put,
    Keypair,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Keypair => "keypair",
        }
    }

    /// Returns the name of the change in the audit log.
    fn change(self) -> &'static str {
        match self {
            Self::Put => "secret.put",
            Self::Keypair => "secret.keypair",
        }
    }
}

/// The result of a command, without the value.
#[derive(Debug, Serialize)]
pub(super) struct Stored {
    pub(super) name: String,
    kind: &'static str,
    /// The full name in its store.
    secret: String,
    slot: String,
    pub(super) fingerprint: String,
    /// `stored`, or `unchanged` if the name already has this value.
    result: &'static str,
    /// The slots whose values were removed.
    removed: Vec<String>,
    /// The sources that use the secret.
    used_by: Vec<String>,
}

impl Place {
    pub(super) async fn open(
        name: &str,
        kind: SecretKind,
        at: &SecretsAt,
        global: &Global,
    ) -> anyhow::Result<Self> {
        check_name(name)?;
        let inbox = Deployment::open(&global.target).await?;
        inbox.may_write("store a secret")?;
        Ok(Self {
            store: secrets(&inbox, kind, at)?,
            kind,
            name: name.to_owned(),
            inbox,
        })
    }

    /// Stores the value in a new slot, and removes the others. The audit log entry is written
    /// first.
    pub(super) async fn store(&self, secret: &Secret, why: &Why<'_>) -> anyhow::Result<Stored> {
        let live = self.store.live(&self.name, UnixMillis::now()).await?;
        let same = |known: &&Secret| known.expose() == secret.expose();
        let (kept, others): (Vec<&Secret>, Vec<&Secret>) = live.iter().partition(same);
        let replaces = why.replace || self.inbox.local.is_some();
        if let Some(kept) = kept.first()
            && (others.is_empty() || !replaces)
        {
            return self.told(kept, kept.slot(), "unchanged", &[]);
        }
        if !others.is_empty() && !replaces {
            return Err(self.exists(&others, why.verb).into());
        }
        self.is_not_rotating().await?;
        let version = random_id();
        let managed = self.store.managed(&self.name)?;
        let managed = managed
            .map(|id| self.inbox.managed_secret(id))
            .transpose()?;
        let slot = match (kept.first(), &managed) {
            (Some(kept), _) => kept.slot().to_owned(),
            (None, None) => next_slot(&live),
            (None, Some(_)) => short(&version),
        };
        self.log(&slot, why).await?;
        if kept.is_empty() {
            let stored = match &managed {
                None => self.store.put(&self.name, &slot, secret).await?,
                Some(managed) => managed.put(&version, secret).await?,
            };
            if !stored {
                return Err(self.busy().into());
            }
        }
        for other in &others {
            match &managed {
                None => self.store.delete(&self.name, other.slot()).await?,
                Some(managed) => managed.retire(other.slot(), &slot).await?,
            }
        }
        self.told(secret, &slot, "stored", &others)
    }

    fn told(
        &self,
        secret: &Secret,
        slot: &str,
        result: &'static str,
        removed: &[&Secret],
    ) -> anyhow::Result<Stored> {
        let used = used_by(&self.inbox.config);
        let used = used.get(&(self.kind.as_str(), self.name.clone()));
        let id = self.store.managed(&self.name)?;
        Ok(Stored {
            name: self.name.clone(),
            kind: self.kind.as_str(),
            secret: id.unwrap_or_else(|| self.store.parameter(&self.name, slot)),
            slot: slot.to_owned(),
            fingerprint: secret.fingerprint(),
            result,
            removed: removed.iter().map(|it| it.slot().to_owned()).collect(),
            used_by: used.into_iter().flatten().cloned().collect(),
        })
    }

    async fn log(&self, slot: &str, why: &Why<'_>) -> anyhow::Result<()> {
        let change = Change {
            what: why.verb.change(),
            why: why.reason.unwrap_or_default(),
            selection: format!("{} {}: {slot}", self.kind.as_str(), self.name),
            count: 0,
        };
        change.record(&self.inbox).await?;
        Ok(())
    }

    /// During a rotation, both values of a source stay until the rotation ends.
    async fn is_not_rotating(&self) -> anyhow::Result<()> {
        if self.kind != SecretKind::Ingress {
            return Ok(());
        }
        match Rotation::under_way(&self.inbox.ledger, &self.name).await? {
            None => Ok(()),
            Some(_) => Err(CliError::refused(
                "secrets.rotating",
                format!(
                    "a rotation of {} is in progress; nothing was stored",
                    self.name
                ),
            )
            .tip("finish it with webhookctl sources rotate-secret SOURCE --finish")
            .into()),
        }
    }

    fn exists(&self, others: &[&Secret], verb: Verb) -> CliError {
        let known = others
            .iter()
            .map(|it| format!("{} ({})", it.slot(), it.fingerprint()));
        let known: Vec<String> = known.collect();
        let (name, flag) = (&self.name, self.kind.flag());
        let message = format!(
            "the {} secret {name} already has a value; nothing was stored",
            self.kind.as_str()
        );
        let error = CliError::refused("secrets.exists", message)
            .note(format!("stored: {}", known.join(", ")));
        let mut sources = self.inbox.config.sources();
        let source = sources.find(|source| source.secret == *name);
        match source.filter(|_| self.kind == SecretKind::Ingress) {
            Some(source) => error
                .note("a rotation accepts both values for a while; --replace removes the old one")
                .tip(format!("webhookctl sources rotate-secret {}", source.name)),
            None => error.tip(format!(
                "webhookctl secrets {} {name}{flag} --replace",
                verb.word()
            )),
        }
    }

    fn busy(&self) -> CliError {
        let message = format!("another operator has stored the secret {}", self.name);
        CliError::new("secrets.slot_taken", Exit::Busy, message).tip("run the command again")
    }
}

impl Stored {
    /// Returns the result as text for people.
    pub(super) fn text(&self) -> String {
        let said = match self.result {
            "unchanged" => "already stored ",
            _ => "secret stored  ",
        };
        let mut text = format!("  ✓ {said}  {}   {}\n", self.secret, self.fingerprint);
        if !self.removed.is_empty() {
            let _ = writeln!(text, "  ✓ removed          {}", self.removed.join(", "));
        }
        if !self.used_by.is_empty() {
            let _ = writeln!(text, "  used by            {}", self.used_by.join(", "));
        }
        text
    }

    /// Prints when the functions use the value. Also prints a note if no source uses the secret.
    pub(super) fn say(&self, place: &Place, out: &mut Printer) {
        if self.used_by.is_empty() {
            let used = used_by(&place.inbox.config);
            let of_kind = used.keys().filter(|(kind, _)| *kind == self.kind);
            let names = of_kind.map(|(_, name)| name.as_str());
            let meant = nearest(&self.name, names);
            let meant = meant.map(|name| format!("; did you mean '{name}'?"));
            out.say(&format!(
                "No source of this configuration uses the {} secret {}{}",
                self.kind,
                self.name,
                meant.unwrap_or_else(|| ".".to_owned())
            ));
        }
        out.say(match (self.result, &place.inbox.local) {
            ("unchanged", _) => "The value was already stored; nothing was changed.",
            (_, Some(_)) => "The functions of `dev` use the secret for the next event.",
            (_, None) => "The functions use the secret within five minutes.",
        });
    }
}

/// Returns the secrets of one kind.
pub(in crate::verbs) fn secrets(
    inbox: &Deployment,
    kind: SecretKind,
    at: &SecretsAt,
) -> anyhow::Result<Secrets> {
    let given = Names {
        secrets_path: at.secrets_path.clone().filter(|path| !path.is_empty()),
        ..Names::default()
    };
    let given = match &inbox.local {
        Some(_) => None,
        None => given.secrets(kind.as_str()),
    };
    let Some(path) = given else {
        return inbox.secrets(kind.as_str());
    };
    let secrets = Secrets::new(inbox.ssm()?, path);
    Ok(match kind {
        SecretKind::Ingress => secrets.with_managed(inbox.managed()),
        _ => secrets,
    })
}

/// Checks the name before it becomes a part of a path. The error does not repeat it, because a
/// secret may be in its place.
fn check_name(name: &str) -> Result<(), CliError> {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(legal) {
        return Ok(());
    }
    let message = "the name of a secret must have 1 to 40 characters: a-z, 0-9 and -";
    Err(CliError::usage("secrets.bad_name", message)
        .note("the name is the `secret` of a source or an action, never the value")
        .tip("webhookctl secrets list"))
}

/// Returns the text as a secret, without the line end.
pub(super) fn checked(text: &str) -> Result<Secret, CliError> {
    let value = text.trim_end_matches(['\r', '\n']);
    if value.is_empty() {
        return Err(CliError::usage("secrets.no_value", "the secret is empty")
            .tip("pass it on stdin, or with --from file:PATH or --from env:NAME"));
    }
    if value.len() > LARGEST {
        let message = format!("the secret has {} bytes; at most {LARGEST}", value.len());
        return Err(CliError::usage("secrets.too_large", message)
            .note("Parameter Store does not accept a larger value"));
    }
    Ok(Secret::new("new", value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_may_be_a_secret_is_not_repeated() {
        assert!(check_name("stripe-app").is_ok());
        for name in ["", "whsec_S3cret", "a/b", "../x", &"a".repeat(41)] {
            let error = check_name(name).unwrap_err();
            assert_eq!(error.code, "secrets.bad_name");
            assert!(!format!("{error:?}").contains("S3cret"));
        }
    }

    #[test]
    fn a_value_has_no_line_end_and_fits_into_a_parameter() {
        assert_eq!(checked("abc\r\n").unwrap().expose(), "abc");
        assert_eq!(checked(" a\n b \n").unwrap().expose(), " a\n b ");
        assert_eq!(checked("\n").unwrap_err().code, "secrets.no_value");
        assert!(checked(&"a".repeat(4096)).is_ok());
        let error = checked(&"a".repeat(4097)).unwrap_err();
        assert_eq!(error.code, "secrets.too_large");
    }
}
