//! The guarantees of SQS that the work queue needs.

use std::time::Duration;

use anyhow::{Context, ensure};
use aws_sdk_sqs::{
    Client,
    types::{Message, MessageSystemAttributeName, QueueAttributeName},
};
use tokio::time::Instant;

use super::{Proof, check};
use crate::names::random_hex;

pub(super) async fn prove(client: &Client) -> anyhow::Result<Vec<Proof>> {
    let name = format!("preflight-{}", random_hex(8));
    let dead = create(client, &format!("{name}-dead"), &[]).await?;
    let arn = attribute(client, &dead, QueueAttributeName::QueueArn).await?;
    let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":2}}"#);
    let queue = create(
        client,
        &name,
        &[
            (QueueAttributeName::RedrivePolicy, &policy),
            (QueueAttributeName::VisibilityTimeout, "1"),
        ],
    )
    .await?;
    let proofs = Box::pin(prove_on(client, &queue, &dead)).await;
    for url in [&queue, &dead] {
        client
            .delete_queue()
            .queue_url(url)
            .send()
            .await
            .context("delete a preflight queue")?;
    }
    proofs
}

async fn prove_on(client: &Client, queue: &str, dead: &str) -> anyhow::Result<Vec<Proof>> {
    Ok(vec![
        check(
            "a received message is hidden, becomes visible again and is counted",
            visibility(client, queue),
        )
        .await?,
        check(
            "a delayed message arrives after its delay",
            delay(client, queue),
        )
        .await?,
        check(
            "a long poll returns when a message arrives",
            Box::pin(long_poll(client, queue)),
        )
        .await?,
        check(
            "a message that is never deleted becomes a dead letter",
            redrive(client, queue, dead),
        )
        .await?,
    ])
}

async fn create(
    client: &Client,
    name: &str,
    attributes: &[(QueueAttributeName, &str)],
) -> anyhow::Result<String> {
    let mut request = client.create_queue().queue_name(name);
    for (key, value) in attributes {
        request = request.attributes(key.clone(), *value);
    }
    let answer = request
        .send()
        .await
        .with_context(|| format!("create the queue {name}"))?;
    answer.queue_url.context("the queue has no URL")
}

async fn attribute(client: &Client, url: &str, name: QueueAttributeName) -> anyhow::Result<String> {
    let request = client
        .get_queue_attributes()
        .queue_url(url)
        .attribute_names(name.clone());
    let answer = request
        .send()
        .await
        .context("get an attribute of a queue")?;
    let attribute = answer.attributes.and_then(|mut all| all.remove(&name));
    attribute.with_context(|| format!("the queue has no {name}"))
}

async fn visible(client: &Client, url: &str) -> anyhow::Result<usize> {
    let count = attribute(client, url, QueueAttributeName::ApproximateNumberOfMessages).await?;
    count.parse().context("the count is not a number")
}

async fn send(client: &Client, url: &str, body: &str, delay: i32) -> anyhow::Result<()> {
    let request = client.send_message().queue_url(url).message_body(body);
    let request = if delay > 0 {
        request.delay_seconds(delay)
    } else {
        request
    };
    request.send().await.context("send a message")?;
    Ok(())
}

async fn receive(client: &Client, url: &str, wait: i32) -> anyhow::Result<Option<Message>> {
    let answer = client
        .receive_message()
        .queue_url(url)
        .wait_time_seconds(wait)
        .message_system_attribute_names(MessageSystemAttributeName::All)
        .send()
        .await;
    Ok(answer
        .context("receive a message")?
        .messages
        .unwrap_or_default()
        .pop())
}

async fn delete(client: &Client, url: &str, message: &Message) -> anyhow::Result<()> {
    let handle = message
        .receipt_handle()
        .context("a message has no receipt handle")?;
    let request = client
        .delete_message()
        .queue_url(url)
        .receipt_handle(handle);
    request.send().await.context("delete a message")?;
    Ok(())
}

fn receives(message: &Message) -> Option<&str> {
    let name = MessageSystemAttributeName::ApproximateReceiveCount;
    Some(message.attributes()?.get(&name)?.as_str())
}

async fn visibility(client: &Client, url: &str) -> anyhow::Result<()> {
    send(client, url, "hide", 0).await?;
    ensure!(
        visible(client, url).await? == 1,
        "a sent message is not counted"
    );
    let first = receive(client, url, 2)
        .await?
        .context("a sent message did not arrive")?;
    ensure!(
        receives(&first) == Some("1"),
        "the receive count after the first receive is {:?}, not 1",
        receives(&first)
    );
    ensure!(
        receive(client, url, 0).await?.is_none(),
        "a received message is not hidden"
    );
    ensure!(
        visible(client, url).await? == 0,
        "a received message is counted as visible"
    );
    let start = Instant::now();
    while visible(client, url).await? != 1 {
        let limit = Duration::from_secs(5);
        ensure!(
            start.elapsed() < limit,
            "a message that is visible again is not counted as visible"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let second = receive(client, url, 2)
        .await?
        .context("the message did not become visible again")?;
    ensure!(
        receives(&second) == Some("2"),
        "the receive count after the second receive is {:?}, not 2",
        receives(&second)
    );
    delete(client, url, &second).await?;
    ensure!(
        receive(client, url, 2).await?.is_none(),
        "a deleted message was received again"
    );
    Ok(())
}

async fn delay(client: &Client, url: &str) -> anyhow::Result<()> {
    send(client, url, "later", 1).await?;
    ensure!(
        receive(client, url, 0).await?.is_none(),
        "a delayed message arrived before its delay"
    );
    let message = receive(client, url, 5)
        .await?
        .context("a delayed message did not arrive")?;
    delete(client, url, &message).await
}

async fn long_poll(client: &Client, url: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    let (message, ()) = tokio::try_join!(receive(client, url, 10), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        send(client, url, "wake", 0).await
    })?;
    ensure!(
        start.elapsed() < Duration::from_secs(5),
        "the long poll returned only after {:?}",
        start.elapsed()
    );
    delete(
        client,
        url,
        &message.context("the long poll returned no message")?,
    )
    .await
}

async fn redrive(client: &Client, url: &str, dead: &str) -> anyhow::Result<()> {
    send(client, url, "poison", 0).await?;
    for _ in 0..2 {
        let message = receive(client, url, 5)
            .await?
            .context("a message did not become visible again")?;
        let handle = message
            .receipt_handle()
            .context("a message has no receipt handle")?;
        let request = client
            .change_message_visibility()
            .queue_url(url)
            .receipt_handle(handle);
        request
            .visibility_timeout(0)
            .send()
            .await
            .context("make a message visible again")?;
    }
    ensure!(
        receive(client, url, 1).await?.is_none(),
        "the message was received a third time"
    );
    let letter = receive(client, dead, 5)
        .await?
        .context("the message is not in the dead-letter queue")?;
    ensure!(
        letter.body() == Some("poison"),
        "the dead letter has a different body"
    );
    delete(client, dead, &letter).await
}
