//! Reads the parts of `template.yaml` that the local stack needs.
//!
//! The deployed template is the only definition of the table, queues, routes, limits and
//! environment. The functions of CloudFormation resolve to values of this machine. The YAML parser
//! is saphyr, because it returns tags and line numbers, and rejects duplicate keys.

mod document;
mod functions;
mod parameters;
mod resources;
mod table;
mod triggers;

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context, bail};
use serde_json::Value;

use super::{names::STACK_NAME, rights::Statement};
use document::{Document, function_arn, scalar_text};
pub use parameters::{Parameter, parameters};
pub use resources::Resources;
pub use table::{TableDefinition, create_table};
pub use triggers::{Mapping, Route, Schedule};

/// The values that CloudFormation sets at deployment.
#[derive(Debug, Clone)]
pub struct Naming {
    pub stack_name: String,
    /// The part of a queue URL before `/<account>/<queue>`.
    pub queue_base: String,
    /// Values for parameters. They override the defaults.
    pub parameters: BTreeMap<String, String>,
}

impl Default for Naming {
    fn default() -> Self {
        Self {
            stack_name: STACK_NAME.to_owned(),
            queue_base: "http://127.0.0.1:9".to_owned(),
            parameters: BTreeMap::new(),
        }
    }
}

/// The resources of a template that the local stack emulates, by logical id.
#[derive(Debug, Clone)]
pub struct Template {
    pub tables: BTreeMap<String, TableDefinition>,
    pub queues: BTreeMap<String, QueueDefinition>,
    /// The names of the buckets by logical id.
    pub buckets: BTreeMap<String, String>,
    pub functions: BTreeMap<String, FunctionDefinition>,
    pub routes: Vec<Route>,
    pub mappings: Vec<Mapping>,
    pub schedules: Vec<Schedule>,
    /// The policy statements of the roles, by logical id.
    pub roles: BTreeMap<String, Vec<Statement>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDefinition {
    pub name: String,
    pub url: String,
    pub arn: String,
    /// The attributes for `CreateQueue`.
    pub attributes: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionDefinition {
    pub name: String,
    pub arn: String,
    /// The name of the executable.
    pub binary: String,
    pub timeout: Duration,
    pub memory_mb: u32,
    pub environment: BTreeMap<String, String>,
    pub reserved_concurrency: Option<usize>,
    /// The logical id of its role.
    pub role: Option<String>,
    /// The log level from the logging configuration, `TRACE` to `FATAL`.
    pub log_level: Option<String>,
}

impl Template {
    pub fn load(path: &Path, naming: &Naming) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("read the template {}", path.display()))?;
        Self::parse(&text, naming).with_context(|| format!("the template {}", path.display()))
    }

    pub fn parse(text: &str, naming: &Naming) -> anyhow::Result<Self> {
        let document = Document::parse(text, naming)?;
        let functions = read_all(&document, FUNCTIONS, read_function)?;
        let queues = read_all(&document, &["AWS::SQS::Queue"], read_queue)?;
        let mut template = Self {
            tables: read_all(&document, TABLES, table::read)?,
            buckets: read_all(&document, &["AWS::S3::Bucket"], |document, id| {
                document.name(id)
            })?,
            functions,
            queues,
            routes: Vec::new(),
            mappings: Vec::new(),
            schedules: Vec::new(),
            roles: read_all(&document, &["AWS::IAM::Role"], read_role)?,
        };
        for id in document.resources(&["AWS::ApiGatewayV2::Route"])? {
            template.routes.push(template.read_route(&document, id)?);
        }
        for id in document.resources(&["AWS::Lambda::EventSourceMapping"])? {
            template
                .mappings
                .push(template.read_mapping(&document, id)?);
        }
        for id in document.resources(&["AWS::Scheduler::Schedule"])? {
            template
                .schedules
                .extend(template.read_schedule(&document, id)?);
        }
        Ok(template)
    }

    /// Returns the only table of the template.
    pub fn table_definition(&self) -> anyhow::Result<&TableDefinition> {
        let mut tables = self.tables.values();
        match (tables.next(), tables.next()) {
            (Some(table), None) => Ok(table),
            (None, _) => bail!("the template has no table"),
            (Some(_), Some(_)) => bail!("the template has more than one table"),
        }
    }

    pub fn queue(&self, id: &str) -> anyhow::Result<&QueueDefinition> {
        self.queues
            .get(id)
            .with_context(|| format!("the template has no queue {id}"))
    }

    pub fn function(&self, id: &str) -> anyhow::Result<&FunctionDefinition> {
        self.functions
            .get(id)
            .with_context(|| format!("the template has no function {id}"))
    }
}
const TABLES: &[&str] = &["AWS::DynamoDB::GlobalTable", "AWS::DynamoDB::Table"];
const FUNCTIONS: &[&str] = &["AWS::Serverless::Function"];

fn read_all<T>(
    document: &Document,
    types: &[&str],
    read: impl Fn(&Document, &str) -> anyhow::Result<T>,
) -> anyhow::Result<BTreeMap<String, T>> {
    let ids = document.resources(types)?;
    ids.into_iter()
        .map(|id| Ok((id.to_owned(), read(document, id)?)))
        .collect()
}

fn read_queue(document: &Document, id: &str) -> anyhow::Result<QueueDefinition> {
    const ATTRIBUTES: [&str; 6] = [
        "DelaySeconds",
        "MaximumMessageSize",
        "MessageRetentionPeriod",
        "ReceiveMessageWaitTimeSeconds",
        "RedrivePolicy",
        "VisibilityTimeout",
    ];
    if document
        .property(id, "FifoQueue")?
        .is_some_and(|fifo| fifo != false)
    {
        bail!("resource {id}: the local SQS does not support FIFO queues");
    }
    let mut attributes = BTreeMap::new();
    for name in ATTRIBUTES {
        // A redrive policy is an object in the template, and a JSON text in SQS.
        if let Some(value) = document.property(id, name)? {
            let text = scalar_text(&value).unwrap_or_else(|| value.to_string());
            attributes.insert(name.to_owned(), text);
        }
    }
    let name = document.name(id)?;
    Ok(QueueDefinition {
        url: document.url_of_queue(&name),
        arn: super::names::arn("sqs", &name),
        name,
        attributes,
    })
}

/// Returns the statements of a role's own policies.
fn read_role(document: &Document, id: &str) -> anyhow::Result<Vec<Statement>> {
    let policies = document.property(id, "Policies")?.unwrap_or_default();
    let policies = policies.as_array().into_iter().flatten();
    let statements = policies.flat_map(|policy| {
        let statements = policy["PolicyDocument"]["Statement"].as_array();
        statements.into_iter().flatten()
    });
    statements
        .map(Statement::read)
        .collect::<anyhow::Result<_>>()
        .with_context(|| format!("resource {id}"))
}

fn read_function(document: &Document, id: &str) -> anyhow::Result<FunctionDefinition> {
    let or_default = |name: &str| -> anyhow::Result<Option<u64>> {
        match number(document, id, name)? {
            Some(value) => Ok(Some(value)),
            None => document
                .function_default(name)?
                .map(|value| to_number(id, name, &value))
                .transpose(),
        }
    };
    let mut environment = BTreeMap::new();
    let sources = [
        document.function_default("Environment")?,
        document.property(id, "Environment")?,
    ];
    for variables in sources
        .iter()
        .flatten()
        .filter_map(|all| all["Variables"].as_object())
    {
        for (name, value) in variables {
            let value = scalar_text(value)
                .with_context(|| format!("resource {id}: the variable {name} is not a string"))?;
            environment.insert(name.clone(), value);
        }
    }
    let logging = match document.property(id, "LoggingConfig")? {
        None => document.function_default("LoggingConfig")?,
        own => own,
    };
    let log_level = logging.and_then(|all| scalar_text(&all["ApplicationLogLevel"]));
    let name = document.name(id)?;
    let role = document.property(id, "Role")?;
    let role = role.as_ref().and_then(Value::as_str).unwrap_or_default();
    let roles = document.resources(&["AWS::IAM::Role"])?;
    let has_name = |id: &&str| {
        let name = document.name(id).unwrap_or_default();
        role.ends_with(&format!(":role/{name}"))
    };
    let role = roles.into_iter().find(has_name).map(str::to_owned);
    let reserved = number(document, id, "ReservedConcurrentExecutions")?;
    Ok(FunctionDefinition {
        arn: function_arn(&name),
        name,
        binary: document.binary(id)?,
        timeout: Duration::from_secs(or_default("Timeout")?.unwrap_or(3)),
        memory_mb: u32::try_from(or_default("MemorySize")?.unwrap_or(128))?,
        environment,
        role,
        reserved_concurrency: reserved.map(usize::try_from).transpose()?,
        log_level,
    })
}

fn string(document: &Document, id: &str, name: &str) -> anyhow::Result<String> {
    scalar_text(&document.required(id, name)?)
        .with_context(|| format!("resource {id}: {name} is not a string"))
}

fn number(document: &Document, id: &str, name: &str) -> anyhow::Result<Option<u64>> {
    document
        .property(id, name)?
        .map(|value| to_number(id, name, &value))
        .transpose()
}

fn to_number(id: &str, name: &str, value: &Value) -> anyhow::Result<u64> {
    scalar_text(value)
        .and_then(|text| text.parse().ok())
        .with_context(|| format!("resource {id}: {name} is {value}, not a whole number"))
}

#[cfg(test)]
mod tests;
