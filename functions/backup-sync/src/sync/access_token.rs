//! Exchanges a permanent secret for a temporary token.

use std::collections::BTreeMap;

use anyhow::Context as _;
use bytes::Bytes;
use shared::aws::outbound::{Call, Method};
use shared::base::json_path::JsonPath;

use super::request::basic;
use crate::BackupSync;
use crate::retry::{Refused, judge};

impl BackupSync {
    /// Requests a bearer token from the provider. Only this run uses the token.
    /// <https://www.rfc-editor.org/rfc/rfc6749#section-5.1>
    pub(super) async fn exchange_token(
        &self,
        url: &str,
        user: Option<&str>,
        form: &BTreeMap<String, String>,
        (name, key): (&str, &str),
    ) -> Result<String, Refused> {
        let form: Vec<(&str, String)> = form
            .iter()
            .map(|(name, value)| (name.as_str(), value.replace("{secret}", key)))
            .collect();
        let mut headers = vec![
            ("accept", "application/json".to_owned()),
            (
                "content-type",
                "application/x-www-form-urlencoded".to_owned(),
            ),
        ];
        if let Some(user) = user {
            headers.push(("authorization", basic(user, "{secret}", key)));
        }
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let call = Call {
            method: Method::Post,
            url,
            query: &[],
            headers: &headers,
            body: Some(encoded(&form)),
        };
        let answer = self.outbound.call(call, (self.clock)()).await;
        let (body, _) =
            judge(answer, ("the provider's token endpoint", name), None).map_err(|refused| {
                match refused {
                    // 400 and 401 both mean that the secret is invalid.
                    Refused::Request(..) => Refused::Final(
                        refused
                            .error()
                            .context("the provider returned no token for the secret"),
                    ),
                    other => other,
                }
            })?;
        token(&body).map_err(|error| Refused::Later(error, None))
    }
}

fn token(body: &[u8]) -> anyhow::Result<String> {
    let path = JsonPath::parse("access_token").context("parse the path access_token")?;
    let token = path.scalar(body).ok().flatten();
    token.context("the response has no access_token")
}

fn encoded(form: &[(&str, String)]) -> Bytes {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    let pairs = form.iter().map(|(name, value)| {
        let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
        format!("{name}={value}")
    });
    pairs.collect::<Vec<_>>().join("&").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_a_form_stays_one_value() {
        let form = [
            ("grant_type", "refresh_token".to_owned()),
            ("t", "a&b=c +".to_owned()),
        ];
        assert_eq!(
            encoded(&form),
            "grant_type=refresh%5Ftoken&t=a%26b%3Dc%20%2B"
        );
        assert_eq!(
            token(br#"{"access_token":"x","expires_in":1}"#).unwrap(),
            "x"
        );
        for bad in ["", "{}", r#"{"access_token":{}}"#] {
            assert!(token(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
