//! Masks secrets in the text of an answer.
//!
//! A destination can quote the request, or return secrets of its own. No rule finds every secret.
//! Therefore the text is short, expires with the body, and never reaches a log.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};

/// The text that replaces a secret.
const MASK: &str = "***";

/// The shortest value after a word such as `token` that is masked although it has no digit.
const LONG_VALUE: usize = 16;

/// The shortest run of letters and digits that is masked without such a word, if it looks random.
const LONG_RUN: usize = 32;

/// The formats of secrets that have a recognizable prefix.
static FORMS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // Private keys and certificates.
        r"-----BEGIN [A-Z0-9 ]+-----(?s:.*?)(?:-----END [A-Z0-9 ]+-----|$)",
        // JSON Web Tokens, also if they are truncated.
        r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,2}",
        // Stripe, Svix and Standard Webhooks.
        r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]+",
        r"\bwh(?:sec|sk|pk)_[A-Za-z0-9+/=_-]+",
        r"\bv1a?,[A-Za-z0-9+/=_-]{20,}",
        // Slack, GitHub, GitLab, npm, PyPI, Shopify, SendGrid, OpenAI and Anthropic.
        r"\bx(?:ox[a-z]|app)-[A-Za-z0-9-]{6,}",
        r"\b(?:gh[pousr]_|github_pat_|glpat-|npm_|pypi-)[A-Za-z0-9_-]{6,}",
        r"\bshp(?:at|ca|pa|ss|tka)_[A-Za-z0-9]{6,}",
        r"\bSG\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?",
        r"\bsk-[A-Za-z0-9_-]{12,}",
        // AWS, Google, Twilio.
        r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}",
        r"\b(?:AIza[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{10,})",
        r"\b(?:SK|AC)[0-9a-f]{32}\b",
    ]
    .iter()
    .filter_map(|form| Regex::new(form).ok())
    .collect()
});

/// A scheme of the header `Authorization`, and its value.
static SCHEME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)\b(bearer|basic|digest)(\s+)[A-Za-z0-9._~+/=-]{6,}").ok());

/// The user and the password of a URL.
static USER_INFO: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"://[^/\s@]+@").ok());

/// A name that ends in a word for a secret, and the value after it.
static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r#"(?i)((?:api[ _-]?|access[ _-]?|private[ _-]?|secret[ _-]?|signing[ _-]?)?"#,
        r#"(key|token|secret|password|passwd|pwd|passphrase|signature|sig|credentials?|"#,
        r#"authorization|cookie|session(?:[ _-]?id)?)\\?["']?\s*(?:[:=]|=>|\bis\b)?\s*\\?["']?)"#,
        r#"([^\s"'\\&,;<>(){}\[\]]+)"#
    ))
    .ok()
});

/// A long run of letters and digits.
static RUN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[A-Za-z0-9+_=-]{32,}").ok());

/// Replaces each recognized secret in the text.
pub fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    for form in FORMS.iter() {
        text = form.replace_all(&text, MASK).into_owned();
    }
    text = replaced(SCHEME.as_ref(), &text, |found| {
        format!("{}{}{MASK}", group(found, 1), group(found, 2))
    });
    text = replaced(USER_INFO.as_ref(), &text, |_| format!("://{MASK}@"));
    text = replaced(NAMED.as_ref(), &text, |found| {
        let (before, word, value) = (group(found, 1), group(found, 2), group(found, 3));
        if is_secret(word, before, value) {
            format!("{before}{MASK}")
        } else {
            group(found, 0).to_owned()
        }
    });
    replaced(RUN.as_ref(), &text, |found| {
        let run = group(found, 0);
        if is_random(run) { MASK } else { run }.to_owned()
    })
}

/// Whether the value after a word is a secret and not the next word of a sentence.
fn is_secret(word: &str, before: &str, value: &str) -> bool {
    let assigned = before.contains([':', '=']);
    let always = [
        "password",
        "passwd",
        "pwd",
        "passphrase",
        "secret",
        "cookie",
    ];
    let has_digit = value.bytes().any(|b| b.is_ascii_digit());
    let is_named = always.iter().any(|known| word.eq_ignore_ascii_case(known));
    assigned && (is_named || has_digit && value.len() >= 6 || value.len() >= LONG_VALUE)
        || has_digit && value.len() >= LONG_VALUE
}

/// Whether a run looks like a key or a signature: it is hex, or has lower-case and upper-case letters
/// and digits.
fn is_random(run: &str) -> bool {
    let has = |test: fn(&u8) -> bool| run.bytes().any(|b| test(&b));
    let digits = has(u8::is_ascii_digit);
    let hex = run.bytes().all(|b| b.is_ascii_hexdigit());
    let mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    run.len() >= LONG_RUN && digits && (hex || mixed)
}

fn group<'t>(found: &Captures<'t>, index: usize) -> &'t str {
    found.get(index).map_or("", |part| part.as_str())
}

/// Replaces the matches of a pattern. If the pattern is invalid, masks the whole text. A test compiles
/// every pattern.
fn replaced(pattern: Option<&Regex>, text: &str, with: impl Fn(&Captures<'_>) -> String) -> String {
    match pattern {
        Some(pattern) => pattern
            .replace_all(text, |found: &Captures<'_>| with(found))
            .into_owned(),
        None => MASK.to_owned(),
    }
}

#[cfg(test)]
mod tests;
