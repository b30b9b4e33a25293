//! Reads the URL of the next page from a response of a provider.

use anyhow::{Context as _, ensure};

/// Returns the target of `rel="next"` in a `Link` header. <https://www.rfc-editor.org/rfc/rfc8288>
pub(super) fn next(header: &str) -> Option<String> {
    let mut rest = header;
    while let Some((_, after)) = rest.split_once('<') {
        let (url, after) = after.split_once('>')?;
        let (parameters, others) = parameters(after);
        rest = others;
        let is_next = parameters.iter().any(|(name, value)| {
            let mut relations = value.split_ascii_whitespace();
            name.eq_ignore_ascii_case("rel")
                && relations.any(|rel| rel.eq_ignore_ascii_case("next"))
        });
        if is_next {
            return Some(url.to_owned());
        }
    }
    None
}

/// Returns the parameters of one link, and the text after them.
fn parameters(text: &str) -> (Vec<(&str, &str)>, &str) {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(after) = rest.strip_prefix(';') {
        let end = after.find([';', ',', '=']).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let Some(value) = after.strip_prefix('=') else {
            found.push((name.trim(), ""));
            rest = after.trim_start();
            continue;
        };
        let value = value.trim_start();
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => value.split_at(value.find([';', ',']).unwrap_or(value.len())),
        };
        found.push((name.trim(), value.trim()));
        rest = after.trim_start();
    }
    (found, rest)
}

/// Returns the URL of the next page, if it has the origin of the list, because the API key must not
/// be sent to another host. Removes the parameter with the key, because the ledger stores the URL.
pub(crate) fn allowed(list: &str, next: &str, key: Option<&str>) -> anyhow::Result<String> {
    let origin = origin(list).context("the URL of the list is invalid")?;
    let url = match next.strip_prefix('/') {
        Some(path) if !path.starts_with('/') => format!("{origin}/{path}"),
        _ => next.to_owned(),
    };
    ensure!(
        !url.contains('\\')
            && self::origin(&url).is_some_and(|other| other.eq_ignore_ascii_case(origin)),
        "the next page of the list has another origin than {origin}"
    );
    let Some((base, query)) = url.split_once('?') else {
        return Ok(url);
    };
    let is_key = |pair: &&str| key != pair.split('=').next();
    let kept: Vec<&str> = query.split('&').filter(is_key).collect();
    Ok(format!("{base}?{}", kept.join("&")))
}

/// Returns scheme, host and port, or `None` if the URL is not valid for a list.
fn origin(url: &str) -> Option<&str> {
    let (scheme, after) = url.split_once("://")?;
    let host = after.split(['/', '?', '#', '\\']).next()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".-:[]".contains(&b);
    let web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    (web && !host.is_empty() && host.bytes().all(plain))
        .then(|| &url[..scheme.len() + 3 + host.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_among_the_links() {
        let header = "<https://a.test/x?p=1>; rel=\"prev\", <https://a.test/x?q=a,b;c&p=3>; \
                      title=\"a, <b>; rel=next\"; rel=\"last next\"";
        assert_eq!(
            next(header).as_deref(),
            Some("https://a.test/x?q=a,b;c&p=3")
        );
        assert_eq!(
            next("<https://a.test/2>;rel=next").as_deref(),
            Some("https://a.test/2")
        );
        for none in [
            "",
            "<",
            "<x>",
            "<x>; rel=prev",
            "<x>; rel=\"nextish\"",
            "<x>; rev=next",
            "rel=next",
        ] {
            assert_eq!(next(none), None, "{none}");
        }
    }

    #[test]
    fn the_key_goes_to_no_other_place() {
        let list = "https://api.acme.test/v1/events?limit=1";
        let good = "https://api.acme.test/v1/events?page=2&limit=1";
        assert_eq!(allowed(list, good, None).unwrap(), good);
        assert_eq!(
            allowed(list, "/v1/events?page=2", None).unwrap(),
            "https://api.acme.test/v1/events?page=2"
        );
        assert_eq!(
            allowed(
                list,
                "https://API.acme.test/e?a=1&api_key=k&b=2",
                Some("api_key")
            )
            .unwrap(),
            "https://API.acme.test/e?a=1&b=2"
        );
        for bad in [
            "http://api.acme.test/v1",
            "https://evil.test/v1",
            "https://api.acme.test.evil.test/",
            "https://api.acme.test:444/v1",
            "https://u@api.acme.test/v1",
            "https://api.acme.test@evil.test/",
            "https://api.acme.test\\@evil.test/",
            "//evil.test/v1",
            "v1/events",
            "",
        ] {
            let error = allowed(list, bad, None).unwrap_err().to_string();
            assert!(error.contains("another origin"), "{bad}: {error}");
        }
    }
}
