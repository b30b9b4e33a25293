//! `webhookctl help CODE`: prints the entry of an error code in `infra/docs/errors.md`.

use clap::Command;
use clap::builder::StyledStr;

const ERRORS: &str = include_str!("../../../../docs/errors.md");

/// Every error code.
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    entries().map(|(code, _)| code)
}

/// Returns the meaning of a code, its cause and its fix.
pub(super) fn page(code: &str) -> Option<StyledStr> {
    let (code, text) = entries().find(|(known, _)| *known == code)?;
    let page = Command::new("code")
        .help_template("{about}")
        .max_term_width(100);
    let heading = *page.get_styles().get_header();
    let text = format!("{heading}{code}{heading:#}\n\n{}", without_links(text));
    Some(page.about(text).render_help())
}

/// Returns each heading of `errors.md` that is an error code, with the text below it.
fn entries() -> impl Iterator<Item = (&'static str, &'static str)> {
    ERRORS.split("\n### ").skip(1).filter_map(|below| {
        let (code, text) = below.split_once('\n')?;
        let (text, _) = text.split_once("\n## ").unwrap_or((text, ""));
        Some((code, text.trim()))
    })
}

/// A link to another page becomes its path in the repository.
fn without_links(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("](") {
        let (Some((before, _label)), Some((target, after))) =
            (before.rsplit_once('['), link.split_once(')'))
        else {
            break;
        };
        shown.extend([before, "infra/docs/", target]);
        rest = after;
    }
    shown + rest
}
