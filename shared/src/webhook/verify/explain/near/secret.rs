//! Guesses that the sender uses another secret, or that the secret is stored in another form.

use super::{Held, NearMiss, Of, Other, Search};
use crate::webhook::preset::{KeyForm, Kind, Scheme};
use crate::webhook::secret::Secret;

/// Prefixes that providers write before a secret.
const PREFIXES: [&str; 2] = ["v1,whsec_", "whsec_"];

pub(super) fn others(search: &Search<'_>, others: &[Other]) -> Option<NearMiss> {
    let ours = |other: &&Other| other.of == Of::Itself;
    let not_ours = |other: &&Other| other.of != Of::Itself;
    let mut all = others
        .iter()
        .filter(ours)
        .chain(others.iter().filter(not_ours));
    all.find_map(|other| {
        let hit = search.with_secrets(std::slice::from_ref(&other.secret))?;
        let source = &search.verifier.source;
        let (cause, text) = match &other.of {
            Of::Itself => (
                "other_secret",
                format!(
                    "the request is signed with another secret of {source}, {}, which is not in \
                     use: store this secret in its own slot, in addition to the other secrets",
                    other.secret.label()
                ),
            ),
            Of::Source(name) => (
                "other_source",
                format!(
                    "the request is signed for {name}: the provider sends webhooks of {name} to \
                     the URL of {source}, or the secrets of the two sources are swapped"
                ),
            ),
            Of::Unused(name) => (
                "unused_secret",
                format!(
                    "the request is signed with the secret stored as {name}, which no source uses: \
                     store this secret under the name that {source} reads, or set its name in the \
                     configuration"
                ),
            ),
        };
        Some(hit.means(cause, text))
    })
}

pub(super) fn spaces(search: &Search<'_>) -> Option<NearMiss> {
    let marks = |c: char| c == '\u{feff}' || c.is_whitespace() || c == '\0';
    let quotes = |c: char| marks(c) || matches!(c, '"' | '\'' | '`');
    each(search, |secret| {
        let bare = secret.expose().trim_matches(marks);
        let hit = search.with_secrets(&[again(secret, bare)]);
        let hit = hit.map(|hit| {
            let text = "the secret is stored with white space around it: store it again without \
                        the white space, for example with `printf %s` instead of `echo`";
            hit.means("secret_space", text)
        });
        hit.or_else(|| {
            let bare = secret.expose().trim_matches(quotes);
            let hit = search.with_secrets(&[again(secret, bare)])?;
            let text =
                "the secret is stored with quotation marks around it: store it again without them";
            Some(hit.means("secret_quotes", text))
        })
    })
}

/// The ways to decode a text to a key, each with its description.
const FORMS: [(KeyForm, &str); 3] = [
    (KeyForm::Utf8, "taken as text, not decoded"),
    (KeyForm::Base64, "decoded from base64"),
    (KeyForm::Hex, "decoded from hex"),
];

/// Tries the secret with and without a prefix, both as text and decoded.
pub(super) fn forms(search: &Search<'_>) -> Option<NearMiss> {
    if !is_shared(search.scheme) {
        return None;
    }
    each(search, |secret| {
        let value = secret.expose().trim();
        texts(value).into_iter().find_map(|(text, said)| {
            FORMS.into_iter().find_map(|(form, decoded)| {
                let secret = [again(secret, &text)];
                let hit = search.with_scheme_and_secrets(keyed(search.scheme, form), &secret)?;
                let how = if said.is_empty() {
                    decoded.to_owned()
                } else {
                    format!("{said} and {decoded}")
                };
                let advice = advice(search.scheme.key, said, form);
                let text = format!("the secret matches if it is {how}: {advice}");
                Some(hit.means("secret_form", text))
            })
        })
    })
}

/// Returns the value unchanged and without its prefix. If the value has no prefix, returns it
/// unchanged and with the prefix `whsec_`.
fn texts(value: &str) -> Vec<(String, &'static str)> {
    let mut texts = vec![(value.to_owned(), "")];
    for prefix in PREFIXES {
        if let Some(bare) = value.strip_prefix(prefix) {
            texts.push((bare.to_owned(), "taken without its prefix"));
        }
    }
    if texts.len() == 1 {
        texts.push((format!("whsec_{value}"), "written with whsec_ before it"));
    }
    texts
}

fn advice(expected: KeyForm, said: &str, form: KeyForm) -> String {
    let reads = match expected {
        KeyForm::Utf8 => "this preset uses it unchanged, including the prefix",
        KeyForm::Base64 => "this preset decodes it from base64",
        KeyForm::Hex => "this preset decodes it from hex",
        KeyForm::Whsec => "this preset decodes the text after whsec_ from base64",
        KeyForm::WhsecOrUtf8 => "this preset decodes it from base64 if it starts with whsec_",
        _ => "this preset decodes it in another way",
    };
    let then = match (said.is_empty(), form) {
        (false, KeyForm::Utf8) if expected == KeyForm::Utf8 => {
            "store it exactly as the provider shows it"
        }
        _ => {
            "store it in the form that the preset expects, or choose a matching preset or parameter"
        }
    };
    format!("{reads}; {then}")
}

fn each(search: &Search<'_>, near: impl Fn(&Secret) -> Option<NearMiss>) -> Option<NearMiss> {
    // If the signature is already valid, the secret is correct.
    if search.needed == Held::Wholly {
        return None;
    }
    search.secrets.iter().find_map(near)
}

fn again(secret: &Secret, value: &str) -> Secret {
    Secret::new(secret.label(), value)
}

fn keyed(scheme: &Scheme, key: KeyForm) -> Scheme {
    Scheme {
        key,
        ..scheme.clone()
    }
}

/// Returns whether sender and receiver share a secret. A public key is not a shared secret.
fn is_shared(scheme: &Scheme) -> bool {
    match &scheme.kind {
        Kind::Hmac | Kind::Hash | Kind::Token => true,
        Kind::Jwt => {
            let jwt = scheme.jwt.as_ref();
            jwt.is_some_and(|jwt| jwt.key.is_stored())
        }
        _ => false,
    }
}
