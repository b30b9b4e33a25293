//! Emulates SSM Parameter Store: the actions for secrets, stored in one file.

mod reference;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, response::Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{
    json_service::{self, Answer, Refusal},
    names::{arn, now_ms},
    runtime::{listen, serve as serve_router},
    secret_changes::Changes,
    secrets_manager,
};

/// Serves the parameters in `file` and returns the URL. Without a file, the store is empty at
/// first. `secrets` resolves references to Secrets Manager.
pub(crate) fn serve(
    engine: &Handle,
    file: Option<PathBuf>,
    secrets: Arc<secrets_manager::Store>,
    changes: Changes,
) -> anyhow::Result<String> {
    let parameters = json_service::read(file.as_deref(), "parameters")?;
    let (listener, port) = listen(0)?;
    let store = Arc::new(Store {
        file,
        parameters: Mutex::new(parameters),
        secrets,
        changes,
    });
    let router = Router::new().fallback(answer).with_state(store);
    serve_router(engine, listener, router)?;
    Ok(format!("http://127.0.0.1:{port}"))
}

/// Returns the parameters in the file: the name, the time of the last change and the value.
pub(super) fn kept(file: &Path) -> anyhow::Result<Vec<(String, i64, String)>> {
    let parameters: Parameters = json_service::read(Some(file), "parameters")?;
    let all = parameters.into_iter();
    Ok(all
        .map(|(name, it)| (name, it.modified_ms, it.value))
        .collect())
}

type Parameters = BTreeMap<String, Parameter>;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Parameter {
    kind: String,
    value: String,
    version: i64,
    modified_ms: i64,
}

struct Store {
    file: Option<PathBuf>,
    parameters: Mutex<Parameters>,
    secrets: Arc<secrets_manager::Store>,
    changes: Changes,
}

async fn answer(State(store): State<Arc<Store>>, headers: HeaderMap, body: Bytes) -> Response {
    json_service::answer("AmazonSSM", &headers, &body, |action, request| {
        store.act(action, request)
    })
}

/// The members of all requests. Each action reads only its own members.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Request {
    name: String,
    names: Vec<String>,
    path: String,
    value: String,
    #[serde(rename = "Type")]
    kind: Option<String>,
    overwrite: bool,
    recursive: bool,
    with_decryption: bool,
    max_results: Option<usize>,
    next_token: Option<String>,
}

impl Store {
    fn act(&self, action: &str, request: Request) -> Answer {
        let mut parameters = self
            .parameters
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match action {
            "PutParameter" => {
                let answer = put(&mut parameters, request)?;
                self.save(&parameters)?;
                Ok(answer)
            }
            "DeleteParameter" => {
                parameters
                    .remove(&request.name)
                    .ok_or_else(|| not_found(&request.name))?;
                self.save(&parameters)?;
                Ok(json!({}))
            }
            "GetParameter" => {
                let parameter = self.parameter(&parameters, &request.name, request.with_decryption);
                Ok(json!({ "Parameter": parameter? }))
            }
            "GetParameters" => {
                let (mut found, mut missing) = (Vec::new(), Vec::new());
                for name in &request.names {
                    match self.parameter(&parameters, name, request.with_decryption) {
                        Ok(parameter) => found.push(parameter),
                        Err(_) => missing.push(name),
                    }
                }
                Ok(json!({ "Parameters": found, "InvalidParameters": missing }))
            }
            "GetParametersByPath" => by_path(&parameters, &request),
            other => Err(Refusal(
                "UnknownOperationException",
                format!("the local SSM does not support the action {other:?}"),
            )),
        }
    }

    /// Returns a parameter, or the secret that its name refers to.
    fn parameter(&self, parameters: &Parameters, name: &str, decrypted: bool) -> Answer {
        if let Some(answer) = reference::parameter(&self.secrets, name, decrypted) {
            return answer;
        }
        let parameter = parameters.get(name).ok_or_else(|| not_found(name))?;
        Ok(shown(name, parameter, decrypted))
    }

    fn save(&self, parameters: &Parameters) -> Result<(), Refusal> {
        json_service::save(self.file.as_deref(), parameters, "InternalServerError")?;
        self.changes.count();
        Ok(())
    }
}

fn not_found(name: &str) -> Refusal {
    Refusal("ParameterNotFound", format!("Parameter {name} not found."))
}

fn put(parameters: &mut Parameters, request: Request) -> Answer {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    let name = &request.name;
    if name.is_empty() || !name.chars().all(legal) || name.len() > 1011 {
        return Err(Refusal(
            "ValidationException",
            format!(
                "Parameter name {name:?}: only a mix of letters, numbers and . - _ / is allowed"
            ),
        ));
    }
    if name.contains('/') && !name.starts_with('/') {
        return Err(Refusal(
            "ValidationException",
            "Parameter name must be a fully qualified name.".into(),
        ));
    }
    if name.matches('/').count() > 15 {
        return Err(Refusal(
            "HierarchyLevelLimitExceededException",
            "A hierarchy can have a maximum of 15 levels.".into(),
        ));
    }
    if request.value.is_empty() || request.value.len() > 4096 {
        return Err(Refusal(
            "ValidationException",
            "Standard tier parameters support a maximum parameter value of 4096 characters.".into(),
        ));
    }
    let existing = parameters.get(name);
    if existing.is_some() && !request.overwrite {
        return Err(Refusal(
            "ParameterAlreadyExists",
            "The parameter already exists. To overwrite this value, set the overwrite option in \
             the request to true."
                .into(),
        ));
    }
    let kind = request
        .kind
        .or_else(|| existing.map(|old| old.kind.clone()));
    let kind =
        kind.filter(|kind| ["String", "StringList", "SecureString"].contains(&kind.as_str()));
    let Some(kind) = kind else {
        return Err(Refusal(
            "ValidationException",
            "A parameter type is required when you create a parameter.".into(),
        ));
    };
    let version = existing.map_or(1, |old| old.version + 1);
    let parameter = Parameter {
        kind,
        value: request.value,
        version,
        modified_ms: now_ms(),
    };
    parameters.insert(request.name, parameter);
    Ok(json!({ "Version": version, "Tier": "Standard" }))
}

fn by_path(parameters: &Parameters, request: &Request) -> Answer {
    if !request.path.starts_with('/') {
        return Err(Refusal(
            "ValidationException",
            format!(
                "The parameter doesn't meet the parameter name requirements: {:?}",
                request.path
            ),
        ));
    }
    let page = request.max_results.unwrap_or(10);
    if !(1..=10).contains(&page) {
        return Err(Refusal(
            "ValidationException",
            "MaxResults must be between 1 and 10".into(),
        ));
    }
    let after = request.next_token.as_deref().unwrap_or_default();
    let under = format!("{}/", request.path.trim_end_matches('/'));
    let mut rest = parameters.iter().filter(|(name, _)| {
        name.strip_prefix(&under)
            .is_some_and(|leaf| request.recursive || !leaf.contains('/'))
            && name.as_str() > after
    });
    let found: Vec<_> = rest.by_ref().take(page).collect();
    let shown: Vec<_> = found
        .iter()
        .map(|(name, parameter)| shown(name, parameter, request.with_decryption))
        .collect();
    let mut answer = json!({ "Parameters": shown });
    if rest.next().is_some()
        && let Some((last, _)) = found.last()
    {
        answer["NextToken"] = json!(last);
    }
    Ok(answer)
}

fn shown(name: &str, parameter: &Parameter, decrypted: bool) -> Value {
    // A caller that does not request decryption must not get the value, as in AWS.
    let value = if parameter.kind == "SecureString" && !decrypted {
        STANDARD.encode(format!("encrypted:{name}:{}", parameter.version))
    } else {
        parameter.value.clone()
    };
    let separator = if name.starts_with('/') { "" } else { "/" };
    json!({
        "Name": name,
        "Type": parameter.kind,
        "Value": value,
        "Version": parameter.version,
        "LastModifiedDate": parameter.modified_ms / 1000,
        "ARN": arn("ssm", &format!("parameter{separator}{name}")),
        "DataType": "text",
    })
}
