//! The access log line that the HTTP API writes for each request.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use local::template::Resources;

pub(crate) struct AccessLog {
    format: String,
    pub(crate) days: f64,
}

/// Returns the access log of the stage that has one.
pub(super) fn read(
    resources: &Resources<'_>,
    log_days: &BTreeMap<String, f64>,
) -> anyhow::Result<Option<AccessLog>> {
    for id in resources.of("AWS::ApiGatewayV2::Stage") {
        let Some(settings) = resources.property(id, "AccessLogSettings")? else {
            continue;
        };
        let format = settings["Format"].as_str();
        let format = format.with_context(|| format!("{id} has an access log without a format"))?;
        let arn = settings["DestinationArn"].as_str().unwrap_or_default();
        let days = log_days.iter().find(|(group, _)| arn.ends_with(*group));
        let (_, days) = days.with_context(|| format!("{id}: unknown log group {arn}"))?;
        return Ok(Some(AccessLog {
            format: format.to_owned(),
            days: *days,
        }));
    }
    Ok(None)
}

impl AccessLog {
    /// Returns the size in bytes of the log line for a typical request.
    pub(crate) fn line(&self, answer_bytes: usize) -> anyhow::Result<usize> {
        let mut bytes = 0;
        let mut rest = self.format.as_str();
        while let Some((before, after)) = rest.split_once("$context.") {
            bytes += before.len();
            let end = after.find(|c: char| !(c.is_alphanumeric() || c == '.'));
            let (name, behind) = after.split_at(end.unwrap_or(after.len()));
            bytes += match name {
                "responseLength" => answer_bytes.to_string().len(),
                name => ordinary(name)?.len(),
            };
            rest = behind;
        }
        Ok(bytes + rest.len())
    }
}

/// Returns a typical value of a variable.
/// <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-logging-variables.html>
fn ordinary(name: &str) -> anyhow::Result<&'static str> {
    Ok(match name {
        "requestId" | "extendedRequestId" => "JKJaXmPLvHcESHA=",
        "requestTimeEpoch" => "1795342054000",
        "requestTime" => "22/Nov/2026:10:07:34 +0000",
        "identity.sourceIp" => "203.0.113.178",
        "identity.userAgent" => "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
        "routeKey" => "POST /in/{source}",
        "httpMethod" => "POST",
        "protocol" => "HTTP/1.1",
        "path" => "/in/stripe-main",
        "status" | "integrationStatus" | "integration.status" => "200",
        "responseLatency" | "integrationLatency" | "integration.latency" => "27",
        "error.message" | "integrationErrorMessage" | "integration.error" => "-",
        other => bail!(
            "the access log has $context.{other}, whose length is unknown: add it to \
            deployed/access_log.rs"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(format: &str) -> AccessLog {
        AccessLog {
            format: format.to_owned(),
            days: 30.0,
        }
    }

    #[test]
    fn a_line_is_as_long_as_its_text_with_the_variables_filled_in() {
        let format =
            r#"{"s":"$context.status","b":"$context.responseLength","e":"$context.error.message"}"#;
        let line = r#"{"s":"200","b":"1234","e":"-"}"#;
        assert_eq!(log(format).line(1_234).unwrap(), line.len());
        assert_eq!(log("no variable").line(0).unwrap(), "no variable".len());
    }

    #[test]
    fn a_variable_that_nobody_knows_is_named() {
        let error = log("$context.domainName").line(0).unwrap_err();
        assert!(error.to_string().contains("domainName"), "{error}");
    }
}
