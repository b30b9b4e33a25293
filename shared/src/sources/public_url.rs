//! Checks the setting `public_url = "https://hooks.example.com/in/shop"`.

use anyhow::{Context as _, ensure};

/// The maximum length of the URL, in bytes.
const LONGEST: usize = 512;

/// Returns the setting if it is valid.
pub(super) fn checked(url: Option<String>) -> anyhow::Result<Option<String>> {
    if let Some(url) = &url {
        check(url).context("public_url")?;
    }
    Ok(url)
}

/// Checks that a URL can be the full URL to which a provider sends webhooks. The setting has no
/// query, because the catcher adds the query of each request.
fn check(url: &str) -> anyhow::Result<()> {
    const LIKE: &str = "use a URL like https://hooks.example.com/in/shop";
    // Errors do not repeat the value, because a URL can contain a key.
    let rest = url.strip_prefix("https://").unwrap_or_default();
    ensure!(
        !rest.is_empty() && url.len() <= LONGEST,
        "the URL must begin with https:// and have at most {LONGEST} bytes; {LIKE}"
    );
    ensure!(
        url.bytes()
            .all(|b| b.is_ascii_graphic() && !b"{}<>\"\\^`|".contains(&b)),
        "the URL contains characters that are not allowed in a URL; {LIKE}"
    );
    ensure!(
        !rest.contains(['?', '#']),
        "the URL has a query; remove the query, because Mitt adds the query of each request; {LIKE}"
    );
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    ensure!(
        !authority.contains('@'),
        "the URL contains a user name; remove the user name; {LIKE}"
    );
    let (host, port) = authority.split_once(':').unwrap_or((authority, "443"));
    let of_host = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    ensure!(
        !host.is_empty() && host.bytes().all(of_host) && port.parse::<u16>().is_ok(),
        "the URL has no valid host; {LIKE}"
    );
    ensure!(
        !path.is_empty(),
        "the URL has no path; set the full URL to which the provider sends webhooks; {LIKE}"
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
            ("", "must begin with https://"),
            ("https://", "must begin with https://"),
            (
                "http://hooks.example.com/in/shop",
                "must begin with https://",
            ),
            ("hooks.example.com/in/shop", "must begin with https://"),
            ("https://hooks.example.com", "has no path"),
            ("https://hooks.example.com/", "has no path"),
            ("https://hooks.example.com/in/shop?a=1", "remove the query"),
            ("https://hooks.example.com/in/shop#a", "remove the query"),
            ("https://u:p@hooks.example.com/in/shop", "user name"),
            ("https:///in/shop", "no valid host"),
            ("https://:443/in/shop", "no valid host"),
            ("https://hooks.example.com:x/in/shop", "no valid host"),
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
                "source \"s\": public_url: the URL has no path",
            ),
            ("url = \"https://hooks.example.com/in/s\"", "`public_url`"),
            ("trust = { public_url = \"https://a/b\" }", "unknown field"),
        ] {
            let error = format!("{:#}", with(line).unwrap_err());
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
