//! `secrets list`: lists the stored secrets and the missing ones, without their values.

use std::collections::BTreeMap;

use serde::Serialize;
use shared::aws::secrets::Live;
use shared::base::clock::UnixMillis;

use super::store::secrets;
use super::used_by::{UsedBy, used_by};
use crate::cli::{Global, SecretKind, SecretsListArgs};
use crate::output::count::plural;
use crate::output::time::rfc3339;
use crate::output::{Column, Exit, List, Printer};
use crate::target::Deployment;

#[derive(Serialize)]
struct SecretRow {
    name: String,
    kind: &'static str,
    /// The slot, or the version in Secrets Manager. A missing secret has none.
    slot: Option<String>,
    stored_at: Option<String>,
    /// Identifies the value without showing it.
    fingerprint: Option<String>,
    /// `stored`, or `missing` if a source needs the secret and the store does not have it.
    state: &'static str,
    used_by: Vec<String>,
}

pub(super) async fn list(
    args: SecretsListArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let now = UnixMillis::now();
    let inbox = Deployment::open(&global.target).await?;
    let used = used_by(&inbox.config);
    let mut rows = Vec::new();
    for kind in SecretKind::ALL {
        if args.kind.given().is_none_or(|given| given == kind) {
            let stored = secrets(&inbox, kind, &args.secrets_at)?;
            rows.extend(of_kind(kind, &stored.all().await?, &used));
        }
    }
    let missing = rows.iter().filter(|row| row.state == "missing").count();
    let first = rows.iter().find(|row| row.state == "missing");
    let tip = first.map(|row| {
        let kind = SecretKind::ALL.iter().find(|it| it.as_str() == row.kind);
        let flag = kind.map_or("", |kind| kind.flag());
        format!("webhookctl secrets put {}{flag}", row.name)
    });
    let footer = match missing {
        0 => format!("{} · {}", plural(rows.len(), "secret"), inbox.name),
        _ => format!(
            "{}, {missing} missing · {}",
            plural(rows.len(), "secret"),
            inbox.name
        ),
    };
    out.list(&List {
        id: "name",
        tip,
        footer: Some(footer),
        empty: "No secrets are stored, and no source needs one.".to_owned(),
        ..List::new("secrets.list", &inbox.name, now, columns(now.0), rows)
    })?;
    Ok(Exit::Done)
}

/// Returns a row for each live value, and one for each missing secret.
fn of_kind(kind: SecretKind, stored: &BTreeMap<String, Live>, used: &UsedBy) -> Vec<SecretRow> {
    let users = |name: &str| -> Vec<String> {
        let users = used.get(&(kind.as_str(), name.to_owned()));
        users.into_iter().flatten().cloned().collect()
    };
    let row = |name: &str, state: &'static str| SecretRow {
        name: name.to_owned(),
        kind: kind.as_str(),
        slot: None,
        stored_at: None,
        fingerprint: None,
        state,
        used_by: users(name),
    };
    let mut rows = Vec::new();
    for (name, live) in stored {
        rows.extend(live.iter().map(|secret| SecretRow {
            slot: Some(secret.slot().to_owned()),
            stored_at: secret.since().map(|at| rfc3339(at.0)),
            fingerprint: Some(secret.fingerprint()),
            ..row(name, "stored")
        }));
    }
    let needed = used.keys().filter(|(of, _)| *of == kind.as_str());
    let missing = needed.filter(|(_, name)| !stored.contains_key(name));
    rows.extend(missing.map(|(_, name)| row(name, "missing")));
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

fn columns(now: i64) -> Vec<Column<'static, SecretRow>> {
    vec![
        Column::whole("NAME", "name").essential(),
        Column::whole("KIND", "kind").essential(),
        Column::whole("SLOT", "slot").dash(),
        Column::age("AGE", "stored_at", now),
        Column::whole("FINGERPRINT", "fingerprint").dash(),
        Column::whole("STATE", "state"),
        Column::text("USED BY", "used_by", 10).lesser(),
    ]
}

#[cfg(test)]
mod tests {
    use shared::aws::secrets::Secret;
    use shared::sources::Config;

    use super::*;

    #[test]
    fn a_secret_that_a_source_needs_is_listed_as_missing() {
        let text = "schema = 1\n[forward]\nallow_hosts = [\"a.example\"]\n[[source]]\nname = \"shop\"\n\
                    preset = \"stripe\"\naction = [{ kind = \"http\", url = \"https://a.example/\", \
                    secret = \"app\" }]\n";
        let used = used_by(&Config::parse(text).unwrap());
        let live = vec![Secret::new("v2.1", "new"), Secret::new("v1.1", "old")];
        let stored = BTreeMap::from([("other".to_owned(), live.into())]);
        let rows = of_kind(SecretKind::Egress, &stored, &used);
        let told: Vec<(&str, Option<&str>, &str)> = rows
            .iter()
            .map(|row| (row.name.as_str(), row.slot.as_deref(), row.state))
            .collect();
        assert_eq!(
            told,
            [
                ("app", None, "missing"),
                ("other", Some("v2"), "stored"),
                ("other", Some("v1"), "stored"),
            ]
        );
        assert_eq!(rows[0].used_by, ["shop"]);
        let json = serde_json::to_string(&rows).unwrap();
        assert!(
            !json.contains("\"new\"") && !json.contains("\"old\""),
            "{json}"
        );
    }
}
