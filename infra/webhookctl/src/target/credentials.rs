//! Finds the credentials of the operator: the same that the AWS CLI finds. The lookup starts with
//! the first request.
//!
//! Only the CLI uses the chain of credentials providers. The functions read their credentials from
//! the environment, which makes their cold start short.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::meta::region::ProvideRegion as _;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as Providing;
use aws_credential_types::provider::{self, ProvideCredentials, SharedCredentialsProvider};
use aws_sdk_dynamodb::config::Region;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use shared::aws::https;
use shared::base::clock::UnixMillis;
use shared::base::env::env_var;

use crate::output::safe::capped;
use crate::output::{CliError, Exit};

/// The time before the expiry at which credentials are refreshed. It must be longer than a request
/// takes.
const MARGIN: Duration = Duration::from_secs(300);

/// The identity with which a command sends its requests.
#[derive(Debug, Clone)]
pub(super) struct Operator {
    /// The name of the context, for messages.
    pub context: String,
    /// A profile of `~/.aws/config`, and the place where the command found its name.
    pub profile: Option<Profile>,
    pub region: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Profile {
    /// The profile is from `--profile`, and replaces all other credentials.
    Flag(String),
    /// The profile is from the context. Credentials in the environment take precedence.
    Context(String),
}

impl Profile {
    pub fn name(&self) -> &str {
        match self {
            Self::Flag(name) | Self::Context(name) => name,
        }
    }
}

/// A lookup that several requests can await. If one request is cancelled, another request continues
/// the lookup.
type Look = Shared<BoxFuture<'static, Result<Credentials, CliError>>>;

/// A credentials provider that all clients share.
#[derive(Debug)]
struct Asked {
    operator: Operator,
    look: Mutex<Option<Look>>,
}

impl Operator {
    /// Creates a provider that finds credentials at the first request, and again shortly before
    /// they expire.
    pub(super) fn credentials(self) -> SharedCredentialsProvider {
        SharedCredentialsProvider::new(Asked {
            operator: self,
            look: Mutex::new(None),
        })
    }

    async fn look(&self) -> provider::Result {
        let config = ProviderConfig::default()
            .with_region(Some(Region::new(self.region.clone())))
            .with_http_client(https().sdk);
        match &self.profile {
            Some(Profile::Flag(name)) => {
                let provider = ProfileFileCredentialsProvider::builder()
                    .configure(&config)
                    .profile_name(name)
                    .build();
                provider.provide_credentials().await
            }
            profile => {
                let mut chain = DefaultCredentialsChain::builder()
                    .region(Region::new(self.region.clone()))
                    .configure(config);
                if let Some(Profile::Context(name)) = profile {
                    chain = chain.profile_name(name);
                }
                chain.build().await.provide_credentials().await
            }
        }
    }

    /// Returns an error that says what is wrong, and how to get credentials.
    fn explained(&self, error: &CredentialsError) -> CliError {
        let profile = self.profile.as_ref().map(Profile::name);
        let mut looked = match &self.profile {
            Some(Profile::Flag(name)) => format!("checked: profile {name}"),
            Some(Profile::Context(name)) => {
                format!("checked: the environment, profile {name}, the role of this machine")
            }
            None => match env_var("AWS_PROFILE") {
                Some(name) => format!(
                    "checked: the environment, profile {name} (AWS_PROFILE), the role of this \
                     machine"
                ),
                None => "checked: the environment, ~/.aws, the role of this machine".to_owned(),
            },
        };
        if let Some(why) = reason(error) {
            looked = format!("{looked}; {why}");
        }
        let message = format!("no AWS credentials for context {}", self.context);
        let tip = match profile {
            Some(profile) => format!("aws sso login --profile {profile}"),
            None => "run aws sso login, or pass --profile NAME".to_owned(),
        };
        CliError::new("auth.none", Exit::Denied, message)
            .note(looked)
            .tip(tip)
    }
}

impl Asked {
    /// Returns the lookup in progress, or the last lookup while its credentials are valid.
    /// Otherwise starts a new lookup.
    fn look(&self, now: UnixMillis) -> Look {
        let mut kept = self.look.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good = |look: &&Look| match look.peek() {
            None => true,
            Some(found) => found.as_ref().is_ok_and(|found| lasts(found, now)),
        };
        if let Some(look) = kept.as_ref().filter(is_good) {
            return look.clone();
        }
        let operator = self.operator.clone();
        let look = async move {
            let found = operator.look().await;
            found.map_err(|error| operator.explained(&error))
        };
        let look = look.boxed().shared();
        *kept = Some(look.clone());
        look
    }
}

impl ProvideCredentials for Asked {
    fn provide_credentials<'a>(&'a self) -> Providing<'a>
    where
        Self: 'a,
    {
        let look = self.look(UnixMillis::now());
        Providing::new(async { look.await.map_err(CredentialsError::not_loaded) })
    }
}

fn lasts(credentials: &Credentials, now: UnixMillis) -> bool {
    let Some(expiry) = credentials.expiry() else {
        return true;
    };
    let since = expiry.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() > u128::try_from((now + MARGIN).0).unwrap_or_default()
}

/// Returns the message of the deepest cause. The error of a credential process can contain the
/// output of this process, so this function replaces its message.
fn reason(error: &CredentialsError) -> Option<String> {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = cause.to_string();
    let lower = text.to_lowercase();
    if lower.contains("process") || lower.contains("json") {
        return Some("the credential process of the profile failed".to_owned());
    }
    if lower.contains("expired") || lower.contains("sso token") {
        return Some("the SSO session has expired".to_owned());
    }
    let says_nothing = lower.contains("not enabled") || lower.contains("no providers in chain");
    (!says_nothing).then(|| capped(&text, 200).into_owned())
}

/// Returns the Region of a profile, which applies if no other setting gives a Region. Reads only
/// files, and sends no request.
pub(super) fn region_of_profile(profile: Option<&str>) -> Option<String> {
    let mut provider = ProfileFileRegionProvider::builder();
    if let Some(profile) = profile {
        provider = provider.profile_name(profile);
    }
    let region = futures::executor::block_on(async { provider.build().region().await });
    region.map(|region| region.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(profile: Option<Profile>) -> Operator {
        Operator {
            context: "prod".to_owned(),
            profile,
            region: "eu-west-1".to_owned(),
        }
    }

    #[test]
    fn who_has_no_credentials_hears_how_to_log_in() {
        let profile = Profile::Context("prod-oncall".to_owned());
        let error = CredentialsError::provider_error("the SSO token has expired");
        let error = operator(Some(profile)).explained(&error);
        assert_eq!((error.code, error.exit), ("auth.none", Exit::Denied));
        assert_eq!(error.message, "no AWS credentials for context prod");
        let note = error.note.unwrap();
        assert!(note.contains("profile prod-oncall"), "{note}");
        assert!(note.ends_with("the SSO session has expired"), "{note}");
        let tip = error.tip.unwrap();
        assert_eq!(tip.as_ref(), "aws sso login --profile prod-oncall");
    }

    #[test]
    fn what_a_credential_process_printed_is_not_repeated() {
        let printed = "external process: invalid JSON: {\"SecretAccessKey\": \"hunter2\"";
        let error = CredentialsError::provider_error(printed);
        let shown = format!("{:?}", operator(None).explained(&error));
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("credential process"), "{shown}");
    }

    #[test]
    fn credentials_are_looked_for_again_before_they_end() {
        let now = UnixMillis(1_795_169_681_000);
        let until = |seconds: u64| {
            let end = Duration::from_secs(1_795_169_681 + seconds);
            Credentials::new("a", "b", None, Some(UNIX_EPOCH + end), "test")
        };
        assert!(lasts(&until(301), now));
        assert!(!lasts(&until(299), now));
        assert!(lasts(&Credentials::new("a", "b", None, None, "test"), now));
    }
}
