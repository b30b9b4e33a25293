//! Clients of the AWS services. The functions use the credentials in their environment, and the CLI
//! uses the credentials provider of the operator.
//!
//! At a cold start, the SDK's default chain of credential providers runs more instructions than the
//! rest of the catcher. Lambda does not need the chain, because the keys and the region are in the
//! environment. All timeouts are explicit, because the SDK sets no read timeout by default.

mod direct;
mod endpoints;
mod guard;
mod https;
mod lazy;
pub mod logs;
pub mod outbound;
pub mod secrets;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use aws_types::SdkConfig;

pub use direct::{Reply, SendRequest, ServiceClient};
pub use https::route::{RouteClient, RouteFailure, RouteReply, RouteRequest, is_of_connection};
pub use https::{Http, https};
pub use lazy::Lazy;

use crate::base::env::env_var;
use direct::{Common, DYNAMODB, Direct, SQS, SSM};
use endpoints::LocalEndpoints;

/// The client of a DynamoDB table.
pub type TableClient = ServiceClient<aws_sdk_dynamodb::Client>;

/// The client of SQS queues.
pub type QueueClient = ServiceClient<aws_sdk_sqs::Client>;

/// The client of Parameter Store.
pub type ParameterClient = ServiceClient<aws_sdk_ssm::Client>;

/// The timeouts of a call, and the maximum number of attempts of the SDK. A direct attempt before
/// these uses a part of the time for the call.
#[derive(Clone, Copy, Debug)]
pub struct CallPolicy {
    pub connect: Duration,
    pub attempt: Duration,
    pub attempts: u32,
}

impl CallPolicy {
    /// The policy of the catcher. It is short, because the provider waits for the response.
    pub const SHORT: Self = Self {
        connect: Duration::from_millis(500),
        attempt: Duration::from_millis(700),
        attempts: 2,
    };

    /// The policy of the other functions and of the CLI.
    pub const LONG: Self = Self {
        connect: Duration::from_secs(2),
        attempt: Duration::from_secs(5),
        attempts: 3,
    };

    /// The policy for destinations of events. A call has only one attempt, because the ledger
    /// schedules the retries. The attempt ends before the time limit of an effect.
    pub const ONCE: Self = Self {
        connect: Duration::from_secs(2),
        attempt: Duration::from_secs(20),
        attempts: 1,
    };
}

/// The region, credentials and timeouts of AWS calls.
#[derive(Clone, Debug)]
pub struct Aws {
    region: String,
    credentials: SharedCredentialsProvider,
    /// The endpoint of an emulator. If it is `None`, the clients call the endpoints of AWS.
    endpoint: Option<String>,
    /// The endpoints in `MITT_ENDPOINTS`, which override all others.
    local: Option<Arc<LocalEndpoints>>,
    patience: CallPolicy,
    /// The number of attempts before the SDK gets a call. They use a part of its time.
    direct_attempts: u32,
    http: Http,
}

impl Aws {
    /// Reads the region, the credentials and the endpoint from the standard environment variables
    /// of the AWS SDKs, and the endpoints of local services from `MITT_ENDPOINTS`.
    pub fn from_env(patience: CallPolicy) -> anyhow::Result<Self> {
        let local = LocalEndpoints::from_env()?;
        let region = env_var("AWS_REGION")
            .or_else(|| env_var("AWS_DEFAULT_REGION"))
            .context("AWS_REGION is not set")?;
        let key = env_var("AWS_ACCESS_KEY_ID").context("AWS_ACCESS_KEY_ID is not set")?;
        let secret =
            env_var("AWS_SECRET_ACCESS_KEY").context("AWS_SECRET_ACCESS_KEY is not set")?;
        let token = env_var("AWS_SESSION_TOKEN");
        let credentials = Credentials::new(key, secret, token, None, "environment");
        let endpoint = env_var("AWS_ENDPOINT_URL");
        Ok(Self {
            local: local.map(Arc::new),
            ..Self::new(region, credentials, endpoint, patience)
        })
    }

    pub fn new(
        region: String,
        credentials: Credentials,
        endpoint: Option<String>,
        patience: CallPolicy,
    ) -> Self {
        Self::over(https(), region, credentials, endpoint, patience)
    }

    /// Like [`Self::new`], but with the given HTTP client. For example, the simulation passes a
    /// client that responds inside the process. In the SDK, all clients with the same region name
    /// share one retry quota.
    pub fn over(
        http: Http,
        region: String,
        credentials: Credentials,
        endpoint: Option<String>,
        patience: CallPolicy,
    ) -> Self {
        Self {
            region,
            credentials: SharedCredentialsProvider::new(credentials),
            endpoint,
            local: None,
            patience,
            direct_attempts: 0,
            http,
        }
    }

    /// Replaces the credentials provider. The clients query the provider for every call, because
    /// the SDK's identity cache is disabled. With the cache, a login that takes more than five
    /// seconds would fail, and each client would have its own cache. Credentials from the
    /// environment need no cache.
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

    /// Returns whether the clients call the local services of `MITT_ENDPOINTS`.
    pub fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// Returns a copy with another call policy.
    #[must_use]
    pub fn with_patience(&self, patience: CallPolicy) -> Self {
        Self {
            patience,
            ..self.clone()
        }
    }

    /// Returns the client of the table for a function, which sends its frequent calls directly.
    pub fn table(&self) -> TableClient {
        self.with_direct(&DYNAMODB, Self::dynamodb)
    }

    /// Like [`table`](Self::table), for the queues.
    pub fn queues(&self) -> QueueClient {
        self.with_direct(&SQS, Self::sqs)
    }

    /// Like [`table`](Self::table), for Parameter Store.
    pub fn parameters(&self) -> ParameterClient {
        self.with_direct(&SSM, Self::ssm)
    }

    fn with_direct<C: 'static>(
        &self,
        service: &'static direct::Service,
        make: fn(&Self) -> C,
    ) -> ServiceClient<C> {
        let may_repeat = self.patience.attempts > 1;
        let http = self.http.direct.clone().filter(|_| may_repeat);
        let direct = http.and_then(|http| {
            let common = Common {
                http,
                region: &self.region,
                credentials: self.credentials.clone(),
                connect: self.patience.connect,
                attempt: self.patience.attempt,
            };
            let direct = Direct::new(service, self.endpoint(service.setting), common)?;
            let rest = Self {
                direct_attempts: 1,
                ..self.clone()
            };
            Some((direct, rest.later(make)))
        });
        ServiceClient::with_direct(self.later(make), direct)
    }

    /// Returns the lazily created client of a service, which sends all calls with the SDK.
    pub fn later<C: 'static>(&self, make: fn(&Self) -> C) -> Lazy<C> {
        let aws = self.clone();
        Lazy::new(move || make(&aws))
    }

    /// Returns the SDK configuration, for services for which this type has no method. `service` is
    /// the last part of the environment variable `AWS_ENDPOINT_URL_{service}`, which overrides the
    /// endpoint.
    pub fn sdk_config(&self, service: &str) -> SdkConfig {
        let mut config = SdkConfig::builder()
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
            .region(aws_sdk_dynamodb::config::Region::new(self.region.clone()))
            .credentials_provider(self.credentials.clone())
            .http_client(self.http.sdk.clone())
            .timeout_config(self.timeouts())
            .retry_config(self.retries())
            .identity_cache(aws_sdk_dynamodb::config::IdentityCache::no_cache());
        config.set_endpoint_url(self.endpoint(service));
        config.build()
    }

    fn endpoint(&self, service: &str) -> Option<String> {
        if let Some(local) = &self.local {
            return Some(local.of(service).to_owned());
        }
        env_var(&format!("AWS_ENDPOINT_URL_{service}")).or_else(|| self.endpoint.clone())
    }

    fn timeouts(&self) -> TimeoutConfig {
        let attempts = self.patience.attempts.saturating_sub(self.direct_attempts);
        TimeoutConfig::builder()
            .connect_timeout(self.patience.connect)
            .read_timeout(self.patience.attempt)
            .operation_attempt_timeout(self.patience.attempt)
            .operation_timeout(self.patience.attempt * attempts + Duration::from_millis(200))
            .build()
    }

    /// After a direct attempt, the SDK still has all of its attempts, within the shorter time. It
    /// corrects a clock that is wrong only with another attempt, and AWS refuses such an attempt at
    /// once.
    fn retries(&self) -> RetryConfig {
        RetryConfig::standard()
            .with_max_attempts(self.patience.attempts)
            .with_initial_backoff(Duration::from_millis(50))
    }
}

/// The four services have the same configuration, but each SDK crate has its own configuration
/// type.
macro_rules! client {
    ($(#[$doc:meta])* $method:ident, $sdk:ident, $service:literal $(, $by_path:ident)?) => {
        impl Aws {
            $(#[$doc])*
            pub fn $method(&self) -> $sdk::Client {
                let mut config = $sdk::Config::builder()
                    .behavior_version($sdk::config::BehaviorVersion::latest())
                    .region($sdk::config::Region::new(self.region.clone()))
                    .credentials_provider(self.credentials.clone())
                    .http_client(self.http.sdk.clone())
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
    /// Uses path-style addressing if an endpoint is set, because emulators need it.
    s3, aws_sdk_s3, "S3", force_path_style
);
