use std::time::Duration;

use super::*;

fn read(text: &str) -> anyhow::Result<Action> {
    let forward = Forward {
        allow_hosts: vec!["hooks.example.com".into()],
        allow_loopback: false,
    };
    toml::from_str::<FileAction>(text)?.checked("stripe-main", &forward)
}

const MACHINE: &str = "arn:aws:states:eu-central-1:111122223333:stateMachine:orders";

#[test]
fn each_kind_has_a_name_and_a_destination() {
    for (text, name, destination) in [
        (
            "kind = 'http'\nurl = 'https://Hooks.example.com/x'\nsecret = 's'".replace("Hooks", "hooks"),
            "http",
            Some("hooks.example.com"),
        ),
        ("kind = 'lambda'\nfunction = 'orders'".into(), "lambda", Some("lambda:orders")),
        (
            "kind = 'sqs'\nqueue = 'https://sqs.eu-central-1.amazonaws.com/111122223333/orders.fifo'".into(),
            "sqs",
            Some("sqs:orders.fifo"),
        ),
        ("kind = 'eventbridge'".into(), "eventbridge", Some("eventbridge:default")),
        (
            format!("kind = 'step-functions'\nstate_machine = '{MACHINE}'"),
            "step-functions",
            Some("step-functions:orders"),
        ),
        ("kind = 'rust'\nname = 'open-issue'".into(), "open-issue", None),
        ("kind = 'keep'".into(), "keep", None),
    ] {
        let action = read(&text).unwrap();
        assert_eq!(action.name, name);
        let found = action.destination.map(|destination| destination.name);
        assert_eq!(found.as_deref(), destination, "{text}");
    }
}

#[test]
fn a_timeout_is_twenty_seconds_or_what_is_set() {
    let of = |text: &str| {
        let action = read(&format!("kind = 'lambda'\nfunction = 'f'\n{text}"));
        action.unwrap().timeout.as_secs()
    };
    assert_eq!(of(""), 20);
    assert_eq!(of("timeout = '1s'"), 1);
    assert_eq!(of("timeout = '14m'"), 840);
}

#[test]
fn a_wrong_timeout_is_refused() {
    for (text, said) in [
        (
            "kind = 'rust'\nname = 'x'\ntimeout = '15m'",
            "use 1s to 14m",
        ),
        (
            "kind = 'rust'\nname = 'x'\ntimeout = '500ms'",
            "use 1s to 14m",
        ),
        (
            "kind = 'rust'\nname = 'x'\ntimeout = 'soon'",
            "invalid duration",
        ),
        (
            "kind = 'lambda'\nfunction = 'f'\ninvocation = 'event'\ntimeout = '1m'",
            "timeout needs invocation",
        ),
        (
            "kind = 'keep'\ntimeout = '1m'",
            "timeout is not a setting of kind \"keep\"",
        ),
    ] {
        let error = format!("{:#}", read(text).unwrap_err());
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn settings_have_defaults() {
    let ActionKind::EventBridge {
        bus,
        source,
        detail_type,
    } = read("kind = 'eventbridge'").unwrap().kind
    else {
        panic!()
    };
    assert_eq!(
        (bus.as_str(), source.as_str(), detail_type),
        ("default", "mitt.stripe-main", None)
    );
    let ActionKind::Lambda { invocation, .. } =
        read("kind = 'lambda'\nfunction = 'f'").unwrap().kind
    else {
        panic!()
    };
    assert_eq!(invocation, Invocation::RequestResponse);
    let http = "kind = 'http'\nurl = 'https://hooks.example.com'\nsecret = 's'\n";
    for (more, expected) in [
        ("", IdempotencySupport::Honoured),
        (
            "keys = 'honoured-with-failures'",
            IdempotencySupport::HonouredWithFailures,
        ),
        ("keys = 'ignored'", IdempotencySupport::Ignored),
    ] {
        let ActionKind::Http { keys, .. } = read(&format!("{http}{more}")).unwrap().kind else {
            panic!()
        };
        assert_eq!(keys, expected);
    }
    let rated = read(&format!("{http}rate = '20/s'\ndestination = 'orders'")).unwrap();
    let rate = Rate {
        calls: 20,
        window: Duration::from_secs(1),
    };
    let destination = Destination {
        name: "orders".into(),
        rate: Some(rate),
    };
    assert_eq!(rated.destination, Some(destination));
}

#[test]
fn a_group_is_found_with_and_without_a_root() {
    let queue = "https://sqs.eu-central-1.amazonaws.com/111122223333/orders.fifo";
    for given in ["$.data.customer", "data.customer"] {
        let text = format!("kind = 'sqs'\nqueue = '{queue}'\ngroup = '{given}'");
        let ActionKind::Sqs { group, .. } = read(&text).unwrap().kind else {
            panic!()
        };
        assert_eq!(group.unwrap().to_string(), "data.customer");
    }
}

#[test]
fn a_wrong_action_is_refused_with_what_was_meant() {
    for (text, said) in [
        ("kind = 'lambada'", "line 1"),
        ("kind = 'lambada'", "`lambda`"),
        ("kind = 'lambda'", "function is missing"),
        (
            "kind = 'lambda'\nfunction = 'a b'",
            "invalid Lambda function",
        ),
        (
            "kind = 'lambda'\nfunction = 'f'\ninvocation = 'async'",
            "`event`",
        ),
        (
            "kind = 'lambda'\nfunction = 'f'\nurl = 'x'",
            "url is not a setting of kind \"lambda\"",
        ),
        ("kind = 'sqs'", "queue is missing"),
        ("kind = 'sqs'\nqueue = 'orders'", "invalid queue URL"),
        (
            "kind = 'sqs'\nqueue = 'http://127.0.0.1:1/0/orders'",
            "invalid queue URL",
        ),
        (
            "kind = 'sqs'\nqueue = 'https://sqs.eu-central-1.amazonaws.com/1/orders'\ngroup = 'id'",
            "group needs a FIFO queue",
        ),
        (
            "kind = 'eventbridge'\nsource = 'aws.s3'",
            "reserved for AWS services",
        ),
        ("kind = 'eventbridge'\nbus = 'a b'", "invalid event bus"),
        (
            "kind = 'step-functions'\nstate_machine = 'orders'",
            "invalid state machine ARN",
        ),
        ("kind = 'rust'", "name is missing"),
        ("kind = 'rust'\nname = 'x'\nrate = '1/s'", "set one"),
        (
            "kind = 'keep'\nparams = {}",
            "params is a setting of kind \"rust\"",
        ),
        (
            "kind = 'keep'\ndestination = 'x'",
            "not a setting of kind \"keep\"",
        ),
        (
            "kind = 'rust'\nname = 'x'\ndestination = 'X'",
            "a destination's name",
        ),
        (
            "kind = 'lambda'\nfunction = 'f'\nrate = '20 per second'",
            "20/s",
        ),
        ("kind = 'keep'\ntypes = ['a*b*c']", "one \"*\""),
        ("kind = 'keep'\nwhere = [{ path = 'a' }]", "equals"),
    ] {
        let error = format!("{:#}", read(text).unwrap_err());
        assert!(error.contains(said), "{text}: {error}");
    }
}
