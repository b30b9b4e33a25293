//! The counts of a function's work.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use crate::cost::bill::{QUEUE_CHUNK, chunks, number};
use crate::item::{Item, size, units};

/// The AWS services that the functions use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Service {
    Table,
    Queue,
    Bucket,
    Parameters,
}

/// All billed quantities of some work, except storage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) invocations: u64,
    /// Write units of the table and of each index, with keys such as `table` and `index time`.
    pub(crate) writes: BTreeMap<String, f64>,
    pub(crate) reads: f64,
    pub(crate) queue_requests: u64,
    pub(crate) object_puts: u64,
    pub(crate) object_gets: u64,
    /// The time during which at least one request was open.
    pub(crate) waited: Duration,
    pub(crate) cpu: Duration,
    pub(crate) log_lines: u64,
    pub(crate) log_bytes: u64,
    /// The time spans of requests, until the count is closed.
    pub(crate) spans: Vec<(Instant, Instant)>,
}

impl Tally {
    pub(crate) fn write_units(&self) -> f64 {
        self.writes.values().sum()
    }

    /// Records a request to a service outside AWS.
    pub(crate) fn outside(&mut self, began: Instant, ended: Instant) {
        self.spans.push((began, ended));
    }

    pub(crate) fn call(&mut self, service: Service, call: &Call<'_>, span: (Instant, Instant)) {
        self.spans.push(span);
        match service {
            Service::Table => self.table(call),
            Service::Queue => {
                let larger = call.request.len().max(call.answer.len());
                self.queue_requests += u64::from(chunks(larger, QUEUE_CHUNK));
            }
            Service::Bucket => match call.operation {
                "GET" | "HEAD" => self.object_gets += 1,
                _ => self.object_puts += 1,
            },
            // Standard parameters are free.
            Service::Parameters => {}
        }
    }

    /// Closes the count, and computes the waiting time.
    #[must_use]
    pub(crate) fn closed(mut self) -> Self {
        self.waited += union(std::mem::take(&mut self.spans));
        self
    }

    fn table(&mut self, call: &Call<'_>) {
        let mut write = |place: String, units| *self.writes.entry(place).or_default() += units;
        if call.refused {
            write("table".to_owned(), refused(call));
            return;
        }
        let reads = ["GetItem", "BatchGetItem", "Query", "Scan"].contains(&call.operation);
        let answer: Value = serde_json::from_slice(call.answer).unwrap_or_default();
        let tables = match &answer["ConsumedCapacity"] {
            Value::Array(tables) => tables.as_slice(),
            Value::Null => &[],
            one => std::slice::from_ref(one),
        };
        for table in tables {
            if reads {
                self.reads += consumed(table);
                continue;
            }
            write("table".to_owned(), consumed(&table["Table"]));
            let indexes = table["GlobalSecondaryIndexes"].as_object();
            for (name, index) in indexes.into_iter().flatten() {
                write(format!("index {name}"), consumed(index));
            }
        }
    }
}

/// A request and its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'c> {
    pub(crate) operation: &'c str,
    pub(crate) request: &'c [u8],
    pub(crate) answer: &'c [u8],
    /// Whether the service rejected the request.
    pub(crate) refused: bool,
}

/// Reads the consumed units. DynamoDB reports them under one of these names.
fn consumed(capacity: &Value) -> f64 {
    let names = ["CapacityUnits", "WriteCapacityUnits", "ReadCapacityUnits"];
    let units = names.iter().find_map(|name| capacity[*name].as_f64());
    units.unwrap_or_default()
}

/// Returns the units of a write whose condition fails. DynamoDB does not report these units. It
/// bills the larger of the existing item and the item to write.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html#WorkingWithItems.ConditionalUpdate>
fn refused(call: &Call<'_>) -> f64 {
    let of = |message| {
        let with: WithItem = serde_json::from_slice(message).unwrap_or_default();
        size(&with.item)
    };
    number(units(of(call.request).max(of(call.answer))))
}

#[derive(Default, Deserialize)]
struct WithItem {
    #[serde(default, rename = "Item")]
    item: Item,
}

/// Returns the total time that is covered by at least one of the spans.
fn union(mut spans: Vec<(Instant, Instant)>) -> Duration {
    spans.sort_unstable();
    let mut sum = Duration::ZERO;
    let mut reached: Option<Instant> = None;
    for (began, ended) in spans {
        let from = reached.map_or(began, |reached| began.max(reached));
        sum += ended.saturating_duration_since(from);
        reached = Some(reached.map_or(ended, |reached| ended.max(reached)));
    }
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tally(service: Service, operation: &str, request: &Value, answer: &Value) -> Tally {
        let (request, answer) = (request.to_string(), answer.to_string());
        let call = Call {
            operation,
            request: request.as_bytes(),
            answer: answer.as_bytes(),
            refused: answer.contains("Exception"),
        };
        let mut tally = Tally::default();
        let now = Instant::now();
        tally.call(service, &call, (now, now));
        tally
    }

    #[test]
    fn what_dynamodb_tells_of_a_write_is_counted_by_place() {
        let answer = json!({"ConsumedCapacity": {
            "CapacityUnits": 4.0,
            "Table": {"CapacityUnits": 1.0},
            "GlobalSecondaryIndexes": {
                "time": {"CapacityUnits": 1.0}, "work": {"CapacityUnits": 2.0},
            },
        }});
        let tally = tally(Service::Table, "UpdateItem", &json!({}), &answer);
        let places: Vec<_> = tally.writes.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(
            places,
            [("index time", 1.0), ("index work", 2.0), ("table", 1.0)]
        );
        assert!((tally.write_units() - 4.0).abs() < 1e-9);
        assert!(tally.reads.abs() < 1e-9);
    }

    #[test]
    fn a_read_and_each_table_of_a_batch_are_read_units() {
        let one =
            json!({"ConsumedCapacity": {"CapacityUnits": 0.5, "Table": {"CapacityUnits": 0.5}}});
        assert!((tally(Service::Table, "Query", &json!({}), &one).reads - 0.5).abs() < 1e-9);
        let two = json!({"ConsumedCapacity": [{"CapacityUnits": 0.5}, {"CapacityUnits": 2.0}]});
        let tally = tally(Service::Table, "BatchGetItem", &json!({}), &two);
        assert!((tally.reads - 2.5).abs() < 1e-9);
    }

    #[test]
    fn a_refused_write_costs_by_the_larger_item() {
        let refused = |would: usize, there: usize| {
            let request = json!({"Item": {"b": {"S": "x".repeat(would)}}});
            let answer = json!({
                "__type": "ConditionalCheckFailedException",
                "Item": {"b": {"S": "x".repeat(there)}},
            });
            tally(Service::Table, "PutItem", &request, &answer).write_units()
        };
        let costs = [refused(10, 10), refused(10, 1_024), refused(2_100, 10)];
        assert_eq!(costs.map(|units| units.to_string()), ["1", "2", "3"]);
    }

    #[test]
    fn a_queue_is_billed_by_the_larger_side_in_chunks() {
        let large = json!({"Messages": "x".repeat(QUEUE_CHUNK)});
        let tally = tally(Service::Queue, "ReceiveMessage", &json!({}), &large);
        assert_eq!(tally.queue_requests, 2);
    }

    #[test]
    fn what_happens_at_once_is_waited_for_once() {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let spans = vec![
            (at(40), at(50)),
            (at(0), at(10)),
            (at(5), at(20)),
            (at(6), at(7)),
        ];
        assert_eq!(union(spans), Duration::from_millis(30));
        assert_eq!(union(Vec::new()), Duration::ZERO);
    }
}
