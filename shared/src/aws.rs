//! Clients of the AWS services, made from the environment that Lambda gives, or for an operator who
//! brings credentials of another kind.
//!
//! The SDK's own chain of credential providers costs more instructions at a cold start than all
//! the rest of the catcher, and Lambda needs none of it: keys and region are in the environment.
//! All timeouts are explicit; the SDK sets none on reads.

mod https;
mod lazy;
pub mod logs;
pub mod outbound;
pub mod secrets;

use std::time::Duration;

use anyhow::Context as _;
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use aws_types::SdkConfig;

pub use https::https;
pub use lazy::Lazy;

use crate::base::env::env_var;

/// How long calls may take and how often they are tried.
#[derive(Clone, Copy, Debug)]
pub struct CallPolicy {
    pub connect: Duration,
    pub attempt: Duration,
    pub attempts: u32,
}

impl CallPolicy {
    /// For the catcher, whose sender waits.
    pub const SHORT: Self = Self {
        connect: Duration::from_millis(500),
        attempt: Duration::from_millis(700),
        attempts: 2,
    };

    /// For workers.
    pub const LONG: Self = Self {
        connect: Duration::from_secs(2),
        attempt: Duration::from_secs(5),
        attempts: 3,
    };

    /// For destinations of events: as long as an effect may take, and once. What is tried again is
    /// for the ledger to say.
    pub const ONCE: Self = Self {
        connect: Duration::from_secs(2),
        attempt: Duration::from_secs(20),
        attempts: 1,
    };
}

/// Where and as whom AWS is called.
#[derive(Clone, Debug)]
pub struct Aws {
    region: String,
    credentials: SharedCredentialsProvider,
    /// Instead of AWS's own endpoints: an emulator's.
    endpoint: Option<String>,
    patience: CallPolicy,
    http: SharedHttpClient,
}

impl Aws {
    /// Reads region, credentials and endpoint from the variables that every AWS SDK reads.
    pub fn from_env(patience: CallPolicy) -> anyhow::Result<Self> {
        let region = env_var("AWS_REGION")
            .or_else(|| env_var("AWS_DEFAULT_REGION"))
            .context("AWS_REGION is not set")?;
        let key = env_var("AWS_ACCESS_KEY_ID").context("AWS_ACCESS_KEY_ID is not set")?;
        let secret =
            env_var("AWS_SECRET_ACCESS_KEY").context("AWS_SECRET_ACCESS_KEY is not set")?;
        let token = env_var("AWS_SESSION_TOKEN");
        let credentials = Credentials::new(key, secret, token, None, "environment");
        Ok(Self::new(
            region,
            credentials,
            env_var("AWS_ENDPOINT_URL"),
            patience,
        ))
    }

    pub fn new(
        region: String,
        credentials: Credentials,
        endpoint: Option<String>,
        patience: CallPolicy,
    ) -> Self {
        Self::over(https(), region, credentials, endpoint, patience)
    }

    /// The same over another HTTP client, such as one that answers inside the process. The region
    /// names the quota of retries that clients share.
    pub fn over(
        http: SharedHttpClient,
        region: String,
        credentials: Credentials,
        endpoint: Option<String>,
        patience: CallPolicy,
    ) -> Self {
        Self {
            region,
            credentials: SharedCredentialsProvider::new(credentials),
            endpoint,
            patience,
            http,
        }
    }

    /// The same, as whoever `credentials` will say when a call is made. They are asked for every
    /// call: a cache of the SDK gives up a login that takes more than five seconds, each client
    /// has its own, and for those of the environment it only costs.
    #[must_use]
    pub fn acting_as(self, credentials: SharedCredentialsProvider) -> Self {
        Self {
            credentials,
            ..self
        }
    }

    pub fn region(&self) -> &str {
        &self.region
    }

    /// The same, as calls with another patience.
    #[must_use]
    pub fn with_patience(&self, patience: CallPolicy) -> Self {
        Self {
            patience,
            ..self.clone()
        }
    }

    /// What a client of any service is made from, for those that this library has none of.
    /// `service` is what the variable `AWS_ENDPOINT_URL_{service}` of an endpoint ends in.
    pub fn sdk_config(&self, service: &str) -> SdkConfig {
        let mut config = SdkConfig::builder()
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
            .region(aws_sdk_dynamodb::config::Region::new(self.region.clone()))
            .credentials_provider(self.credentials.clone())
            .http_client(self.http.clone())
            .timeout_config(self.timeouts())
            .retry_config(self.retries())
            .identity_cache(aws_sdk_dynamodb::config::IdentityCache::no_cache());
        config.set_endpoint_url(self.endpoint(service));
        config.build()
    }

    fn endpoint(&self, service: &str) -> Option<String> {
        env_var(&format!("AWS_ENDPOINT_URL_{service}")).or_else(|| self.endpoint.clone())
    }

    fn timeouts(&self) -> TimeoutConfig {
        TimeoutConfig::builder()
            .connect_timeout(self.patience.connect)
            .read_timeout(self.patience.attempt)
            .operation_attempt_timeout(self.patience.attempt)
            .operation_timeout(
                self.patience.attempt * self.patience.attempts + Duration::from_millis(200),
            )
            .build()
    }

    fn retries(&self) -> RetryConfig {
        RetryConfig::standard()
            .with_max_attempts(self.patience.attempts)
            .with_initial_backoff(Duration::from_millis(50))
    }
}

/// The four services are configured alike, but by four types.
macro_rules! client {
    ($(#[$doc:meta])* $method:ident, $sdk:ident, $service:literal $(, $by_path:ident)?) => {
        impl Aws {
            $(#[$doc])*
            pub fn $method(&self) -> $sdk::Client {
                let mut config = $sdk::Config::builder()
                    .behavior_version($sdk::config::BehaviorVersion::latest())
                    .region($sdk::config::Region::new(self.region.clone()))
                    .credentials_provider(self.credentials.clone())
                    .http_client(self.http.clone())
                    .timeout_config(self.timeouts())
                    .retry_config(self.retries())
                    .identity_cache($sdk::config::IdentityCache::no_cache());
                config.set_endpoint_url(self.endpoint($service));
                $(config = config.$by_path(self.endpoint($service).is_some());)?
                $sdk::Client::from_conf(config.build())
            }
        }
    };
}

client!(dynamodb, aws_sdk_dynamodb, "DYNAMODB");
client!(sqs, aws_sdk_sqs, "SQS");
client!(ssm, aws_sdk_ssm, "SSM");
client!(
    /// Addresses buckets by path when the endpoint is an emulator's.
    s3, aws_sdk_s3, "S3", force_path_style
);
