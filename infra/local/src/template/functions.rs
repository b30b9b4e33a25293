//! Resolves CloudFormation's functions and references.

use std::{borrow::Cow, collections::BTreeMap};

use anyhow::{Context, bail};
use saphyr::{SafelyIndex, YamlDataOwned};
use serde_json::Value;

use super::document::{Document, Node, function_arn, pairs, scalar_text, text};
use crate::names::{ACCOUNT, REGION, arn};

/// Returns a function and its argument, from the short form (`!Ref x`) or the long one.
pub(super) fn called(node: &Node) -> Option<(&str, Cow<'_, Node>)> {
    if let YamlDataOwned::Tagged(tag, inner) = &node.data {
        return Some((tag.suffix.as_str(), Cow::Borrowed(inner.as_ref())));
    }
    let pairs = pairs(node)?;
    let [(key, argument)] = pairs.as_slice() else {
        return None;
    };
    let name = match *key {
        "Ref" | "Condition" => *key,
        other => other.strip_prefix("Fn::")?,
    };
    Some((name, Cow::Borrowed(*argument)))
}

impl Document<'_> {
    pub(super) fn call(
        &self,
        name: &str,
        argument: &Node,
        depth: usize,
    ) -> anyhow::Result<Option<Value>> {
        Ok(Some(match name {
            "Ref" => return self.reference(name_in(argument)?, depth),
            "Condition" => Value::Bool(self.condition(name_in(argument)?, depth)?),
            "GetAtt" => match argument.data.as_sequence() {
                Some(parts) => {
                    let parts: Vec<_> = parts.iter().filter_map(text).collect();
                    self.attribute(&parts.join("."), depth)?.into()
                }
                None => self.attribute(name_in(argument)?, depth)?.into(),
            },
            "Sub" => self.substitute(argument, depth)?.into(),
            "Join" => self.join(argument, depth)?,
            "Select" => self.select(argument, depth)?,
            "Split" => match items(argument)? {
                [separator, whole] => {
                    let whole = self.string(whole, depth)?;
                    let separator = self.string(separator, depth)?;
                    whole.split(&separator).collect::<Vec<_>>().into()
                }
                _ => bail!("the arguments must be a separator and a string"),
            },
            "FindInMap" => self.find_in_map(argument, depth)?,
            "If" => match items(argument)? {
                [condition, yes, no] => {
                    let truth = self.condition(
                        text(condition).context("the first argument must be a name")?,
                        depth,
                    )?;
                    return self.resolve(if truth { yes } else { no }, depth);
                }
                _ => bail!("the arguments must be a condition and two values"),
            },
            "Equals" => match items(argument)? {
                [one, other] => (self.string(one, depth)? == self.string(other, depth)?).into(),
                _ => bail!("the arguments must be two values"),
            },
            "Not" => match items(argument)? {
                [one] => (!self.truth(one, depth)?).into(),
                _ => bail!("the argument must be one condition"),
            },
            "And" | "Or" => {
                let truths: Vec<_> = items(argument)?
                    .iter()
                    .map(|one| self.truth(one, depth))
                    .collect::<Result<_, _>>()?;
                let all = truths.iter().all(|truth| *truth);
                (if name == "And" {
                    all
                } else {
                    truths.contains(&true)
                })
                .into()
            }
            other => bail!("the local stack does not support the function {other}"),
        }))
    }

    fn join(&self, argument: &Node, depth: usize) -> anyhow::Result<Value> {
        let [separator, list] = items(argument)? else {
            bail!("the arguments must be a separator and a list");
        };
        let list = self
            .resolve(list, depth)?
            .context("the list has no value")?;
        let list = list
            .as_array()
            .context("the second argument must be a list")?;
        let parts: Option<Vec<_>> = list.iter().map(scalar_text).collect();
        let parts = parts.context("the list must contain only strings")?;
        Ok(parts.join(&self.string(separator, depth)?).into())
    }

    fn select(&self, argument: &Node, depth: usize) -> anyhow::Result<Value> {
        let [at, list] = items(argument)? else {
            bail!("the arguments must be a number and a list");
        };
        let at: usize = self
            .string(at, depth)?
            .parse()
            .context("the first argument must be a number")?;
        let list = self
            .resolve(list, depth)?
            .context("the list has no value")?;
        list.get(at).cloned().context("the list is too short")
    }

    fn find_in_map(&self, argument: &Node, depth: usize) -> anyhow::Result<Value> {
        let [map, first, second] = items(argument)? else {
            bail!("the arguments must be a map and two keys");
        };
        let mut found = self.root.get("Mappings");
        for key in [map, first, second] {
            let key = self.string(key, depth).ok();
            found = found.and_then(|all| all.get(key?));
        }
        let found = found.context("the map does not have these keys")?;
        self.resolve(found, depth)?
            .context("the argument has no value")
    }

    fn string(&self, node: &Node, depth: usize) -> anyhow::Result<String> {
        let value = self
            .resolve(node, depth)?
            .context("the argument has no value")?;
        scalar_text(&value).context("the argument must be a string")
    }

    fn reference(&self, name: &str, depth: usize) -> anyhow::Result<Option<Value>> {
        let pseudo = match name {
            "AWS::NoValue" => return Ok(None),
            "AWS::StackName" => Some(self.naming.stack_name.as_str()),
            "AWS::StackId" => Some("arn:aws:cloudformation:us-east-1:000000000000:stack/local/1"),
            "AWS::Region" => Some(REGION),
            "AWS::AccountId" => Some(ACCOUNT),
            "AWS::Partition" => Some("aws"),
            "AWS::URLSuffix" => Some("amazonaws.com"),
            _ => None,
        };
        if let Some(value) = pseudo {
            return Ok(Some(value.into()));
        }
        if let Some(parameter) = self.root.get("Parameters").and_then(|all| all.get(name)) {
            if let Some(value) = self.naming.parameters.get(name) {
                return Ok(Some(value.as_str().into()));
            }
            let default = parameter
                .get("Default")
                .with_context(|| format!("the parameter {name} has no default and no value"))?;
            return self.resolve(default, depth);
        }
        let kind = self.kind(name)?;
        let physical = self.physical_name(name, depth)?;
        Ok(Some(match kind {
            "AWS::SQS::Queue" => self.url_of_queue(&physical).into(),
            _ => physical.into(),
        }))
    }

    fn attribute(&self, path: &str, depth: usize) -> anyhow::Result<String> {
        let (id, attribute) = path
            .split_once('.')
            .context("the argument must have the form Resource.Attribute")?;
        let kind = self.kind(id)?;
        let name = self.physical_name(id, depth)?;
        Ok(match (kind, attribute) {
            ("AWS::SQS::Queue", "Arn") => arn("sqs", &name),
            ("AWS::SQS::Queue", "QueueName") => name,
            ("AWS::SQS::Queue", "QueueUrl") => self.url_of_queue(&name),
            ("AWS::S3::Bucket", "Arn") => format!("arn:aws:s3:::{name}"),
            ("AWS::DynamoDB::Table" | "AWS::DynamoDB::GlobalTable", "Arn") => {
                arn("dynamodb", &format!("table/{name}"))
            }
            ("AWS::Serverless::Function" | "AWS::Lambda::Function", "Arn") => function_arn(&name),
            ("AWS::IAM::Role", "Arn") => format!("arn:aws:iam::{ACCOUNT}:role/{name}"),
            (_, "Arn") => arn("local", &name),
            _ => bail!("the local stack does not support {path} of a {kind}"),
        })
    }

    fn substitute(&self, argument: &Node, depth: usize) -> anyhow::Result<String> {
        let (template, extra) = match argument.data.as_sequence().map(Vec::as_slice) {
            None => (text(argument), BTreeMap::new()),
            Some([template, values]) => (
                text(template),
                pairs(values).unwrap_or_default().into_iter().collect(),
            ),
            Some(_) => bail!("the argument must be a string, or a string and values"),
        };
        let mut rest = template.context("the argument must be a string")?;
        let mut result = String::new();
        while let Some((before, after)) = rest.split_once("${") {
            result.push_str(before);
            let (name, after) = after.split_once('}').context("a `${` has no closing `}`")?;
            rest = after;
            let name = name.trim();
            if let Some(literal) = name.strip_prefix('!') {
                result.push_str("${");
                result.push_str(literal);
                result.push('}');
                continue;
            }
            let value = match extra.get(name) {
                Some(node) => self.resolve(node, depth)?,
                None if name.contains('.') => Some(self.attribute(name, depth)?.into()),
                None => self.reference(name, depth)?,
            };
            let value = value.as_ref().and_then(scalar_text);
            result.push_str(&value.with_context(|| format!("{name} is not a string"))?);
        }
        result.push_str(rest);
        Ok(result)
    }
}

fn name_in(argument: &Node) -> anyhow::Result<&str> {
    text(argument).context("the argument must be a name")
}

fn items(argument: &Node) -> anyhow::Result<&[Node]> {
    let items = argument.data.as_sequence();
    items
        .map(Vec::as_slice)
        .context("the argument must be a list")
}
