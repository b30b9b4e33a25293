//! A CloudFormation document: YAML with functions (`!Ref`, `!Sub` …) that resolve to values.
//!
//! Only requested values are resolved. Therefore the parts of a template that the local stack does
//! not need (alarms, dashboards) can use all features of CloudFormation.

use anyhow::{Context, anyhow, bail};
use saphyr::{LoadableYamlNode, MarkedYamlOwned, SafelyIndex, ScalarOwned, YamlDataOwned};
use serde_json::{Map, Value};

use super::{Naming, functions::called};
use crate::names::{ACCOUNT, arn};

pub(super) type Node = MarkedYamlOwned;

/// The maximum depth of nesting. It is deeper than in any real template, and detects a resource
/// that refers to itself.
const MAX_DEPTH: usize = 64;

pub(super) struct Document<'a> {
    pub(super) root: Node,
    pub(super) naming: &'a Naming,
}

impl<'a> Document<'a> {
    pub(super) fn parse(text: &str, naming: &'a Naming) -> anyhow::Result<Self> {
        let mut documents = Node::load_from_str(text).context("the template is not YAML")?;
        if documents.len() != 1 {
            bail!(
                "the template must be one YAML document, not {}",
                documents.len()
            );
        }
        let root = documents.remove(0);
        if root.get("Resources").and_then(pairs).is_none() {
            bail!("the template has no resources");
        }
        Ok(Self { root, naming })
    }

    /// Returns the resources of these types, in the order of the template.
    pub(super) fn resources(&self, types: &[&str]) -> anyhow::Result<Vec<&str>> {
        let mut found = Vec::new();
        for (id, node) in self
            .root
            .get("Resources")
            .and_then(pairs)
            .unwrap_or_default()
        {
            let kind = node
                .get("Type")
                .and_then(text)
                .with_context(|| format!("resource {id} (line {}) has no type", line(node)))?;
            let wanted = types.contains(&kind);
            if wanted
                && self
                    .is_there(node)
                    .with_context(|| format!("resource {id}"))?
            {
                found.push(id);
            }
        }
        Ok(found)
    }

    /// Returns one property of a resource, or `None` if it is absent.
    pub(super) fn property(&self, id: &str, name: &str) -> anyhow::Result<Option<Value>> {
        let node = self
            .resource(id)?
            .get("Properties")
            .and_then(|all| all.get(name));
        match node {
            None => Ok(None),
            Some(node) => self
                .resolve(node, 0)
                .with_context(|| format!("resource {id}, property {name} (line {})", line(node))),
        }
    }

    /// Returns one property of a resource. Fails if it is absent.
    pub(super) fn required(&self, id: &str, name: &str) -> anyhow::Result<Value> {
        self.property(id, name)?
            .with_context(|| format!("resource {id} has no property {name}"))
    }

    /// Returns a property of functions in `Globals`: the default for a function without the
    /// property.
    pub(super) fn function_default(&self, name: &str) -> anyhow::Result<Option<Value>> {
        let node = self.root.get("Globals").and_then(|all| all.get("Function"));
        match node.and_then(|all| all.get(name)) {
            None => Ok(None),
            Some(node) => self
                .resolve(node, 0)
                .context("read the Globals of the functions"),
        }
    }

    /// Returns `Metadata.BuildProperties.Binary` of a function.
    pub(super) fn binary(&self, id: &str) -> anyhow::Result<String> {
        let node = self
            .resource(id)?
            .get("Metadata")
            .and_then(|all| all.get("BuildProperties"));
        node.and_then(|all| all.get("Binary"))
            .and_then(text)
            .map(str::to_owned)
            .with_context(|| format!("resource {id} has no Metadata.BuildProperties.Binary"))
    }

    pub(super) fn resource(&self, id: &str) -> anyhow::Result<&Node> {
        self.root
            .get("Resources")
            .and_then(|all| all.get(id))
            .with_context(|| format!("the template has no resource {id}"))
    }

    fn is_there(&self, resource: &Node) -> anyhow::Result<bool> {
        match resource.get("Condition").and_then(text) {
            None => Ok(true),
            Some(name) => self.condition(name, 0),
        }
    }

    pub(super) fn condition(&self, name: &str, depth: usize) -> anyhow::Result<bool> {
        let node = self
            .root
            .get("Conditions")
            .and_then(|all| all.get(name))
            .with_context(|| format!("the template has no condition {name}"))?;
        self.truth(node, depth + 1)
            .with_context(|| format!("condition {name}"))
    }

    pub(super) fn truth(&self, node: &Node, depth: usize) -> anyhow::Result<bool> {
        match self.resolve(node, depth)? {
            Some(Value::Bool(truth)) => Ok(truth),
            Some(Value::String(text)) if text == "true" || text == "false" => Ok(text == "true"),
            _ => bail!("line {}: the condition must be true or false", line(node)),
        }
    }

    /// Returns the value of a node, or `None` for `AWS::NoValue`.
    pub(super) fn resolve(&self, node: &Node, depth: usize) -> anyhow::Result<Option<Value>> {
        if depth > MAX_DEPTH {
            bail!("line {}: the template refers to itself", line(node));
        }
        if let Some((function, argument)) = called(node) {
            return self
                .call(function, &argument, depth + 1)
                .map_err(|error| located(error, line(node), function));
        }
        Ok(Some(match &node.data {
            YamlDataOwned::Value(scalar) => plain(scalar),
            YamlDataOwned::Sequence(items) => {
                let mut values = Vec::new();
                for item in items {
                    values.extend(self.resolve(item, depth + 1)?);
                }
                Value::Array(values)
            }
            YamlDataOwned::Mapping(_) => {
                let mut map = Map::new();
                for (key, value) in pairs(node).unwrap_or_default() {
                    if let Some(value) = self.resolve(value, depth + 1)? {
                        map.insert(key.to_owned(), value);
                    }
                }
                Value::Object(map)
            }
            YamlDataOwned::Tagged(tag, _) => bail!("line {}: unknown tag {tag:?}", line(node)),
            _ => bail!("line {}: the YAML node is not a value", line(node)),
        }))
    }

    pub(super) fn kind(&self, id: &str) -> anyhow::Result<&str> {
        let resource = self
            .resource(id)
            .map_err(|_| anyhow!("{id} is neither a parameter nor a resource"))?;
        resource
            .get("Type")
            .and_then(text)
            .with_context(|| format!("resource {id} has no type"))
    }

    pub(super) fn name(&self, id: &str) -> anyhow::Result<String> {
        self.physical_name(id, 0)
            .with_context(|| format!("resource {id}"))
    }

    /// Returns the name on this machine, from the template or built from stack name and logical id.
    pub(super) fn physical_name(&self, id: &str, depth: usize) -> anyhow::Result<String> {
        let kind = self.kind(id)?;
        let property = match kind {
            "AWS::SQS::Queue" => "QueueName",
            "AWS::S3::Bucket" => "BucketName",
            "AWS::DynamoDB::Table" | "AWS::DynamoDB::GlobalTable" => "TableName",
            "AWS::Serverless::Function" | "AWS::Lambda::Function" => "FunctionName",
            "AWS::IAM::Role" => "RoleName",
            // AWS generates the ids of other resources. On this machine, the logical id replaces
            // the id.
            _ => return Ok(id.to_owned()),
        };
        let given = self
            .resource(id)?
            .get("Properties")
            .and_then(|all| all.get(property));
        if let Some(node) = given
            && let Some(value) = self.resolve(node, depth + 1)?
        {
            let name = value
                .as_str()
                .with_context(|| format!("{property} must be a string"))?;
            return Ok(name.to_owned());
        }
        let name = format!("{}-{id}", self.naming.stack_name);
        Ok(if kind == "AWS::S3::Bucket" {
            name.to_lowercase()
        } else {
            name
        })
    }

    pub(super) fn url_of_queue(&self, name: &str) -> String {
        format!("{}/{ACCOUNT}/{name}", self.naming.queue_base)
    }
}

/// Adds the line and the function to an error, unless it has them already. Only the innermost
/// position is useful.
fn located(error: anyhow::Error, line: usize, function: &str) -> anyhow::Error {
    if error.to_string().starts_with("line ") {
        return error;
    }
    error.context(format!("line {line}: {function}"))
}

pub(super) fn function_arn(name: &str) -> String {
    arn("lambda", &format!("function:{name}"))
}

/// Returns the text of a string, a number or a boolean in CloudFormation's format.
pub(super) fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

fn plain(scalar: &ScalarOwned) -> Value {
    match scalar {
        ScalarOwned::Null => Value::Null,
        ScalarOwned::Boolean(truth) => (*truth).into(),
        ScalarOwned::Integer(number) => (*number).into(),
        ScalarOwned::FloatingPoint(number) => number.into_inner().into(),
        ScalarOwned::String(text) => text.as_str().into(),
    }
}

pub(super) fn pairs(node: &Node) -> Option<Vec<(&str, &Node)>> {
    let map = node.data.as_mapping()?;
    Some(
        map.iter()
            .filter_map(|(key, value)| Some((key.data.as_str()?, value)))
            .collect(),
    )
}

pub(super) fn text(node: &Node) -> Option<&str> {
    node.data.as_str()
}

pub(super) fn line(node: &Node) -> usize {
    node.span.start.line()
}
