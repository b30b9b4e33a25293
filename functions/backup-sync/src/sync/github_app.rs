//! The token by which a GitHub App authenticates.
//! <https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app>

use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::webhook::sign::app_token;

/// The validity of the token in seconds, at most ten minutes altogether. One of these minutes is in
/// the past, because clocks differ.
const BEFORE: i64 = 60;
const AFTER: i64 = 540;

/// Returns a token. `pem` is the private key as GitHub provides it.
pub(super) fn token(issuer: &str, pem: &str, now: UnixMillis) -> anyhow::Result<String> {
    let now = now.secs();
    let claims = json!({ "iss": issuer, "iat": now - BEFORE, "exp": now + AFTER });
    app_token(pem, &claims)
}
