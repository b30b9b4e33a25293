//! `policies`: prints IAM policies for programs.

use crate::cli::{Global, PoliciesCommand, PolicyStackArgs};
use crate::output::{CliError, Exit, Printer};

/// The policy of a worker, with `${…}` for the names of a stack.
const WORKER: &str = include_str!("../../../policies/worker.json");

/// The policy of an approver.
const APPROVER: &str = include_str!("../../../policies/approver.json");

pub(super) fn run(
    command: &PoliciesCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let region = global.target.region.as_deref();
    let policy = match command {
        PoliciesCommand::Worker(args) => {
            let queue = ("PullQueue", "--queue", args.queue.as_str());
            filled(WORKER, queue, &args.stack, region)
        }
        PoliciesCommand::Approver(args) => {
            let source = ("HeldSource", "--source", args.source.as_str());
            filled(APPROVER, source, &args.stack, region)
        }
    };
    out.text(&policy?)?;
    Ok(Exit::Done)
}

/// Fills in the names of a policy. `whose` is the name of the queue or the source, after its place in
/// the policy and its flag.
fn filled(
    policy: &str,
    whose: (&str, &str, &str),
    stack: &PolicyStackArgs,
    region: Option<&str>,
) -> Result<String, CliError> {
    let (place, flag, name) = whose;
    // The names become part of an ARN, where a wildcard would widen the policy.
    let names = [
        (place, flag, Some(name)),
        ("ApiId", "--api-id", stack.api_id.as_deref()),
        ("Account", "--account", stack.account.as_deref()),
        ("Region", "--region", region),
    ];
    let mut policy = policy.to_owned();
    for (name, flag, value) in names {
        let Some(value) = value else { continue };
        if !shared::sources::is_name(value) {
            let message = format!("invalid value of {flag}");
            let error = CliError::usage("policies.name", message);
            return Err(error.tip("use lower-case letters, digits and hyphens"));
        }
        policy = policy.replace(&format!("${{{name}}}"), value);
    }
    if let Some(region) = region {
        policy = policy.replace("${Partition}", partition(region));
    }
    Ok(policy)
}

fn partition(region: &str) -> &'static str {
    match region.split('-').collect::<Vec<_>>().as_slice() {
        ["cn", ..] => "aws-cn",
        ["us", "gov", ..] => "aws-us-gov",
        _ => "aws",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(queue: &str, region: Option<&str>) -> Result<String, CliError> {
        of(WORKER, ("PullQueue", "--queue", queue), region)
    }

    fn of(
        policy: &str,
        whose: (&str, &str, &str),
        region: Option<&str>,
    ) -> Result<String, CliError> {
        let stack = PolicyStackArgs {
            api_id: Some("a1b2c3".to_owned()),
            account: Some("111122223333".to_owned()),
        };
        filled(policy, whose, &stack, region)
    }

    #[test]
    fn a_worker_may_call_the_operations_of_its_queue_only() {
        let policy = worker("triage", Some("eu-west-1")).unwrap();
        allows(&policy, &["next", "extend", "begin", "end", "finish"]);
    }

    #[test]
    fn an_approver_may_decide_about_the_events_of_its_source_only() {
        let source = ("HeldSource", "--source", "triage");
        let policy = of(APPROVER, source, Some("eu-west-1")).unwrap();
        allows(&policy, &["approve", "reject"]);
    }

    fn allows(policy: &str, operations: &[&str]) {
        let policy: serde_json::Value = serde_json::from_str(policy).unwrap();
        let [statement] = policy["Statement"].as_array().unwrap().as_slice() else {
            panic!("{policy}");
        };
        assert_eq!(statement["Action"], "execute-api:Invoke");
        let resources = statement["Resource"].as_array().unwrap().iter();
        let resources: Vec<_> = resources.map(|it| it.as_str().unwrap()).collect();
        let expected = operations.iter().map(|op| {
            format!("arn:aws:execute-api:eu-west-1:111122223333:a1b2c3/*/POST/work/triage/{op}")
        });
        assert_eq!(resources, expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_name_with_a_wildcard_is_refused() {
        for queue in ["*", "triage/*", "", "a${b}"] {
            assert_eq!(worker(queue, None).unwrap_err().code, "policies.name");
        }
    }

    #[test]
    fn a_name_that_is_not_given_stays_open() {
        let policy = worker("triage", None).unwrap();
        assert!(policy.contains("arn:${Partition}:execute-api:${Region}:111122223333:"));
        for (region, expected) in [
            ("cn-north-1", "aws-cn"),
            ("us-gov-west-1", "aws-us-gov"),
            ("us-east-1", "aws"),
        ] {
            assert_eq!(partition(region), expected);
        }
    }
}
