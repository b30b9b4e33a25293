//! The endpoints of the local services, from the environment variable `MITT_ENDPOINTS`.
//!
//! `sam local` passes only variables that the template declares, so the variables of the AWS SDKs do
//! not reach the function. The value has the form `dynamodb=http://127.0.0.1:4000 sqs=…`. An empty
//! value stands for AWS. Only this machine is a valid host, so that a wrong value in a deployment
//! cannot send events to another party.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context as _, bail, ensure};
use reqwest::Url;

use crate::base::env::env_var;

/// The name of the variable.
const VARIABLE: &str = "MITT_ENDPOINTS";

/// The names in the variable, and the last part of the variable `AWS_ENDPOINT_URL_…` of each.
const SERVICES: [(&str, &str); 5] = [
    ("dynamodb", "DYNAMODB"),
    ("sqs", "SQS"),
    ("s3", "S3"),
    ("ssm", "SSM"),
    ("secretsmanager", "SECRETS_MANAGER"),
];

/// The name by which a container reaches the machine that it runs on.
const HOST_OF_CONTAINER: &str = "host.docker.internal";

/// The endpoint of all other services. No service listens on this port, so a call fails here and
/// does not reach AWS.
const NOWHERE: &str = "http://127.0.0.1:9";

/// The endpoints of the local services, by the last part of `AWS_ENDPOINT_URL_…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalEndpoints(BTreeMap<&'static str, String>);

impl LocalEndpoints {
    /// Reads the variable. Returns `None` if it is not set or empty.
    pub(super) fn from_env() -> anyhow::Result<Option<Self>> {
        let local = env_var(VARIABLE)
            .map(|text| Self::parse(&text))
            .transpose()?;
        let in_sam = env_var("AWS_SAM_LOCAL").is_some();
        // Without local services, `sam local` would call AWS with the developer's credentials, and
        // with names that exist only in the template.
        ensure!(
            local.is_some() || !in_sam,
            "{VARIABLE} is not set; start `webhookctl dev` and pass \
             `--env-vars .mitt/sam-env.json` to sam local"
        );
        if local.is_some() && !in_sam && env_var("AWS_LAMBDA_INITIALIZATION_TYPE").is_some() {
            tracing::error!(
                "{VARIABLE} has a value in a deployed function, which cannot reach local services; \
                 deploy the template again, in which the value is empty"
            );
        }
        Ok(local)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut found = BTreeMap::new();
        for entry in text.split_whitespace() {
            let (name, url) = entry
                .split_once('=')
                .with_context(|| invalid("an entry must have the form service=http://host:port"))?;
            let service = SERVICES.iter().find(|(known, _)| *known == name);
            let Some((_, service)) = service else {
                bail!(invalid(&format!(
                    "unknown service {name:?}; use {}",
                    names()
                )));
            };
            let url =
                local(url).map_err(|why| anyhow::anyhow!(invalid(&format!("{name}: {why}"))))?;
            let before = found.insert(*service, url);
            ensure!(before.is_none(), invalid(&format!("{name} occurs twice")));
        }
        for (name, service) in SERVICES {
            ensure!(
                found.contains_key(service),
                invalid(&format!("{name} is missing; use {}", names()))
            );
        }
        Ok(Self(found))
    }

    /// Returns the endpoint of a service.
    pub(super) fn of(&self, service: &str) -> &str {
        self.0.get(service).map_or(NOWHERE, String::as_str)
    }
}

fn invalid(why: &str) -> String {
    format!("invalid {VARIABLE}: {why}")
}

fn names() -> String {
    SERVICES.map(|(name, _)| name).join(", ")
}

/// Checks that the URL is plain HTTP on this machine. The error does not repeat the URL, because it
/// could contain a password.
fn local(url: &str) -> Result<String, &'static str> {
    const HOST: &str = "the host must be this machine: localhost, a loopback address or \
                        host.docker.internal";
    let url = Url::parse(url).map_err(|_| "the URL is invalid; use http://host:port")?;
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = host == "localhost"
        || host == HOST_OF_CONTAINER
        || bare
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback());
    if !is_here {
        return Err(HOST);
    }
    let is_plain = url.scheme() == "http"
        && url.username().is_empty()
        && url.password().is_none()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    if !is_plain {
        return Err("the URL must have the form http://host:port");
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "dynamodb=http://127.0.0.1:1 sqs=http://localhost:2 s3=http://[::1]:3 \
                       ssm=http://host.docker.internal:4 secretsmanager=http://127.0.0.1:5/";

    fn refusal(text: &str) -> String {
        let error = LocalEndpoints::parse(text).unwrap_err();
        format!("{error:#}")
    }

    #[test]
    fn every_service_has_its_endpoint_and_the_others_have_none() {
        let local = LocalEndpoints::parse(ALL).unwrap();
        for (service, url) in [
            ("DYNAMODB", "http://127.0.0.1:1"),
            ("SQS", "http://localhost:2"),
            ("S3", "http://[::1]:3"),
            ("SSM", "http://host.docker.internal:4"),
            ("SECRETS_MANAGER", "http://127.0.0.1:5"),
            ("EVENTBRIDGE", NOWHERE),
        ] {
            assert_eq!(local.of(service), url);
        }
    }

    #[test]
    fn only_this_machine_is_a_valid_host() {
        for host in [
            "http://example.com",
            "http://169.254.169.254",
            "http://0.0.0.0:1",
            "http://127.0.0.1.example.com",
            "http://localhost@example.com",
            "http://x.host.docker.internal",
        ] {
            let said = refusal(&ALL.replace("http://127.0.0.1:1", host));
            assert!(
                said.starts_with("invalid MITT_ENDPOINTS: dynamodb: "),
                "{said}"
            );
            assert!(said.contains("must be this machine"), "{host}: {said}");
        }
    }

    #[test]
    fn a_wrong_value_is_refused_without_repeating_it() {
        for (text, why) in [
            ("dynamodb", "form service=http://host:port"),
            ("dynamo=http://127.0.0.1:1", "unknown service \"dynamo\""),
            ("dynamodb=http://127.0.0.1:1", "sqs is missing"),
            ("dynamodb=nothing", "dynamodb: the URL is invalid"),
            (
                "dynamodb=http://u:hunter2@127.0.0.1",
                "form http://host:port",
            ),
            ("dynamodb=https://127.0.0.1:1", "form http://host:port"),
            ("dynamodb=http://127.0.0.1:1/a", "form http://host:port"),
            ("s3=http://[::1]:1 s3=http://[::1]:1", "s3 occurs twice"),
        ] {
            let said = refusal(text);
            assert!(said.contains(why), "{text}: {said}");
            assert!(said.starts_with("invalid MITT_ENDPOINTS: "), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
