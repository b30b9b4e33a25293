//! Reads `mode = "tee"`, with which a source records its events while the previous route processes
//! them.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use super::{Action, ActionKind, Signing, duration};
use crate::base::setting_path::At as _;
use crate::webhook::preset::{Preset, Scheme};

/// The longest time that the catcher can wait for the route. An HTTP API waits 30 seconds for a
/// function.
/// <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html>
const LONGEST: Duration = Duration::from_secs(25);

/// How long the catcher waits for the route of a provider whose limit is not known.
const DEFAULT: Duration = Duration::from_secs(9);

/// The time between the end of the wait and the provider's limit. If the limit is short, a third of
/// it.
const MARGIN: Duration = Duration::from_secs(1);

/// A trial: the catcher sends each request to the previous route, and gives the route's answer to
/// the provider.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The URL of the route. Its path and query can have the placeholder `{path}`.
    pub url: String,
    /// The name of the action that delivers the events after the trial.
    pub action: String,
    /// The new signature, if the provider's signature covers the URL. The original one is valid
    /// only for the URL of the source. `None` keeps the original signature.
    pub signing: Option<Signing>,
    /// How long the catcher waits for the answer of the route.
    pub timeout: Duration,
    /// How long the provider waits for an answer, or a little longer than `timeout`, if this is not
    /// known or shorter.
    pub limit: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FileMode {
    Tee,
}

/// The settings of a source that belong to a trial.
pub(super) struct FileTrial {
    mode: Option<FileMode>,
    timeout: Option<String>,
}

impl FileTrial {
    pub(super) fn new(mode: Option<FileMode>, timeout: Option<String>) -> Self {
        Self { mode, timeout }
    }

    pub(super) fn checked(
        self,
        actions: &[Action],
        preset: &Preset,
        variant: &str,
    ) -> anyhow::Result<Option<Trial>> {
        let Some(FileMode::Tee) = self.mode else {
            check_alone(self.timeout.as_deref())
                .at("tee_timeout")
                .needs("mode")?;
            return Ok(None);
        };
        let scheme = preset.scheme(variant).context("unknown variant")?;
        check_signed(preset, scheme).at("mode")?;
        let (action, url, signing) = route(actions).at("mode").needs("action")?;
        check_route(action, url).at("mode").needs("action")?;
        let limit = preset.ack.deadline_ms.map(Duration::from_millis);
        let timeout = match self.timeout.as_deref() {
            Some(text) => timeout(text).within("tee_timeout")?,
            None => limit.map_or(DEFAULT, |limit| {
                LONGEST.min(limit.saturating_sub(MARGIN.min(limit / 3)))
            }),
        };
        let limit = limit.unwrap_or_default();
        Ok(Some(Trial {
            url: url.to_owned(),
            action: action.name.clone(),
            signing: new_signature(action, signing, preset, scheme)
                .at("mode")
                .needs("action")?,
            timeout,
            limit: if limit > timeout {
                limit
            } else {
                timeout + MARGIN
            },
        }))
    }
}

fn check_alone(timeout: Option<&str>) -> anyhow::Result<()> {
    ensure!(
        timeout.is_none(),
        "tee_timeout needs mode = \"tee\"; remove the setting, or set mode"
    );
    Ok(())
}

fn check_signed(preset: &Preset, scheme: &Scheme) -> anyhow::Result<()> {
    ensure!(
        scheme.fetch.is_none(),
        "mode = \"tee\": requests of preset {} are not signed and contain no event, so a trial could \
         record nothing; register the URL of the source beside the URL of the route",
        preset.id
    );
    Ok(())
}

fn check_route(action: &Action, url: &str) -> anyhow::Result<()> {
    ensure!(
        !url.contains("{account}") && !url.contains("{type}"),
        "mode = \"tee\": the url of action {:?} must not contain {{account}} or {{type}}, because \
         the catcher also sends requests to the route whose event it does not know",
        action.name
    );
    Ok(())
}

/// Returns the only action of kind `http`. Its URL is the route.
fn route(actions: &[Action]) -> anyhow::Result<(&Action, &str, &Signing)> {
    let mut routes = actions.iter().filter_map(|action| match &action.kind {
        ActionKind::Http { url, signing, .. } => Some((action, url.as_str(), signing)),
        ActionKind::Keep
        | ActionKind::Lambda { .. }
        | ActionKind::Sqs { .. }
        | ActionKind::EventBridge { .. }
        | ActionKind::StepFunctions { .. }
        | ActionKind::Pull(_)
        | ActionKind::Rust { .. } => None,
    });
    match (routes.next(), routes.next()) {
        (Some(route), None) => Ok(route),
        (None, _) => bail!(
            "mode = \"tee\" needs an action of kind \"http\"; set its url to the route that \
             processes the webhooks today"
        ),
        (Some(_), Some(_)) => bail!(
            "mode = \"tee\" needs exactly one action of kind \"http\"; the provider gets the \
             answer of one route"
        ),
    }
}

fn new_signature(
    action: &Action,
    signing: &Signing,
    preset: &Preset,
    scheme: &Scheme,
) -> anyhow::Result<Option<Signing>> {
    if !scheme.signs_url() {
        return Ok(None);
    }
    match signing {
        Signing::Provider { .. } => Ok(Some(signing.clone())),
        Signing::Standard { .. } | Signing::AsReceived { .. } | Signing::Unsigned => bail!(
            "mode = \"tee\": preset {} signs the URL, and the provider signs the URL of this \
             source, so the route would reject the signature; set sign = \"provider\" and a \
             secret in action {:?}",
            preset.id,
            action.name
        ),
    }
}

fn timeout(text: &str) -> anyhow::Result<Duration> {
    let timeout = duration::parse(text)?;
    ensure!(
        (Duration::from_secs(1)..=LONGEST).contains(&timeout),
        "{text:?} is out of range; use 1s to 25s, because API Gateway waits 30 s for an answer"
    );
    Ok(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{Config, Source};

    fn parsed(preset: &str, settings: &str, action: &str) -> anyhow::Result<Source> {
        let text = format!(
            "schema = 1\n[forward]\nallow_hosts = [\"app.example.com\"]\n[[source]]\n\
             name = \"shop\"\npreset = \"{preset}\"\n{settings}\n{action}"
        );
        let mut config = Config::parse(&text)?;
        config.sources.remove("shop").context("no source")
    }

    fn http(rest: &str) -> String {
        format!(
            "[[source.action]]\nkind = \"http\"\nurl = \"https://app.example.com/hook\"\n{rest}\n"
        )
    }

    const SIGNED: &str = "sign = \"provider\"\nsecret = \"app\"";

    #[test]
    fn a_trial_asks_the_route_of_its_only_http_action() {
        let source = parsed("stripe", "mode = \"tee\"", &http(SIGNED)).unwrap();
        let trial = source.trial.unwrap();
        assert_eq!(trial.url, "https://app.example.com/hook");
        assert_eq!(trial.action, "http");
        assert_eq!(trial.signing, None, "the signature does not cover the URL");
        let usual = parsed("stripe", "", &http(SIGNED)).unwrap();
        assert!(usual.trial.is_none());
    }

    #[test]
    fn the_default_timeout_is_below_the_limit_of_the_provider() {
        let timeout = |preset: &str, settings: &str| {
            let settings = format!("mode = \"tee\"\n{settings}");
            let source = parsed(preset, &settings, &http(SIGNED)).unwrap();
            source.trial.unwrap().timeout
        };
        for (preset, ms) in [
            ("github", 9_000),
            ("shopify", 4_000),
            ("slack", 2_000),
            ("line", 1_333),
            ("sentry", 666),
            // The limit is not known.
            ("stripe", 9_000),
            // API Gateway waits 30 s.
            ("box", 25_000),
        ] {
            assert_eq!(timeout(preset, "").as_millis(), ms, "{preset}");
        }
        assert_eq!(
            timeout("github", "tee_timeout = \"3s\""),
            Duration::from_secs(3)
        );
    }

    #[test]
    fn the_response_has_time_after_the_answer_of_the_route() {
        for (preset, settings, limit_ms) in [
            ("sentry", "", 1_000),
            ("github", "", 10_000),
            ("github", "tee_timeout = \"12s\"", 13_000),
            ("stripe", "", 10_000),
        ] {
            let settings = format!("mode = \"tee\"\n{settings}");
            let source = parsed(preset, &settings, &http(SIGNED)).unwrap();
            let trial = source.trial.unwrap();
            assert_eq!(trial.limit, Duration::from_millis(limit_ms), "{preset}");
            assert!(trial.timeout < trial.limit, "{preset}");
        }
    }

    #[test]
    fn a_signature_of_the_url_is_made_anew() {
        let source = parsed("twilio", "mode = \"tee\"", &http(SIGNED)).unwrap();
        assert!(matches!(
            source.trial.unwrap().signing,
            Some(Signing::Provider { .. })
        ));
        let kept = parsed("twilio", "mode = \"tee\"", &http("sign = \"as-received\""));
        let error = format!("{:#}", kept.unwrap_err());
        assert!(error.contains("signs the URL"), "{error}");
    }

    #[test]
    fn each_wrong_setting_is_named() {
        let keep = "[[source.action]]\nkind = \"keep\"\n";
        let two =
            http("name = \"one\"\nsign = \"none\"") + &http("name = \"two\"\nsign = \"none\"");
        let tee = "mode = \"tee\"";
        for (settings, action, expected) in [
            ("tee_timeout = \"3s\"", keep, "tee_timeout needs mode"),
            (tee, keep, "needs an action of kind \"http\""),
            (tee, &two, "exactly one action"),
            (
                "mode = \"tee\"\ntee_timeout = \"26s\"",
                &http(SIGNED),
                "out of range",
            ),
            ("mode = \"copy\"", &http(SIGNED), "copy"),
            (
                tee,
                &http(SIGNED).replace("/hook", "/hook/{account}"),
                "must not contain {account}",
            ),
        ] {
            let error = format!("{:#}", parsed("github", settings, action).unwrap_err());
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
