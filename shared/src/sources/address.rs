//! Parses and checks the names, ARNs and URLs of an action's destination.

use anyhow::{Context as _, ensure};

/// Returns the host of a valid URL, with the port if the URL has one.
pub(super) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// Returns whether a URL is the address of a program on this machine.
pub fn is_on_this_machine(url: &str) -> bool {
    let authority = host(url);
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    // The last colon of an IPv6 address without a port is a part of the address.
    let host = if port.ends_with(']') { authority } else { host };
    matches!(host, "127.0.0.1" | "localhost" | "[::1]")
}

/// Returns the port of a URL in the form `:3000`, or `:80` if the URL has no port.
pub(super) fn port(url: &str) -> String {
    let port = host(url).rsplit_once(':').map(|(_, port)| port);
    let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    format!(":{}", port.filter(is_port).unwrap_or("80"))
}

/// Returns the name of a function. `given` is a name or an ARN, with or without a qualifier.
/// <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>
pub(super) fn function(given: &str) -> anyhow::Result<&str> {
    let name = arn(given, "lambda")
        .and_then(|rest| rest.strip_prefix("function:"))
        .unwrap_or(given);
    let (name, qualifier) = name.split_once(':').unwrap_or((name, "1"));
    ensure!(
        is_name(name, 64, "-_") && is_name(qualifier, 128, "-_$"),
        "invalid Lambda function {given:?}; use a name, a name with an alias such as orders:live, \
         or an ARN"
    );
    Ok(name)
}

/// Returns the name of the queue in a queue URL.
pub(super) fn queue(url: &str, allow_loopback: bool) -> anyhow::Result<&str> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    let machine = host(url)
        .rsplit_once(':')
        .map_or(host(url), |(host, _)| host);
    let local = allow_loopback && matches!(machine, "127.0.0.1" | "localhost");
    let name = url.rsplit('/').next().unwrap_or_default();
    let plain = name.strip_suffix(".fifo").unwrap_or(name);
    let is_url = scheme == Some("https") || (scheme == Some("http") && local);
    ensure!(
        is_url && url.matches('/').count() >= 4 && is_name(plain, 80, "-_"),
        "invalid queue URL {url:?}; use a URL like \
         https://sqs.eu-central-1.amazonaws.com/111122223333/orders"
    );
    Ok(name)
}

/// Returns whether a queue is a FIFO queue, which keeps the order of messages and drops duplicates.
pub fn is_fifo(url: &str) -> bool {
    url.strip_suffix(".fifo").is_some()
}

/// Returns the name of an event bus. `given` is a name or an ARN.
pub(super) fn bus(given: &str) -> anyhow::Result<&str> {
    let name = arn(given, "events")
        .and_then(|rest| rest.strip_prefix("event-bus/"))
        .unwrap_or(given);
    ensure!(
        is_name(name, 256, "-_./"),
        "invalid event bus {given:?}; use a name such as default or orders, or an ARN"
    );
    Ok(name)
}

/// Returns the name of the state machine in an ARN.
pub(super) fn state_machine(given: &str) -> anyhow::Result<&str> {
    arn(given, "states")
        .and_then(|rest| rest.strip_prefix("stateMachine:"))
        .map(|rest| rest.split(':').next().unwrap_or(rest))
        .filter(|name| is_name(name, 80, "-_"))
        .with_context(|| {
            format!(
                "invalid state machine ARN {given:?}; use an ARN like \
                 arn:aws:states:eu-central-1:111122223333:stateMachine:orders"
            )
        })
}

/// Checks the ARN of an IAM role.
/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html>
pub(super) fn check_role(given: &str) -> anyhow::Result<()> {
    let name = arn(given, "iam").and_then(|rest| rest.strip_prefix("role/"));
    let account = given.split(':').nth(4).unwrap_or_default();
    let is_account = account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit());
    ensure!(
        is_account && name.is_some_and(|name| is_name(name, 576, "+=,.@_/-")),
        "invalid role ARN {given:?}; use an ARN like arn:aws:iam::111122223333:role/triage-agent"
    );
    Ok(())
}

/// Checks the text of a field that EventBridge rules can match.
pub(super) fn check_event_text(what: &str, text: &str, most: usize) -> anyhow::Result<()> {
    ensure!(
        (1..=most).contains(&text.len()) && text.bytes().all(|b| (b' '..=b'~').contains(&b)),
        "{what} = {text:?}: the value must have 1 to {most} printable ASCII characters"
    );
    Ok(())
}

/// Returns the part of an ARN after the account, or `None` if the text is not an ARN of this
/// service.
fn arn<'a>(text: &'a str, service: &str) -> Option<&'a str> {
    let mut parts = text.splitn(6, ':');
    let (scheme, partition) = (parts.next()?, parts.next()?);
    let (found, _region, _account) = (parts.next()?, parts.next()?, parts.next()?);
    let is_arn = scheme == "arn" && partition.starts_with("aws") && found == service;
    parts.next().filter(|_| is_arn)
}

fn is_name(text: &str, most: usize, more: &str) -> bool {
    (1..=most).contains(&text.len())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || more.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_however_it_is_given() {
        let arn = "arn:aws:lambda:eu-central-1:111122223333:function:orders";
        for given in ["orders", "orders:live", arn, &format!("{arn}:$LATEST")] {
            assert_eq!(function(given).unwrap(), "orders", "{given}");
        }
        for bad in [
            "",
            "a b",
            "arn:aws:sqs:eu-central-1:1:orders",
            "a/b",
            "orders:",
        ] {
            assert!(function(bad).is_err(), "{bad}");
        }
        assert_eq!(bus("default").unwrap(), "default");
        let given = "arn:aws:events:eu-central-1:111122223333:event-bus/orders";
        assert_eq!(bus(given).unwrap(), "orders");
        let given = "arn:aws-cn:states:cn-north-1:1:stateMachine:orders:live";
        assert_eq!(state_machine(given).unwrap(), "orders");
        assert!(state_machine("arn:aws:states:eu-central-1:1:execution:orders:1").is_err());
    }

    #[test]
    fn a_worker_is_the_arn_of_a_role() {
        for good in [
            "arn:aws:iam::111122223333:role/triage-agent",
            "arn:aws-cn:iam::111122223333:role/agents/triage@1",
        ] {
            check_role(good).unwrap();
        }
        for bad in [
            "triage-agent",
            "arn:aws:iam::111122223333:role/",
            "arn:aws:iam::111122223333:user/a",
            "arn:aws:iam::1111:role/a",
            "arn:aws:iam::111122223333:role/*",
            "arn:aws:sts::111122223333:assumed-role/a/b",
        ] {
            assert!(check_role(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_queue_is_a_url_and_local_only_where_that_is_allowed() {
        let url = "https://sqs.eu-central-1.amazonaws.com/111122223333/orders.fifo";
        assert_eq!(queue(url, false).unwrap(), "orders.fifo");
        assert!(is_fifo(url));
        let local = "http://127.0.0.1:4566/000000000000/orders";
        assert_eq!(queue(local, true).unwrap(), "orders");
        for bad in [
            local,
            "orders",
            "https://orders",
            "https://a/b/",
            "http://sqs.x/1/orders",
        ] {
            assert!(queue(bad, false).is_err(), "{bad}");
        }
        assert!(queue("http://10.0.0.1/0/orders", true).is_err());
    }
}
