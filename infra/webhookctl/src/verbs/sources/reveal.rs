//! `sources show --reveal`: returns the values of secrets.

use std::collections::BTreeMap;

use shared::aws::secrets::Secret;

use crate::audit::{self, Change};
use crate::target::Deployment;

/// The secrets by their labels. The audit log records the operator before the secrets are returned.
pub(super) async fn secrets(
    inbox: &Deployment,
    source: &str,
    live: &[Secret],
    why: &str,
) -> anyhow::Result<BTreeMap<String, String>> {
    let why = audit::reason("sources.reason", why)?;
    inbox.may_write("record the access to a secret")?;
    let change = Change {
        what: "secret.reveal",
        why,
        selection: source.to_owned(),
        count: live.len(),
    };
    change.record(inbox).await?;
    let secret = |secret: &Secret| (secret.label().to_owned(), secret.expose().to_owned());
    Ok(live.iter().map(secret).collect())
}
