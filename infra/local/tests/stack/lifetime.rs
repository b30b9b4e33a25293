//! Tests that no process remains after a stop, after a drop, or after the host is killed.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use local::{Emulators, Options, Stack};
use serde_json::json;

use super::{binaries, example, is_stopped, options, runs, scratch, stack, template, until};

async fn started(stack: &Stack) -> Vec<u32> {
    let mut ids = Vec::new();
    for function in ["Catcher", "Processor"] {
        stack
            .invoke(function, &json!({}))
            .await
            .unwrap()
            .json()
            .unwrap();
        ids.extend(stack.function_processes(function).unwrap());
    }
    assert_eq!(ids.len(), 2);
    assert!(ids.iter().all(|id| runs(*id)));
    ids
}

#[tokio::test]
async fn a_stop_leaves_no_process() {
    let stack = stack().await;
    let ids = started(&stack).await;
    let folder = stack.folder().to_owned();
    stack.stop().await;
    assert!(!ids.into_iter().any(runs));
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_drop_leaves_no_process_not_even_a_frozen_one() {
    for freeze in [false, true] {
        let stack = Stack::start(Options {
            freeze,
            ..options()
        })
        .await
        .unwrap();
        let ids = started(&stack).await;
        drop(stack);
        assert!(!ids.into_iter().any(runs), "freeze: {freeze}");
    }
}

#[tokio::test]
async fn a_killed_host_takes_its_functions_along() {
    for freeze in [false, true] {
        let folder = scratch("killed");
        std::fs::create_dir_all(&folder).unwrap();
        let mut host = Command::new(example("stack_host"))
            .args([template(), binaries()])
            .args(freeze.then_some("freeze"))
            // A killed host cannot delete its temporary folder, so the test deletes it.
            .env("TMPDIR", &folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = host.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let ids: Vec<u32> = serde_json::from_str(&line).unwrap();
        assert_eq!(ids.len(), 2);
        // The kernel continues only processes that are already stopped.
        let settled = |id: &u32| if freeze { is_stopped(*id) } else { runs(*id) };
        until("the functions are ready", async || {
            ids.iter().all(settled).then_some(())
        })
        .await;
        host.kill().unwrap();
        host.wait().unwrap();
        let gone = async || (!ids.iter().any(|id| runs(*id))).then_some(());
        until("the functions have exited", gone).await;
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[tokio::test]
async fn what_is_kept_is_there_after_a_restart() {
    let folder = scratch("kept");
    for round in 0..2 {
        let stack = Stack::start(Options {
            state: Some(folder.clone()),
            ..options()
        })
        .await
        .unwrap();
        let clients = stack.clients();
        let (table, bucket) = (stack.table().unwrap(), stack.bucket("Bodies").unwrap());
        let name = "/mitt/ingress/stripe/current";
        if round == 0 {
            let put = clients.dynamodb.put_item().table_name(table);
            let key = |value: &str| aws_sdk_dynamodb::types::AttributeValue::S(value.into());
            put.item("pk", key("p"))
                .item("sk", key("s"))
                .send()
                .await
                .unwrap();
            let put = clients.s3.put_object().bucket(bucket).key("a/b");
            put.body(vec![0, 255, 10].into()).send().await.unwrap();
            let put = clients.ssm.put_parameter().name(name).value("secret");
            put.r#type(aws_sdk_ssm::types::ParameterType::SecureString)
                .send()
                .await
                .unwrap();
        } else {
            let key = |value: &str| aws_sdk_dynamodb::types::AttributeValue::S(value.into());
            let get = clients.dynamodb.get_item().table_name(table);
            let got = get
                .key("pk", key("p"))
                .key("sk", key("s"))
                .send()
                .await
                .unwrap();
            assert!(got.item.is_some());
            let got = clients
                .s3
                .get_object()
                .bucket(bucket)
                .key("a/b")
                .send()
                .await
                .unwrap();
            assert_eq!(got.body.collect().await.unwrap().to_vec(), [0, 255, 10]);
            let get = clients.ssm.get_parameter().name(name).with_decryption(true);
            assert_eq!(
                get.send().await.unwrap().parameter.unwrap().value.unwrap(),
                "secret"
            );
        }
        stack.stop().await;
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_folder_in_use_is_refused() {
    let folder = scratch("used");
    let one = Emulators::start(Some(&folder)).unwrap();
    let error = Emulators::start(Some(&folder)).err().unwrap();
    assert!(
        format!("{error:#}").contains("another local stack uses"),
        "{error:#}"
    );
    drop(one);
    drop(Emulators::start(Some(&folder)).unwrap());
    std::fs::remove_dir_all(folder).unwrap();
}
