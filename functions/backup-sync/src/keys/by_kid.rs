//! Fetches keys from providers that return one key at a time, by its id, and only to callers with
//! credentials.

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use shared::aws::outbound::Outbound;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::base::timing::ACTION_TIMEOUT;
use shared::webhook::verify::Trust;

use super::text;

/// A client id and its secret.
pub(super) struct Credentials {
    client_id: String,
    secret: String,
}

impl Credentials {
    /// Reads `client-id:secret`.
    pub(super) fn read(secret: &Secret) -> anyhow::Result<Self> {
        let text = secret.expose().trim_end_matches(['\r', '\n']);
        let (client_id, secret) = text
            .split_once(':')
            .context("the credentials do not have the form client-id:secret")?;
        ensure!(
            !client_id.is_empty() && !secret.is_empty(),
            "the credentials lack the client id or the secret; store them as client-id:secret"
        );
        Ok(Self {
            client_id: client_id.to_owned(),
            secret: secret.to_owned(),
        })
    }
}

/// A provider's API, and the credentials for it.
pub(super) struct Provider<'p> {
    pub(super) outbound: &'p Outbound,
    pub(super) trust: &'p Trust,
    pub(super) credentials: Credentials,
    pub(super) now: UnixMillis,
}

impl Provider<'_> {
    /// Returns the public key with this id, in the form that verification reads.
    pub(super) async fn key(&self, preset: &str, kid: &str) -> anyhow::Result<String> {
        match preset {
            "plaid" => self.plaid(kid).await,
            "ebay" => self.ebay(kid).await,
            _ => bail!("keys of preset {preset} cannot be fetched by id"),
        }
    }

    /// Returns a set of one key.
    /// <https://plaid.com/docs/api/webhooks/webhook-verification/#get-webhook-verification-key>
    async fn plaid(&self, kid: &str) -> anyhow::Result<String> {
        let url = "https://production.plaid.com/webhook_verification_key/get";
        let Credentials { client_id, secret } = &self.credentials;
        let asked = json!({"client_id": client_id, "secret": secret, "key_id": kid});
        let headers = [("content-type", "application/json")];
        let answer = self.post(url, &headers, asked.to_string()).await?;
        let key = answer.get("key").filter(|key| key.is_object());
        let key = key.context("the response has no key")?;
        ensure!(key["kid"] == kid, "the response has a key with another id");
        let expired = key["expired_at"].as_i64();
        ensure!(
            expired.is_none_or(|at| at > self.now.secs()),
            "the key has expired"
        );
        Ok(json!({ "keys": [key] }).to_string())
    }

    /// Returns a key in PEM, requested with a token of the application.
    /// <https://developer.ebay.com/api-docs/commerce/notification/resources/public_key/methods/getPublicKey>
    async fn ebay(&self, kid: &str) -> anyhow::Result<String> {
        let url = "https://api.ebay.com/identity/v1/oauth2/token";
        let Credentials { client_id, secret } = &self.credentials;
        let basic = format!("Basic {}", STANDARD.encode(format!("{client_id}:{secret}")));
        let headers = [
            ("authorization", basic.as_str()),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        let scope = "https%3A%2F%2Fapi.ebay.com%2Foauth%2Fapi_scope";
        let asked = format!("grant_type=client_credentials&scope={scope}");
        let answer = self.post(url, &headers, asked).await?;
        let token = answer["access_token"].as_str();
        let bearer = format!(
            "Bearer {}",
            token.context("the response has no access_token")?
        );

        let url = format!("https://api.ebay.com/commerce/notification/v1/public_key/{kid}");
        let url = self.trust.fetch_url(&url);
        let headers = [("authorization", bearer.as_str())];
        let answer = self.outbound.get(&url, &[], &headers, self.now).await;
        let answer: Value =
            serde_json::from_str(&text(answer)?).context("the response is not JSON")?;
        let key = answer["key"].as_str().context("the response has no key")?;
        Ok(key.to_owned())
    }

    async fn post(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> anyhow::Result<Value> {
        let url = self.trust.fetch_url(url);
        let answer = self
            .outbound
            .post(&url, headers, body.into(), ACTION_TIMEOUT, self.now)
            .await;
        serde_json::from_str(&text(answer)?).context("the response is not JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_an_id_and_a_secret() {
        let read = |text: &str| Credentials::read(&Secret::new("current.1", text));
        let good = read("app:se:cret\n").unwrap();
        assert_eq!(
            (good.client_id.as_str(), good.secret.as_str()),
            ("app", "se:cret")
        );
        for bad in ["", "secret", ":secret", "app:"] {
            let error = read(bad).err().unwrap().to_string();
            assert!(error.starts_with("the credentials"), "{error}");
        }
    }
}
