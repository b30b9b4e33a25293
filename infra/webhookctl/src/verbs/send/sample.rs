//! Sends a sample to the local stack for another command, as the provider of a source would send
//! it.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::sources::Config;
use shared::webhook::sign::{Means, means};

use super::post;
use super::target::Target;
use crate::forward::scheme_of;
use crate::samples;
use crate::target::{Deployment, Local};

/// The source of the demo. It is the default source if it is configured.
const OF_THE_DEMO: &str = "stripe-main";

/// The response to the sample.
pub(in crate::verbs) struct Sent {
    pub(in crate::verbs) source: String,
    pub(in crate::verbs) kind: String,
    pub(in crate::verbs) status: u16,
    pub(in crate::verbs) took_ms: u128,
    /// The id in the quarantine, if the catcher rejected the request.
    pub(in crate::verbs) quarantined: Option<String>,
}

/// Sends a sample. The clock of the signature is `behind` the local clock. Does not wait for the
/// outcome of the event.
pub(in crate::verbs) async fn sample(
    local: Local,
    source: String,
    behind: Duration,
) -> anyhow::Result<Sent> {
    let inbox = Deployment::local(local.clone())?;
    inbox.may_write("send webhooks")?;
    let target = Target::of_source(&source, (None, None), inbox, &local).await?;
    let verifier = &target.verifier;
    let since = UnixMillis::now();
    let draft = samples::draft(&verifier.preset, &verifier.variant, None, None, since)?;
    let signed = target.sign(&draft, &target.signer, since - behind)?;
    let http = post::client(&target.url)?;
    let told = post::deliver(&http, &target, &draft, &signed).await?;
    let quarantined = match (&target.inbox, told.status) {
        (Some(inbox), 401) => post::quarantined(inbox, &target, &signed, since).await?,
        _ => None,
    };
    Ok(Sent {
        source,
        kind: told.kind,
        status: told.status,
        took_ms: told.took_ms,
        quarantined,
    })
}

/// Returns the default source of samples: the demo's Stripe source or, without it, the first source
/// that signs with a shared secret.
pub(in crate::verbs) fn usual_source(config: &Config) -> Option<&str> {
    let mut names = config.sources().filter_map(|source| {
        let means = means(scheme_of(source).ok()?);
        matches!(means, Means::Secret).then_some(source.name.as_str())
    });
    match config.source(OF_THE_DEMO) {
        Some(source) => Some(source.name.as_str()),
        None => names.next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_goes_to_the_source_of_the_demo_or_to_one_that_can_be_signed_for() {
        let usual = |sources: &[(&str, &str)]| {
            let sources = sources.iter().map(|(name, preset)| {
                format!("[[source]]\nname = \"{name}\"\npreset = \"{preset}\"\naction = [{{ kind = \"keep\" }}]\n")
            });
            let sources: Vec<String> = sources.collect();
            let text = format!("schema = 1\n{}", sources.concat());
            let config = Config::parse(&text).unwrap();
            usual_source(&config).map(str::to_owned)
        };
        let demo = [("acme", "github"), ("stripe-main", "stripe")];
        assert_eq!(usual(&demo).as_deref(), Some("stripe-main"));
        // For a source with a public key, only the provider has the private key. Such a source is
        // not used.
        let own = [("a", "sendgrid"), ("b", "github"), ("c", "stripe")];
        assert_eq!(usual(&own).as_deref(), Some("b"));
        assert_eq!(usual(&own[..1]), None);
    }
}
