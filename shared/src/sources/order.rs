//! Reads `[source.order]`, which configures how a source orders the events of an entity.

use anyhow::{Context as _, anyhow, bail, ensure};
use serde::Deserialize;

use super::{Action, ActionKind, Forward, check_name, check_url};
use crate::base::json_path::JsonPath;
use crate::base::setting_path::At as _;
use crate::sources::ordering::{Current, Mode, Order};
use crate::sources::policy::IdempotencySupport;
use crate::webhook::preset::{Compare, Location, Locations, OrderAt};

/// The `order` table of a source.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileOrder {
    #[serde(default)]
    mode: FileMode,
    entity: Option<String>,
    version: Option<String>,
    compare: Option<Compare>,
    url: Option<String>,
    secret: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FileMode {
    #[default]
    None,
    LatestWins,
    Fetch,
    Strict,
}

impl FileOrder {
    /// Checks the settings. `preset` contains the locations of the entity and the version in the
    /// provider's events, if the preset defines them. `batch` is the path of the items of a batch.
    pub(super) fn checked(
        self,
        preset: Option<&OrderAt>,
        batch: Option<&JsonPath>,
        actions: &[Action],
        forward: &Forward,
    ) -> anyhow::Result<Option<Order>> {
        self.check_off().at("mode")?;
        self.check_fetch_only()
            .at("mode")
            .needs("url")
            .needs("secret")?;
        if self.mode == FileMode::None {
            return Ok(None);
        }
        let at = self.locations(preset)?;
        check_entity(&at).at("entity")?;
        self.check_version(&at).at("version").needs("mode")?;
        let mode = match self.mode {
            FileMode::None => return Ok(None),
            FileMode::LatestWins => Mode::LatestWins,
            FileMode::Fetch => Mode::Fetch(self.current(forward)?),
            FileMode::Strict => {
                check_keys(actions).at("mode")?;
                Mode::Strict
            }
        };
        if !matches!(mode, Mode::Strict) {
            check_filters(actions).at("mode")?;
        }
        let batch = batch.cloned();
        Ok(Some(Order { mode, at, batch }))
    }

    /// Returns whether the source itself names a location, so that each event should have a value
    /// there.
    pub(super) fn names_a_location(&self) -> bool {
        self.entity.is_some() || self.version.is_some()
    }

    fn check_off(&self) -> anyhow::Result<()> {
        let is_set = self.entity.is_some() || self.version.is_some() || self.url.is_some();
        ensure!(
            self.mode != FileMode::None || !is_set,
            "mode is \"none\", but entity, version or url is set; set mode to \"latest_wins\", \
             \"fetch\" or \"strict\""
        );
        Ok(())
    }

    fn check_fetch_only(&self) -> anyhow::Result<()> {
        ensure!(
            matches!(self.mode, FileMode::None | FileMode::Fetch)
                || self.url.is_none() && self.secret.is_none(),
            "url and secret are settings of mode = \"fetch\" only; set this mode, or remove the \
             settings"
        );
        Ok(())
    }

    fn check_version(&self, at: &OrderAt) -> anyhow::Result<()> {
        let is_set = !at.version.0.is_empty();
        ensure!(
            is_set || self.mode != FileMode::LatestWins,
            "version is missing; set it to the location of a value that grows with each change, \
             such as \"json:updated_at\""
        );
        ensure!(
            is_set || self.mode != FileMode::Fetch,
            "version is missing; set it to the location of the version in the fetched state, such \
             as \"json:updated_at\". When a lock expires, only the version prevents an older state \
             from overwriting a newer state"
        );
        Ok(())
    }

    fn locations(&self, preset: Option<&OrderAt>) -> anyhow::Result<OrderAt> {
        let preset = preset.cloned().unwrap_or_default();
        let entity = location("entity", self.entity.as_deref()).at("entity")?;
        let given = location("version", self.version.as_deref()).at("version")?;
        // A preset describes the provider's events, but not the responses of its API.
        let known = if self.mode == FileMode::Fetch {
            Locations::default()
        } else {
            preset.version
        };
        let compare = match (&given, self.compare) {
            (_, Some(compare)) => compare,
            (Some(_), None) => Err(anyhow!(
                "compare is missing; to compare two versions, set it to \"number\", \"time\" (RFC \
                 3339) or \"text\""
            ))
            .at("compare")?,
            (None, None) => preset.compare,
        };
        Ok(OrderAt {
            entity: entity.unwrap_or(preset.entity),
            version: given.unwrap_or(known),
            compare,
        })
    }

    fn current(&self, forward: &Forward) -> anyhow::Result<Current> {
        let url = self.url.clone().context(
            "url is missing; set it to the URL of the current state, such as \
             \"https://api.example.com/things/{entity}\"",
        );
        let url = url.at("url").needs("mode")?;
        check_template(&url).at("url")?;
        check_url(&url, forward).within("url")?;
        if let Some(secret) = &self.secret {
            check_name("a secret's name", secret).at("secret")?;
        }
        Ok(Current {
            url,
            secret: self.secret.clone(),
        })
    }
}

fn check_entity(at: &OrderAt) -> anyhow::Result<()> {
    ensure!(
        !at.entity.0.is_empty(),
        "entity is missing; set it to the location of the object's id in an event, such as \
         \"json:data.object.id\""
    );
    Ok(())
}

fn check_template(url: &str) -> anyhow::Result<()> {
    let after_host = url.splitn(4, '/').nth(3).unwrap_or_default();
    ensure!(
        after_host.contains("{entity}") && !url[..url.len() - after_host.len()].contains('{'),
        "url {url:?} must contain {{entity}} in its path or query, but not in its host"
    );
    Ok(())
}

fn check_keys(actions: &[Action]) -> anyhow::Result<()> {
    if let Some(action) = actions.iter().find(|action| !honours_keys(&action.kind)) {
        bail!(
            "mode = \"strict\" needs destinations that honour idempotency keys, because a repeated \
             call could arrive after newer calls. Action {:?} does not declare that its \
             destination honours the keys. For your own code, set params = {{ keys = \"honoured\" }}",
            action.name
        );
    }
    Ok(())
}

/// Checks that all actions have the same filter, because a newer event makes an older event stale
/// for all actions.
fn check_filters(actions: &[Action]) -> anyhow::Result<()> {
    let told = actions
        .iter()
        .filter(|action| !matches!(action.kind, ActionKind::Keep));
    let mut filters = told.map(|action| &action.filter);
    let first = filters.next();
    ensure!(
        filters.all(|filter| Some(filter) == first),
        "with mode = \"latest_wins\" or \"fetch\", set the same types and where in all actions, \
         because an event for one action makes an older event stale for the other actions"
    );
    Ok(())
}

/// Parses a location. Accepts only locations in the row or the body, because every attempt can read
/// them.
fn location(what: &str, text: Option<&str>) -> anyhow::Result<Option<Locations>> {
    let Some(text) = text else {
        return Ok(None);
    };
    let location = Location::parse(text).context(what.to_owned())?;
    ensure!(
        matches!(
            location,
            Location::Json(_) | Location::Header(_) | Location::Form(_)
        ),
        "{what} = {text:?}: the location must begin with json:, header: or form:"
    );
    Ok(Some(Locations(vec![location])))
}

/// Returns whether repeated calls with the same key have only one effect, for as long as Mitt may
/// repeat an event.
fn honours_keys(kind: &ActionKind) -> bool {
    match kind {
        ActionKind::Rust { params, .. } => {
            params.get("keys").is_some_and(|keys| keys == "honoured")
        }
        ActionKind::Http { keys, .. } => *keys != IdempotencySupport::Ignored,
        // Order and pull exclude each other.
        ActionKind::Keep | ActionKind::StepFunctions { .. } | ActionKind::Pull(_) => true,
        // A FIFO queue drops duplicates for only five minutes. The other destinations do not drop
        // duplicates.
        ActionKind::Lambda { .. } | ActionKind::Sqs { .. } | ActionKind::EventBridge { .. } => {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Config;

    fn config(preset: &str, order: &str, action: &str) -> anyhow::Result<Config> {
        Config::parse(&format!(
            "schema = 1\n[forward]\nallow_hosts = [\"api.example.com\"]\n[[source]]\n\
             name = \"s\"\npreset = \"{preset}\"\n[[source.action]]\n{action}\n\
             [source.order]\n{order}\n"
        ))
    }

    const KEEP: &str = "kind = \"keep\"";

    fn order(preset: &str, text: &str) -> Option<Order> {
        let config = config(preset, text, KEEP).unwrap();
        config.source("s").unwrap().order.clone()
    }

    #[test]
    fn a_mode_takes_what_the_preset_knows() {
        assert!(order("stripe", "").is_none());
        assert!(order("stripe", "mode = \"none\"").is_none());
        let stripe = order("stripe", "mode = \"latest_wins\"").unwrap();
        assert_eq!(stripe.mode, Mode::LatestWins);
        assert_eq!(stripe.at.compare, Compare::Number);
        assert_eq!(
            stripe.at.version.0,
            [Location::parse("json:created").unwrap()]
        );
        let own = "mode = \"strict\"\nentity = \"json:a.b\"\nversion = \"header:x-at\"\ncompare = \"time\"";
        let own = order("stripe", own).unwrap();
        assert_eq!((own.mode, own.at.compare), (Mode::Strict, Compare::Time));
        assert_eq!(own.at.entity.0, [Location::parse("json:a.b").unwrap()]);
        let by_arrival = order("generic-hmac", "mode = \"strict\"\nentity = \"json:a\"").unwrap();
        assert!(by_arrival.at.version.0.is_empty());
        let fetch = "mode = \"fetch\"\nurl = \"https://api.example.com/v1/{entity}\"\n\
                     version = \"json:updated\"\ncompare = \"time\"\nsecret = \"api\"";
        let Mode::Fetch(current) = order("stripe", fetch).unwrap().mode else {
            panic!("the mode is not fetch");
        };
        assert_eq!(current.secret.as_deref(), Some("api"));
    }

    #[test]
    fn a_wrong_order_is_refused_with_what_was_meant() {
        const FETCH: &str = "mode = \"fetch\"\nentity = \"json:id\"\ncompare = \"time\"\n";
        let with = |more: &str| format!("{FETCH}{more}");
        let version = "version = \"json:u\"\n";
        let url = |url: &str| with(&format!("{version}url = \"{url}\""));
        for (order, said) in [
            ("mode = \"latest\"".to_owned(), "`latest_wins`"),
            ("modus = \"none\"".to_owned(), "`mode`"),
            ("entity = \"json:id\"".to_owned(), "mode is \"none\""),
            ("mode = \"latest_wins\"".to_owned(), "entity is missing"),
            ("mode = \"strict\"".to_owned(), "entity is missing"),
            (
                "mode = \"latest_wins\"\nentity = \"json:id\"".to_owned(),
                "version is missing",
            ),
            (
                "mode = \"strict\"\nentity = \"json:id\"\nversion = \"json:v\"".to_owned(),
                "compare is missing",
            ),
            (
                "mode = \"strict\"\nentity = \"id\"".to_owned(),
                "invalid location",
            ),
            (
                "mode = \"strict\"\nentity = \"query:id\"".to_owned(),
                "must begin with json:, header: or form:",
            ),
            (
                "mode = \"strict\"\nentity = \"json:id\"\nurl = \"https://x\"".to_owned(),
                "of mode = \"fetch\" only",
            ),
            (with(""), "version is missing"),
            (with(version), "url is missing"),
            (url("https://api.example.com/v1"), "{entity}"),
            (url("https://{entity}.example.com/{entity}"), "{entity}"),
            (url("https://evil.test/{entity}"), "forward.allow_hosts"),
            (url("http://api.example.com/{entity}"), "https"),
        ] {
            let error = config("generic-hmac", &order, KEEP).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(said), "{order}\n{error}");
        }
        let strict = "mode = \"strict\"\nentity = \"json:id\"";
        let code = "kind = \"rust\"\nname = \"open-issue\"\nparams = { keys = \"KEYS\" }";
        let error = config("generic-hmac", strict, code).unwrap_err();
        assert!(format!("{error:#}").contains("\"open-issue\""), "{error:#}");
        config("generic-hmac", strict, &code.replace("KEYS", "honoured")).unwrap();
    }
}
