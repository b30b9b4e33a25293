//! The kinds of verification, and the forms of their keys.

use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum Kind {
    /// A keyed hash over the message.
    Hmac,
    /// A plain hash over a message that contains the secret.
    Hash,
    /// The request contains the secret itself.
    Token,
    /// The request contains a user name and a password.
    Basic,
    /// A signature that Mitt verifies with a public key, as for the next two kinds.
    Ed25519,
    EcdsaP256,
    RsaSha256,
    /// A signed token with claims (JWT).
    Jwt,
    /// The request proves nothing. Mitt fetches the object that the request names from the
    /// provider.
    FetchBack,
    None,
    /// A signature that needs code: `code:<name>`.
    Code(Code),
}

/// Providers whose signature a preset cannot describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    Adobe,
    PayPal,
    Sns,
    Ebay,
    Plivo,
    /// HTTP signatures with this kind of key.
    Keygen(Box<Kind>),
    /// A name without an implementation. Mitt rejects a source that selects it.
    Missing(String),
}

impl From<String> for Kind {
    fn from(text: String) -> Self {
        match text.as_str() {
            "hmac" => Self::Hmac,
            "hash" => Self::Hash,
            "token" => Self::Token,
            "basic" => Self::Basic,
            "ed25519" => Self::Ed25519,
            "ecdsa-p256" => Self::EcdsaP256,
            "rsa-sha256" => Self::RsaSha256,
            "jwt" => Self::Jwt,
            "fetch-back" => Self::FetchBack,
            "none" => Self::None,
            "code:adobe" => Self::Code(Code::Adobe),
            "code:paypal" => Self::Code(Code::PayPal),
            "code:sns" => Self::Code(Code::Sns),
            "code:ebay" => Self::Code(Code::Ebay),
            "code:plivo" => Self::Code(Code::Plivo),
            "code:keygen" => Self::Code(Code::Keygen(Box::new(Self::Ed25519))),
            "code:keygen-rsa" => Self::Code(Code::Keygen(Box::new(Self::RsaSha256))),
            "code:keygen-ecdsa" => Self::Code(Code::Keygen(Box::new(Self::EcdsaP256))),
            _ => Self::Code(Code::Missing(text)),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hash {
    Sha1,
    #[default]
    Sha256,
    Sha512,
}

impl Hash {
    /// The length of a digest, in bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

/// How Mitt decodes the operator's secret to a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyForm {
    /// The bytes of the text, including prefixes.
    #[default]
    Utf8,
    Base64,
    Hex,
    /// Base64 after an optional `v1,` and an optional `whsec_`.
    Whsec,
    /// Base64 after `whsec_`. If this prefix is missing, the bytes of the text.
    WhsecOrUtf8,
    /// The SHA-1 digest of the text.
    Sha1OfUtf8,
    /// A public key: base64 after an optional `whpk_`.
    Whpk,
    /// A public key in PEM.
    Pem,
    /// A public key: base64 of its `SubjectPublicKeyInfo`.
    SpkiBase64,
}
