//! Code that the fuzz targets share: requests in the form of text, and a source for every scheme.
//!
//! A request in a corpus has the form of an HTTP request, after a line with the preset and the
//! variant:
//!
//! ```text
//! stripe default
//! POST /in/s?a=1
//! stripe-signature: t=1,v1=00
//!
//! {"id":"evt_1"}
//! ```

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::{KeyForm, Preset, Scheme};
use shared::webhook::verify::{Trust, Verifier};

pub const NOW: UnixMillis = UnixMillis(1_795_169_681_000);

/// Verifiers by `preset variant`.
static VERIFIERS: LazyLock<BTreeMap<String, Verifier>> = LazyLock::new(|| {
    let mut verifiers = BTreeMap::new();
    for id in Preset::ids() {
        let preset = Preset::embedded(id, &BTreeMap::new()).expect("embedded presets are valid");
        for scheme in &preset.schemes {
            let verifier = Verifier {
                source: "s".into(),
                preset: preset.clone(),
                variant: scheme.variant.clone(),
                trust: Trust::default(),
                config: "fuzz".into(),
            };
            verifiers.insert(format!("{id} {}", scheme.variant), verifier);
        }
    }
    verifiers
});

/// Parses a request and finds its source. Returns `None` if the text is not a request.
pub fn request(data: &[u8]) -> Option<(&'static Verifier, Envelope)> {
    let (head, body) = match find(data, b"\n\n") {
        Some(at) => (&data[..at], &data[at + 2..]),
        None => (data, &data[..0]),
    };
    let mut lines = std::str::from_utf8(head).ok()?.lines();
    let verifier = VERIFIERS.get(lines.next()?)?;
    let (method, target) = lines.next()?.split_once(' ')?;
    let headers = lines.filter_map(|line| line.split_once(": "));
    let envelope = Envelope {
        method: method.into(),
        url: format!("https://in.example.test{target}"),
        headers: headers.collect(),
        body: body.to_vec().into(),
        received_at: NOW,
    };
    Some((verifier, envelope))
}

pub fn scheme(verifier: &Verifier) -> &Scheme {
    let scheme = verifier.preset.scheme(&verifier.variant);
    scheme.expect("the scheme of this variant exists")
}

/// Returns a secret that no request in a corpus is signed with.
pub fn secret(scheme: &Scheme) -> Secret {
    let text = "a secret that is in no corpus";
    let value = match scheme.key {
        KeyForm::Utf8 | KeyForm::Sha1OfUtf8 | KeyForm::WhsecOrUtf8 => text.to_owned(),
        KeyForm::Hex => hex::encode(text),
        KeyForm::Base64 => STANDARD.encode(text),
        KeyForm::Whsec => format!("whsec_{}", STANDARD.encode(text)),
        KeyForm::Whpk => format!("whpk_{}", STANDARD.encode(PUBLIC)),
        KeyForm::Pem | KeyForm::SpkiBase64 => STANDARD.encode([&SPKI_HEAD[..], &PUBLIC].concat()),
    };
    Secret::new("fuzz", value)
}

/// The second public key of RFC 8032, section 7.1.
const PUBLIC: [u8; 32] = [
    0x3d, 0x40, 0x17, 0xc3, 0xe8, 0x43, 0x89, 0x5a, 0x92, 0xb7, 0x0a, 0xa7, 0x4d, 0x1b, 0x7e, 0xbc,
    0x9c, 0x98, 0x2c, 0xcf, 0x2e, 0xc4, 0x96, 0x8c, 0xc0, 0xcd, 0x55, 0xf1, 0x2a, 0xf4, 0x66, 0x0c,
];

const SPKI_HEAD: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// Returns the part before the first line break, and the part after it.
pub fn line(data: &[u8]) -> Option<(&str, &[u8])> {
    let at = find(data, b"\n")?;
    Some((std::str::from_utf8(&data[..at]).ok()?, &data[at + 1..]))
}

fn find(data: &[u8], what: &[u8]) -> Option<usize> {
    data.windows(what.len()).position(|window| window == what)
}
