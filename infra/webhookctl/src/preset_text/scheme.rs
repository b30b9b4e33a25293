//! Describes a signature scheme: the kind of the signature, its place in the request, and what it
//! proves.

use shared::webhook::preset::{
    Encoding, Fallback, Format, Hash, KeyForm, KeySource, Kind, Location, Preset, Scheme,
};
use shared::webhook::sign::{Means, means, not_kept, unsignable};

use crate::output::time;

/// Describes the kind of the signature, such as `HMAC-SHA256, hex`.
pub(crate) fn method(scheme: &Scheme) -> String {
    let encoding = match scheme.sig.enc {
        Encoding::Hex => "hex",
        Encoding::Base64 => "base64",
        Encoding::Base64url => "base64url",
        Encoding::Base64Der => "DER in base64",
    };
    let hash = match scheme.hash {
        Hash::Sha1 => "SHA1",
        Hash::Sha256 => "SHA256",
        Hash::Sha512 => "SHA512",
    };
    match &scheme.kind {
        Kind::Hmac => format!("HMAC-{hash}, {encoding}"),
        Kind::Hash => format!("{hash} with the secret in it, {encoding}"),
        Kind::Token => "shared token".to_owned(),
        Kind::Basic => "user and password".to_owned(),
        Kind::Ed25519 => format!("Ed25519, {encoding}"),
        Kind::EcdsaP256 => format!("ECDSA P-256, {encoding}"),
        Kind::RsaSha256 => format!("RSA-SHA256, {encoding}"),
        Kind::Jwt => {
            let jwt = scheme.jwt.as_ref();
            let algs = jwt.map_or(&[][..], |jwt| &jwt.algs);
            let names: Vec<String> = algs.iter().map(|alg| format!("{alg:?}")).collect();
            format!("signed token, {}", names.join(" or "))
        }
        Kind::FetchBack => "unsigned notice; Mitt fetches the object".to_owned(),
        Kind::None => "nothing".to_owned(),
        Kind::Code(_) => "a provider-specific scheme".to_owned(),
    }
}

/// Returns the place of the signature, such as `x-hub-signature-256` or `json:signature.signature`.
pub(crate) fn place(scheme: &Scheme) -> String {
    match (&scheme.kind, &scheme.jwt) {
        (Kind::FetchBack | Kind::None, _) => "-".to_owned(),
        (Kind::Jwt, Some(jwt)) => bare(&jwt.from),
        _ => {
            let also = scheme.sig.also.iter();
            let all: Vec<String> = std::iter::once(&scheme.sig.from)
                .chain(also)
                .map(bare)
                .collect();
            all.join(", ")
        }
    }
}

/// Returns the signed message: its template, or the claims of a token.
pub(crate) fn message(scheme: &Scheme) -> String {
    match (&scheme.kind, &scheme.jwt) {
        (Kind::Token | Kind::Basic | Kind::FetchBack | Kind::None | Kind::Code(_), _) => {
            "-".to_owned()
        }
        (Kind::Jwt, Some(jwt)) => {
            let claims = [&jwt.body_sha256_claim, &jwt.url_sha256_claim];
            let named: Vec<&str> = claims.iter().filter_map(|claim| claim.as_deref()).collect();
            if named.is_empty() {
                "claims".to_owned()
            } else {
                format!("claims, {}", named.join(" and "))
            }
        }
        _ => match &scheme.for_each {
            Some(items) => format!("{} for each of {items}", scheme.message),
            None => scheme.message.to_string(),
        },
    }
}

/// Returns a sentence without its full stop that says what the signature proves.
pub(crate) fn proven(scheme: &Scheme) -> &'static str {
    if scheme.kind == Kind::FetchBack {
        return "the notice proves nothing; the event is the answer of the provider's API";
    }
    match scheme.proves.as_str() {
        "body" => "the whole body is covered",
        "fields" => "some fields are covered, not the body",
        "origin" => "the sender is proven, not the body",
        "token" => "the sender knows the secret; no content is covered",
        _ => "nothing is proven",
    }
}

/// Describes the maximum age of the signed time, and how far in the future it may be.
pub(crate) fn window(scheme: &Scheme) -> String {
    let span = time::duration;
    match (&scheme.jwt, &scheme.ts) {
        (Some(jwt), _) => match (jwt.exp, jwt.iat_max_age) {
            (true, _) => "until the token expires".to_owned(),
            (false, Some(most)) => format!("{} since the token was issued", span(most)),
            (false, None) => "none: the token does not expire".to_owned(),
        },
        (None, Some(ts)) if ts.enforce && ts.past == ts.future => {
            format!("{} either way", span(ts.past))
        }
        (None, Some(ts)) if ts.enforce => {
            format!("{} old, {} ahead", span(ts.past), span(ts.future))
        }
        (None, Some(_)) => "none: a time is signed, but the provider states no window".to_owned(),
        (None, None) => "none: no time is signed".to_owned(),
    }
}

/// Describes the values that identify an event for deduplication.
pub(crate) fn dedupe(preset: &Preset) -> String {
    let at = &preset.event;
    let all = |places: &[Location]| places.iter().map(bare).collect::<Vec<_>>();
    let named = if at.composite.is_empty() {
        all(&at.id.0).join(", else ")
    } else {
        all(&at.composite).join(" + ")
    };
    let hash = match at.fallback {
        Fallback::BodyHash => "hash of the body",
        Fallback::Arrival => "time of arrival",
    };
    if named.is_empty() {
        hash.to_owned()
    } else {
        named
    }
}

/// Describes the form in which the operator stores the secret.
pub(crate) fn secret(scheme: &Scheme) -> &'static str {
    if !scheme.needs_secret() {
        return match scheme.kind {
            _ if scheme.key_set.is_some() => "none; Mitt fetches the key set of the provider",
            Kind::Jwt => "none; `trust.jwks` holds the key set of the provider",
            Kind::FetchBack => "none; `trust.api_secret` names the key of the provider's API",
            _ => "none",
        };
    }
    match scheme.key {
        _ if scheme.kind == Kind::Basic => "user:password",
        KeyForm::Utf8 => "as it is",
        KeyForm::Base64 => match scheme.kind {
            Kind::Ed25519 => "public key, base64",
            _ => "base64, decoded",
        },
        KeyForm::Hex => match scheme.kind {
            Kind::Ed25519 => "public key, hex",
            _ => "hex, decoded",
        },
        KeyForm::Whsec => "whsec_ and base64, decoded",
        KeyForm::WhsecOrUtf8 => "decoded after whsec_, else as it is",
        KeyForm::Sha1OfUtf8 => "private key; its SHA-1 is the key",
        KeyForm::Whpk => "public key, whpk_ and base64",
        KeyForm::Pem => "public key, PEM",
        KeyForm::SpkiBase64 => "public key, base64 of its SubjectPublicKeyInfo",
    }
}

/// Returns the URL of the key set for signed tokens, if the preset has one.
pub(crate) fn key_set(scheme: &Scheme) -> Option<&str> {
    if let Some(set) = &scheme.key_set {
        return Some(&set.url);
    }
    match &scheme.jwt.as_ref()?.key {
        KeySource::Jwks(url) if !url.is_empty() => Some(url),
        _ => None,
    }
}

/// Describes the URL that the catcher fetches for a notice, and the id and the type of the
/// resulting event.
pub(crate) fn fetched(scheme: &Scheme) -> Option<String> {
    let fetch = scheme.fetch.as_ref()?;
    let varies: Vec<String> = fetch.varies.iter().map(ToString::to_string).collect();
    let without = match varies.as_slice() {
        [] => String::new(),
        varies => format!(" without {}", varies.join(", ")),
    };
    Some(format!(
        "{}, with the key as bearer token; the event id is the id and the hash of the \
         answer{without}, its type is {}",
        fetch.url, fetch.kind
    ))
}

/// Describes what `send` signs with, or why it cannot sign.
pub(crate) fn sent_with(scheme: &Scheme) -> String {
    match means(scheme) {
        Means::Secret => "the secret".to_owned(),
        Means::KeyPair(algorithm) => format!("a key pair of {algorithm}"),
        Means::Nothing => "nothing".to_owned(),
        Means::No(why) => format!("not possible: {why}"),
    }
}

/// Describes the values of `sign` with which an action can send to a receiver that verifies the
/// provider's signatures.
pub(crate) fn forwarded(preset: &Preset, scheme: &Scheme) -> String {
    let mut modes = Vec::new();
    if unsignable(scheme).is_none() {
        let in_body = scheme.signs_in_body();
        let note = if in_body { " (changes the body)" } else { "" };
        modes.push(format!("provider{note}"));
    }
    if not_kept(scheme).is_none() {
        modes.push(match preset.receiver_window(scheme) {
            Some(window) => {
                let seconds = i64::try_from(window.as_secs()).unwrap_or(i64::MAX);
                format!("as-received (for {})", time::duration(seconds))
            }
            None => "as-received".to_owned(),
        });
    }
    if modes.is_empty() {
        "only standard and none".to_owned()
    } else {
        modes.join(", ")
    }
}

/// Describes the format of the signatures in the header, if the value is more than the signature.
pub(crate) fn format(scheme: &Scheme) -> Option<String> {
    let sig = &scheme.sig;
    let take = sig.take.join(", ");
    match sig.format {
        Format::Plain if sig.prefix.is_empty() => None,
        Format::Plain => Some(format!("after {:?}", sig.prefix)),
        Format::Positional => Some(format!("a list with {:?}, including the time", sig.entry)),
        Format::KvList | Format::KvGroups | Format::TaggedList | Format::Pairs => {
            Some(format!("a list with {:?}; {take} counts", sig.entry))
        }
    }
}

/// Returns the text of a location. A header has only its name.
pub(crate) fn bare(at: &Location) -> String {
    match at {
        Location::Header(names) => names.join(" or "),
        Location::HeaderNumbered(prefix) => format!("{prefix}1, 2, …"),
        Location::Json(path) => format!("body {path}"),
        Location::Item(path) => format!("item {path}"),
        Location::ItemSha256 => "hash of the item".to_owned(),
        Location::Form(name) => format!("form {name}"),
        Location::FormXml(name, tag) => format!("form {name}, element {tag}"),
        Location::FormJson(name, path) => format!("form {name}, {path}"),
        Location::MultipartJson(name, path) => format!("field {name}, {path}"),
        Location::Query(name) => format!("query {name}"),
        Location::Jwt(claim) => format!("claim {claim}"),
        Location::JwtJson(claim, paths) => {
            let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
            format!("claim {claim}, {}", paths.join(", "))
        }
        Location::Body => "the body".to_owned(),
        Location::First(parts) => {
            let parts: Vec<String> = parts.iter().map(bare).collect();
            parts.join(" or ")
        }
        Location::BodySha256 => "hash of the body".to_owned(),
        Location::Sig(_) | Location::Const(_) => at.to_string(),
    }
}
