use super::*;

const EVENT: usize = 5;

fn row(state: &str, owner: &str, epoch: i64) -> Item {
    let text = |value: &str| Value::S(value.to_owned());
    let row = [
        ("st", text(state)),
        ("own", text(owner)),
        ("epoch", Value::N(epoch.to_string())),
    ];
    row.map(|(name, value)| (name.to_owned(), value)).into()
}

fn changed(old: Item, new: Item) -> Changed {
    Changed {
        pk: format!("E#s#evt_{EVENT:09}"),
        sk: "M".into(),
        old: Some(old),
        new: Some(new),
    }
}

/// Returns the record of an event that these invocations claimed one after the other.
fn claimed(by: &[u64]) -> Witness {
    let mut witness = Witness::default();
    let mut before = row("received", "", 0);
    for (epoch, invocation) in (1..).zip(by) {
        let after = row("processing", &invocation.to_string(), epoch);
        witness.saw(&changed(before, after.clone()), *invocation);
        before = after;
    }
    witness
}

fn work_message() -> Message {
    Message {
        id: 1,
        body: format!("E#s#evt_{EVENT:09}"),
        sent_at: 0,
        receives: 1,
    }
}

fn interrupted(witness: &Witness) -> u32 {
    witness.known[&EVENT].interrupted
}

#[test]
fn what_a_worker_had_no_message_of_was_interrupted_too() {
    let mut witness = claimed(&[7]);
    witness.ended(8, &[], |_| true);
    assert_eq!(interrupted(&witness), 0);
    witness.ended(7, &[], |_| true);
    assert_eq!(interrupted(&witness), 1);
}

#[test]
fn what_it_had_a_message_of_was_interrupted_once() {
    let mut witness = claimed(&[7]);
    witness.ended(7, &[work_message()], |_| true);
    assert_eq!(interrupted(&witness), 1);
    let mut witness = claimed(&[7]);
    witness.ended(7, &[work_message()], |_| false);
    assert_eq!(interrupted(&witness), 0);
}

#[test]
fn what_it_had_settled_was_not_interrupted() {
    let mut witness = claimed(&[7]);
    let settled = changed(row("processing", "7", 1), row("done", "", 1));
    witness.saw(&settled, 7);
    witness.ended(7, &[], |_| true);
    assert_eq!(interrupted(&witness), 0);
}

#[test]
fn what_was_taken_from_a_slow_worker_was_interrupted_once() {
    let mut witness = claimed(&[7, 9]);
    assert_eq!(interrupted(&witness), 1);
    witness.ended(7, &[work_message()], |_| true);
    assert_eq!(interrupted(&witness), 1);
    // The other invocation holds the event now, and crashes.
    witness.ended(9, &[], |_| true);
    assert_eq!(interrupted(&witness), 2);
}

#[test]
fn what_was_given_up_in_the_hands_of_a_slow_worker_was_interrupted_once() {
    let given_up = || changed(row("processing", "7", 1), row("dead_letter", "", 1));
    let mut witness = claimed(&[7]);
    witness.saw(&given_up(), 9);
    assert_eq!(interrupted(&witness), 1);
    witness.ended(7, &[work_message()], |_| true);
    assert_eq!(interrupted(&witness), 1);
    // This invocation had already ended.
    let mut witness = claimed(&[7]);
    witness.ended(7, &[], |_| true);
    witness.saw(&given_up(), 9);
    assert_eq!(interrupted(&witness), 1);
}

#[test]
fn a_claim_that_arrives_after_its_worker_died_was_interrupted() {
    let mut witness = Witness::default();
    witness.ended(7, &[], |_| true);
    let claim = changed(row("received", "", 0), row("processing", "7", 1));
    witness.saw(&claim, 7);
    assert_eq!(interrupted(&witness), 1);
}
