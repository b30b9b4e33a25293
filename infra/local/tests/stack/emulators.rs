//! Tests of the emulated services with the SDK's clients.

use aws_sdk_sqs::types::{QueueAttributeName, SendMessageBatchRequestEntry};
use aws_sdk_ssm::operation::put_parameter::builders::PutParameterFluentBuilder;
use aws_sdk_ssm::types::ParameterType;
use local::{Clients, Emulators, preflight::preflight};

struct Services {
    clients: Clients,
    secrets_manager: String,
    _emulators: Emulators,
}

fn services() -> Services {
    let emulators = Emulators::start(None).unwrap();
    Services {
        clients: emulators.clients(),
        secrets_manager: emulators.endpoints().secrets_manager.clone(),
        _emulators: emulators,
    }
}

/// The error code that an SDK returns.
macro_rules! code {
    ($result:expr) => {{
        use aws_sdk_sqs::error::ProvideErrorMetadata;
        $result
            .err()
            .expect("the call fails")
            .code()
            .unwrap_or_default()
            .to_owned()
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_emulators_pass_the_preflight() {
    let services = services();
    let start = std::time::Instant::now();
    let report = preflight(&services.clients).await.unwrap();
    println!("{report}in {:?}", start.elapsed());
    assert_eq!(report.proved.len(), 11);
}

async fn queue(clients: &Clients, name: &str, attributes: &[(QueueAttributeName, &str)]) -> String {
    let mut request = clients.sqs.create_queue().queue_name(name);
    for (key, value) in attributes {
        request = request.attributes(key.clone(), *value);
    }
    request.send().await.unwrap().queue_url.unwrap()
}

#[tokio::test]
async fn sqs_refuses_what_aws_refuses() {
    let services = services();
    let sqs = &services.clients.sqs;
    let url = queue(&services.clients, "q", &[]).await;
    let send = |body: &str| sqs.send_message().queue_url(&url).message_body(body);
    assert_eq!(
        code!(send("x").delay_seconds(901).send().await),
        "InvalidParameterValue"
    );
    assert_eq!(
        code!(send(&"x".repeat(1_048_577)).send().await),
        "InvalidParameterValue"
    );
    assert_eq!(code!(send("\u{1}").send().await), "InvalidMessageContents");
    assert_eq!(code!(send("").send().await), "MissingParameter");
    send(&"x".repeat(1_048_576))
        .message_group_id("fair")
        .send()
        .await
        .unwrap();
    let nowhere = sqs
        .send_message()
        .queue_url(format!("{url}-not"))
        .message_body("x");
    let error = nowhere.send().await.err().unwrap().into_service_error();
    assert!(error.is_queue_does_not_exist(), "{error:?}");
}

#[tokio::test]
async fn sqs_refuses_the_batches_that_aws_refuses() {
    let services = services();
    let sqs = &services.clients.sqs;
    let url = queue(&services.clients, "q", &[]).await;
    let entry = |id: &str, body: &str, delay: i32| {
        let entry = SendMessageBatchRequestEntry::builder()
            .id(id)
            .message_body(body);
        entry.delay_seconds(delay).build().unwrap()
    };
    let batch = |entries: Vec<SendMessageBatchRequestEntry>| {
        sqs.send_message_batch()
            .queue_url(&url)
            .set_entries(Some(entries))
            .send()
    };
    let prefix = "AWS.SimpleQueueService.";
    let eleven: Vec<_> = (0..11).map(|id| entry(&id.to_string(), "x", 0)).collect();
    assert_eq!(
        code!(batch(eleven).await),
        format!("{prefix}TooManyEntriesInBatchRequest")
    );
    let twice = vec![entry("a", "x", 0), entry("a", "y", 0)];
    assert_eq!(
        code!(batch(twice).await),
        format!("{prefix}BatchEntryIdsNotDistinct")
    );
    assert_eq!(
        code!(batch(vec![]).await),
        format!("{prefix}EmptyBatchRequest")
    );
    assert_eq!(
        code!(batch(vec![entry("a b", "x", 0)]).await),
        format!("{prefix}InvalidBatchEntryId")
    );
    let half = "x".repeat(600_000);
    let long = vec![entry("a", &half, 0), entry("b", &half, 0)];
    assert_eq!(
        code!(batch(long).await),
        format!("{prefix}BatchRequestTooLong")
    );
    let mixed = batch(vec![entry("good", "x", 0), entry("bad", "x", 901)])
        .await
        .unwrap();
    assert_eq!(mixed.successful()[0].id(), "good");
    assert_eq!(mixed.failed()[0].id(), "bad");
}

#[tokio::test]
async fn dead_letters_are_really_moved_back() {
    let services = services();
    let sqs = &services.clients.sqs;
    let dead = queue(&services.clients, "dead", &[]).await;
    let dead_arn = "arn:aws:sqs:us-east-1:000000000000:dead";
    let policy = format!(r#"{{"deadLetterTargetArn":"{dead_arn}","maxReceiveCount":1}}"#);
    let url = queue(
        &services.clients,
        "q",
        &[(QueueAttributeName::RedrivePolicy, &policy)],
    )
    .await;
    sqs.send_message()
        .queue_url(&url)
        .message_body("x")
        .send()
        .await
        .unwrap();
    let receive = || {
        sqs.receive_message()
            .queue_url(&url)
            .visibility_timeout(0)
            .send()
    };
    assert_eq!(receive().await.unwrap().messages().len(), 1);
    assert_eq!(receive().await.unwrap().messages().len(), 0);
    let sources = sqs
        .list_dead_letter_source_queues()
        .queue_url(&dead)
        .send()
        .await
        .unwrap();
    assert_eq!(sources.queue_urls(), [url.as_str()]);
    sqs.start_message_move_task()
        .source_arn(dead_arn)
        .send()
        .await
        .unwrap();
    let tasks = sqs
        .list_message_move_tasks()
        .source_arn(dead_arn)
        .send()
        .await
        .unwrap();
    assert_eq!(tasks.results()[0].status(), Some("COMPLETED"));
    assert_eq!(tasks.results()[0].approximate_number_of_messages_moved(), 1);
    assert_eq!(receive().await.unwrap().messages().len(), 1);
}

#[tokio::test]
async fn parameters_come_by_path_in_pages_and_decrypted_only_on_request() {
    let services = services();
    let ssm = &services.clients.ssm;
    for number in 0..25 {
        let name = format!("/mitt/ingress/s{number:02}/current");
        put_secret(ssm, &name, "secret").send().await.unwrap();
    }
    let other = put_secret(ssm, "/mitt/ingressive/other/current", "other");
    other.send().await.unwrap();

    let pages = ssm
        .get_parameters_by_path()
        .path("/mitt/ingress")
        .recursive(true)
        .with_decryption(true)
        .into_paginator()
        .send();
    let pages = pages.try_collect().await.unwrap();
    assert_eq!(
        pages
            .iter()
            .map(|page| page.parameters().len())
            .collect::<Vec<_>>(),
        [10, 10, 5]
    );
    assert!(
        pages
            .iter()
            .flat_map(aws_sdk_ssm::operation::get_parameters_by_path::GetParametersByPathOutput::parameters)
            .all(|one| one.value() == Some("secret"))
    );

    let flat = ssm
        .get_parameters_by_path()
        .path("/mitt/ingress")
        .send()
        .await
        .unwrap();
    assert_eq!(flat.parameters().len(), 0);
}

#[tokio::test]
async fn one_parameter_is_put_once_and_read_encrypted() {
    let services = services();
    let ssm = &services.clients.ssm;
    let put = |value: &str| put_secret(ssm, "/mitt/ingress/s00/current", value).send();
    put("secret").await.unwrap();
    let exists = put("again").await.err().unwrap().into_service_error();
    assert!(exists.is_parameter_already_exists());
    let one = ssm
        .get_parameter()
        .name("/mitt/ingress/s00/current")
        .send()
        .await
        .unwrap();
    assert_ne!(one.parameter().unwrap().value(), Some("secret"));
    let missing = ssm.get_parameter().name("/none").send().await;
    let missing = missing.err().unwrap().into_service_error();
    assert!(missing.is_parameter_not_found());
}

fn put_secret(ssm: &aws_sdk_ssm::Client, name: &str, value: &str) -> PutParameterFluentBuilder {
    ssm.put_parameter()
        .name(name)
        .value(value)
        .r#type(ParameterType::SecureString)
}

#[tokio::test]
async fn parameter_store_passes_references_to_secrets_on() {
    let services = services();
    let (ssm, url) = (&services.clients.ssm, &services.secrets_manager);
    let http = local::clients::plain_http(std::time::Duration::from_secs(10)).unwrap();
    for (action, request) in [
        ("CreateSecret", r#"{"Name":"a/b","SecretString":"first"}"#),
        (
            "PutSecretValue",
            r#"{"SecretId":"a/b","SecretString":"second"}"#,
        ),
    ] {
        let call = http.post(url).body(request);
        let call = call.header("x-amz-target", format!("secretsmanager.{action}"));
        assert!(call.send().await.unwrap().status().is_success());
    }
    let get = |name: &str, decrypted: bool| {
        ssm.get_parameter()
            .name(format!("/aws/reference/secretsmanager/{name}"))
            .with_decryption(decrypted)
            .send()
    };
    for (name, value, selector) in [
        ("a/b", "second", None),
        ("a/b:AWSCURRENT", "second", Some(":AWSCURRENT")),
        ("a/b:AWSPREVIOUS", "first", Some(":AWSPREVIOUS")),
    ] {
        let got = get(name, true).await.unwrap();
        let got = got.parameter().unwrap();
        assert_eq!((got.value(), got.selector()), (Some(value), selector));
        assert_eq!(got.name(), Some("/aws/reference/secretsmanager/a/b"));
        let origin = got.source_result().unwrap();
        assert!(origin.contains("\"versionId\""), "{origin}");
    }
    for (name, decrypted, refused) in [
        ("a/b:AWSPENDING", true, "ParameterNotFound"),
        ("a/c", true, "ParameterNotFound"),
        ("a/b", false, "ValidationException"),
        ("a/b:", true, "ValidationException"),
    ] {
        assert_eq!(code!(get(name, decrypted).await), refused, "{name}");
    }
    let names = ["a/b:AWSPREVIOUS", "a/b:AWSPENDING"];
    let names = names.map(|name| format!("/aws/reference/secretsmanager/{name}"));
    let several = ssm
        .get_parameters()
        .set_names(Some(names.to_vec()))
        .with_decryption(true);
    let several = several.send().await.unwrap();
    assert_eq!(several.parameters()[0].value(), Some("first"));
    assert_eq!(several.invalid_parameters(), &names[1..]);
}

#[tokio::test]
async fn objects_come_back_to_the_byte() {
    let services = services();
    let s3 = &services.clients.s3;
    s3.create_bucket().bucket("bodies").send().await.unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let put = |key: &str| s3.put_object().bucket("bodies").key(key);
    let get = |key: &str| s3.get_object().bucket("bodies").key(key).send();
    let head = |key: &str| s3.head_object().bucket("bodies").key(key).send();
    for key in ["2026/07/a b+c%25é.zst", "../../etc", &"k/".repeat(300)] {
        put(key)
            .body(bytes.clone().into())
            .metadata("run", "3")
            .send()
            .await
            .unwrap();
        let got = get(key).await.unwrap();
        assert_eq!(got.metadata().unwrap()["run"], "3");
        assert_eq!(got.body.collect().await.unwrap().to_vec(), bytes, "{key}");
        let head = head(key).await.unwrap();
        assert_eq!(head.content_length(), Some(300_000));
    }
    let again = put("../../etc")
        .if_none_match("*")
        .body(vec![1].into())
        .send()
        .await;
    assert_eq!(code!(again), "PreconditionFailed");
    let listed = s3
        .list_objects_v2()
        .bucket("bodies")
        .prefix("2026/")
        .send()
        .await
        .unwrap();
    assert_eq!(listed.contents()[0].key(), Some("2026/07/a b+c%25é.zst"));
    s3.delete_object()
        .bucket("bodies")
        .key("../../etc")
        .send()
        .await
        .unwrap();
    let gone = get("../../etc").await;
    assert!(gone.err().unwrap().into_service_error().is_no_such_key());
    let head = head("../../etc").await;
    assert!(head.err().unwrap().into_service_error().is_not_found());
}
