//! The parts of a request that are stored beside its body, and given to the actions.

use crate::webhook::envelope::Headers;

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
    /// Parses the stored form: `+` if the signature covers the value, otherwise `-`, then the value.
    pub fn parse(stored: &str) -> Option<Self> {
        let (is_signed, value) = match stored.strip_prefix('+') {
            Some(value) => (true, value),
            None => (false, stored.strip_prefix('-')?),
        };
        (!value.is_empty()).then(|| Self {
            value: value.to_owned(),
            is_signed,
        })
    }
}
