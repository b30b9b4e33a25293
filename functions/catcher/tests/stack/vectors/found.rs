//! Reads the results of the requests: rows, and lines in the log.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Inbox, Item};

/// Returns the state rows of all events.
pub(super) async fn events(inbox: &Inbox) -> Vec<Item> {
    let clients = inbox.stack.clients();
    let mut events = Vec::new();
    let mut from = None;
    loop {
        #[expect(clippy::disallowed_methods, reason = "a test may read the whole table")]
        let scan = clients.dynamodb.scan();
        let scan = scan.table_name(inbox.stack.table().unwrap());
        let page = scan.set_exclusive_start_key(from).send().await.unwrap();
        events.extend(page.items.unwrap_or_default().into_iter().filter(|item| {
            item["pk"].as_s().unwrap().starts_with("E#") && item["sk"].as_s().unwrap() == "M"
        }));
        from = page.last_evaluated_key;
        if from.is_none() {
            return events;
        }
    }
}

/// Returns for each source the reasons of the catcher's rejections in the log, in order. Each
/// reason has the number of rejections that its line stands for, which includes earlier ones.
pub(super) fn refusals(inbox: &Inbox) -> BTreeMap<String, Vec<(String, usize)>> {
    let log = std::fs::read_to_string(inbox.stack.log_file("Catcher").unwrap()).unwrap();
    let mut refusals: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in log.lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let fields = &line["fields"];
        if fields["verification"] == "refused" {
            let text = |name: &str| fields[name].as_str().unwrap().to_owned();
            let count = fields["refused"].as_u64().unwrap();
            refusals
                .entry(text("source"))
                .or_default()
                .push((text("reason"), count.try_into().unwrap()));
        }
    }
    refusals
}
