//! `public_url = "https://hooks.example.com/in/shop"`

use anyhow::{Context as _, ensure};

/// The longest that is taken.
const LONGEST: usize = 512;

/// The setting, if it is one that can be meant.
pub(super) fn checked(url: Option<String>) -> anyhow::Result<Option<String>> {
    if let Some(url) = &url {
        check(url).context("public_url")?;
    }
    Ok(url)
}

/// Refuses what cannot be the whole URL that a provider posts to. The query is left out: the one
/// that arrives is added to it.
fn check(url: &str) -> anyhow::Result<()> {
    const LIKE: &str = "one is like https://hooks.example.com/in/shop";
    // The value is not repeated: a URL can hold a key.
    let rest = url.strip_prefix("https://").unwrap_or_default();
    ensure!(
        !rest.is_empty() && url.len() <= LONGEST,
        "it is not a URL that begins with https://; {LIKE}"
    );
    ensure!(
        url.bytes()
            .all(|b| b.is_ascii_graphic() && !b"{}<>\"\\^`|".contains(&b)),
        "it has characters that a URL does not have; {LIKE}"
    );
    ensure!(
        !rest.contains(['?', '#']),
        "leave out the query: the one that arrives is added; {LIKE}"
    );
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    ensure!(!authority.contains('@'), "leave out the user name; {LIKE}");
    let (host, port) = authority.split_once(':').unwrap_or((authority, "443"));
    let of_host = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    ensure!(
        !host.is_empty() && host.bytes().all(of_host) && port.parse::<u16>().is_ok(),
        "it names no host; {LIKE}"
    );
    ensure!(
        !path.is_empty(),
        "it has no path: set the whole URL that the provider posts to, not only its host; {LIKE}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Config;

    #[test]
    fn a_wrong_public_url_is_refused_with_what_was_meant() {
        for good in [
            "https://hooks.example.com/in/shop",
            "https://hooks.example.com:8443/shop",
            "https://203.0.113.9/a%20b/",
        ] {
            check(good).unwrap();
        }
        for (bad, said) in [
            ("", "begins with https://"),
            ("https://", "begins with https://"),
            ("http://hooks.example.com/in/shop", "begins with https://"),
            ("hooks.example.com/in/shop", "begins with https://"),
            ("https://hooks.example.com", "has no path"),
            ("https://hooks.example.com/", "has no path"),
            (
                "https://hooks.example.com/in/shop?a=1",
                "leave out the query",
            ),
            ("https://hooks.example.com/in/shop#a", "leave out the query"),
            ("https://u:p@hooks.example.com/in/shop", "user name"),
            ("https:///in/shop", "names no host"),
            ("https://:443/in/shop", "names no host"),
            ("https://hooks.example.com:x/in/shop", "names no host"),
            ("https://hooks.example.com/in/{source}", "characters"),
            ("https://hooks.example.com/in/a b", "characters"),
        ] {
            let error = format!("{:#}", check(bad).unwrap_err());
            assert!(error.contains(said), "{bad}: {error}");
        }
    }

    #[test]
    fn the_setting_reaches_the_verifier_and_a_typo_is_named() {
        let with = |line: &str| {
            Config::parse(&format!(
                "schema = 1\n[[source]]\nname = \"s\"\npreset = \"twilio\"\n{line}\n\
                 action = [{{ kind = \"keep\" }}]\n"
            ))
        };
        let url = "https://hooks.example.com/in/s";
        let config = with(&format!("public_url = \"{url}\"")).unwrap();
        let trust = &config.source("s").unwrap().verifier.trust;
        assert_eq!(trust.public_url.as_deref(), Some(url));
        for (line, said) in [
            (
                "public_url = \"https://hooks.example.com\"",
                "source \"s\": public_url: it has no path",
            ),
            ("url = \"https://hooks.example.com/in/s\"", "`public_url`"),
            ("trust = { public_url = \"https://a/b\" }", "unknown field"),
        ] {
            let error = format!("{:#}", with(line).unwrap_err());
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
