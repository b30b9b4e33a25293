//! Tests of the Lambda emulator.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use local::{Options, Stack};
use serde_json::{Value, json};

use super::{binaries, example, is_stopped, options, runs, scratch, stack, template, until};

async fn context(stack: &Stack) -> Value {
    stack
        .invoke("Catcher", &json!({ "do": "context" }))
        .await
        .unwrap()
        .json()
        .unwrap()
}

fn pid(context: &Value) -> u32 {
    context["pid"].as_u64().unwrap().try_into().unwrap()
}

#[tokio::test]
async fn a_function_sees_the_variables_and_the_context_of_lambda() {
    let options = Options {
        function_env: [("EXTRA".to_owned(), "more".to_owned())].into(),
        sources_file: Some(template()),
        ..options()
    };
    let stack = Stack::start(options).await.unwrap();
    let context = context(&stack).await;
    let variables = &context["variables"];
    for (name, value) in [
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
        ("AWS_ENDPOINT_URL_SQS", stack.endpoints().sqs.as_str()),
        ("AWS_LAMBDA_FUNCTION_NAME", "mitt-Catcher"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
        ("MITT_TABLE", "mitt-Inbox"),
        ("MITT_QUEUE_URL", stack.queue_url("WorkQueue").unwrap()),
        ("MITT_BODY_BUCKET", "mitt-bodies"),
        ("MITT_SECRETS_PATH", "/mitt/ingress"),
        ("MITT_SOURCES_FILE", template().to_str().unwrap()),
        ("EXTRA", "more"),
    ] {
        assert_eq!(variables[name], value, "{name}");
    }
    // The function must not get the environment of the host.
    assert_eq!(variables.get("HOME"), None);
    assert_eq!(
        context["arn"],
        "arn:aws:lambda:us-east-1:000000000000:function:mitt-Catcher"
    );
    assert!(context["trace"].as_str().unwrap().starts_with("Root=1-"));
    #[expect(clippy::disallowed_methods, reason = "the deadline is a true time")]
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let deadline = u128::from(context["deadline"].as_u64().unwrap());
    assert!(
        (now - 1_000..=now + 1_000).contains(&deadline),
        "{deadline} at {now}"
    );
    stack.stop().await;
}

#[tokio::test]
async fn a_process_is_used_again() {
    let stack = stack().await;
    let first = pid(&context(&stack).await);
    assert_eq!(pid(&context(&stack).await), first);
}

#[tokio::test]
async fn an_error_is_reported_with_its_text() {
    let stack = stack().await;
    let failed = stack
        .invoke("Catcher", &json!({ "do": "error" }))
        .await
        .unwrap();
    assert!(
        failed.error().unwrap().message.contains("told to fail"),
        "{failed:?}"
    );
    assert!(failed.json().is_err());
}

#[tokio::test]
async fn a_process_is_killed_at_the_timeout_and_replaced() {
    let stack = stack().await;
    let before = pid(&context(&stack).await);
    stack.kill_function_processes("Catcher").await.unwrap();
    assert!(!runs(before));
    let start = tokio::time::Instant::now();
    let late = stack
        .invoke("Catcher", &json!({ "do": "hang" }))
        .await
        .unwrap();
    assert_eq!(late.error().unwrap().kind, "Sandbox.Timedout");
    assert!(
        late.error()
            .unwrap()
            .message
            .ends_with("Task timed out after 1.00 seconds")
    );
    assert!((Duration::from_millis(900)..Duration::from_secs(5)).contains(&start.elapsed()));
    assert!(stack.function_processes("Catcher").unwrap().is_empty());
    assert_ne!(pid(&context(&stack).await), before);
}

#[tokio::test]
async fn a_crash_fails_its_invocation_and_only_that() {
    let stack = stack().await;
    let crashed = stack
        .invoke("Catcher", &json!({ "do": "crash" }))
        .await
        .unwrap();
    let error = crashed.error().unwrap();
    assert_eq!(error.kind, "Runtime.ExitError");
    assert!(error.message.contains("exit status: 3"), "{error}");
    assert_eq!(
        stack
            .invoke("Catcher", &json!([1]))
            .await
            .unwrap()
            .json()
            .unwrap(),
        json!([1])
    );
}

#[tokio::test]
async fn killing_from_outside_fails_what_is_under_way() {
    let stack = stack().await;
    let order = json!({ "do": "hang" });
    let hanging = stack.invoke("Catcher", &order);
    let killing = async {
        until("the process has started", async || {
            (stack.kill_function_processes("Catcher").await.unwrap() > 0).then_some(())
        })
        .await;
    };
    let (hanging, ()) = tokio::join!(hanging, killing);
    assert_eq!(hanging.unwrap().error().unwrap().kind, "Runtime.ExitError");
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_an_error() {
    // A busy machine needs more than the second of the template for a large answer.
    let text = std::fs::read_to_string(template()).unwrap();
    let patient = scratch("patient").with_extension("yaml");
    std::fs::write(&patient, text.replace("Timeout: 1\n", "Timeout: 60\n")).unwrap();
    let stack = Stack::start(Options::new(patient, binaries()))
        .await
        .unwrap();
    let large = stack
        .invoke("Catcher", &json!({ "do": "large" }))
        .await
        .unwrap();
    assert_eq!(large.error().unwrap().kind, "Function.ResponseSizeTooLarge");
}

#[tokio::test]
async fn a_function_that_cannot_start_says_why() {
    let options = Options {
        function_env: [("FAIL_AT_START".to_owned(), "no luck".to_owned())].into(),
        ..options()
    };
    let stack = Stack::start(options).await.unwrap();
    let failed = stack.invoke("Catcher", &json!({})).await.unwrap();
    let error = failed.error().unwrap();
    assert!(error.message.contains("exit status: 7"), "{error}");
    assert!(error.message.contains("cannot start: no luck"), "{error}");
}

#[tokio::test]
async fn a_missing_binary_is_named() {
    let options = Options {
        binaries: "/nowhere".into(),
        ..options()
    };
    let error = Stack::start(options).await.err().unwrap();
    assert!(
        format!("{error:#}").contains("/nowhere/catcher does not exist"),
        "{error:#}"
    );
}

#[tokio::test]
async fn invocations_run_beside_each_other() {
    let stack = stack().await;
    // Each invocation takes the whole second of the timeout. In sequence, they would take five
    // seconds.
    let start = tokio::time::Instant::now();
    let order = json!({ "do": "hang" });
    let all = (0..5).map(|_| stack.invoke("Catcher", &order));
    for late in futures::future::join_all(all).await {
        assert_eq!(late.unwrap().error().unwrap().kind, "Sandbox.Timedout");
    }
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn a_deployment_ends_who_waits_at_once_and_who_works_when_it_is_done() {
    let stack = stack().await;
    let order = json!({ "do": "linger" });
    let both = [(); 2].map(|()| stack.invoke("Catcher", &order));
    for answer in futures::future::join_all(both).await {
        assert_eq!(answer.unwrap().json().unwrap(), "done");
    }
    let old = stack.function_processes("Catcher").unwrap();
    assert_eq!(old.len(), 2);
    let log = stack.log_file("Catcher").unwrap();
    let told = || std::fs::read_to_string(&log).unwrap();
    let third = || (told().matches("lingers").count() == 3).then_some(());
    let folder = scratch("deployed");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::hard_link(example("echo_function"), folder.join("catcher")).unwrap();

    let working = stack.invoke("Catcher", &order);
    let deploying = async {
        until("one process works", async || third()).await;
        stack.deploy("Catcher", &template(), &folder).unwrap();
    };
    let (answer, ()) = tokio::join!(working, deploying);

    assert_eq!(answer.unwrap().json().unwrap(), "done");
    let gone = async || (!old.iter().any(|id| runs(*id))).then_some(());
    until("both processes have exited", gone).await;
    let new = pid(&context(&stack).await);
    let executable = folder.canonicalize().unwrap().join("catcher");
    let executables = stack.function_executables("Catcher").unwrap();
    assert_eq!(executables, BTreeMap::from([(new, executable)]));
    stack.stop().await;
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_deployment_of_nothing_changes_nothing() {
    let stack = stack().await;
    let before = pid(&context(&stack).await);
    for (function, complaint) in [
        ("Catcher", "/nowhere/catcher does not exist"),
        ("Nobody", "the template has no function Nobody"),
    ] {
        let refused = stack.deploy(function, &template(), "/nowhere".as_ref());
        let error = format!("{:#}", refused.unwrap_err());
        assert!(error.contains(complaint), "{error}");
    }
    assert_eq!(pid(&context(&stack).await), before);
}

#[tokio::test]
async fn a_frozen_process_is_stopped_between_invocations_and_works_again() {
    // With one process, the next invocation waits until the process is free.
    let options = Options {
        freeze: true,
        max_processes: 1,
        ..options()
    };
    let stack = Stack::start(options).await.unwrap();
    let first = pid(&context(&stack).await);
    for _ in 0..3 {
        until("the process is stopped", async || {
            is_stopped(first).then_some(())
        })
        .await;
        assert_eq!(pid(&context(&stack).await), first);
    }
    stack.stop().await;
    assert!(!runs(first));
}
