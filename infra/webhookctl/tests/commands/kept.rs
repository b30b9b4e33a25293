//! The state of a stack: items, parameters, objects, and the number of messages.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName as Attribute;
use local::Stack;

/// The time limit until all messages are processed.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Kept {
    items: BTreeMap<(String, String), HashMap<String, AttributeValue>>,
    /// The value and the version of each parameter, by its name.
    parameters: BTreeMap<String, (String, i64)>,
    /// The versions of each object, and their content.
    objects: BTreeMap<String, Vec<String>>,
    /// The numbers of visible, in-flight and delayed messages of each queue.
    messages: BTreeMap<String, Vec<String>>,
}

impl Kept {
    pub(crate) async fn of(stack: &Stack) -> Self {
        Self {
            items: items(stack).await,
            parameters: parameters(stack).await,
            objects: objects(stack).await,
            messages: messages(stack).await,
        }
    }

    /// Waits until all messages are processed, and returns the state of the stack.
    pub(crate) async fn at_rest(stack: &Stack) -> Self {
        let rest = async {
            while messages(stack).await.values().flatten().any(|it| it != "0") {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let rests = tokio::time::timeout(PATIENCE, rest).await;
        rests.expect("the queues become empty");
        Self::of(stack).await
    }

    /// Returns the entries that are new, missing or different in `other`.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let mut all = differ(&self.items, &other.items);
        all.extend(differ(&self.parameters, &other.parameters));
        all.extend(differ(&self.objects, &other.objects));
        all.extend(differ(&self.messages, &other.messages));
        all
    }
}

fn differ<K: Ord + std::fmt::Debug, V: PartialEq>(
    one: &BTreeMap<K, V>,
    other: &BTreeMap<K, V>,
) -> Vec<String> {
    let names = one.keys().chain(other.keys());
    let mut names: Vec<&K> = names.filter(|it| one.get(*it) != other.get(*it)).collect();
    names.sort();
    names.dedup();
    names.into_iter().map(|name| format!("{name:?}")).collect()
}

async fn items(stack: &Stack) -> BTreeMap<(String, String), HashMap<String, AttributeValue>> {
    let table = stack.table().unwrap();
    let (mut items, mut from) = (BTreeMap::new(), None);
    loop {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test may look at the whole table"
        )]
        let scan = stack.clients().dynamodb.scan();
        let scan = scan.table_name(table).consistent_read(true);
        let page = scan.set_exclusive_start_key(from).send().await.unwrap();
        for item in page.items.unwrap_or_default() {
            let key = |name: &str| item[name].as_s().unwrap().clone();
            items.insert((key("pk"), key("sk")), item);
        }
        from = page.last_evaluated_key;
        if from.is_none() {
            return items;
        }
    }
}

async fn parameters(stack: &Stack) -> BTreeMap<String, (String, i64)> {
    let (mut parameters, mut next) = (BTreeMap::new(), None);
    loop {
        let ssm = stack.clients().ssm;
        let page = ssm.get_parameters_by_path().path("/").recursive(true);
        let page = page.with_decryption(true).set_next_token(next);
        let page = page.send().await.unwrap();
        for it in page.parameters.unwrap_or_default() {
            let value = (it.value.unwrap_or_default(), it.version);
            parameters.insert(it.name.unwrap_or_default(), value);
        }
        next = page.next_token;
        if next.is_none() {
            return parameters;
        }
    }
}

async fn objects(stack: &Stack) -> BTreeMap<String, Vec<String>> {
    let bucket = stack.bucket("Bodies").unwrap();
    let s3 = stack.clients().s3;
    let listed = s3.list_object_versions().bucket(bucket).send();
    let mut objects: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for version in listed.await.unwrap().versions.unwrap_or_default() {
        let versions = objects.entry(version.key.unwrap_or_default()).or_default();
        versions.push(format!("{:?} {:?}", version.version_id, version.e_tag));
    }
    objects
}

async fn messages(stack: &Stack) -> BTreeMap<String, Vec<String>> {
    let mut messages = BTreeMap::new();
    for queue in stack.template().queues.values() {
        let sqs = stack.clients().sqs;
        let asked = sqs.get_queue_attributes().queue_url(&queue.url);
        let asked = asked.attribute_names(Attribute::All).send().await.unwrap();
        let attributes = asked.attributes.unwrap_or_default();
        let counts = [
            Attribute::ApproximateNumberOfMessages,
            Attribute::ApproximateNumberOfMessagesNotVisible,
            Attribute::ApproximateNumberOfMessagesDelayed,
        ];
        let counts = counts.map(|count| attributes[&count].clone());
        messages.insert(queue.name.clone(), counts.to_vec());
    }
    messages
}
