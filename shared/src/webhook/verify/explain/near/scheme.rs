//! Guesses that the sender signs in another way than the preset requires.

use super::{Held, NearMiss, Search};
use crate::webhook::preset::{Encoding, Hash, Kind, Location, Part, Scheme, Template, Unit};

/// The maximum number of signature headers to try.
const MOST_HEADERS: usize = 16;

/// Tries a signature over only the body, for schemes that also sign the timestamp or the URL.
pub(super) fn body_alone(search: &Search<'_>) -> Option<NearMiss> {
    let scheme = search.scheme;
    let template = Template::default();
    let has_body = scheme.message.any(&|part| *part == Part::Body);
    if !is_keyed(scheme) || scheme.message == template || search.needed == Held::Wholly || !has_body
    {
        return None;
    }
    let hit = search.with_scheme(Scheme {
        message: template,
        ts: None,
        require_signed: Vec::new(),
        ..scheme.clone()
    })?;
    let text = format!(
        "the signature covers only the body, but this preset requires {}: the sender uses another \
         scheme. Configure the documented scheme at the sender, or choose a matching preset",
        scheme.message
    );
    Some(hit.means("body_alone", text))
}

pub(super) fn unit(search: &Search<'_>) -> Option<NearMiss> {
    let ts = search.scheme.ts.as_ref()?;
    [Unit::Ms, Unit::S, Unit::Rfc3339]
        .into_iter()
        .filter(|unit| *unit != ts.unit)
        .find_map(|unit| {
            let mut scheme = search.scheme.clone();
            scheme.ts.as_mut()?.unit = unit;
            let hit = search.with_scheme(scheme)?;
            let text = format!(
                "the timestamp is in {}, but this preset expects {}: change the format at the \
                 sender, or choose a matching preset",
                name(unit),
                name(ts.unit)
            );
            Some(hit.means("timestamp_unit", text))
        })
}

/// Tries a SHA-1 signature, in the header of the scheme and in older headers.
pub(super) fn sha1(search: &Search<'_>) -> Option<NearMiss> {
    let scheme = search.scheme;
    if scheme.kind != Kind::Hmac || scheme.hash == Hash::Sha1 {
        return None;
    }
    let older = |from: Location, prefix: &str| {
        let mut older = scheme.clone();
        older.hash = Hash::Sha1;
        older.sig.from = from;
        older.sig.also = Vec::new();
        prefix.clone_into(&mut older.sig.prefix);
        older
    };
    let prefixes = ["sha1=", scheme.sig.prefix.as_str(), ""];
    let Location::Header(names) = &scheme.sig.from else {
        return None;
    };
    let headers = search.envelope.headers.iter().map(|(name, _)| name);
    let headers = headers.filter(|name| name.contains("sign") || name.contains("hmac"));
    let headers = headers.take(MOST_HEADERS);
    for name in headers {
        for prefix in prefixes {
            let from = Location::Header(vec![name.to_owned()]);
            let Some(hit) = search.with_scheme(older(from, prefix)) else {
                continue;
            };
            let wanted = names.first().map_or("", String::as_str);
            let text = if names.iter().any(|known| known == name) {
                format!(
                    "the signature in {name} is valid, but it uses SHA-1: configure the sender to \
                     sign with {}",
                    hash(scheme.hash)
                )
            } else {
                format!(
                    "the SHA-1 signature in {name} is valid, but this preset reads {wanted}: a \
                     proxy removes {wanted}, or an old version of the sender does not send it"
                )
            };
            return Some(hit.means("sha1_only", text));
        }
    }
    None
}

/// Tries other encodings and prefixes of the signature.
pub(super) fn encoding(search: &Search<'_>) -> Option<NearMiss> {
    let scheme = search.scheme;
    if matches!(scheme.kind, Kind::Token | Kind::Basic | Kind::Jwt) {
        return None;
    }
    let known = &scheme.sig;
    let prefixes: &[&str] = if known.prefix.is_empty() {
        &["", "sha256="]
    } else {
        &[&known.prefix, ""]
    };
    for prefix in prefixes {
        for enc in [Encoding::Hex, Encoding::Base64, Encoding::Base64url] {
            if enc == known.enc && **prefix == known.prefix {
                continue;
            }
            let mut other = scheme.clone();
            other.sig.enc = enc;
            (*prefix).clone_into(&mut other.sig.prefix);
            let Some(hit) = search.with_scheme(other) else {
                continue;
            };
            let mut said = format!("in {}", name_of(enc));
            let mut reads = format!("in {}", name_of(known.enc));
            if **prefix != known.prefix {
                said = format!("{said} {}", prefixed(prefix));
                reads = format!("{reads} {}", prefixed(&known.prefix));
            }
            let text = format!(
                "the signature is valid, but the sender writes it {said}, and this preset expects \
                 it {reads}: change the format at the sender, or choose a matching preset"
            );
            return Some(hit.means("signature_encoding", text));
        }
    }
    None
}

/// Tries the other variants of the preset.
pub(super) fn variant(search: &Search<'_>) -> Option<NearMiss> {
    let verifier = search.verifier;
    let proving = |scheme: &&Scheme| !matches!(scheme.kind, Kind::None | Kind::FetchBack);
    let others = verifier.preset.schemes.iter().filter(proving);
    let mut others = others.filter(|scheme| scheme.variant != verifier.variant);
    others.find_map(|scheme| {
        let other = Scheme {
            variant: verifier.variant.clone(),
            ..scheme.clone()
        };
        let hit = search.with_scheme(other)?;
        let text = format!(
            "the request is signed as variant {:?} of {}, but the source selects {:?}: select the \
             first variant in the configuration, or configure the second variant at the provider",
            scheme.variant, verifier.preset.id, verifier.variant
        );
        Some(hit.means("other_variant", text))
    })
}

fn is_keyed(scheme: &Scheme) -> bool {
    matches!(
        scheme.kind,
        Kind::Hmac | Kind::Ed25519 | Kind::EcdsaP256 | Kind::RsaSha256
    )
}

fn name(unit: Unit) -> &'static str {
    match unit {
        Unit::S => "seconds",
        Unit::Ms => "milliseconds",
        Unit::Auto => "seconds or milliseconds",
        Unit::Rfc3339 => "RFC 3339",
        Unit::HttpDate => "an HTTP date",
        Unit::Iso8601Utc => "an ISO 8601 time in UTC",
    }
}

fn hash(hash: Hash) -> &'static str {
    match hash {
        Hash::Sha1 => "SHA-1",
        Hash::Sha256 => "SHA-256",
        Hash::Sha512 => "SHA-512",
    }
}

fn name_of(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Hex => "hex",
        Encoding::Base64 | Encoding::Base64Der => "base64",
        Encoding::Base64url => "base64url",
    }
}

fn prefixed(prefix: &str) -> String {
    if prefix.is_empty() {
        "without a prefix".to_owned()
    } else {
        format!("after {prefix}")
    }
}
