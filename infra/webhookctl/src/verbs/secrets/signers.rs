//! Finds the actions that sign with a secret, and checks that they can.

use std::collections::BTreeMap;

use shared::aws::secrets::Secret;
use shared::sources::{Action, Config, Signing, Source};
use shared::webhook::preset::{Kind, Preset, Scheme};
use shared::webhook::sign::SigningKey;
use shared::webhook::verify::is_key;

/// An action that signs its requests.
pub(super) struct Signer<'c> {
    pub(super) source: &'c Source,
    action: &'c Action,
    signing: &'c Signing,
}

/// Returns the actions that sign with the egress secret of this name.
pub(super) fn signers<'c>(config: &'c Config, name: &str) -> Vec<Signer<'c>> {
    let mut signers = Vec::new();
    for source in config.sources() {
        for action in &source.actions {
            if let Some((_, signing)) = action.kind.http()
                && signing.secret() == Some(name)
            {
                signers.push(Signer {
                    source,
                    action,
                    signing,
                });
            }
        }
    }
    signers
}

impl<'c> Signer<'c> {
    /// Returns the provider's scheme. Returns `None` if the action signs as Standard Webhooks.
    pub(super) fn provider_scheme(&self) -> Option<&'c Scheme> {
        match self.signing {
            Signing::Provider { .. } => self.signing.scheme(&self.source.verifier),
            _ => None,
        }
    }

    /// Returns a warning if the action cannot sign with the value.
    pub(super) fn warning(&self, secret: &Secret) -> Option<String> {
        let why = match self.provider_scheme() {
            Some(scheme) => self.misfit(scheme, secret)?,
            None if is_standard(secret) => return None,
            None => "Standard Webhooks needs a secret of the form whsec_<base64>".to_owned(),
        };
        Some(format!(
            "warning: the action {} of {} cannot sign with this value: {why}",
            self.action.name, self.source.name
        ))
    }

    /// Returns the reason why a value is not a key of the provider's scheme, if it is not.
    fn misfit(&self, scheme: &Scheme, secret: &Secret) -> Option<String> {
        let preset = &self.source.verifier.preset;
        match SigningKey::parse(scheme, secret) {
            Err(error) => Some(format!("{error:#}")),
            Ok(SigningKey::Secret(_)) if !is_key(scheme, secret) => Some(format!(
                "the value does not have the format of the secrets of {}",
                preset.name
            )),
            Ok(SigningKey::Secret(_))
                if matches!(scheme.kind, Kind::Basic) && !secret.expose().contains(':') =>
            {
                Some(format!("{} needs the form user:password", preset.name))
            }
            Ok(_) => None,
        }
    }
}

fn is_standard(secret: &Secret) -> bool {
    let preset = Preset::embedded("standard-webhooks", &BTreeMap::new());
    // The preset is a part of this program.
    preset.is_ok_and(|preset| {
        let scheme = preset.scheme("default");
        scheme.is_some_and(|scheme| is_key(scheme, secret))
    })
}

#[cfg(test)]
mod tests {
    use shared::webhook::sign::{Algorithm, KeyPair};

    use super::*;

    fn warning(preset: &str, settings: &str, value: &str) -> Option<String> {
        let text = format!(
            "schema = 1\n[forward]\nallow_hosts = [\"a.example\"]\n[[source]]\nname = \"shop\"\n\
             preset = \"{preset}\"\n[[source.action]]\nkind = \"http\"\n\
             url = \"https://a.example/\"\nsecret = \"app\"\n{settings}\n"
        );
        let config = Config::parse(&text).unwrap();
        let signers = signers(&config, "app");
        signers[0].warning(&Secret::new("new", value))
    }

    #[test]
    fn a_value_with_which_an_action_can_sign_has_no_warning() {
        let pem = KeyPair::generate(Algorithm::Ed25519).unwrap().expose_pem();
        let provider = "sign = \"provider\"";
        for (preset, settings, value) in [
            ("stripe", "", "whsec_czNjcmV0LW9mLXRoZS1yb3V0ZQ=="),
            ("stripe", provider, "whsec_plain-text"),
            ("github", provider, "any text"),
            ("gitlab", provider, "a token"),
            ("postmark", provider, "user:password"),
            ("discord", provider, &pem),
        ] {
            assert_eq!(warning(preset, settings, value), None, "{preset}");
        }
    }

    #[test]
    fn a_value_with_which_an_action_cannot_sign_has_a_warning() {
        let pem = KeyPair::generate(Algorithm::EcdsaP256)
            .unwrap()
            .expose_pem();
        let provider = "sign = \"provider\"";
        for (preset, settings, value, said) in [
            ("stripe", "", "no key!", "whsec_<base64>"),
            ("svix", provider, "no key!", "the format of the secrets"),
            ("postmark", provider, "S3cret", "user:password"),
            ("discord", provider, "S3cret", "PKCS #8"),
            ("discord", provider, &pem, "Ed25519"),
        ] {
            let warned = warning(preset, settings, value).unwrap();
            assert!(warned.contains("action http of shop"), "{warned}");
            assert!(
                warned.contains(said) && !warned.contains(value),
                "{preset}: {warned}"
            );
        }
    }
}
