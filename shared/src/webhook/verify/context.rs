//! The account of an event, and the parts of its request that are stored.

use std::collections::BTreeMap;

use super::Verifier;
use crate::webhook::context::{Account, KeptRequest, Selection};
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{AccountAt, Kind, Location, Part, Place, Scheme};

impl Verifier {
    /// The account of an event, and whether the signature covers it. It is never part of the
    /// event's key: a captured request could otherwise become an event for each account.
    pub(super) fn account(&self, scheme: &Scheme, place: Place<'_>) -> Option<Account> {
        let of_source = self.preset.settings.account.iter();
        let mut of_source = of_source.map(|at| match at {
            AccountAt::Request(at) => self.account_at(scheme, at, place),
            AccountAt::Path(number) => self.account_in_path(scheme, *number, place.envelope),
        });
        if !self.preset.settings.account.is_empty() {
            return of_source.find_map(|account| account);
        }
        let mut of_preset = self.preset.event.account.0.iter();
        of_preset.find_map(|at| self.account_at(scheme, at, place))
    }

    fn account_at(&self, scheme: &Scheme, at: &Location, place: Place<'_>) -> Option<Account> {
        let value = at.find(place).ok().flatten()?;
        // A claim of a token is signed even if the provider sends one token with many requests.
        let is_proof =
            scheme.is_signature() || matches!(at, Location::Jwt(_) | Location::JwtJson(..));
        Account::new(&value, is_proof && self.covers(scheme, at))
    }

    fn account_in_path(
        &self,
        scheme: &Scheme,
        number: usize,
        envelope: &Envelope,
    ) -> Option<Account> {
        let segment = self.tail(envelope).split('/').nth(number)?;
        let value = percent_encoding::percent_decode_str(segment).decode_utf8();
        let has_path = |part: &Part| matches!(part, Part::Url | Part::Path | Part::PublicUrl);
        let is_signed = scheme.is_signature() && scheme.message.any(&has_path);
        Account::new(&value.ok()?, is_signed)
    }

    /// The path of a request behind the address of the source: empty, or it begins with a slash.
    pub fn tail<'e>(&self, envelope: &'e Envelope) -> &'e str {
        let url = envelope.public_url();
        let public = self.trust.public_url.as_deref().and_then(|public| {
            let tail = url.strip_prefix(public.trim_end_matches('/'))?;
            (tail.is_empty() || tail.starts_with('/')).then_some(tail)
        });
        let own = || {
            let (_, rest) = url.split_once("/in/")?;
            rest.strip_prefix(self.source.as_str())
                .filter(|tail| tail.is_empty() || tail.starts_with('/'))
        };
        public.or_else(own).unwrap_or_default()
    }

    /// What the source stores of the request. `in_row` has the headers that verification needs
    /// again, which are stored in any case.
    pub(super) fn kept_request(
        &self,
        scheme: &Scheme,
        envelope: &Envelope,
        in_row: &BTreeMap<String, String>,
    ) -> Option<KeptRequest> {
        let secret = secret_locations(scheme);
        let mut secret_headers: Vec<&str> = Vec::new();
        let mut secret_parameters: Vec<&str> = Vec::new();
        for at in secret {
            match at {
                Location::Header(names) => {
                    secret_headers.extend(names.iter().map(String::as_str));
                }
                Location::Query(name) => secret_parameters.push(name),
                _ => {}
            }
        }
        let of_account = |name: &str| {
            let mut locations = self.preset.event.account.0.iter();
            locations.any(
                |at| matches!(at, Location::Header(names) if names.iter().any(|one| one == name)),
            )
        };
        Selection {
            policy: &self.preset.settings.context,
            is_named: &|name| {
                (in_row.contains_key(name) && name != "user-agent") || of_account(name)
            },
            secret_headers: &secret_headers,
            secret_parameters: &secret_parameters,
        }
        .of(envelope)
    }
}

/// The locations in which a scheme reads a secret, and not a signature of the request.
fn secret_locations(scheme: &Scheme) -> Vec<&Location> {
    match (&scheme.kind, &scheme.jwt) {
        (Kind::Token | Kind::Basic, _) => {
            let from = std::iter::once(&scheme.sig.from);
            from.chain(&scheme.sig.also).collect()
        }
        (Kind::Jwt, Some(jwt)) => vec![&jwt.from],
        _ => Vec::new(),
    }
}

/// Whether the scheme reads a secret in this header.
pub fn reads_secret_in(scheme: &Scheme, header: &str) -> bool {
    secret_locations(scheme)
        .into_iter()
        .any(|at| matches!(at, Location::Header(names) if names.iter().any(|name| name == header)))
}

/// Whether the scheme reads a secret in this query parameter.
pub fn reads_secret_in_query(scheme: &Scheme, parameter: &str) -> bool {
    let mut locations = secret_locations(scheme).into_iter();
    locations.any(|at| matches!(at, Location::Query(name) if name == parameter))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::base::clock::UnixMillis;
    use crate::webhook::preset::Preset;
    use crate::webhook::verify::Trust;

    fn verifier(public_url: Option<&str>) -> Verifier {
        Verifier {
            source: "shop".into(),
            preset: Preset::embedded("shopify", &BTreeMap::new()).unwrap(),
            variant: "default".into(),
            trust: {
                let mut trust = Trust::default();
                trust.public_url = public_url.map(str::to_owned);
                trust
            },
            config: "c".into(),
        }
    }

    fn envelope(url: &str) -> Envelope {
        Envelope {
            method: "POST".into(),
            url: url.into(),
            headers: [("x-tenant", "t1")].into_iter().collect(),
            body: Bytes::new(),
            received_at: UnixMillis(0),
        }
    }

    #[test]
    fn the_tail_of_a_path_is_behind_the_address_of_the_source() {
        let api = "https://api.test";
        for (url, tail) in [
            ("/in/shop", ""),
            ("/in/shop/", "/"),
            ("/in/shop/a/b?c=/d", "/a/b"),
            ("/prod/in/shop/a", "/a"),
            ("/in/shopping/a", ""),
            ("/elsewhere", ""),
        ] {
            let envelope = envelope(&format!("{api}{url}"));
            assert_eq!(verifier(None).tail(&envelope), tail, "{url}");
        }
        let public = verifier(Some("https://hooks.test/shop"));
        for (url, tail) in [
            ("https://hooks.test/shop", ""),
            ("https://hooks.test/shop/a?b", "/a"),
            ("https://hooks.test/shops", ""),
            ("https://api.test/in/shop/a", "/a"),
        ] {
            assert_eq!(public.tail(&envelope(url)), tail, "{url}");
        }
        let moved = public.at_public_url(envelope("https://api.test/in/shop/a/b?c=d"));
        assert_eq!(moved.url, "https://hooks.test/shop/a/b?c=d");
        assert_eq!(public.at_public_url(moved.clone()).url, moved.url);
    }

    #[test]
    fn the_locations_of_a_source_replace_those_of_the_preset() {
        let account = |at: &[&str], url: &str| {
            let mut verifier = verifier(None);
            let at = at.iter().map(|at| AccountAt::parse(at).unwrap());
            verifier.preset.set_account(at.collect());
            let scheme = verifier.preset.scheme("default").unwrap();
            let envelope = envelope(&format!("https://api.test/in/shop{url}"));
            let account = verifier.account(scheme, Place::from(&envelope));
            account.map(|account| account.written())
        };
        let said = |written: &str| Some(written.to_owned());
        assert_eq!(account(&["header:x-none", "path:2"], "/a/b"), said("-b"));
        assert_eq!(account(&["path:1"], "/a%20b/c"), said("-a b"));
        assert_eq!(account(&["path:1"], ""), None);
        assert_eq!(account(&["query:t", "header:x-tenant"], "?t=q"), said("-q"));
        assert_eq!(account(&["query:t", "header:x-tenant"], ""), said("-t1"));
        assert_eq!(account(&[], "?t=q"), None);
    }
}
