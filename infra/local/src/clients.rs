//! SDK clients for an endpoint on this machine.
//!
//! The clients use plain HTTP and fake credentials, so they cannot call AWS by mistake. Create the
//! clients for each runtime, because a pooled connection ends with the runtime that created it.

use std::time::Duration;

use anyhow::Context as _;
use aws_credential_types::Credentials;
use aws_smithy_http_client::Builder;
use aws_smithy_types::{retry::RetryConfig, timeout::TimeoutConfig};

use super::names::{ACCESS_KEY, REGION, SECRET_KEY};

/// The URL of each emulated service: `http://127.0.0.1:<port>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    pub dynamodb: String,
    pub sqs: String,
    pub s3: String,
    pub ssm: String,
    pub secrets_manager: String,
}

impl Endpoints {
    /// Returns the same URL for all services, as ministack needs it.
    pub fn all_at(url: &str) -> Self {
        Self {
            dynamodb: url.to_owned(),
            sqs: url.to_owned(),
            s3: url.to_owned(),
            ssm: url.to_owned(),
            secrets_manager: url.to_owned(),
        }
    }

    pub fn clients(&self) -> Clients {
        Clients {
            dynamodb: dynamodb(&self.dynamodb),
            sqs: sqs(&self.sqs),
            s3: s3(&self.s3),
            ssm: ssm(&self.ssm),
        }
    }
}

/// Creates a client for plain HTTP on this machine, without a proxy.
pub fn plain_http(timeout: Duration) -> anyhow::Result<reqwest::Client> {
    // The client needs a TLS provider even for plain HTTP. An error means that one is already
    // installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .tls_certs_only([])
        .timeout(timeout)
        .build()
        .context("create an HTTP client")
}

/// One client for each emulated service.
#[derive(Debug, Clone)]
pub struct Clients {
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub sqs: aws_sdk_sqs::Client,
    pub s3: aws_sdk_s3::Client,
    pub ssm: aws_sdk_ssm::Client,
}

/// The settings that all services share. Each SDK crate has its own type for them.
macro_rules! config {
    ($sdk:ident, $endpoint:expr) => {
        config!($sdk, $endpoint, ACCESS_KEY)
    };
    ($sdk:ident, $endpoint:expr, $access_key:expr) => {
        $sdk::config::Builder::new()
            .behavior_version($sdk::config::BehaviorVersion::v2026_01_12())
            .region($sdk::config::Region::new(REGION))
            .credentials_provider(Credentials::from_keys($access_key, SECRET_KEY, None))
            .endpoint_url($endpoint)
            .http_client(Builder::new().build_http())
            .retry_config(RetryConfig::standard().with_max_attempts(3))
            .timeout_config(
                // A long poll waits up to 20 s for a message.
                TimeoutConfig::builder()
                    .connect_timeout(Duration::from_secs(3))
                    .operation_attempt_timeout(Duration::from_secs(30))
                    .build(),
            )
    };
}

pub fn dynamodb(endpoint: &str) -> aws_sdk_dynamodb::Client {
    aws_sdk_dynamodb::Client::from_conf(config!(aws_sdk_dynamodb, endpoint).build())
}

pub fn sqs(endpoint: &str) -> aws_sdk_sqs::Client {
    aws_sdk_sqs::Client::from_conf(config!(aws_sdk_sqs, endpoint).build())
}

/// Like [`sqs`], but signs with another access key.
pub(crate) fn sqs_as(access_key: &str, endpoint: &str) -> aws_sdk_sqs::Client {
    aws_sdk_sqs::Client::from_conf(config!(aws_sdk_sqs, endpoint, access_key).build())
}

pub fn s3(endpoint: &str) -> aws_sdk_s3::Client {
    let config = config!(aws_sdk_s3, endpoint).force_path_style(true);
    aws_sdk_s3::Client::from_conf(config.build())
}

pub fn ssm(endpoint: &str) -> aws_sdk_ssm::Client {
    aws_sdk_ssm::Client::from_conf(config!(aws_sdk_ssm, endpoint).build())
}
