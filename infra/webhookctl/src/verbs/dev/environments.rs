//! Writes the environment of the functions for `sam local` and `cargo lambda watch`. With it, a
//! function that runs in these tools uses the services of this `dev`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use local::names::{ACCESS_KEY, REGION, SECRET_KEY};
use local::template::FunctionDefinition;
use local::{Endpoints, Stack};
use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{AuditAction, Ledger, Through};
use shared::inbox::source_versions::{
    Applied, Consistency, NewVersion, SourceVersions, VersionFacts,
};
use shared::sources::Config;

use crate::target::DEV;

/// The file for `sam local --env-vars`.
pub(super) const SAM: &str = ".mitt/sam-env.json";

/// The file for `cargo lambda watch --env-file`.
pub(super) const CARGO_LAMBDA: &str = ".mitt/lambda.env";

/// The host of this machine for a process in a container. On Linux, `sam local` runs the container
/// in the network of the machine, with `--docker-network host`.
const HOST_FOR_CONTAINER: &str = if cfg!(target_os = "linux") {
    HOST
} else {
    "host.docker.internal"
};

/// The host of the local services.
const HOST: &str = "127.0.0.1";

/// The files of a running `dev`. When this value is dropped, it removes them.
pub(super) struct Environments {
    written: Vec<PathBuf>,
    /// Why functions in a container use other sources than `dev`.
    pub(super) sources: Option<String>,
}

impl Drop for Environments {
    fn drop(&mut self) {
        // If a file cannot be removed, a function that uses it cannot reach the services, and says
        // so.
        for path in &self.written {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Environments {
    pub(super) async fn write(stack: &Stack, sources: &Path) -> anyhow::Result<Self> {
        let file = sources.display();
        let text = std::fs::read_to_string(sources).with_context(|| format!("read {file}"))?;
        let config = Config::parse(&text).with_context(|| format!("parse {file}"))?;
        let refused = publish(stack, &text).await.err();
        let functions = &stack.template().functions;
        let hosts = config.forward.allow_hosts.join(",");
        let mut files = Self {
            written: Vec::new(),
            sources: refused.map(|error| format!("{error:#}")),
        };
        let sam = for_sam(functions, stack.endpoints(), HOST_FOR_CONTAINER, &hosts);
        files.put(SAM, &serde_json::to_string_pretty(&sam)?)?;
        let sources = sources.to_string_lossy();
        files.put(
            CARGO_LAMBDA,
            &for_cargo_lambda(functions, stack.endpoints(), &sources),
        )?;
        Ok(files)
    }

    fn put(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = PathBuf::from(name);
        std::fs::write(&path, format!("{text}\n")).with_context(|| format!("write {name}"))?;
        self.written.push(path);
        Ok(())
    }
}

/// Returns the lines that show how to run the functions in other tools on this machine. Without a
/// parameter, SAM builds for arm64.
pub(super) fn commands() -> String {
    let architecture = if cfg!(target_arch = "aarch64") {
        ""
    } else {
        " --parameter-overrides Architecture=x86_64"
    };
    let network = if HOST_FOR_CONTAINER == HOST {
        " --docker-network host"
    } else {
        ""
    };
    format!(
        "    cargo lambda watch --env-file {CARGO_LAMBDA}\n    sam build{architecture} && \
         sam local start-api{architecture}{network} --env-vars {SAM}\n"
    )
}

/// Stores the sources of the functions in the table, because a container sees no file of this
/// machine. The functions of `dev` itself read the file.
async fn publish(stack: &Stack, text: &str) -> anyhow::Result<()> {
    let ledger = Ledger::new(stack.clients().dynamodb, stack.table()?, None);
    let versions = SourceVersions::beside(&ledger);
    let is_same = |it: &VersionFacts| it.by == DEV && it.hash == Config::hash_of(text);
    let seen = match versions.current(Consistency::Strong).await? {
        Some(facts) if is_same(&facts) => return Ok(()),
        current => current.map_or(0, |facts| facts.version),
    };
    let new = NewVersion {
        text,
        seen,
        audit: AuditAction {
            through: Through::Cli,
            what: "sources.apply",
            who: DEV.to_owned(),
            why: "the sources of dev, for functions in containers".to_owned(),
            selection: format!("version {}", seen + 1),
            count: 0,
        },
    };
    match versions.apply(&new, UnixMillis::now()).await? {
        Applied::Version(_) => Ok(()),
        Applied::Overtaken(_) => anyhow::bail!("another command applied sources at the same time"),
    }
}

type Functions = BTreeMap<String, FunctionDefinition>;

/// Returns the file for `sam local`: the variables of each function, by its logical id.
fn for_sam(
    functions: &Functions,
    endpoints: &Endpoints,
    host: &str,
    allowed_hosts: &str,
) -> serde_json::Value {
    let functions = functions.iter().map(|(id, function)| {
        let mut variables = function.environment.clone();
        for value in variables.values_mut() {
            *value = at(host, value);
        }
        let own = [
            ("MITT_ENDPOINTS", at(host, &endpoints_text(endpoints))),
            ("MITT_SOURCES", "table".to_owned()),
            ("MITT_SOURCES_FILE", String::new()),
            ("MITT_ALLOWED_HOSTS", allowed_hosts.to_owned()),
        ];
        variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
        (id.clone(), json!(variables))
    });
    functions.collect()
}

/// Returns the file for `cargo lambda watch`: the variables that are equal in the three functions.
/// The others are in `[package.metadata.lambda.watch]` of each function's `Cargo.toml`.
fn for_cargo_lambda(functions: &Functions, endpoints: &Endpoints, sources: &str) -> String {
    // The function for long actions has the same binary as the processor.
    let functions = functions.values();
    let functions = functions.filter(|it| !it.environment.contains_key("MITT_LONG_ACTIONS"));
    let mut values: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for (name, value) in functions.flat_map(|function| &function.environment) {
        let known = values.entry(name).or_insert_with(|| Some(value.clone()));
        // A variable with two values is in neither file.
        known.take_if(|it| *it != *value);
    }
    for (name, value) in [
        ("AWS_REGION", REGION.to_owned()),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
        ("MITT_ENDPOINTS", endpoints_text(endpoints)),
        ("MITT_SOURCES", "embedded".to_owned()),
        ("MITT_SOURCES_FILE", sources.to_owned()),
    ] {
        values.insert(name, Some(value));
    }
    let lines = values.iter().filter_map(|(name, value)| {
        let value = value.as_ref().filter(|value| !value.is_empty())?;
        Some(format!("{name}=\"{value}\""))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the value of `MITT_ENDPOINTS`.
fn endpoints_text(endpoints: &Endpoints) -> String {
    let Endpoints {
        dynamodb,
        sqs,
        s3,
        ssm,
        secrets_manager,
    } = endpoints;
    format!("dynamodb={dynamodb} sqs={sqs} s3={s3} ssm={ssm} secretsmanager={secrets_manager}")
}

/// Replaces the host in the URLs of the local services.
fn at(host: &str, value: &str) -> String {
    value.replace(&format!("http://{HOST}:"), &format!("http://{host}:"))
}

#[cfg(test)]
mod tests {
    use local::{Naming, Template};

    use super::*;

    fn functions() -> Functions {
        let naming = Naming {
            queue_base: "http://127.0.0.1:4002".to_owned(),
            parameters: [("LongActions".to_owned(), "true".to_owned())].into(),
            ..Naming::default()
        };
        let template = Template::parse(super::super::TEMPLATE, &naming).unwrap();
        template.functions
    }

    fn endpoints() -> Endpoints {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        Endpoints {
            dynamodb: url(4001),
            sqs: url(4002),
            s3: url(4003),
            ssm: url(4004),
            secrets_manager: url(4005),
        }
    }

    #[test]
    fn a_container_reaches_the_services_and_reads_the_table() {
        let host = "host.docker.internal";
        let all = for_sam(&functions(), &endpoints(), host, "a.example,b.example");
        for (function, path) in [
            ("Catcher", "/mitt/ingress"),
            ("Processor", "/mitt/egress"),
            ("LongProcessor", "/mitt/egress"),
            ("BackupSync", "/mitt/provider-api"),
        ] {
            let variables = all[function].as_object().unwrap();
            assert_eq!(variables["MITT_SECRETS_PATH"], path, "{function}");
            assert_eq!(variables["MITT_SOURCES"], "table");
            assert_eq!(variables["MITT_SOURCES_FILE"], "");
            assert_eq!(variables["MITT_ALLOWED_HOSTS"], "a.example,b.example");
            let text = all[function].to_string();
            assert!(!text.contains(HOST), "{text}");
            assert!(text.contains("dynamodb=http://host.docker.internal:4001 sqs="));
            assert!(text.contains("http://host.docker.internal:4002/000000000000/"));
        }
    }

    #[test]
    fn one_file_has_what_is_equal_in_the_three_functions() {
        let text = for_cargo_lambda(&functions(), &endpoints(), "/home/me/sources.toml");
        let lines: Vec<&str> = text.lines().collect();
        for line in [
            "AWS_REGION=\"us-east-1\"",
            "MITT_SOURCES_FILE=\"/home/me/sources.toml\"",
            "MITT_INGRESS_PATH=\"/mitt/ingress\"",
        ] {
            assert!(lines.contains(&line), "{line}: {text}");
        }
        // The values differ, or belong to the function for long actions.
        for name in ["MITT_SECRETS_PATH", "MITT_LONG_ACTIONS"] {
            assert!(!text.contains(name), "{name}: {text}");
        }
        let queue = "MITT_QUEUE_URL=\"http://127.0.0.1:4002/000000000000/";
        assert!(text.contains(queue), "{text}");
    }
}
