//! The parts of a request that are stored beside its body, and given to the actions.

mod keep;

use crate::webhook::envelope::Headers;

pub use keep::{ContextPolicy, Keep, NamePattern, Selection, is_transport};

/// The longest account that is stored, in bytes. A longer one is not stored at all.
const LONGEST_ACCOUNT: usize = 128;

/// The request of an event as the provider sent it: its line and its headers, without credentials
/// and without the headers of the network between the provider and the catcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestContext {
    /// Upper case.
    pub method: String,
    /// The path of the public URL, without the query.
    pub path: String,
    /// The query as received, without its credentials. `None` if the URL has no query.
    pub query: Option<String>,
    pub headers: Headers,
}

/// A request as it is stored, and how much of it was too large or malformed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptRequest {
    pub context: RequestContext,
    /// The number of headers, paths and queries that are not in `context` because of a limit.
    pub dropped: usize,
}

/// The customer's account at the provider that an event belongs to, such as the domain of a shop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// 1 to 128 printable bytes.
    pub value: String,
    /// Whether the signature covers the value. An unsigned value can be changed by anyone who has
    /// captured a request.
    pub is_signed: bool,
}

impl Account {
    /// `None` if the value is empty, too long, or has other characters than printable ASCII: a
    /// part of an account is another account.
    pub fn new(value: &str, is_signed: bool) -> Option<Self> {
        let value = value.trim();
        let fits = (1..=LONGEST_ACCOUNT).contains(&value.len());
        let printable = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        (fits && printable).then(|| Self {
            value: value.to_owned(),
            is_signed,
        })
    }

    /// Parses the stored form: `+` if the signature covers the value, otherwise `-`, then the value.
    pub fn parse(stored: &str) -> Option<Self> {
        let (is_signed, value) = match stored.strip_prefix('+') {
            Some(value) => (true, value),
            None => (false, stored.strip_prefix('-')?),
        };
        Self::new(value, is_signed)
    }

    /// The stored form, which [`parse`](Self::parse) reads.
    pub fn written(&self) -> String {
        let sign = if self.is_signed { '+' } else { '-' };
        format!("{sign}{}", self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_stored_with_what_the_signature_covers() {
        for (value, is_signed, stored) in [
            ("one.myshopify.com", false, "-one.myshopify.com"),
            (" acct_1 ", true, "+acct_1"),
            ("-1", true, "+-1"),
        ] {
            let account = Account::new(value, is_signed).unwrap();
            assert_eq!(account.written(), stored);
            assert_eq!(Account::parse(stored), Some(account));
        }
    }

    #[test]
    fn an_account_that_is_not_printable_is_none() {
        for value in ["", " ", "a\nb", "a\0", "ä", &"x".repeat(129)] {
            assert_eq!(Account::new(value, true), None, "{value:?}");
            assert_eq!(Account::parse(&format!("+{value}")), None, "{value:?}");
        }
        for stored in ["", "one", "+", "-"] {
            assert_eq!(Account::parse(stored), None, "{stored:?}");
        }
    }
}
