//! Every error code has a paragraph in `infra/docs/errors.md`, and every paragraph is about an
//! error code.

use std::collections::BTreeSet;
use std::path::Path;

/// The minimum number of codes. If the search finds fewer, it no longer recognises how the code
/// makes errors.
const LEAST: usize = 150;

#[test]
fn every_code_has_a_paragraph_and_every_paragraph_a_code() {
    let (codes, page) = (codes(), page());
    assert!(codes.len() > LEAST, "found only {} codes", codes.len());
    let headings: BTreeSet<String> = paragraphs(&page).map(|(code, _)| code.to_owned()).collect();
    let missing: Vec<_> = codes.difference(&headings).collect();
    assert!(
        missing.is_empty(),
        "missing from infra/docs/errors.md: {missing:?}"
    );
    let gone: Vec<_> = headings.difference(&codes).collect();
    assert!(gone.is_empty(), "not an error code: {gone:?}");
}

#[test]
fn a_paragraph_says_what_it_means_why_it_happens_and_what_to_do() {
    let page = page();
    let mut anchors = BTreeSet::new();
    for (code, text) in paragraphs(&page) {
        let parts: Vec<&str> = text.trim().split("\n\n").collect();
        let [means, cause, fix] = parts.as_slice() else {
            panic!("{code} has {} parts", parts.len());
        };
        assert!(cause.starts_with("Cause: "), "{code}: {cause}");
        assert!(fix.starts_with("Fix: "), "{code}: {fix}");
        for part in [means, cause, fix] {
            assert!(part.ends_with('.'), "{code}: {part}");
        }
        assert!(anchors.insert(code.replace('.', "")), "{code} stands twice");
    }
}

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/errors.md");
    std::fs::read_to_string(path).unwrap()
}

/// Returns each heading of the page, and the text below it.
fn paragraphs(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let below = page.split("\n### ").skip(1);
    below.map(|below| {
        let (heading, text) = below.split_once('\n').unwrap();
        let (text, _) = text.split_once("\n## ").unwrap_or((text, ""));
        (heading, text)
    })
}

/// Returns the codes of all errors in the source files.
fn codes() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name() != Some("tests.rs".as_ref()) {
                let text = std::fs::read_to_string(&path).unwrap();
                codes.extend(made_in(without_tests(&text)).into_iter().map(str::to_owned));
            }
        }
    }
    codes
}

fn without_tests(text: &str) -> &str {
    let begins = |at: &usize| {
        let module = text[*at..].lines().nth(1);
        module.is_some_and(|line| line.ends_with("mod tests {"))
    };
    let mut marked = text.match_indices("#[cfg(test)]").map(|(at, _)| at);
    marked.find(begins).map_or(text, |at| &text[..at])
}

/// Returns the codes in a file. The code makes an error with a literal, or with a constant of the
/// same file.
fn made_in(text: &str) -> BTreeSet<&str> {
    let mut codes = BTreeSet::new();
    let mut by_name = false;
    for call in [
        "CliError::new(",
        "CliError::failed(",
        "CliError::usage(",
        "CliError::not_found(",
        "CliError::refused(",
        "audit::reason(",
    ] {
        for (at, _) in text.match_indices(call) {
            match literal(text[at + call.len()..].trim_start()) {
                Some(code) => {
                    codes.insert(code);
                }
                None => by_name = true,
            }
        }
    }
    if by_name {
        let quoted = text
            .match_indices('"')
            .filter_map(|(at, _)| literal(&text[at..]));
        codes.extend(quoted.filter(|word| is_code(word)));
    }
    codes
}

/// Returns the string literal at the start of a text.
fn literal(text: &str) -> Option<&str> {
    let (literal, _) = text.strip_prefix('"')?.split_once('"')?;
    Some(literal)
}

/// Returns whether the text has the form `noun.problem`.
fn is_code(word: &str) -> bool {
    let is_word = |part: &str| {
        let legal = |c: char| c.is_ascii_lowercase() || c == '_';
        !part.is_empty() && part.chars().all(legal)
    };
    word.split_once('.')
        .is_some_and(|(noun, what)| is_word(noun) && is_word(what))
}

#[test]
fn codes_are_found_where_errors_are_made() {
    let plain = r#"CliError::new(
        "a.b", Exit::No, "not.this")"#;
    assert_eq!(made_in(plain), BTreeSet::from(["a.b"]));
    let named =
        r#"const ONE: &str = "a.one"; CliError::usage(ONE, "said"); CliError::failed("two", "")"#;
    assert_eq!(made_in(named), BTreeSet::from(["a.one", "two"]));
    let tested = "fn a() {}\n#[cfg(test)]\nmod tests {\n}\n";
    assert_eq!(without_tests(tested), "fn a() {}\n");
}
