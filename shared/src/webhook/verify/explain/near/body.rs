//! Guesses that the body was changed in transit.

use std::collections::HashSet;

use super::json::{STYLES, rewritten};
use super::{NearMiss, Search};
use crate::webhook::event::Sha;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Tries other line endings, trailing white space and a byte order mark.
pub(super) fn ends(search: &Search<'_>) -> Option<NearMiss> {
    let body = &search.envelope.body[..];
    let bare = body.trim_ascii_end();
    let added = |end: &[u8]| [body, end].concat();
    let unix = replaced(body, b"\r\n", b"\n");
    let guesses: [(&str, Vec<u8>, &str); 8] = [
        (
            "body_newline",
            body.strip_suffix(b"\n").unwrap_or(body).to_vec(),
            "without the trailing newline: an editor, `echo` or another program added it; forward \
             the body unchanged",
        ),
        (
            "body_newline",
            bare.to_vec(),
            "without the trailing white space: another program added it; forward the body \
             unchanged",
        ),
        (
            "body_newline",
            added(b"\n"),
            "with a trailing newline: another program removed it; forward the body unchanged",
        ),
        (
            "body_newline",
            added(b"\r\n"),
            "with trailing CR and LF: another program removed them; forward the body unchanged",
        ),
        (
            "body_crlf",
            unix.clone(),
            "with LF instead of CR LF: another program changed the line endings; forward the body \
             as binary",
        ),
        (
            "body_crlf",
            replaced(&unix, b"\n", b"\r\n"),
            "with CR LF instead of LF: another program changed the line endings; forward the body \
             as binary",
        ),
        (
            "body_bom",
            body.strip_prefix(BOM).unwrap_or(body).to_vec(),
            "without the leading byte order mark: another program added it; save the file as UTF-8 \
             without it",
        ),
        (
            "body_bom",
            [BOM, body].concat(),
            "with a leading byte order mark: another program removed it; forward the body \
             unchanged",
        ),
    ];
    guesses.into_iter().find_map(|(cause, changed, text)| {
        if changed == body {
            return None;
        }
        let hit = search.with_body(changed)?;
        Some(hit.means(cause, format!("the signature matches the same body {text}")))
    })
}

/// Tries the same JSON document in the styles of other programs.
pub(super) fn json(search: &Search<'_>) -> Option<NearMiss> {
    let body = &search.envelope.body;
    let mut seen = HashSet::from([Sha::of(body)]);
    STYLES.iter().find_map(|style| {
        let changed = rewritten(body, style)?;
        if !seen.insert(Sha::of(&changed)) {
            return None;
        }
        let hit = search.with_body(changed)?;
        let text = format!(
            "the signature matches the same JSON {style}: a proxy or another program parsed the \
             body and wrote it again; forward the body unchanged"
        );
        Some(hit.means("json_rewritten", text))
    })
}

fn replaced(body: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut changed = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some((first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(from) {
            changed.extend_from_slice(to);
            rest = after;
        } else {
            changed.push(*first);
            rest = after;
        }
    }
    changed
}
