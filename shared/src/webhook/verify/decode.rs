//! Text encodings of bytes.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::webhook::preset::Encoding;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// Base64 with optional padding. Some senders omit the padding, and both forms decode to the same
/// bytes.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
pub(super) const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Base64 of secrets. The padding is optional, and unused bits of the last character can have any
/// value. The official libraries of Standard Webhooks accept both.
pub(super) const BASE64_SECRET: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    LENIENT.with_decode_allow_trailing_bits(true),
);

/// Decodes a text. Returns `None` if the text is empty or is not in this encoding.
pub(super) fn decode(encoding: Encoding, text: &str) -> Option<Vec<u8>> {
    let bytes = match encoding {
        Encoding::Hex => hex::decode(text).ok()?,
        Encoding::Base64 | Encoding::Base64Der => BASE64.decode(text).ok()?,
        Encoding::Base64url => BASE64_URL.decode(text).ok()?,
    };
    (!bytes.is_empty()).then_some(bytes)
}

/// Encodes bytes as text.
pub(crate) fn encode(encoding: Encoding, bytes: &[u8]) -> String {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    match encoding {
        Encoding::Hex => hex::encode(bytes),
        Encoding::Base64 | Encoding::Base64Der => STANDARD.encode(bytes),
        Encoding::Base64url => URL_SAFE_NO_PAD.encode(bytes),
    }
}
