//! Where a source finds the account of an event, and what it stores of a request. A source sets
//! both; the file of a preset has only the locations of its provider's account.

use std::fmt;

use anyhow::{Context as _, bail, ensure};

use super::{Location, Locations, Preset};
use crate::base::json_path::JsonPath;
use crate::webhook::context::{Account, ContextPolicy};

/// The settings of a source for its requests.
#[derive(Clone, Debug, Default)]
pub struct RequestSettings {
    /// Replaces the locations of the preset, unless it is empty.
    pub account: Vec<AccountAt>,
    pub context: ContextPolicy,
}

/// A location of the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountAt {
    Request(Location),
    /// `path:N`: a segment of the path behind the address of the source. The first is 1.
    Path(usize),
}

/// Formats the location in the notation of `sources.toml`.
impl fmt::Display for AccountAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(at) => at.fmt(f),
            Self::Path(number) => write!(f, "path:{number}"),
        }
    }
}

/// The largest number in `path:N`.
const MOST_SEGMENTS: usize = 16;

impl AccountAt {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        if let Some(number) = text.strip_prefix("path:") {
            let number = number.parse().ok();
            let number = number.filter(|number| (1..=MOST_SEGMENTS).contains(number));
            let number = number.with_context(|| {
                format!("invalid location {text:?}: use path:1 to path:{MOST_SEGMENTS}")
            })?;
            return Ok(Self::Path(number));
        }
        let location = Location::parse(text)?;
        ensure!(
            matches!(
                location,
                Location::Header(_)
                    | Location::Query(_)
                    | Location::Json(_)
                    | Location::Item(_)
                    | Location::Form(_)
                    | Location::FormXml(..)
                    | Location::FormJson(..)
                    | Location::MultipartJson(..)
                    | Location::Jwt(_)
                    | Location::JwtJson(..)
            ),
            "{text:?} cannot contain an account; use header, query, path, json, item, form, \
             form-xml, form-json, multipart-json, jwt or jwt-json"
        );
        Ok(Self::Request(location))
    }
}

/// The account of the events that the sync fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchedAccount {
    /// Every event of the list belongs to this account.
    Value(Account),
    /// `json:PATH` in the fetched event.
    At(JsonPath),
}

impl FetchedAccount {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        if let Some(path) = text.strip_prefix("json:") {
            let path = JsonPath::parse(path);
            return path
                .map(Self::At)
                .with_context(|| format!("invalid path in {text:?}"));
        }
        for kind in ["header:", "query:", "path:", "form:", "jwt:", "item:"] {
            if text.starts_with(kind) {
                bail!(
                    "{text:?}: a fetched event has no {kind} location; use json:PATH, or the \
                     account itself"
                );
            }
        }
        let account = Account::new(text, true);
        let account = account.with_context(|| {
            format!("invalid account {text:?}; use 1 to 128 printable ASCII characters")
        })?;
        Ok(Self::Value(account))
    }

    /// The connection to the provider's API proves the value, so it counts as signed.
    pub fn of(&self, body: &[u8]) -> Option<Account> {
        match self {
            Self::Value(account) => Some(account.clone()),
            Self::At(path) => Account::new(&path.scalar(body).ok()??, true),
        }
    }
}

impl Preset {
    /// The account of a fetched event, from the JSON locations of the source or the preset.
    pub fn account_of_fetched(&self, body: &[u8]) -> Option<Account> {
        let of_source = self.settings.account.iter();
        let of_source = of_source.filter_map(|at| match at {
            AccountAt::Request(at) => Some(at),
            AccountAt::Path(_) => None,
        });
        let of_preset = self.event.account.0.iter();
        let of_preset = of_preset.filter(|_| self.settings.account.is_empty());
        of_source.chain(of_preset).find_map(|at| match at {
            Location::Json(path) => Account::new(&path.scalar(body).ok()??, true),
            _ => None,
        })
    }

    /// Replaces the locations of the account. Verification also checks these locations.
    pub(crate) fn set_account(&mut self, account: Vec<AccountAt>) {
        let locations = account.iter().filter_map(|at| match at {
            AccountAt::Request(at) => Some(at.clone()),
            AccountAt::Path(_) => None,
        });
        if !account.is_empty() {
            self.event.account = Locations(locations.collect());
        }
        self.settings.account = account;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_location_without_an_account_is_refused() {
        for (text, said) in [
            ("path:0", "path:1 to path:16"),
            ("path:x", "path:1 to path:16"),
            ("path:17", "path:1 to path:16"),
            ("const:x", "cannot contain an account"),
            ("body:sha256", "cannot contain an account"),
            ("sig:t", "cannot contain an account"),
            ("tenant", "header:NAME"),
            ("cookie:x", "unknown kind"),
        ] {
            let error = format!("{:#}", AccountAt::parse(text).unwrap_err());
            assert!(error.contains(said), "{text}: {error}");
        }
        assert_eq!(AccountAt::parse("path:2").unwrap(), AccountAt::Path(2));
    }

    #[test]
    fn a_fetched_event_has_the_account_of_its_json() {
        let of = |preset: &str, body: &str| {
            let preset = Preset::embedded(preset, &BTreeMap::new()).unwrap();
            let account = preset.account_of_fetched(body.as_bytes());
            account.map(|account| account.written())
        };
        let body = r#"{"id":"evt_1","account":"acct_1"}"#;
        assert_eq!(of("stripe", body).as_deref(), Some("+acct_1"));
        assert_eq!(of("stripe", r#"{"id":"evt_1"}"#), None);
        assert_eq!(of("stripe", "no json"), None);
        assert_eq!(of("shopify", r#"{"id":1}"#), None);
    }

    #[test]
    fn the_account_of_a_list_is_a_value_or_a_path() {
        let of = |text: &str, body: &str| {
            let account = FetchedAccount::parse(text).unwrap().of(body.as_bytes());
            account.map(|account| account.written())
        };
        assert_eq!(of("one.shop", "{}").as_deref(), Some("+one.shop"));
        assert_eq!(of("json:a.b", r#"{"a":{"b":7}}"#).as_deref(), Some("+7"));
        assert_eq!(of("json:a.b", "{}"), None);
        for text in ["", "ä", "json:a..b", "header:x"] {
            assert!(FetchedAccount::parse(text).is_err(), "{text}");
        }
    }
}
