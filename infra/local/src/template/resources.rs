//! All resources of a template, including those that the local stack does not emulate.

use std::collections::BTreeMap;

use anyhow::Context as _;
use saphyr::SafelyIndex as _;
use serde_json::Value;

use super::Naming;
use super::document::{Document, pairs, text};

/// The resources that exist with the parameters of `naming`.
pub struct Resources<'n> {
    document: Document<'n>,
    kinds: BTreeMap<String, String>,
}

impl<'n> Resources<'n> {
    pub fn parse(template: &str, naming: &'n Naming) -> anyhow::Result<Self> {
        let document = Document::parse(template, naming)?;
        let all = document.root.get("Resources").and_then(pairs);
        let mut kinds = BTreeMap::new();
        for (id, node) in all.unwrap_or_default() {
            let kind = node.get("Type").and_then(text);
            let kind = kind.with_context(|| format!("resource {id} has no type"))?;
            if document.resources(&[kind])?.contains(&id) {
                kinds.insert(id.to_owned(), kind.to_owned());
            }
        }
        Ok(Self { document, kinds })
    }

    /// Returns the logical ids with their types.
    pub fn kinds(&self) -> &BTreeMap<String, String> {
        &self.kinds
    }

    /// Returns the logical ids of one type.
    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self.kinds.iter().filter(move |(_, its)| *its == kind);
        all.map(|(id, _)| id.as_str())
    }

    /// Returns one property of a resource with its functions resolved, or `None` if it is absent.
    pub fn property(&self, id: &str, name: &str) -> anyhow::Result<Option<Value>> {
        self.document.property(id, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "
Parameters: { Alarms: { Type: String, Default: all } }
Conditions: { All: !Equals [!Ref Alarms, all] }
Resources:
  One: { Type: 'AWS::CloudWatch::Alarm', Properties: { Period: 60 } }
  Two: { Type: 'AWS::CloudWatch::Alarm', Condition: All }
  Inbox: { Type: 'AWS::SQS::Queue' }
";

    fn alarms(parameters: &[(&str, &str)]) -> Vec<String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let naming = Naming {
            parameters: parameters.iter().map(own).collect(),
            ..Naming::default()
        };
        let resources = Resources::parse(TEMPLATE, &naming).unwrap();
        let alarms = resources.of("AWS::CloudWatch::Alarm");
        alarms.map(str::to_owned).collect()
    }

    #[test]
    fn a_resource_is_there_as_the_parameters_say() {
        assert_eq!(alarms(&[]), ["One", "Two"]);
        assert_eq!(alarms(&[("Alarms", "few")]), ["One"]);
    }

    #[test]
    fn a_property_is_read_or_absent() {
        let naming = Naming::default();
        let resources = Resources::parse(TEMPLATE, &naming).unwrap();
        assert_eq!(
            resources.property("One", "Period").unwrap(),
            Some(60.into())
        );
        assert_eq!(resources.property("Two", "Period").unwrap(), None);
        assert_eq!(resources.kinds().len(), 3);
    }
}
