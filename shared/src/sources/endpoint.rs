//! Reads `[source.endpoint]`, which describes the subscription that should exist at the provider.

use std::collections::BTreeMap;

use anyhow::{anyhow, bail, ensure};
use serde::Deserialize;

use super::{Forward, check_name, check_url};
use crate::base::setting_path::At as _;

/// The version of Shopify's API. Shopify supports a version for a year.
/// <https://shopify.dev/docs/api/usage/versioning>
const SHOPIFY_VERSION: &str = "2026-10";

/// The subscription that should exist at the provider.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub provider: Subscriber,
    /// The URL of the provider's API, without a slash at the end.
    pub api: String,
    /// The URL to which the provider should send webhooks.
    pub url: String,
    /// The event types that the provider should send. An empty list accepts any types.
    pub events: Vec<String>,
    /// The name of the API key below the secrets path of backup-sync.
    pub secret: String,
}

/// A provider whose subscriptions Mitt can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscriber {
    Stripe,
    /// The API path of the webhooks of a repository or an organization.
    GitHub(String),
    /// The API path of the webhooks of a project or a group.
    GitLab(String),
    /// The version of the API.
    Shopify(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileEndpoint {
    url: String,
    #[serde(default)]
    events: Vec<String>,
    secret: Option<String>,
    #[serde(default)]
    with: BTreeMap<String, String>,
    api: Option<String>,
}

impl FileEndpoint {
    pub(super) fn checked(
        mut self,
        preset: &str,
        source: &str,
        forward: &Forward,
    ) -> anyhow::Result<Endpoint> {
        let secret = self.secret.take().unwrap_or_else(|| source.to_owned());
        check_name("a secret's name", &secret).at("secret")?;
        check_own_url(&self.url, source, forward).at("url")?;
        let (provider, known_api) = self.provider(preset)?;
        self.check_rest(preset).at("with")?;
        if let Some(api) = &self.api {
            check_url(api, forward).at("api")?;
        }
        let api = self.api.unwrap_or(known_api);
        Ok(Endpoint {
            provider,
            api: api.trim_end_matches('/').to_owned(),
            url: self.url,
            events: match preset {
                // Shopify sends `orders/create` in a header, but uses `ORDERS_CREATE` in its API.
                "shopify" => self.events.iter().map(|topic| shouted(topic)).collect(),
                _ => self.events,
            },
            secret,
        })
    }

    /// Returns the provider, and the URL of its API.
    fn provider(&mut self, preset: &str) -> anyhow::Result<(Subscriber, String)> {
        Ok(match preset {
            "stripe" => (Subscriber::Stripe, "https://api.stripe.com".to_owned()),
            "github" => {
                let path = match self.one_of("repo", "org").at("with")? {
                    ("repo", repo) => format!("repos/{repo}/hooks"),
                    (_, org) => format!("orgs/{org}/hooks"),
                };
                let api = "https://api.github.com".to_owned();
                (Subscriber::GitHub(path), api)
            }
            "gitlab" => {
                let path = match self.one_of("project", "group").at("with")? {
                    ("project", project) => format!("projects/{}/hooks", encoded(&project)),
                    (_, group) => format!("groups/{}/hooks", encoded(&group)),
                };
                (Subscriber::GitLab(path), "https://gitlab.com".to_owned())
            }
            "shopify" => {
                let shop = self.take("shop");
                let shop = shop.and_then(checked_shop).at("with")?;
                let version = self.with.remove("version");
                let version = version.unwrap_or_else(|| SHOPIFY_VERSION.to_owned());
                (Subscriber::Shopify(version), format!("https://{shop}"))
            }
            other => bail!(
                "preset {other} does not support [source.endpoint]; remove the table. Only the \
                 presets github, gitlab, shopify and stripe support it"
            ),
        })
    }

    /// Rejects the settings in `with` that the provider does not need.
    fn check_rest(&self, preset: &str) -> anyhow::Result<()> {
        if let Some(name) = self.with.keys().next() {
            let error = anyhow!(
                "with.{name}: preset {preset} does not support this setting; remove the setting"
            );
            return Err(error).at(name.clone());
        }
        Ok(())
    }

    fn one_of<'n>(&mut self, one: &'n str, other: &'n str) -> anyhow::Result<(&'n str, String)> {
        match (self.with.contains_key(one), self.with.contains_key(other)) {
            (true, false) => Ok((one, self.take(one)?)),
            (false, true) => Ok((other, self.take(other)?)),
            _ => bail!("with: set either {one} or {other}, such as with = {{ {one} = \"…\" }}"),
        }
    }

    fn take(&mut self, name: &str) -> anyhow::Result<String> {
        self.value(name).at(name.to_owned())
    }

    fn value(&mut self, name: &str) -> anyhow::Result<String> {
        let Some(value) = self.with.remove(name) else {
            bail!("the setting with = {{ {name} = \"…\" }} is missing; add the setting");
        };
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
        ensure!(
            !value.is_empty() && value.bytes().all(fits) && !value.contains(".."),
            "with.{name} = {value:?}: use only letters, digits and . _ - /, but not two dots in a \
             row"
        );
        Ok(value)
    }
}

fn check_own_url(url: &str, source: &str, forward: &Forward) -> anyhow::Result<()> {
    let local = forward.allow_loopback && url.starts_with("http://");
    ensure!(
        (url.starts_with("https://") || local) && url.contains("/in/"),
        "url = {url:?}: use the public URL of this source, such as https://<api>/in/{source}"
    );
    Ok(())
}

fn checked_shop(shop: String) -> anyhow::Result<String> {
    let check = || {
        ensure!(
            !shop.contains('/') && shop.ends_with(".myshopify.com"),
            "with.shop = {shop:?}: use a host like my-shop.myshopify.com"
        );
        Ok(())
    };
    check().at("shop")?;
    Ok(shop)
}

/// Converts `orders/create` to `ORDERS_CREATE`.
fn shouted(topic: &str) -> String {
    topic.to_ascii_uppercase().replace('/', "_")
}

/// Encodes a path for use as an id. <https://docs.gitlab.com/api/rest/#namespaced-paths>
fn encoded(path: &str) -> String {
    path.replace('/', "%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(preset: &str, text: &str) -> anyhow::Result<Endpoint> {
        let forward = Forward {
            allow_hosts: vec!["gitlab.example.com".to_owned()],
            allow_loopback: false,
        };
        toml::from_str::<FileEndpoint>(text)?.checked(preset, "the-source", &forward)
    }

    const URL: &str = "url = \"https://hooks.example.com/in/the-source\"\n";

    #[test]
    fn each_provider_is_asked_at_its_own_place() {
        let at = |preset: &str, with: &str| {
            let endpoint = checked(preset, &format!("{URL}{with}")).unwrap();
            (endpoint.api, endpoint.provider)
        };
        let (api, provider) = at("github", "with = { repo = \"octo/hello\" }");
        assert_eq!(api, "https://api.github.com");
        assert_eq!(
            provider,
            Subscriber::GitHub("repos/octo/hello/hooks".into())
        );
        let (_, provider) = at("gitlab", "with = { project = \"a/b\" }");
        assert_eq!(provider, Subscriber::GitLab("projects/a%2Fb/hooks".into()));
        let (api, _) = at("shopify", "with = { shop = \"my.myshopify.com\" }");
        assert_eq!(api, "https://my.myshopify.com");
        assert_eq!(at("stripe", "").1, Subscriber::Stripe);
        let own = "api = \"https://gitlab.example.com/\"\nwith = { group = \"g\" }";
        assert_eq!(at("gitlab", own).0, "https://gitlab.example.com");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (preset, more, said) in [
            ("slack", "", "does not support [source.endpoint]"),
            ("github", "", "either repo or org"),
            ("github", "with = { repo = \"a/b\", org = \"c\" }", "either"),
            ("github", "with = { repo = \"../x\" }", "use only"),
            (
                "stripe",
                "with = { repo = \"a/b\" }",
                "with.repo: preset stripe does not support",
            ),
            (
                "shopify",
                "with = { shop = \"evil.example.com\" }",
                "myshopify",
            ),
            (
                "shopify",
                "with = { shop = \"a/b.myshopify.com\" }",
                "myshopify",
            ),
            (
                "stripe",
                "api = \"https://evil.example.com\"",
                "allow_hosts",
            ),
            ("stripe", "event = []", "`event`"),
        ] {
            let error = checked(preset, &format!("{URL}{more}")).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(said), "{preset} {more}: {error}");
        }
        for url in [
            "http://hooks.example.com/in/x",
            "https://hooks.example.com/x",
        ] {
            assert!(
                checked("stripe", &format!("url = \"{url}\"")).is_err(),
                "{url}"
            );
        }
    }
}
