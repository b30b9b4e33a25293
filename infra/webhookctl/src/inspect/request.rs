//! The request of an event, as text and as JSON. Credentials are hidden.

use std::collections::BTreeMap;

use serde::Serialize;
use shared::webhook::context::RequestContext;
use shared::webhook::envelope::is_credential;

use super::view::{Account, RequestSeen};
use crate::output::safe::capped;
use crate::output::table::aligned;

/// The longest value of a header that the text shows.
const VALUE_CAP: usize = 120;

/// The text for the value of a header that contains a credential.
const HIDDEN: &str = "(hidden)";

#[derive(Serialize)]
pub(super) struct RequestDocument<'v> {
    /// Whether the request is stored.
    kept: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'v str>,
    method: Option<&'v str>,
    path: Option<&'v str>,
    query: Option<&'v str>,
    headers: BTreeMap<&'v str, String>,
    /// The number of headers that were not kept because of a limit.
    headers_dropped: usize,
}

/// Returns the request, if it was read.
pub(super) fn request(seen: &RequestSeen) -> Option<RequestDocument<'_>> {
    let mut document = RequestDocument {
        kept: false,
        error: None,
        method: None,
        path: None,
        query: None,
        headers: BTreeMap::new(),
        headers_dropped: 0,
    };
    match seen {
        RequestSeen::NotRead => return None,
        RequestSeen::NotKept => {}
        RequestSeen::Unreadable(error) => document.error = Some(error),
        RequestSeen::Kept(kept) => {
            let context = &kept.context;
            document.kept = true;
            document.method = Some(&context.method);
            document.path = Some(&context.path);
            document.query = context.query.as_deref();
            document.headers = headers(context);
            document.headers_dropped = kept.dropped;
        }
    }
    Some(document)
}

/// Returns the headers by name. The values of a repeated header are joined by commas.
fn headers(context: &RequestContext) -> BTreeMap<&str, String> {
    let mut all: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in context.headers.iter() {
        let value = if is_credential(name) { HIDDEN } else { value };
        all.entry(name)
            .and_modify(|known| *known = format!("{known}, {value}"))
            .or_insert_with(|| value.to_owned());
    }
    all
}

/// Returns the section of the output that describes the request. It is empty if the command did
/// not read the request.
pub(super) fn section(seen: &RequestSeen) -> String {
    let said = match seen {
        RequestSeen::NotRead => return String::new(),
        RequestSeen::NotKept => "  not kept\n".to_owned(),
        RequestSeen::Unreadable(error) => format!("  {}\n", capped(error, VALUE_CAP)),
        RequestSeen::Kept(kept) => {
            let context = &kept.context;
            let query = context.query.iter().map(|query| format!("?{query}"));
            let line = format!(
                "{} {}{}",
                context.method,
                context.path,
                query.collect::<String>()
            );
            let rows = headers(context).into_iter().map(|(name, value)| {
                let value = capped(&value, VALUE_CAP).into_owned();
                vec![format!("  {name}"), value]
            });
            let rows = aligned(&rows.collect::<Vec<_>>());
            let dropped = match kept.dropped {
                0 => String::new(),
                1 => "  1 header was not kept (too large or malformed)\n".to_owned(),
                count => format!("  {count} headers were not kept (too large or malformed)\n"),
            };
            format!("  {}\n{rows}{dropped}", capped(&line, VALUE_CAP))
        }
    };
    format!("\nRequest\n{said}")
}

/// Returns the line of the account. It is empty without an account.
pub(super) fn account_line(account: Option<&Account>) -> String {
    let Some(account) = account else {
        return String::new();
    };
    let signed = if account.signed {
        "signed"
    } else {
        "not signed"
    };
    format!(
        "  account {}  {signed}\n",
        capped(&account.value, VALUE_CAP)
    )
}

#[cfg(test)]
mod tests {
    use shared::webhook::context::KeptRequest;

    use super::*;
    use crate::output::safe::tests::{corpus, is_inert};

    fn kept(headers: &[(&str, &str)]) -> RequestSeen {
        RequestSeen::Kept(KeptRequest {
            context: RequestContext {
                method: "POST".to_owned(),
                path: "/in/shop".to_owned(),
                query: Some("plan=pro".to_owned()),
                headers: headers.iter().copied().collect(),
            },
            dropped: 2,
        })
    }

    #[test]
    fn a_request_is_shown_without_credentials() {
        let seen = kept(&[
            ("x-tenant", "one"),
            ("x-once-token", "t"),
            ("x-n", "1"),
            ("x-n", "2"),
        ]);
        assert_eq!(
            section(&seen),
            "\nRequest\n  POST /in/shop?plan=pro\n  x-n           1, 2\n  x-once-token  (hidden)\n  \
             x-tenant      one\n  2 headers were not kept (too large or malformed)\n"
        );
        let json = serde_json::to_value(request(&seen)).unwrap();
        assert_eq!(json["headers"]["x-once-token"], HIDDEN);
        assert_eq!(
            (&json["path"], &json["headers_dropped"]),
            (&"/in/shop".into(), &2.into())
        );
    }

    #[test]
    fn a_request_that_is_not_stored_is_said_to_be_not_kept() {
        assert_eq!(section(&RequestSeen::NotRead), "");
        assert_eq!(section(&RequestSeen::NotKept), "\nRequest\n  not kept\n");
        assert!(request(&RequestSeen::NotRead).is_none());
        let json = serde_json::to_value(request(&RequestSeen::NotKept)).unwrap();
        assert_eq!(json["kept"], false);
    }

    #[test]
    fn a_hostile_request_is_inert() {
        for text in corpus() {
            let shown = section(&kept(&[("x-a", &text)]));
            assert_eq!(shown.lines().count(), 5);
            assert!(shown.lines().all(is_inert));
        }
    }
}
