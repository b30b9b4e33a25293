//! `send --account`: writes the account to the location where a source reads it.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use shared::webhook::preset::{AccountAt, Location, Preset};

use crate::output::CliError;
use crate::samples::Draft;

/// Writes the account to the first location that the request can have.
pub(super) fn set(draft: &mut Draft, preset: &Preset, account: &str) -> Result<(), CliError> {
    let of_source = preset.settings.account.iter();
    let of_source = of_source.filter_map(|at| match at {
        AccountAt::Request(at) => Some(at),
        AccountAt::Path(_) => None,
    });
    let of_preset = preset.event.account.0.iter();
    let of_preset = of_preset.filter(|_| preset.settings.account.is_empty());
    let locations: Vec<&Location> = of_source.chain(of_preset).collect();
    for at in &locations {
        if put(draft, preset, at, account) {
            return Ok(());
        }
    }
    let message = format!(
        "the requests of {} have no location for an account",
        preset.id
    );
    let error = CliError::usage("send.no_account", message);
    Err(if preset.settings.account.is_empty() {
        error.tip("set one for the source: account = [\"header:x-tenant\"]")
    } else {
        error.tip("with account = [\"path:1\"], pass the path with --to URL")
    })
}

fn put(draft: &mut Draft, preset: &Preset, at: &Location, account: &str) -> bool {
    let replace = |pairs: &mut Vec<(String, String)>, name: &str| {
        pairs.retain(|(known, _)| known != name);
        pairs.push((name.to_owned(), account.to_owned()));
        true
    };
    match at {
        Location::Header(names) => {
            let known = |name: &&String| draft.headers.iter().any(|(known, _)| known == *name);
            let name = names.iter().find(known).or(names.first()).cloned();
            name.is_some_and(|name| replace(&mut draft.headers, &name))
        }
        Location::Query(name) => replace(&mut draft.query, name),
        Location::Form(name) => {
            let Ok(form) = std::str::from_utf8(&draft.body) else {
                return false;
            };
            if serde_json::from_str::<Value>(form).is_ok() {
                return false;
            }
            let is_other = |pair: &&str| pair.split('=').next() != Some(name.as_str());
            let others = form.split('&').filter(|pair| !pair.is_empty());
            let mut pairs: Vec<String> = others.filter(is_other).map(str::to_owned).collect();
            let value = utf8_percent_encode(account, NON_ALPHANUMERIC);
            pairs.push(format!("{name}={value}"));
            draft.body = pairs.join("&").into();
            true
        }
        Location::Json(path) => change(draft, |json| {
            let places = path.places(json).into_iter();
            places.fold(false, |_, place| {
                *place = account.into();
                true
            })
        }),
        Location::Item(path) => change(draft, |json| {
            let Some(batch) = &preset.event.batch else {
                return false;
            };
            let items = batch.places(json).into_iter();
            let places = items.flat_map(|item| path.places(item));
            places.fold(false, |_, place| {
                *place = account.into();
                true
            })
        }),
        _ => false,
    }
}

/// Changes a JSON body, if the change applies to it.
fn change(draft: &mut Draft, change: impl FnOnce(&mut Value) -> bool) -> bool {
    let Ok(mut json) = serde_json::from_slice::<Value>(&draft.body) else {
        return false;
    };
    let changed = change(&mut json);
    if changed {
        draft.body = json.to_string().into();
    }
    changed
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use shared::base::clock::UnixMillis;

    use super::*;
    use crate::samples;

    fn draft(preset: &str, account: &str) -> Result<Draft, CliError> {
        let preset = Preset::embedded(preset, &BTreeMap::new()).unwrap();
        let now = UnixMillis(1_795_169_681_000);
        let mut draft = samples::draft(&preset, "default", None, None, now).unwrap();
        set(&mut draft, &preset, account)?;
        Ok(draft)
    }

    #[test]
    fn an_account_is_written_where_the_preset_reads_it() {
        let shopify = draft("shopify", "one.myshopify.com").unwrap();
        let domain = (
            "x-shopify-shop-domain".to_owned(),
            "one.myshopify.com".to_owned(),
        );
        assert!(shopify.headers.contains(&domain));
        let stripe = draft("stripe", "acct_1").unwrap();
        let body: Value = serde_json::from_slice(&stripe.body).unwrap();
        assert_eq!(body["account"], "acct_1");
        let twilio = draft("twilio", "AC12").unwrap();
        let form = String::from_utf8(twilio.body.to_vec()).unwrap();
        assert_eq!(form.matches("AccountSid=").count(), 1);
        assert!(form.contains("AccountSid=AC12"), "{form}");
        let none = draft("telegram", "x").unwrap_err();
        assert_eq!(none.code, "send.no_account");
    }
}
