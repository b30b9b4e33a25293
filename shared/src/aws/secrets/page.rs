//! One page of the parameters below a path.
//! <https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParametersByPath.html>

use aws_sdk_ssm::error::SdkError;
use aws_sdk_ssm::operation::get_parameters_by_path::GetParametersByPathError;
use serde::{Deserialize, Deserializer, Serialize};

use crate::aws::{ParameterClient, Reply};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Page {
    pub(super) parameters: Vec<Parameter>,
    pub(super) next_token: Option<String>,
}

/// A parameter with its secret value. The type has no `Debug`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) value: String,
    #[serde(default)]
    pub(super) version: i64,
    /// The Unix time in seconds, or 0 if it is unknown.
    #[serde(default, deserialize_with = "whole_seconds")]
    pub(super) last_modified_date: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct GetParametersByPath<'a> {
    path: &'a str,
    recursive: bool,
    with_decryption: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<&'a str>,
}

impl Page {
    /// Reads a page: first directly, then with the SDK.
    pub(super) async fn read(
        ssm: &ParameterClient,
        path: &str,
        token: Option<String>,
    ) -> Result<Self, SdkError<GetParametersByPathError>> {
        let call = GetParametersByPath {
            path,
            recursive: true,
            with_decryption: true,
            next_token: token.as_deref(),
        };
        let read = |reply: &Reply| {
            let body = (reply.status == 200).then_some(&reply.body)?;
            serde_json::from_slice(body).ok()
        };
        if let Some(direct) = ssm.direct()
            && let Ok(call) = serde_json::to_vec(&call)
            && let Some(page) = Box::pin(direct.send("GetParametersByPath", call, read)).await
        {
            return Ok(page);
        }
        let request = ssm
            .rest()
            .get_parameters_by_path()
            .path(path)
            .recursive(true)
            .with_decryption(true)
            .set_next_token(token);
        let page = Box::pin(request.send()).await?;
        let parameters = page.parameters.unwrap_or_default().into_iter();
        let parameters = parameters.filter_map(|parameter| {
            Some(Parameter {
                name: parameter.name?,
                value: parameter.value?,
                version: parameter.version,
                last_modified_date: parameter.last_modified_date.map_or(0, |at| at.secs()),
            })
        });
        Ok(Self {
            parameters: parameters.collect(),
            next_token: page.next_token,
        })
    }
}

/// Reads a Unix time with a fraction of a second.
fn whole_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    // The conversion of a number outside of the range gives the nearest number.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a time has no fraction in the result"
    )]
    Ok(seconds.floor() as i64)
}
