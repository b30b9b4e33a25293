//! Creates requests that a provider could send, and changes them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::{Encoding, Format, KeyForm, Kind, Location, Part, Preset, Scheme};
use shared::webhook::verify::{Trust, Verifier};

pub(crate) const NOW: UnixMillis = UnixMillis(1_795_169_681_000);

/// The number of cases for all providers in a plain `cargo test`.
const CASES: u32 = 20_000;

pub(crate) fn each<S: Strategy>(
    verifier: &Verifier,
    of: usize,
    strategy: S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let cases = (cases_in_all() / u32::try_from(of).unwrap()).max(1);
    let config = Config {
        cases,
        // If the scheme never accepts a message, the test rejects the message and generates another
        // one.
        max_global_rejects: cases.saturating_mul(4).saturating_add(1024),
        failure_persistence: None,
        ..Config::default()
    };
    let name = format!("{} {}", verifier.preset.id, verifier.variant);
    if let Err(error) = TestRunner::new(config).run(&strategy, test) {
        panic!("{name}: {error}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the caller can request more cases"
)]
fn cases_in_all() -> u32 {
    let cases = std::env::var("MITT_CASES").ok();
    cases.map_or(CASES, |cases| cases.parse().unwrap())
}

pub(crate) fn verifiers(which: impl Fn(&Scheme) -> bool) -> Vec<Verifier> {
    let params = BTreeMap::from([
        ("public_key".to_owned(), "public".to_owned()),
        ("api_key".to_owned(), "api-key".to_owned()),
        ("user_id".to_owned(), "user".to_owned()),
    ]);
    let mut verifiers = Vec::new();
    for id in Preset::ids() {
        let plain = Preset::embedded(id, &BTreeMap::new()).unwrap();
        let known = |name: &String| plain.params.contains_key(name);
        let given = params.clone().into_iter().filter(|(name, _)| known(name));
        let preset = Preset::embedded(id, &given.collect()).unwrap();
        for scheme in preset.schemes.iter().filter(|scheme| which(scheme)) {
            verifiers.push(Verifier {
                source: "source".into(),
                preset: preset.clone(),
                variant: scheme.variant.clone(),
                trust: Trust::default(),
                config: "test".into(),
            });
        }
    }
    verifiers
}

pub(crate) fn covers_body(scheme: &Scheme) -> bool {
    let claim = scheme
        .jwt
        .as_ref()
        .filter(|jwt| jwt.body_sha256_claim.is_some() || jwt.from == Location::Body);
    scheme.message.0.contains(&Part::Body) && matches!(scheme.kind, Kind::Hmac | Kind::Hash)
        || scheme.body_hash.is_some()
        || claim.is_some()
}

/// Returns the text of the signature, without the other fields of its header.
pub(crate) fn signature(scheme: &Scheme, request: &Envelope) -> Option<String> {
    if !matches!(scheme.kind, Kind::Hmac | Kind::Hash) {
        return None;
    }
    let sig = &scheme.sig;
    let value = match &sig.from {
        Location::HeaderNumbered(prefix) => request
            .headers
            .one(&format!("{prefix}1"))
            .unwrap()
            .map(str::to_owned),
        from => from.find(request).unwrap(),
    }?;
    let tag = sig.take.first().map_or("", String::as_str);
    let before = match sig.format {
        Format::Plain => return value.strip_prefix(&sig.prefix).map(str::to_owned),
        Format::Positional => sig.entry.clone(),
        Format::KvList | Format::KvGroups => format!("{tag}="),
        Format::TaggedList => format!("{tag}{}", sig.tag_sep),
        Format::Pairs => format!("{tag}{}", sig.kv),
    };
    // The text of a signature can end with the tag and the separator.
    if matches!(sig.format, Format::KvList) {
        let mut entries = value.rsplit(sig.entry.as_str()).map(str::trim);
        return entries.find_map(|entry| entry.strip_prefix(&before).map(str::to_owned));
    }
    value
        .rfind(&before)
        .map(|at| value[at + before.len()..].to_owned())
}

pub(crate) fn flipped(encoding: Encoding, text: &str, at: u16, bit: u8) -> String {
    let mut bytes = match encoding {
        Encoding::Hex => hex::decode(text).unwrap(),
        Encoding::Base64 | Encoding::Base64Der => STANDARD.decode(text).unwrap(),
        Encoding::Base64url => URL_SAFE_NO_PAD.decode(text).unwrap(),
    };
    let index = usize::from(at) % bytes.len();
    bytes[index] ^= 1 << bit;
    match encoding {
        Encoding::Hex => hex::encode(bytes),
        Encoding::Base64 | Encoding::Base64Der => STANDARD.encode(bytes),
        Encoding::Base64url => URL_SAFE_NO_PAD.encode(bytes),
    }
}

/// Returns the request with all occurrences of a text replaced.
pub(crate) fn replaced(request: &Envelope, old: &str, new: &str) -> Envelope {
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| (name, value.replace(old, new)));
    let body = match std::str::from_utf8(&request.body) {
        Ok(text) => text.replace(old, new).into(),
        Err(_) => request.body.clone(),
    };
    Envelope {
        url: request.url.replace(old, new),
        headers: headers.collect(),
        body,
        ..request.clone()
    }
}

/// Returns a secret in the format of the scheme. The label of the secret is `text`.
pub(crate) fn secret(scheme: &Scheme, text: &str) -> Secret {
    let value = match scheme.key {
        KeyForm::Utf8 | KeyForm::Sha1OfUtf8 | KeyForm::WhsecOrUtf8 => text.to_owned(),
        KeyForm::Hex => hex::encode(text),
        KeyForm::Base64 => STANDARD.encode(text),
        KeyForm::Whsec => format!("whsec_{}", STANDARD.encode(text)),
        KeyForm::Whpk => format!("whpk_{}", STANDARD.encode([7; 32])),
        KeyForm::Pem | KeyForm::SpkiBase64 => STANDARD.encode(SPKI),
    };
    Secret::new(text, value)
}

/// Returns an unsigned request with all values that the scheme reads.
pub(crate) fn draft(scheme: &Scheme, bytes: &[u8], word: &str) -> Envelope {
    let mut headers = named_headers(scheme, word);
    headers.retain(|(name, _)| !names(&scheme.sig.from).contains(name));
    if let Some(ts) = &scheme.ts {
        headers.retain(|(name, _)| !names(&ts.from).contains(name));
    }
    for shape in &scheme.shapes {
        for name in names(&shape.from) {
            let fits = |text: &str| shape.allow.is_match(text);
            if let Some((_, value)) = headers.iter_mut().find(|(known, _)| *known == name)
                && !fits(value)
            {
                let uuid = format!("00000000-0000-4000-8000-{:012x}", crc(word));
                *value = if fits(&uuid) { uuid } else { value.clone() };
            }
        }
    }
    if let Location::MultipartJson(..) = scheme.sig.from {
        let multipart = "multipart/form-data; boundary=b1";
        headers.push(("content-type".to_owned(), multipart.to_owned()));
    }
    let body = draft_body(scheme, bytes, word);
    Envelope {
        method: "POST".into(),
        url: format!("https://in.example.test/in/source?data.id={word}"),
        headers: headers.into_iter().collect(),
        body: body.into(),
        received_at: NOW,
    }
}

/// Returns a body with all values that the scheme reads.
fn draft_body(scheme: &Scheme, bytes: &[u8], word: &str) -> Vec<u8> {
    let hex = hex::encode(bytes);
    let parts = matches!(scheme.sig.from, Location::MultipartJson(..));
    let claims = scheme
        .jwt
        .as_ref()
        .is_some_and(|jwt| jwt.from == Location::Body);
    let json = wants(scheme, |at| matches!(at, Location::Json(_))) || scheme.for_each.is_some();
    let form = wants(scheme, |at| matches!(at, Location::Form(_)));
    let joined = scheme.message.0.contains(&Part::Url) && scheme.message.0.contains(&Part::Body);
    let sorted = scheme.message.0.contains(&Part::FormSorted);
    if parts {
        let kind: String = word.bytes().map(|b| char::from(b'a' + b % 26)).collect();
        format!(
            "--b1\r\nContent-Disposition: form-data; name=\"json\"\r\n\r\n{{\"event\":{{\
             \"event_time\":\"{:010}\",\"event_type\":\"{kind}\",\"event_hash\":\"\"}},\
             \"more\":\"{hex}\"}}\r\n--b1--",
            crc(word)
        )
        .into_bytes()
    } else if claims || scheme.json_body {
        format!(r#"{{"id":"{word}","more":"{hex}"}}"#).into_bytes()
    } else if json {
        let item = format!(
            r#"{{"id":"{word}","pspReference":"{hex}","amount":{{"value":1}},"clientState":null}}"#
        );
        format!(
            r#"{{"signature":{{"token":"t{hex}"}},"value":[{item},{item}],
               "notificationItems":[{{"NotificationRequestItem":{item}}}]}}"#
        )
        .into_bytes()
    } else if form {
        format!("bt_payload=p{hex}").into_bytes()
    } else if let [name] = scheme.only_fields.as_slice() {
        format!("{name}=%5B%7B%22a%22%3A%22{hex}%22%7D%5D").into_bytes()
    } else if sorted {
        format!("AccountSid=AC1{hex:.30}&Body=+{hex}&CallSid=CA1&MessageStatus={word}").into_bytes()
    } else if joined {
        format!(r#"{{"a":"{hex}","action":{{"id":"{word}"}}}}"#).into_bytes()
    } else {
        bytes.to_vec()
    }
}

/// Returns a number with at most ten digits that depends on the text.
fn crc(text: &str) -> u32 {
    text.bytes()
        .fold(7, |sum: u32, b| sum.wrapping_mul(31).wrapping_add(b.into()))
}

/// Returns a request that differs from the draft.
pub(crate) fn other(scheme: &Scheme, bytes: &[u8], word: &str) -> Envelope {
    let more = [bytes, b"&x"].concat();
    draft(scheme, &more, &format!("{word}2"))
}

/// Returns all headers that the scheme names, with this value.
pub(crate) fn named_headers(scheme: &Scheme, value: &str) -> Vec<(String, String)> {
    let mut all: Vec<String> = names(&scheme.sig.from);
    all.extend(scheme.sig.also.iter().flat_map(names));
    all.extend(scheme.ts.iter().flat_map(|ts| names(&ts.from)));
    all.extend(scheme.jwt.iter().flat_map(|jwt| names(&jwt.from)));
    all.extend(scheme.require_signed.iter().cloned());
    for part in &scheme.message.0 {
        if let Part::At(at) = part {
            all.extend(names(at));
        }
    }
    all.sort();
    all.dedup();
    all.into_iter()
        .map(|name| (name, value.to_owned()))
        .collect()
}

pub(crate) fn names(at: &Location) -> Vec<String> {
    match at {
        Location::Header(names) => names.iter().take(1).cloned().collect(),
        Location::HeaderNumbered(prefix) => vec![format!("{prefix}1")],
        _ => Vec::new(),
    }
}

fn wants(scheme: &Scheme, is: impl Fn(&Location) -> bool) -> bool {
    let parts = scheme.message.0.iter().filter_map(|part| match part {
        Part::At(at) => Some(at),
        _ => None,
    });
    let ts = scheme.ts.as_ref().map(|ts| &ts.from);
    parts.chain(ts).chain([&scheme.sig.from]).any(is)
}

/// A public key without a private key, for schemes that need one.
const SPKI: [u8; 44] = {
    let mut spki = [7; 44];
    let head = [
        0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
    ];
    let mut at = 0;
    while at < head.len() {
        spki[at] = head[at];
        at += 1;
    }
    spki
};
