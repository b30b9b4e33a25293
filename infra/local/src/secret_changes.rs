//! Reports changes of the stored secrets, and reads the secrets that a stack stored earlier.

use std::{collections::BTreeMap, path::Path};

use tokio::sync::watch;

use super::{Stack, ssm};

/// Counts the changes of the stored secrets, so that a stack can let its functions read them again.
#[derive(Debug, Clone)]
pub(super) struct Changes(watch::Sender<u64>);

impl Changes {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    pub(super) fn count(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

impl Stack {
    /// Returns a counter that grows with each change of the stored secrets.
    pub fn secret_changes(&self) -> watch::Receiver<u64> {
        self.emulators.changes.subscribe()
    }

    /// Replaces the processes of all functions, so that they read their secrets again. Running
    /// invocations finish in their old processes.
    pub fn refresh_functions(&self) -> anyhow::Result<()> {
        for id in self.template.functions.keys() {
            let endpoints = &self.function_endpoints;
            let spec = super::spec(
                id,
                &self.template,
                &self.options,
                &self.emulators,
                endpoints,
            )?;
            self.functions.deploy(spec)?;
        }
        Ok(())
    }
}

/// Returns the newest value of each secret in Parameter Store that an earlier stack stored in this
/// folder. The names are the last parts of the path, such as `egress/downstream`.
pub fn kept_secrets(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut newest: BTreeMap<String, (i64, String)> = BTreeMap::new();
    for (path, modified_ms, value) in ssm::kept(&folder.join("ssm.json"))? {
        let mut parts = path.rsplit('/').skip(1);
        let (Some(name), Some(kind)) = (parts.next(), parts.next()) else {
            continue;
        };
        let known = newest.entry(format!("{kind}/{name}")).or_default();
        if known.0 <= modified_ms {
            *known = (modified_ms, value);
        }
    }
    let values = newest.into_iter();
    Ok(values.map(|(name, (_, value))| (name, value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_slot_of_a_secret_is_kept() {
        let name = format!("mitt-kept-secrets-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        assert!(kept_secrets(&folder).unwrap().is_empty());
        let parameter = |value: &str, modified_ms: i64| {
            serde_json::json!({
                "kind": "SecureString", "value": value, "version": 1, "modified_ms": modified_ms,
            })
        };
        let stored = serde_json::json!({
            "/mitt/egress/downstream/current": parameter("old", 1),
            "/mitt/egress/downstream/v2": parameter("new", 2),
            "/mitt/ingress/shop/v1": parameter("shop", 3),
            "alone": parameter("no secret", 4),
        });
        std::fs::write(folder.join("ssm.json"), stored.to_string()).unwrap();
        let kept: Vec<(String, String)> = kept_secrets(&folder).unwrap().into_iter().collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [
            pair("egress/downstream", "new"),
            pair("ingress/shop", "shop"),
        ];
        assert_eq!(kept, expected);
        std::fs::write(folder.join("ssm.json"), "{").unwrap();
        assert!(kept_secrets(&folder).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
