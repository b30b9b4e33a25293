//! The bytes changed on the way.

use std::collections::HashSet;

use super::json::{STYLES, rewritten};
use super::{NearMiss, Search};
use crate::webhook::event::Sha;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Line ends and what stands before the text.
pub(super) fn ends(search: &Search<'_>) -> Option<NearMiss> {
    let body = &search.envelope.body[..];
    let bare = body.trim_ascii_end();
    let added = |end: &[u8]| [body, end].concat();
    let unix = replaced(body, b"\r\n", b"\n");
    let guesses: [(&str, Vec<u8>, &str); 8] = [
        (
            "body_newline",
            body.strip_suffix(b"\n").unwrap_or(body).to_vec(),
            "without the newline at its end: something added it, an editor or `echo` for one; pass \
             on the bytes as they came",
        ),
        (
            "body_newline",
            bare.to_vec(),
            "without the white space at its end: something added it; pass on the bytes as they came",
        ),
        (
            "body_newline",
            added(b"\n"),
            "with a newline at its end: something cut it off; pass on the bytes as they came",
        ),
        (
            "body_newline",
            added(b"\r\n"),
            "with CR and LF at its end: something cut them off; pass on the bytes as they came",
        ),
        (
            "body_crlf",
            unix.clone(),
            "with LF in place of CR LF: something changed the line ends; pass it on as binary",
        ),
        (
            "body_crlf",
            replaced(&unix, b"\n", b"\r\n"),
            "with CR LF in place of LF: something changed the line ends; pass it on as binary",
        ),
        (
            "body_bom",
            body.strip_prefix(BOM).unwrap_or(body).to_vec(),
            "without the byte order mark before it: something added it; write the file as UTF-8 \
             without one",
        ),
        (
            "body_bom",
            [BOM, body].concat(),
            "with a byte order mark before it: something cut it off; pass on the bytes as they came",
        ),
    ];
    guesses.into_iter().find_map(|(cause, changed, text)| {
        if changed == body {
            return None;
        }
        let hit = search.with_body(changed)?;
        Some(hit.means(cause, format!("the same body {text}")))
    })
}

/// The same document, as other programs write it.
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
            "the same JSON {style}: something before us parsed the body and wrote it again; pass \
             on the bytes as they came"
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
