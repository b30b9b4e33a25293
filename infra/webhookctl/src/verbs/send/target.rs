//! Finds the target of a webhook, and the secret or key that signs it.

use std::collections::BTreeMap;

use anyhow::Context;
use shared::aws::secrets::{Secret, Secrets};
use shared::base::clock::UnixMillis;
use shared::sources::{Config, Source};
use shared::webhook::event::EventKey;
use shared::webhook::preset::{Preset, Scheme};
use shared::webhook::sign::{KeyPair, Means, means};
use shared::webhook::verify::{Arrival, Verifier};

use super::key;
use crate::cli::{Global, SecretFrom, SendArgs};
use crate::output::CliError;
use crate::output::error::nearest;
use crate::samples::{Draft, Signed, Signer};
use crate::target::{Deployment, Local, TargetOptions};
use crate::test_keys;

pub(in crate::verbs) struct Target {
    /// The URL to which `send` posts the webhook.
    pub(in crate::verbs) url: String,
    /// The URL that the receiver sees. The signatures of some providers cover it.
    pub(in crate::verbs) signed_url: String,
    pub(in crate::verbs) verifier: Verifier,
    pub(in crate::verbs) signer: Signer,
    /// The secrets that the receiver has stored.
    pub(in crate::verbs) stored: Vec<Secret>,
    /// The inbox behind the URL, if this program can read it.
    pub(in crate::verbs) inbox: Option<Deployment>,
}

impl Target {
    /// Finds the target. The argument can name a preset or a source.
    pub(super) async fn find(args: &SendArgs, global: &Global) -> anyhow::Result<Self> {
        let name = args.preset.as_deref().unwrap_or_default();
        match (&args.to, Local::find()?) {
            (None, None) => Err(no_target().into()),
            (None, Some(_)) => {
                let name = args.source.as_deref().unwrap_or(name);
                Box::pin(Self::of_dev(&[name], args, global)).await
            }
            (Some(url), _) => Self::elsewhere(name, args, url),
        }
    }

    /// Returns the running local stack with the first source that has one of these names, or whose
    /// preset has one of them.
    pub(super) async fn of_dev(
        names: &[&str],
        args: &SendArgs,
        global: &Global,
    ) -> anyhow::Result<Self> {
        let Some(local) = Local::find()? else {
            return Err(no_target().into());
        };
        let inbox = Deployment::open(&TargetOptions {
            context: Some("local".into()),
            ..global.target.clone()
        })
        .await?;
        // `--curl` sends nothing, but it can store a public key first, so it also needs this check.
        inbox.may_write("send webhooks")?;
        Self::local(names, args, inbox, &local).await
    }

    fn elsewhere(name: &str, args: &SendArgs, url: &str) -> anyhow::Result<Self> {
        let (preset, variant) = chosen(name, args)?;
        let scheme = preset
            .scheme(&variant)
            .context("the preset does not have the selected variant")?;
        let signer = match means(scheme) {
            Means::Secret => Signer::Secret(match &args.secret_from {
                Some(from) => key::secret(from)?,
                None => return Err(no_secret().into()),
            }),
            Means::KeyPair(_) => Signer::KeyPair(match &args.key_from {
                Some(from) => key::pair(from, scheme)?,
                None => return Err(key::needed(&preset, scheme).into()),
            }),
            Means::Nothing => Signer::Unsigned,
            Means::No(why) => return Err(cannot(&preset, why).into()),
        };
        Ok(Self {
            url: url.to_owned(),
            signed_url: url.to_owned(),
            stored: signer.stored(scheme)?,
            verifier: Verifier {
                source: args.source.clone().unwrap_or_else(|| name.to_owned()),
                trust: signer.trusted(scheme)?,
                preset: preset.clone(),
                variant,
                config: String::new(),
            },
            signer,
            inbox: None,
        })
    }

    async fn local(
        names: &[&str],
        args: &SendArgs,
        inbox: Deployment,
        local: &Local,
    ) -> anyhow::Result<Self> {
        if args.variant.is_some() || !args.param.is_empty() {
            return Err(CliError::usage(
                "send.configured",
                "the source sets the variant and the parameters",
            )
            .tip("omit --variant and --param, or set the target with --to URL")
            .into());
        }
        let known = names
            .iter()
            .find_map(|name| source(&inbox.config, name).ok());
        let source = match (known, names.first()) {
            (Some(source), _) => source,
            (None, name) => source(&inbox.config, name.copied().unwrap_or_default())?,
        };
        let name = source.name.clone();
        let given = (args.secret_from.as_ref(), args.key_from.as_ref());
        Self::of_source(&name, given, inbox, local).await
    }

    /// Returns a source of the running local stack. The signer is the given secret or key, or else
    /// the secret or key of `dev`.
    pub(super) async fn of_source(
        name: &str,
        (secret, pair): (Option<&SecretFrom>, Option<&SecretFrom>),
        inbox: Deployment,
        local: &Local,
    ) -> anyhow::Result<Self> {
        let source = source(&inbox.config, name)?;
        let verifier = source.verifier.clone();
        let scheme = verifier.preset.scheme(&verifier.variant);
        let scheme =
            scheme.context("the preset of the source does not have the source's variant")?;
        let secrets = local.secrets().with_managed(inbox.managed());
        let live = secrets.live(&source.secret, UnixMillis::now()).await?;
        let signer = match means(scheme) {
            Means::Secret => Signer::Secret(match secret {
                Some(from) => key::secret(from)?,
                None => live
                    .first()
                    .cloned()
                    .with_context(|| format!("dev has no secret {}", source.secret))?,
            }),
            Means::KeyPair(_) => Signer::KeyPair(match pair {
                Some(from) => key::pair(from, scheme)?,
                None => made_by_dev(local, &source.secret)
                    .await?
                    .ok_or_else(|| key::needed(&verifier.preset, scheme))?,
            }),
            Means::Nothing => Signer::Unsigned,
            Means::No(why) => return Err(cannot(&verifier.preset, why).into()),
        };
        let stored = signer.stored(scheme)?;
        if let (Signer::KeyPair(_), Some(public)) = (&signer, stored.first()) {
            match secrets.managed(&source.secret)? {
                Some(id) => key::store_managed(&inbox.managed_secret(id)?, &live, public).await?,
                None => key::store(local, &source.secret, &live, public).await?,
            }
        }
        let url = format!("{}/in/{}", local.url, source.name);
        Ok(Self {
            signed_url: signed_url(&verifier, || as_received(&url)),
            url,
            verifier,
            signer,
            stored,
            inbox: Some(inbox),
        })
    }

    pub(super) fn scheme(&self) -> anyhow::Result<&Scheme> {
        let scheme = self.verifier.preset.scheme(&self.verifier.variant);
        scheme.context("the preset of the target does not have the target's variant")
    }

    /// Signs a draft as the provider would sign it.
    pub(in crate::verbs) fn sign(
        &self,
        draft: &Draft,
        signer: &Signer,
        at: UnixMillis,
    ) -> anyhow::Result<Signed> {
        let Verifier {
            preset, variant, ..
        } = &self.verifier;
        draft.sign(preset, variant, signer, &self.signed_url, at)
    }

    /// Returns the event key that the catcher gives the event.
    pub(in crate::verbs) fn event_key(&self, signed: &Signed) -> Option<EventKey> {
        let envelope = signed.envelope(UnixMillis::now());
        match self.verifier.verify(&envelope, &self.stored) {
            Ok(Arrival::Event(event)) => Some(event.key().clone()),
            _ => None,
        }
    }

    /// Returns the URL to which a signed webhook is posted. Some providers add parameters to the
    /// query.
    pub(super) fn url_of(&self, signed: &Signed) -> String {
        let added = signed.url.strip_prefix(&self.signed_url);
        format!("{}{}", self.url, added.unwrap_or_default())
    }

    /// Returns a tip on what to do after a rejected request.
    pub(super) fn refused_tip(&self, quarantined: Option<&str>) -> String {
        let look = match quarantined {
            Some(id) => format!("webhookctl verify {id}"),
            None => "webhookctl quarantine list".to_owned(),
        };
        match self.signer {
            Signer::KeyPair(_) => format!("the catcher loads a new key within 30 s; {look}"),
            _ => look,
        }
    }
}

/// Returns the preset of this name, and the variant that the arguments select.
pub(super) fn chosen(name: &str, args: &SendArgs) -> anyhow::Result<(Preset, String)> {
    known_preset(name)?;
    let params = args.param.iter();
    let params: BTreeMap<String, String> = params
        .map(|param| (param.path.clone(), param.value.clone()))
        .collect();
    let preset = Preset::embedded(name, &params)
        .map_err(|error| CliError::usage("send.param", format!("{error:#}")))?;
    let variant = args.variant.clone().unwrap_or_else(|| "default".to_owned());
    if preset.scheme(&variant).is_none() {
        let known = preset.schemes.iter().map(|scheme| scheme.variant.as_str());
        let known: Vec<&str> = known.collect();
        return Err(CliError::usage(
            "send.no_variant",
            format!("preset {name} has no variant '{variant}'"),
        )
        .tip(format!("one of: {}", known.join(", ")))
        .into());
    }
    Ok((preset, variant))
}

fn no_target() -> CliError {
    CliError::failed("send.no_target", "no local stack is running in this folder")
        .tip("run webhookctl dev, or set the target with --to URL")
}

fn no_secret() -> CliError {
    CliError::usage("send.no_secret", "a secret is required to sign the webhook")
        .tip("pass --secret-from with - (stdin), file:PATH or env:NAME")
}

fn cannot(preset: &Preset, why: &str) -> CliError {
    CliError::usage(
        "send.cannot_sign",
        format!("cannot sign a test webhook of {}: {why}", preset.id),
    )
    .note("the proof depends on hosts of the provider, so a test key cannot be used")
    .tip("let the provider send a test webhook; most providers have a button for it")
}

/// Returns the private key that `dev` generated for this secret.
pub(in crate::verbs) async fn made_by_dev(
    local: &Local,
    secret: &str,
) -> anyhow::Result<Option<KeyPair>> {
    let ssm = local.endpoints().clients().ssm;
    let keys = Secrets::new(ssm, test_keys::path(&local.secrets_path));
    let live = keys.live(secret, UnixMillis::now()).await?;
    live.first()
        .map(|key| KeyPair::from_pem(key.expose()))
        .transpose()
        .context("read the test key of dev")
}

/// Returns the URL that the provider of a source signs: `public_url` if it is set, otherwise the
/// URL that the catcher sees.
pub(in crate::verbs) fn signed_url(verifier: &Verifier, seen: impl FnOnce() -> String) -> String {
    let public = verifier.trust.public_url.clone();
    public.unwrap_or_else(seen)
}

/// Returns the URL that the catcher of the local stack sees. As behind API Gateway, it has https
/// and no port.
pub(in crate::verbs) fn as_received(url: &str) -> String {
    let (host, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .unwrap_or((url, ""));
    let domain = host.rsplit_once(':').map_or(host, |(domain, _)| domain);
    format!("https://{domain}/{path}")
}

/// Returns the source of this name, or the first source with this preset.
fn source<'c>(config: &'c Config, name: &str) -> Result<&'c Source, CliError> {
    let by_preset = || {
        config
            .sources()
            .find(|source| source.verifier.preset.is_named(name))
    };
    config.source(name).or_else(by_preset).ok_or_else(|| {
        let names: Vec<String> = config.sources().map(|source| source.name.clone()).collect();
        let error = CliError::usage(
            "send.no_source",
            format!("no source has the name or the preset '{name}'"),
        );
        if Preset::names().any(|known| known == name) {
            return error
                .note(format!("sources: {}", names.join(", ")))
                .tip(format!(
                    "add a source with preset = \"{name}\" to a file, then run \
                     webhookctl dev --sources FILE"
                ));
        }
        let mut known: Vec<&str> = Preset::names().collect();
        known.extend(names.iter().map(String::as_str));
        match nearest(name, known) {
            Some(meant) => error.tip(format!("did you mean '{meant}'?")),
            None => error.note(format!("sources: {}", names.join(", "))),
        }
    })
}

fn known_preset(name: &str) -> Result<Preset, CliError> {
    Preset::embedded(name, &BTreeMap::new()).map_err(|_| {
        CliError::usage("send.no_preset", format!("unknown preset '{name}'"))
            .tip("webhookctl send --list")
            .did_you_mean(name, Preset::names())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_catcher_sees_https_and_no_port() {
        assert_eq!(
            as_received("http://127.0.0.1:8787/in/a"),
            "https://127.0.0.1/in/a"
        );
    }
}
