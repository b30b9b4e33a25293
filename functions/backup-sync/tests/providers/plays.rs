//! The providers, each as its documentation describes it.

mod changes;
mod deliveries;
mod events;
mod marks;
mod thin;

pub(crate) use changes::{hubspot, jira, linear, notion, shopify};
pub(crate) use deliveries::{github, github_app, github_org, gitlab, zendesk};
pub(crate) use events::{
    chargebee, coinbase_commerce, fireflies, gocardless, mailgun, okta, paddle, paypal, square,
    stripe, workos,
};
pub(crate) use marks::{
    airtable, asana, box_, dropbox, microsoft_graph, microsoft_graph_directory,
};
pub(crate) use thin::{OBJECT, stripe_thin};

use super::play::Request;

/// Returns the status for a request that differs from the documentation or has a wrong key.
fn refused(is_list: bool, is_allowed: bool) -> Result<(), u16> {
    match (is_list, is_allowed) {
        (false, _) => Err(404),
        (true, false) => Err(401),
        (true, true) => Ok(()),
    }
}

pub(crate) fn is_basic(request: &Request, user: &str, password: &str) -> bool {
    use base64::Engine as _;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    request.header("authorization") == format!("Basic {pair}")
}

pub(crate) fn form(request: &Request, name: &str) -> String {
    let pairs = request.body.split('&');
    let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
    let value = pairs
        .find(|(key, _)| *key == name)
        .map_or("", |(_, value)| value);
    percent_encoding::percent_decode_str(value)
        .decode_utf8_lossy()
        .into_owned()
}
