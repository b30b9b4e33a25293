//! Signed tokens that authenticate a provider's app, such as a GitHub App.

use anyhow::anyhow;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::Value;

/// Returns a token with these claims, signed with RSA and SHA-256. The key is in PEM, as PKCS #1 or
/// PKCS #8. <https://www.rfc-editor.org/rfc/rfc7515>
pub fn app_token(pem: &str, claims: &Value) -> anyhow::Result<String> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes());
    let pair = match &key {
        Ok(PrivateKeyDer::Pkcs1(der)) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        Ok(PrivateKeyDer::Pkcs8(der)) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        _ => return Err(anyhow!("the secret does not contain a private key in PEM")),
    };
    let pair =
        pair.map_err(|_| anyhow!("the private key is not an RSA key of 2048 to 4096 bits"))?;
    let encoded = |part: &str| URL_SAFE_NO_PAD.encode(part);
    let signed = format!(
        "{}.{}",
        encoded(r#"{"alg":"RS256","typ":"JWT"}"#),
        encoded(&claims.to_string())
    );
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        signed.as_bytes(),
        &mut signature,
    )
    .map_err(|_| anyhow!("cannot sign with the RSA key"))?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use serde_json::json;

    use super::*;

    const RSA: &str = include_str!("../../../tests/data/rsa-test-key.pem");

    #[test]
    fn a_token_is_signed_by_the_key_of_the_app() {
        let token = app_token(RSA, &json!({ "iss": "7" })).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let (_, claims) = signed.split_once('.').unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(claims).unwrap(), br#"{"iss":"7"}"#);
        let der = PrivateKeyDer::from_pem_slice(RSA.as_bytes()).unwrap();
        let pair = RsaKeyPair::from_pkcs8(der.secret_der()).unwrap();
        let public = pair.public_key().as_ref();
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public)
            .verify(
                signed.as_bytes(),
                &URL_SAFE_NO_PAD.decode(signature).unwrap(),
            )
            .unwrap();
        for bad in [
            "",
            "k",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        ] {
            let error = app_token(bad, &json!({})).unwrap_err().to_string();
            assert!(error.contains("key"), "{error}");
        }
    }
}
