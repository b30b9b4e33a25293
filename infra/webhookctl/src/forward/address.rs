//! The address that events are forwarded to.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

use crate::output::{CliError, Exit};

/// The error code for an address on another machine.
pub(crate) const ELSEWHERE: &str = "forward.elsewhere";

/// A URL of a program on this machine, or of a host that the operator explicitly allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    url: Url,
    here: bool,
}

impl Address {
    /// Parses `:3000/path`, `3000`, `localhost:3000/path` or a whole URL.
    ///
    /// Events contain customer data, so another machine must be `allowed`.
    pub(crate) fn parse(text: &str, allowed: Option<&str>) -> Result<Self, CliError> {
        let wrong = || {
            CliError::usage("forward.url", format!("invalid URL '{text}'"))
                .tip("for example :3000/webhooks or http://localhost:3000/webhooks")
        };
        let url = Url::parse(&whole(text)).map_err(|_| wrong())?;
        let host = url.host_str().ok_or_else(wrong)?;
        if !matches!(url.scheme(), "http" | "https") || text.trim_end_matches('/').ends_with(':') {
            return Err(wrong());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(CliError::usage(
                "forward.url",
                "the URL must not contain a user name or password",
            ));
        }
        let here = is_this_machine(host);
        if !here && allowed != Some(host) {
            return Err(CliError::new(
                ELSEWHERE,
                Exit::Refused,
                format!("{host} is not this machine; events are forwarded only to this machine"),
            )
            .tip("use an address such as :3000/webhooks, or `ssh -L` to reach another machine"));
        }
        Ok(Self { url, here })
    }

    pub(crate) fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Whether the address is on this machine.
    pub(crate) fn is_here(&self) -> bool {
        self.here
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url())
    }
}

/// The URL of a short form.
fn whole(text: &str) -> String {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.split('/').next().unwrap_or_default();
    if text.contains("://") {
        text.to_owned()
    } else if digits(port) {
        format!("http://localhost:{text}")
    } else if text.starts_with(':') {
        format!("http://localhost{text}")
    } else {
        format!("http://{text}")
    }
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_this_machine() {
        for (text, url) in [
            (":3000/webhooks", "http://localhost:3000/webhooks"),
            ("3000", "http://localhost:3000/"),
            ("3000/a?b=c", "http://localhost:3000/a?b=c"),
            ("localhost:3000/a", "http://localhost:3000/a"),
            ("127.0.0.1:9", "http://127.0.0.1:9/"),
            ("https://[::1]:3000/a", "https://[::1]:3000/a"),
            ("http://127.1:80/a", "http://127.0.0.1/a"),
        ] {
            let address = Address::parse(text, None).unwrap();
            assert_eq!((address.url(), address.is_here()), (url, true), "{text}");
        }
    }

    #[test]
    fn no_other_machine_gets_events_unless_it_is_named() {
        for text in [
            "https://example.com/a",
            "http://localhost.example.com",
            "http://localhost@example.com/",
            "http://0.0.0.0:3000",
            "http://10.0.0.1:3000",
            "http://[::ffff:10.0.0.1]/",
            "ftp://localhost/",
            "http://",
            "",
        ] {
            assert!(Address::parse(text, None).is_err(), "{text}");
        }
        let error = Address::parse("https://example.com/a", Some("example.org")).unwrap_err();
        assert_eq!((error.code, error.exit), (ELSEWHERE, Exit::Refused));
        let named = Address::parse("https://example.com/a", Some("example.com")).unwrap();
        assert!(!named.is_here());
    }
}
