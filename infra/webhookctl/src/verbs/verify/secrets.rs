//! Reads the secrets that are compared with a request, and other secrets with which the sender may
//! have signed by mistake.

use shared::aws::secrets::Secret;
use shared::sources::Config;
use shared::webhook::verify::{Of, Other};

use crate::cli::{Global, SecretFrom, VerifyArgs};
use crate::output::CliError;
use crate::target::Deployment;
use crate::verbs::quarantine::reach;

/// The suffixes by which the names of several secrets of one sender can differ.
const SIBLINGS: [&str; 8] = [
    "-test",
    "-live",
    "-sandbox",
    "-prod",
    "-previous",
    "-next",
    "-old",
    "-new",
];

/// The live secrets of the source, and other secrets that may match.
pub(super) struct Secrets {
    pub(super) live: Vec<Secret>,
    pub(super) others: Vec<Other>,
}

/// Returns the given secrets, or the stored secrets of the source.
pub(super) async fn secrets(
    args: &VerifyArgs,
    global: &Global,
    inbox: Option<&Deployment>,
    source: &str,
) -> anyhow::Result<Option<Secrets>> {
    let given = |from: &SecretFrom| {
        let of = Of::Itself;
        read(from).map(|secret| Other { of, secret })
    };
    let others = args.other_secret_from.iter().map(given);
    let others: Vec<Other> = others.collect::<anyhow::Result<_>>()?;
    if !args.secret_from.is_empty() {
        let live = args.secret_from.iter().map(read);
        let live = live.collect::<anyhow::Result<_>>()?;
        return Ok(Some(Secrets { live, others }));
    }
    let configured = inbox.and_then(|inbox| Some((inbox, inbox.config.source(source)?)));
    let Some((inbox, source)) = configured else {
        return Ok(None);
    };
    let store = reach::store(inbox, global, &args.secrets_at)?;
    let mut secrets = Secrets {
        live: Vec::new(),
        others,
    };
    for (name, live) in store.all().await? {
        if name == source.secret {
            secrets.live = live.to_vec();
            continue;
        }
        let of = owner(&name, &source.secret, &inbox.config);
        let others = live.iter().map(|secret| Other {
            of: of.clone(),
            secret: Secret::new(format!("{name}/{}", secret.label()), secret.expose()),
        });
        secrets.others.extend(others);
    }
    Ok(Some(secrets))
}

/// Determines the owner of a secret by its stored name.
fn owner(name: &str, ours: &str, config: &Config) -> Of {
    let users = config.sources().filter(|source| source.secret == name);
    let users: Vec<&str> = users.map(|source| source.name.as_str()).collect();
    if !users.is_empty() {
        return Of::Source(users.join(", "));
    }
    if stem(name) == stem(ours) {
        Of::Itself
    } else {
        Of::Unused(name.to_owned())
    }
}

fn stem(name: &str) -> &str {
    let mut siblings = SIBLINGS.iter();
    siblings
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name)
}

/// Reads a secret from the given location. The location becomes the label of the secret.
fn read(from: &SecretFrom) -> anyhow::Result<Secret> {
    let (label, text) = (from.to_string(), from.read("the secret")?);
    let value = text.trim_end_matches(['\r', '\n']);
    if value.is_empty() {
        return Err(CliError::usage("verify.no_secret", format!("{label} is empty")).into());
    }
    Ok(Secret::new(label, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_belongs_to_who_reads_it_or_to_who_has_a_name_like_it() {
        let config = Config::parse(shared::sources::EMBEDDED).unwrap();
        let of = |name: &str| owner(name, "stripe-main", &config);
        assert_eq!(of("github-main"), Of::Source("github-main".into()));
        assert_eq!(of("stripe-main-test"), Of::Itself);
        assert_eq!(of("stripe"), Of::Unused("stripe".into()));
    }
}
