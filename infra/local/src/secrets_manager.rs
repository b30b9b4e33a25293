//! Emulates Secrets Manager: the actions for secrets with labelled versions, stored in one file.
//! The local SSM resolves references to these secrets.

mod secret;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, response::Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{
    json_service::{self, Answer, Refusal},
    names::{arn, now_ms, random_hex},
    runtime::{listen, serve as serve_router},
    secret_changes::Changes,
};
use secret::Entry;
pub(crate) use secret::Found;

/// The labels of the version in use and of the version before it.
const CURRENT: &str = "AWSCURRENT";
const PREVIOUS: &str = "AWSPREVIOUS";

/// Serves the secrets and returns the URL.
pub(crate) fn serve(engine: &Handle, store: Arc<Store>) -> anyhow::Result<String> {
    let (listener, port) = listen(0)?;
    let router = Router::new().fallback(answer).with_state(store);
    serve_router(engine, listener, router)?;
    Ok(format!("http://127.0.0.1:{port}"))
}

type Secrets = BTreeMap<String, Entry>;

/// The reason why a version cannot be found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Nothing,
    Deleted,
}

/// The secrets, and the file that stores them.
pub(crate) struct Store {
    file: Option<PathBuf>,
    secrets: Mutex<Secrets>,
    changes: Changes,
}

async fn answer(State(store): State<Arc<Store>>, headers: HeaderMap, body: Bytes) -> Response {
    json_service::answer("secretsmanager", &headers, &body, |action, request| {
        store.act(action, request)
    })
}

/// The members of all requests. Each action reads only its own members.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Request {
    name: String,
    secret_id: String,
    client_request_token: Option<String>,
    secret_string: Option<String>,
    version_stages: Option<Vec<String>>,
    version_id: Option<String>,
    version_stage: Option<String>,
    move_to_version_id: Option<String>,
    remove_from_version_id: Option<String>,
    force_delete_without_recovery: bool,
}

impl Store {
    /// Reads the secrets in `file`. Without a file, the store is empty at first.
    pub(crate) fn open(file: Option<PathBuf>, changes: Changes) -> anyhow::Result<Arc<Self>> {
        let secrets = json_service::read(file.as_deref(), "secrets")?;
        Ok(Arc::new(Self {
            file,
            secrets: Mutex::new(secrets),
            changes,
        }))
    }

    /// Returns the version of a secret that a label or an id selects.
    pub(super) fn find(&self, name: &str, selector: &str) -> Result<Found, Missing> {
        let secrets = self.locked();
        let entry = secrets.get(name).ok_or(Missing::Nothing)?;
        if entry.deleted_ms.is_some() {
            return Err(Missing::Deleted);
        }
        entry.version(selector).ok_or(Missing::Nothing)
    }

    fn locked(&self) -> MutexGuard<'_, Secrets> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn act(&self, action: &str, request: Request) -> Answer {
        let mut secrets = self.locked();
        let answer = match action {
            "CreateSecret" => create(&mut secrets, request)?,
            "PutSecretValue" => {
                let (name, entry) = usable(&mut secrets, &request.secret_id)?;
                let (id, stages) = entry.put(request)?;
                json!({
                    "ARN": entry.arn, "Name": name, "VersionId": id, "VersionStages": stages,
                })
            }
            "UpdateSecretVersionStage" => {
                let (name, entry) = usable(&mut secrets, &request.secret_id)?;
                entry.relabel(&request)?;
                json!({ "ARN": entry.arn, "Name": name })
            }
            "DeleteSecret" => delete(&mut secrets, &request)?,
            "GetSecretValue" => return value(&mut secrets, &request),
            "DescribeSecret" => return described(&mut secrets, &request.secret_id),
            "ListSecretVersionIds" => return listed(&mut secrets, &request.secret_id),
            other => {
                return Err(Refusal(
                    "UnknownOperationException",
                    format!("the local Secrets Manager does not support the action {other:?}"),
                ));
            }
        };
        self.save(&secrets)?;
        Ok(answer)
    }

    fn save(&self, secrets: &Secrets) -> Result<(), Refusal> {
        json_service::save(self.file.as_deref(), secrets, "InternalServiceError")?;
        self.changes.count();
        Ok(())
    }
}

fn not_found() -> Refusal {
    Refusal(
        "ResourceNotFoundException",
        "Secrets Manager can't find the specified secret.".into(),
    )
}

/// Returns the secret with this name or ARN.
fn entry<'s>(secrets: &'s mut Secrets, id: &str) -> Result<(String, &'s mut Entry), Refusal> {
    let mut all = secrets.iter_mut();
    all.find(|(name, entry)| *name == id || entry.arn == id)
        .map(|(name, entry)| (name.clone(), entry))
        .ok_or_else(not_found)
}

/// Returns the secret with this name or ARN, if it is not marked for deletion.
fn usable<'s>(secrets: &'s mut Secrets, id: &str) -> Result<(String, &'s mut Entry), Refusal> {
    let (name, entry) = entry(secrets, id)?;
    if entry.deleted_ms.is_some() {
        return Err(Refusal(
            "InvalidRequestException",
            "You can't perform this operation on the secret because it was marked for deletion."
                .into(),
        ));
    }
    Ok((name, entry))
}

fn create(secrets: &mut Secrets, request: Request) -> Answer {
    let legal = |c: char| c.is_ascii_alphanumeric() || "/_+=.@-".contains(c);
    let name = request.name.clone();
    if name.is_empty() || name.len() > 512 || !name.chars().all(legal) {
        return Err(Refusal(
            "ValidationException",
            format!("Invalid name {name:?}. Must be a valid name containing /_+=.@- at most."),
        ));
    }
    if secrets.contains_key(&name) {
        return Err(Refusal(
            "ResourceExistsException",
            format!("The operation failed because the secret {name} already exists."),
        ));
    }
    let mut entry = Entry {
        // ARNs of Secrets Manager end in six random characters.
        arn: arn(
            "secretsmanager",
            &format!("secret:{name}-{}", random_hex(3)),
        ),
        versions: BTreeMap::new(),
        stages: BTreeMap::new(),
        deleted_ms: None,
    };
    let mut answer = json!({ "ARN": entry.arn, "Name": name });
    if request.secret_string.is_some() {
        let (id, _) = entry.put(request)?;
        answer["VersionId"] = json!(id);
    }
    secrets.insert(name, entry);
    Ok(answer)
}

fn delete(secrets: &mut Secrets, request: &Request) -> Answer {
    let (name, entry) = entry(secrets, &request.secret_id)?;
    let answer = json!({ "ARN": entry.arn, "Name": name, "DeletionDate": now_ms() / 1000 });
    if request.force_delete_without_recovery {
        secrets.remove(&name);
    } else {
        entry.deleted_ms = Some(now_ms());
    }
    Ok(answer)
}

fn value(secrets: &mut Secrets, request: &Request) -> Answer {
    let (name, entry) = usable(secrets, &request.secret_id)?;
    let stage = request.version_stage.as_deref();
    let selector = request.version_id.as_deref().or(stage).unwrap_or(CURRENT);
    let found = entry.version(selector).ok_or_else(|| {
        Refusal(
            "ResourceNotFoundException",
            format!("Secrets Manager can't find the specified secret value for: {selector}"),
        )
    })?;
    Ok(json!({
        "ARN": found.arn,
        "Name": name,
        "VersionId": found.version_id,
        "SecretString": found.value,
        "VersionStages": found.stages,
        "CreatedDate": found.created_ms / 1000,
    }))
}

fn described(secrets: &mut Secrets, id: &str) -> Answer {
    let (name, entry) = entry(secrets, id)?;
    let versions: BTreeMap<&String, Vec<String>> = entry
        .versions
        .keys()
        .map(|id| (id, entry.stages_of(id)))
        .collect();
    let mut answer = json!({
        "ARN": entry.arn, "Name": name, "VersionIdsToStages": versions,
    });
    if let Some(deleted) = entry.deleted_ms {
        answer["DeletedDate"] = json!(deleted / 1000);
    }
    Ok(answer)
}

fn listed(secrets: &mut Secrets, id: &str) -> Answer {
    let (name, entry) = entry(secrets, id)?;
    let versions = entry.versions.iter().map(|(id, version)| {
        json!({
            "VersionId": id,
            "VersionStages": entry.stages_of(id),
            "CreatedDate": version.created_ms / 1000,
        })
    });
    let versions: Vec<Value> = versions.collect();
    Ok(json!({ "ARN": entry.arn, "Name": name, "Versions": versions }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::random_id;

    impl Store {
        fn ask(&self, action: &str, request: &Value) -> Result<Value, &'static str> {
            let request = serde_json::from_value(request.clone()).unwrap();
            self.act(action, request).map_err(|Refusal(code, _)| code)
        }

        fn seen(&self, stage: &str) -> Option<String> {
            Some(self.find("one", stage).ok()?.value)
        }
    }

    #[test]
    fn the_labels_move_as_values_are_put() {
        let store = Store::open(None, Changes::new()).unwrap();
        let put = json!({ "SecretId": "one", "SecretString": "b" });
        assert_eq!(
            store.ask("PutSecretValue", &put),
            Err("ResourceNotFoundException")
        );
        let create = json!({ "Name": "one", "SecretString": "a" });
        store.ask("CreateSecret", &create).unwrap();
        assert_eq!(
            store.ask("CreateSecret", &create),
            Err("ResourceExistsException")
        );
        assert_eq!((store.seen(CURRENT), store.seen(PREVIOUS)), some("a", ""));
        store.ask("PutSecretValue", &put).unwrap();
        assert_eq!((store.seen(CURRENT), store.seen(PREVIOUS)), some("b", "a"));
        let pending = json!({
            "SecretId": "one", "SecretString": "c", "VersionStages": ["AWSPENDING"],
        });
        store.ask("PutSecretValue", &pending).unwrap();
        assert_eq!((store.seen(CURRENT), store.seen(PREVIOUS)), some("b", "a"));
        assert_eq!(store.seen("AWSPENDING").as_deref(), Some("c"));
    }

    #[test]
    fn the_label_of_the_one_in_use_is_moved_and_never_removed() {
        let store = Store::open(None, Changes::new()).unwrap();
        let create = json!({ "Name": "one", "SecretString": "a" });
        let first = store.ask("CreateSecret", &create).unwrap()["VersionId"].clone();
        let put = json!({ "SecretId": "one", "SecretString": "b" });
        let second = store.ask("PutSecretValue", &put).unwrap()["VersionId"].clone();
        let relabel = |stage: &str, from: &Value, to: &Value| {
            let mut request = json!({
                "SecretId": "one", "VersionStage": stage, "RemoveFromVersionId": from,
            });
            if !to.is_null() {
                request["MoveToVersionId"] = to.clone();
            }
            store.ask("UpdateSecretVersionStage", &request)
        };
        let refused = Err("InvalidParameterException");
        assert_eq!(relabel(CURRENT, &second, &Value::Null), refused);
        assert_eq!(relabel(PREVIOUS, &second, &Value::Null), refused);
        relabel(CURRENT, &second, &first).unwrap();
        assert_eq!((store.seen(CURRENT), store.seen(PREVIOUS)), some("a", "b"));
        relabel(PREVIOUS, &second, &Value::Null).unwrap();
        assert_eq!((store.seen(CURRENT), store.seen(PREVIOUS)), some("a", ""));
        let described = store.ask("DescribeSecret", &json!({ "SecretId": "one" }));
        let versions = described.unwrap()["VersionIdsToStages"].clone();
        assert_eq!(versions, json!({ first.as_str().unwrap(): [CURRENT] }));
    }

    #[test]
    fn the_same_request_may_come_twice() {
        let store = Store::open(None, Changes::new()).unwrap();
        let token = random_id();
        let create = json!({
            "Name": "one", "SecretString": "a", "ClientRequestToken": token,
        });
        store.ask("CreateSecret", &create).unwrap();
        let mut again = json!({
            "SecretId": "one", "SecretString": "a", "ClientRequestToken": token,
        });
        assert_eq!(
            store.ask("PutSecretValue", &again).unwrap()["VersionId"],
            token
        );
        again["SecretString"] = json!("b");
        assert_eq!(
            store.ask("PutSecretValue", &again),
            Err("ResourceExistsException")
        );
        let delete = json!({ "SecretId": "one" });
        store.ask("DeleteSecret", &delete).unwrap();
        assert_eq!(store.find("one", CURRENT).err(), Some(Missing::Deleted));
        assert_eq!(
            store.ask("PutSecretValue", &again),
            Err("InvalidRequestException")
        );
    }

    fn some(current: &str, previous: &str) -> (Option<String>, Option<String>) {
        let some = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
        (some(current), some(previous))
    }
}
