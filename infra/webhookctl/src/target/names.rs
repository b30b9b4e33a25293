//! The names of the resources of a deployment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The resource names that commands need. A stack publishes them in the SSM parameter
/// [`Names::parameter`] and as outputs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Names {
    /// The base URL. A webhook for a source goes to `{url}/in/{source}`.
    pub url: Option<String>,
    pub table: Option<String>,
    /// The bucket for bodies that are too large for a row.
    pub bucket: Option<String>,
    /// The work queue.
    pub queue_url: Option<String>,
    /// The backlog queue.
    pub backlog_queue_url: Option<String>,
    /// The queue for long actions, if the stack has one.
    pub long_queue_url: Option<String>,
    pub work_dead_letters_url: Option<String>,
    pub spill_queue_url: Option<String>,
    pub ops_dead_letters_url: Option<String>,
    /// The parent path of `ingress`, `egress` and `provider-api`.
    pub secrets_path: Option<String>,
    /// The prefix of the names of secrets in Secrets Manager, if the stack reads any.
    pub secrets_manager_prefix: Option<String>,
    pub catcher: Option<String>,
    pub processor: Option<String>,
    /// The function for long actions, if the stack has one.
    pub long_processor: Option<String>,
    pub backup_sync: Option<String>,
    /// The version of Mitt that the stack was deployed from.
    pub version: Option<String>,
}

impl Names {
    /// Returns the name of the SSM parameter with the names of a stack. The parameter contains no
    /// secrets.
    pub fn parameter(stack: &str) -> String {
        format!("/{stack}/names")
    }

    /// Returns each name with its key in context files and its output of the stack.
    pub fn fields(&mut self) -> [(&'static str, &'static str, &mut Option<String>); 16] {
        [
            ("url", "ApiUrl", &mut self.url),
            ("table", "TableName", &mut self.table),
            ("bucket", "BodyBucket", &mut self.bucket),
            ("queue_url", "QueueUrl", &mut self.queue_url),
            (
                "backlog_queue_url",
                "BacklogQueueUrl",
                &mut self.backlog_queue_url,
            ),
            ("long_queue_url", "LongQueueUrl", &mut self.long_queue_url),
            (
                "work_dead_letters_url",
                "WorkDeadLettersUrl",
                &mut self.work_dead_letters_url,
            ),
            (
                "spill_queue_url",
                "SpillQueueUrl",
                &mut self.spill_queue_url,
            ),
            (
                "ops_dead_letters_url",
                "OpsDeadLettersUrl",
                &mut self.ops_dead_letters_url,
            ),
            ("secrets_path", "SecretsPath", &mut self.secrets_path),
            (
                "secrets_manager_prefix",
                "SecretsManagerPrefix",
                &mut self.secrets_manager_prefix,
            ),
            ("catcher", "CatcherFunction", &mut self.catcher),
            ("processor", "ProcessorFunction", &mut self.processor),
            (
                "long_processor",
                "LongProcessorFunction",
                &mut self.long_processor,
            ),
            ("backup_sync", "BackupSyncFunction", &mut self.backup_sync),
            ("version", "Version", &mut self.version),
        ]
    }

    /// Returns the names from the outputs of a stack. Ignores unknown outputs.
    pub fn from_outputs(outputs: &BTreeMap<String, String>) -> Self {
        let mut names = Self::default();
        for (_, output, name) in names.fields() {
            *name = outputs.get(output).cloned();
        }
        names.without_empty()
    }

    /// Treats empty names as missing.
    #[must_use]
    pub fn without_empty(mut self) -> Self {
        for (_, _, name) in self.fields() {
            name.take_if(|name| name.is_empty());
        }
        self
    }

    /// Returns these names. Takes missing names from `other`.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        let mut other = other.clone();
        for ((_, _, mine), (_, _, theirs)) in self.fields().into_iter().zip(other.fields()) {
            if mine.is_none() {
                *mine = theirs.take();
            }
        }
        self
    }

    /// Returns the path of the secrets of one kind: `ingress`, `egress` or `provider-api`. If no
    /// path is set, derives it from the table name, which CloudFormation creates as
    /// `<stack>-Inbox-<random>`.
    pub fn secrets(&self, kind: &str) -> Option<String> {
        let by_table = || {
            let (stack, _) = self.table.as_deref()?.rsplit_once("-Inbox-")?;
            Some(format!("/{stack}"))
        };
        let path = self.secrets_path.clone().or_else(by_table)?;
        let path = path.trim_end_matches('/');
        let path = path.strip_suffix("/ingress").unwrap_or(path);
        Some(format!("{path}/{kind}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_secrets_is_given_or_follows_from_the_table() {
        let said = |table: &str, given: Option<&str>| {
            let names = Names {
                table: Some(table.to_owned()),
                secrets_path: given.map(str::to_owned),
                ..Names::default()
            };
            names.secrets("ingress")
        };
        let stack = "/mitt-prod/ingress";
        assert_eq!(said("mitt-prod-Inbox-1ABC", None).as_deref(), Some(stack));
        for given in ["/mitt-prod", "/mitt-prod/", "/mitt-prod/ingress"] {
            assert_eq!(said("other", Some(given)).as_deref(), Some(stack));
        }
        assert_eq!(said("other", None), None);
    }

    #[test]
    fn outputs_of_a_stack_become_names() {
        let outputs = [
            ("TableName", "mitt-Inbox-1"),
            ("ApiId", "a1b2"),
            ("QueueUrl", ""),
        ];
        let outputs = outputs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let names = Names::from_outputs(&outputs.into());
        assert_eq!(names.table.as_deref(), Some("mitt-Inbox-1"));
        assert_eq!(names.queue_url, None);
    }

    #[test]
    fn each_name_is_an_output_and_in_the_parameter_of_the_template() {
        let template = include_str!("../../../../template.yaml");
        for (word, output, _) in Names::default().fields() {
            assert!(template.contains(&format!("\n  {output}:\n")), "{output}");
            assert!(template.contains(&format!("\"{word}\":")), "{word}");
        }
    }
}
