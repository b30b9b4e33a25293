//! Reads `sign` of an HTTP action, which determines the signature that the receiver verifies.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use super::check_name;
use crate::base::clock::UnixMillis;
use crate::base::setting_path::At as _;
use crate::sources::ordering::{Mode, Order};
use crate::webhook::preset::{Preset, Scheme};
use crate::webhook::sign::{not_kept, unsignable};
use crate::webhook::verify::Verifier;

/// The longest `signed_url`, in bytes.
const LONGEST_URL: usize = 512;

/// How much earlier than the receiver Mitt treats a signature as expired.
const MARGIN: Duration = Duration::from_secs(10);

/// How a request is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signing {
    /// Mitt signs each attempt as Standard Webhooks.
    Standard { secret: String },
    /// Mitt signs each attempt as the provider does.
    Provider {
        /// The name of a secret, or of a private key.
        secret: String,
        /// The variant of the preset. `None` selects the variant of the source.
        variant: Option<String>,
        /// The URL that the receiver verifies. `None` if this is the URL of the request.
        signed_url: Option<String>,
    },
    /// Mitt sends the signature that it has received.
    AsReceived { stale: Stale },
    /// Mitt sends no signature.
    Unsigned,
}

/// What happens to an event whose received signature is too old for the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stale {
    #[default]
    DeadLetter,
    Forward,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FileSign {
    #[default]
    Standard,
    Provider,
    AsReceived,
    None,
}

/// The settings of an action that belong to its signature.
pub(super) struct FileSigning {
    pub(super) sign: Option<FileSign>,
    pub(super) secret: Option<String>,
    pub(super) variant: Option<String>,
    pub(super) signed_url: Option<String>,
    pub(super) stale: Option<Stale>,
}

impl FileSigning {
    /// Checks the settings without the preset. [`Signing::check`] checks what depends on it.
    pub(super) fn checked(self) -> anyhow::Result<Signing> {
        let mode = self.sign.unwrap_or_default();
        self.check_set(mode)?;
        let secret = |secret: Option<String>| {
            let secret = secret
                .context("secret is missing; set it to the name of the signing secret")
                .at("secret")
                .needs("sign")?;
            check_name("a secret's name", &secret).at("secret")?;
            Ok::<_, anyhow::Error>(secret)
        };
        Ok(match mode {
            FileSign::Standard => Signing::Standard {
                secret: secret(self.secret)?,
            },
            FileSign::Provider => {
                if let Some(url) = &self.signed_url {
                    check_signed_url(url).within("signed_url")?;
                }
                Signing::Provider {
                    secret: secret(self.secret)?,
                    variant: self.variant,
                    signed_url: self.signed_url,
                }
            }
            FileSign::AsReceived => Signing::AsReceived {
                stale: self.stale.unwrap_or_default(),
            },
            FileSign::None => Signing::Unsigned,
        })
    }

    /// Rejects a setting that has no effect with this value of `sign`.
    fn check_set(&self, mode: FileSign) -> anyhow::Result<()> {
        let url = self.signed_url.is_some();
        of_mode(mode == FileSign::Provider, "provider", "signed_url", url)?;
        let variant = self.variant.is_some();
        of_mode(mode == FileSign::Provider, "provider", "variant", variant)?;
        let stale = self.stale.is_some();
        of_mode(mode == FileSign::AsReceived, "as-received", "stale", stale)?;
        check_unused(mode, self.secret.as_deref())
            .at("secret")
            .needs("sign")
    }
}

fn of_mode(is_mode: bool, mode: &str, setting: &'static str, is_set: bool) -> anyhow::Result<()> {
    let check = || {
        ensure!(
            is_mode || !is_set,
            "{setting} needs sign = {mode:?}; remove the setting, or set sign"
        );
        Ok(())
    };
    check().at(setting).needs("sign")
}

fn check_unused(mode: FileSign, secret: Option<&str>) -> anyhow::Result<()> {
    let mode = match mode {
        FileSign::None => "none",
        FileSign::AsReceived => "as-received",
        FileSign::Standard | FileSign::Provider => return Ok(()),
    };
    ensure!(
        secret.is_none(),
        "secret has no effect with sign = {mode:?}; remove the setting"
    );
    Ok(())
}

/// Checks a `signed_url`. The errors do not repeat it, because a URL can contain a key.
fn check_signed_url(url: &str) -> anyhow::Result<()> {
    const LIKE: &str = "use the URL that the receiver has in its configuration, such as \
                        https://old.example.com/hooks";
    let rest = ["https://", "http://"]
        .iter()
        .find_map(|s| url.strip_prefix(s));
    let host = rest.unwrap_or_default().split(['/', '?']).next();
    ensure!(
        host.is_some_and(|host| !host.is_empty()) && url.len() <= LONGEST_URL,
        "the URL must begin with https:// or http:// and have at most {LONGEST_URL} bytes; {LIKE}"
    );
    ensure!(
        url.bytes()
            .all(|b| b.is_ascii_graphic() && !b"{}<>\"\\^`|#".contains(&b)),
        "the value contains characters that are not allowed in a URL; {LIKE}"
    );
    Ok(())
}

impl Signing {
    /// Returns the name of the secret below the path of the processor's secrets.
    pub fn secret(&self) -> Option<&str> {
        match self {
            Self::Standard { secret } | Self::Provider { secret, .. } => Some(secret),
            Self::AsReceived { .. } | Self::Unsigned => None,
        }
    }

    /// Returns the value of the setting.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Standard { .. } => "standard",
            Self::Provider { .. } => "provider",
            Self::AsReceived { .. } => "as-received",
            Self::Unsigned => "none",
        }
    }

    /// Returns the scheme of the signature that the receiver verifies.
    pub fn scheme<'v>(&self, verifier: &'v Verifier) -> Option<&'v Scheme> {
        match self {
            Self::Provider {
                variant: Some(variant),
                ..
            } => verifier.preset.scheme(variant),
            _ => verifier.preset.scheme(&verifier.variant),
        }
    }

    /// Returns whether Mitt does not send an event, because its signature is too old for the receiver.
    pub fn is_stale(&self, verifier: &Verifier, received_at: UnixMillis, now: UnixMillis) -> bool {
        let Self::AsReceived {
            stale: Stale::DeadLetter,
        } = self
        else {
            return false;
        };
        let scheme = self.scheme(verifier);
        let window = scheme.and_then(|scheme| verifier.preset.receiver_window(scheme));
        window.is_some_and(|window| {
            // A window of a few seconds leaves no room for the margin.
            let usable = window.saturating_sub(MARGIN).max(window / 2);
            now.since(received_at) >= usable
        })
    }

    /// Checks that the setting works with the preset, the variant and the order of the source.
    pub(super) fn check(
        &self,
        preset: &Preset,
        variant: &str,
        order: Option<&Order>,
    ) -> anyhow::Result<()> {
        // In this mode, the actions get the fetched state and not the signed body.
        let replaced = order.is_some_and(|order| matches!(order.mode, Mode::Fetch(_)));
        match self {
            Self::Standard { .. } | Self::Unsigned => Ok(()),
            Self::AsReceived { .. } => check_as_received(preset, variant, replaced).at("sign"),
            Self::Provider {
                variant: chosen,
                signed_url,
                ..
            } => {
                let variant = chosen.as_deref().unwrap_or(variant);
                let scheme = scheme(preset, variant).at("variant")?;
                check_provider(preset, scheme).at("sign")?;
                check_url_is_signed(signed_url.as_deref(), preset, scheme).at("signed_url")
            }
        }
    }
}

fn check_as_received(preset: &Preset, variant: &str, replaced: bool) -> anyhow::Result<()> {
    ensure!(
        !replaced,
        "sign = \"as-received\" cannot be combined with order.mode = \"fetch\": the provider did \
         not sign the fetched state; use sign = \"standard\""
    );
    let scheme = preset.scheme(variant).context("unknown variant")?;
    match not_kept(scheme) {
        Some(why) => bail!(
            "sign = \"as-received\" is not possible for preset {}: {why}; use sign = {:?}",
            preset.id,
            instead(unsignable(scheme).is_none(), "provider")
        ),
        None => Ok(()),
    }
}

fn check_provider(preset: &Preset, scheme: &Scheme) -> anyhow::Result<()> {
    if let Some(why) = unsignable(scheme) {
        bail!(
            "sign = \"provider\" is not possible for preset {}: {why}; use sign = {:?}",
            preset.id,
            instead(not_kept(scheme).is_none(), "as-received")
        );
    }
    Ok(())
}

fn check_url_is_signed(url: Option<&str>, preset: &Preset, scheme: &Scheme) -> anyhow::Result<()> {
    ensure!(
        url.is_none() || scheme.signs_url(),
        "signed_url has no effect: the signatures of preset {} do not cover the URL; remove the \
         setting",
        preset.id
    );
    Ok(())
}

/// Returns the scheme of a variant.
pub(super) fn scheme<'p>(preset: &'p Preset, variant: &str) -> anyhow::Result<&'p Scheme> {
    preset.scheme(variant).with_context(|| {
        let known = preset.schemes.iter();
        let known: Vec<_> = known.map(|scheme| scheme.variant.as_str()).collect();
        format!(
            "preset {} has no variant {variant:?}; it has {}",
            preset.id,
            known.join(", ")
        )
    })
}

fn instead(is_possible: bool, mode: &'static str) -> &'static str {
    if is_possible { mode } else { "standard" }
}

#[cfg(test)]
mod tests;
