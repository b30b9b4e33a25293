//! Tests plans. A plan is stored completely or not at all. Only one operator at a time applies a
//! plan, and a plan ends once.

use std::time::Duration;

use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{
    KEEP_PLAN, Ledger, Plan, PlanClaim, PlanEvent, PlanFacts, PlanLease, PlanLeftOut, PlanOutcome,
    PlanRun, PlanState, Through, plan_digest,
};
use shared::webhook::event::EventKey;

use crate::support::{NOW, Table, after, number};

const ID: &str = "rpl_7KQ2M4";
const LEASE: Duration = Duration::from_secs(30);
const GOOD: Duration = Duration::from_secs(3600);

/// The time after [`NOW`] at which another operator can take over a lease from [`NOW`], in
/// milliseconds.
const OVER: u64 = 35_001;

fn events(count: usize) -> Vec<PlanEvent> {
    let event = |number: usize| PlanEvent {
        key: EventKey::new("stripe-main", &format!("evt_{number}")),
        received_at: after(number as u64),
        epoch: number as u64,
        run: 1,
        until: (number == 0).then(|| after(9)),
    };
    (0..count).map(event).collect()
}

fn plan_of(id: &str, events: &[PlanEvent]) -> Plan {
    Plan {
        id: id.to_owned(),
        facts: PlanFacts {
            through: Through::Cli,
            by: "arn:aws:sts::123456789012:assumed-role/Oncall/anna".to_owned(),
            cli: "0.1.0".to_owned(),
            reason: "they are back".to_owned(),
            selection: json!({"source": ["stripe-main"]}),
            words: "stripe-main".to_owned(),
            mode: "safe".to_owned(),
            new_effects: false,
            duplicate_risk: false,
            selected: events.len() as u64 + 1,
            committed: 0,
            left_out: [("done".to_owned(), 1)].into(),
            sha256: plan_digest(events.iter()),
        },
        state: PlanState::Planned,
        made_at: NOW,
        good_until: NOW + GOOD,
        count: events.len(),
        next: 0,
        runs: Vec::new(),
        lease: None,
        outcome: None,
        cancelled_by: None,
        ended_at: None,
    }
}

fn run(by: &str) -> PlanRun {
    PlanRun {
        by: by.to_owned(),
        from: NOW.0,
        rate: 10,
        ..PlanRun::default()
    }
}

const OUTCOME: PlanOutcome = PlanOutcome {
    done: 2,
    failed: 1,
    waiting: 0,
    changed: 0,
};

async fn made(table: &Table) -> Plan {
    let events = events(3);
    let plan = plan_of(ID, &events);
    assert!(
        table
            .ledger
            .plans()
            .make_plan(&plan, &events, &[])
            .await
            .unwrap()
    );
    plan
}

impl Table {
    async fn begin(&self, owner: &str, now: UnixMillis) -> PlanClaim {
        let run = run(owner);
        let begun = self.ledger.plans().begin_plan(ID, owner, &run, now, LEASE);
        begun.await.unwrap()
    }

    async fn has(&self, owner: &str, now: UnixMillis) -> PlanLease {
        match self.begin(owner, now).await {
            PlanClaim::Leased(lease) => *lease,
            other => panic!("{owner} does not have the lease: {other:?}"),
        }
    }

    async fn refused(&self, owner: &str, now: UnixMillis) -> Plan {
        match self.begin(owner, now).await {
            PlanClaim::Refused(plan) => *plan,
            other => panic!("{owner} is not refused: {other:?}"),
        }
    }

    async fn plan(&self) -> Plan {
        self.ledger.plans().plan(ID).await.unwrap().unwrap()
    }

    async fn further(&self, lease: &PlanLease, next: usize) -> bool {
        let further = self
            .ledger
            .plans()
            .checkpoint_plan(lease, next, NOW + LEASE);
        further.await.unwrap()
    }

    async fn finish(&self, lease: PlanLease) -> bool {
        let finish = self
            .ledger
            .plans()
            .finish_plan(lease, &OUTCOME, after(9_000));
        finish.await.unwrap()
    }

    async fn cancel(&self) -> PlanState {
        let cancelled = self.ledger.plans().cancel_plan(ID, "berta", after(8_000));
        cancelled.await.unwrap().unwrap().state
    }
}

#[tokio::test]
async fn a_plan_is_read_as_it_was_made() {
    let table = Table::fresh().await;
    // The plan has more events than fit into one item.
    let events = events(1_203);
    let left = PlanLeftOut {
        key: EventKey::new("stripe-main", "evt_done"),
        received_at: after(7),
        why: "done".to_owned(),
    };
    let plan = plan_of(ID, &events);
    let make = async || {
        let make = table
            .ledger
            .plans()
            .make_plan(&plan, &events, std::slice::from_ref(&left));
        make.await.unwrap()
    };
    assert!(make().await);
    assert!(!make().await, "its name is taken");
    assert_eq!(table.plan().await, plan);
    let ledger = &table.ledger;
    assert_eq!(ledger.plans().plan_order(ID).await.unwrap(), events);
    assert_eq!(ledger.plans().plan_left_out(ID).await.unwrap(), [left]);
    let planned = ledger.plans().planned(ID).await.unwrap();
    let keys = planned.iter().map(|event| (&event.key, event.seen));
    assert!(keys.eq(events.iter().map(|event| (&event.key, event.epoch))));
    assert_eq!(ledger.plans().plan("rpl_000000").await.unwrap(), None);
    // All items of the plan expire in the same hour.
    let ends = (NOW + KEEP_PLAN).secs();
    let all = table.all().await;
    assert!(
        all.iter().all(|item| number(item, "ttl") == ends),
        "{all:?}"
    );
}

#[tokio::test]
async fn plans_are_listed_newest_first() {
    let table = Table::fresh().await;
    let day = Duration::from_secs(24 * 3600);
    for (id, at) in [
        ("rpl_AAAAAA", NOW - 80 * day),
        ("rpl_BBBBBB", NOW - 2 * day),
        ("rpl_CCCCCC", NOW),
    ] {
        let plan = Plan {
            made_at: at,
            ..plan_of(id, &events(1))
        };
        assert!(
            table
                .ledger
                .plans()
                .make_plan(&plan, &events(1), &[])
                .await
                .unwrap()
        );
    }
    let ids = async |since, limit| {
        let ids = table.ledger.plans().plan_ids(since, NOW, limit).await;
        ids.unwrap()
    };
    let all = ["rpl_CCCCCC", "rpl_BBBBBB", "rpl_AAAAAA"];
    assert_eq!(ids(UnixMillis(0), 9).await, all);
    assert_eq!(ids(UnixMillis(0), 2).await, all[..2]);
    assert_eq!(ids(NOW - day, 9).await, all[..1]);
}

#[tokio::test]
async fn one_operator_has_it_until_it_is_given_back_or_its_time_is_over() {
    let table = Table::fresh().await;
    made(&table).await;
    let first = table.has("anna", NOW).await;
    assert!(table.further(&first, 1).await);
    let seen = table.refused("berta", after(1_000)).await;
    assert_eq!((seen.state, seen.next), (PlanState::Running, 1));
    assert!(seen.is_held(after(1_000)));
    assert_eq!(seen.runs, [run("anna")]);
    table.ledger.plans().pause_plan(first, 2).await.unwrap();
    assert!(!table.plan().await.is_held(after(1_000)));
    // An operator can continue a plan that has begun, even after the time limit for its beginning.
    let late = NOW + 2 * GOOD;
    let second = table.has("berta", late).await;
    assert_eq!(second.plan.next, 2);
    // The process of the operator Berta was killed.
    let over = late + Duration::from_millis(OVER);
    table.refused("carla", late + LEASE).await;
    let third = table.has("carla", over).await;
    assert_eq!(third.plan.runs.len(), 3);
    assert!(!table.further(&second, 3).await, "carla has the lease");
    assert_eq!(table.plan().await.next, 2);
}

#[tokio::test]
async fn of_many_operators_at_once_one_has_it() {
    let table = Table::fresh().await;
    made(&table).await;
    let names: Vec<String> = (0..12).map(|number| format!("operator {number}")).collect();
    let begun = names.iter().map(|name| table.begin(name, NOW));
    let begun = futures::future::join_all(begun).await;
    let had = begun
        .iter()
        .filter(|claim| matches!(claim, PlanClaim::Leased(_)));
    assert_eq!(had.count(), 1);
    assert_eq!(table.plan().await.runs.len(), 1);
}

#[tokio::test]
async fn what_is_left_of_an_older_run_changes_nothing() {
    let table = Table::fresh().await;
    made(&table).await;
    // Both runs have the same operator name. Only the fencing token distinguishes them.
    let [paused, noted, finished] = [
        table.has("anna", NOW).await,
        table.has("anna", NOW).await,
        table.has("anna", NOW).await,
    ];
    let now = table.has("anna", after(OVER)).await;
    assert!(!table.further(&noted, 3).await);
    table.ledger.plans().pause_plan(paused, 3).await.unwrap();
    assert!(!table.finish(finished).await);
    let plan = table.plan().await;
    assert_eq!((plan.state, plan.next), (PlanState::Running, 0));
    assert!(plan.lease.is_some());
    assert!(table.further(&now, 1).await);
}

#[tokio::test]
async fn who_gave_it_back_has_it_no_more() {
    let table = Table::fresh().await;
    made(&table).await;
    let [first, paused, noted, finished] = [
        table.has("anna", NOW).await,
        table.has("anna", NOW).await,
        table.has("anna", NOW).await,
        table.has("anna", NOW).await,
    ];
    table.ledger.plans().pause_plan(first, 1).await.unwrap();
    assert!(!table.further(&noted, 3).await);
    table.ledger.plans().pause_plan(paused, 3).await.unwrap();
    assert!(!table.finish(finished).await);
    let plan = table.plan().await;
    assert_eq!((plan.state, plan.next), (PlanState::Running, 1));
}

#[tokio::test]
async fn a_plan_that_was_not_begun_in_time_is_not_begun() {
    let table = Table::fresh().await;
    let plan = made(&table).await;
    assert_eq!(plan.standing(NOW), PlanState::Planned);
    assert_eq!(plan.standing(NOW + GOOD), PlanState::Expired);
    let seen = table.refused("anna", NOW + GOOD).await;
    assert_eq!(seen.runs, []);
    table.has("anna", UnixMillis((NOW + GOOD).0 - 1)).await;
}

#[tokio::test]
async fn a_finished_plan_stays_so_and_tells_what_came_of_it() {
    let table = Table::fresh().await;
    made(&table).await;
    let mut lease = table.has("anna", NOW).await;
    lease.run.canary = Some((5, 5));
    lease.run.to = Some(after(9_000).0);
    let ended = lease.run.clone();
    assert!(table.finish(lease).await);
    let plan = table.plan().await;
    assert_eq!((plan.state, plan.next), (PlanState::Finished, 3));
    assert_eq!(plan.outcome, Some(OUTCOME));
    assert_eq!(plan.ended_at, Some(after(9_000)));
    assert_eq!(plan.runs, [ended]);
    assert_eq!(plan.lease, None);
    assert_eq!(plan.standing(NOW + GOOD), PlanState::Finished);
    table.refused("berta", after(10_000)).await;
    assert_eq!(table.cancel().await, PlanState::Finished);
    assert_eq!(table.plan().await, plan);
}

#[tokio::test]
async fn a_cancelled_plan_is_applied_no_further() {
    let table = Table::fresh().await;
    made(&table).await;
    let [lease, finishing] = [table.has("anna", NOW).await, table.has("anna", NOW).await];
    assert!(table.further(&lease, 1).await);
    assert_eq!(table.cancel().await, PlanState::Cancelled);
    assert!(!table.further(&lease, 2).await);
    assert!(!table.finish(finishing).await);
    // The end of the run is always recorded.
    let mut lease = lease;
    lease.run.end = Some("cancelled".to_owned());
    table.ledger.plans().pause_plan(lease, 2).await.unwrap();
    let plan = table.plan().await;
    assert_eq!((plan.state, plan.next), (PlanState::Cancelled, 2));
    assert_eq!(plan.cancelled_by.as_deref(), Some("berta"));
    assert_eq!(plan.runs[0].end.as_deref(), Some("cancelled"));
    table.refused("carla", after(9_000)).await;
    let nobodys = table
        .ledger
        .plans()
        .cancel_plan("rpl_000000", "berta", NOW)
        .await;
    assert_eq!(nobodys.unwrap(), None);
}

#[tokio::test]
async fn a_lost_answer_is_no_loss() {
    let table = Table::fresh().await;
    made(&table).await;
    let (proxy, ledger) = table.through_proxy().await;
    let begin = async |ledger: &Ledger| {
        let run = run("anna");
        let begun = ledger.plans().begin_plan(ID, "anna", &run, NOW, LEASE);
        match begun.await.unwrap() {
            PlanClaim::Leased(lease) => *lease,
            other => panic!("{other:?}"),
        }
    };
    proxy.lose_answer("UpdateItem", "list_append");
    let lease = begin(&ledger).await;
    assert_eq!(proxy.count().get("UpdateItem"), Some(&2));
    assert_eq!(table.plan().await.runs.len(), 1);
    proxy.lose_answer("UpdateItem", ":finished");
    let finish = ledger.plans().finish_plan(lease, &OUTCOME, after(9_000));
    assert!(finish.await.unwrap());
    assert_eq!(proxy.count().get("UpdateItem"), Some(&4));
}
