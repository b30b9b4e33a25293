//! Checks whether the subscription at the provider still sends the expected events to this
//! endpoint.
//!
//! Providers disable or delete endpoints that fail for some time, and people change settings by
//! mistake. Then no events arrive, and Mitt sees no error.

mod store;

use serde::{Deserialize, Serialize};

use crate::base::clock::UnixMillis;
use crate::base::string_enum::string_enum;

string_enum! {
    /// The health of the subscription.
    Health {
        Good = "good",
        /// The provider has disabled the subscription, temporarily or permanently.
        Disabled = "disabled",
        /// No subscription points to this endpoint.
        Missing = "missing",
        /// A subscription exists, but for another host with the same path.
        WrongUrl = "wrong_url",
        /// The subscription does not include all expected types.
        EventsMissing = "events_missing",
    }
}

/// A subscription in the provider's API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    pub id: String,
    pub url: String,
    pub enabled: bool,
    /// The subscribed types. `*` means all types.
    pub events: Vec<String>,
    /// Other information from the provider, such as the time of its next retry.
    pub note: Option<String>,
}

/// The result of a check at the provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub health: Health,
    /// The id of the subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// Expected types that no subscription includes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_events: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The state of the endpoint of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub source: String,
    #[serde(flatten)]
    pub finding: Finding,
    #[serde(with = "crate::monitoring::reconcile::rfc3339")]
    pub checked_at: UnixMillis,
    /// When a check first found this health.
    #[serde(with = "crate::monitoring::reconcile::rfc3339")]
    pub since: UnixMillis,
    /// Events can be missing since this time. It is the time of the last check with good health
    /// before the last unhealthy period, or of the first check.
    #[serde(
        default,
        with = "crate::monitoring::reconcile::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub dark_since: Option<UnixMillis>,
}

impl Finding {
    /// Compares the provider's subscriptions with the expected types. A provider may need several
    /// subscriptions for several types.
    pub fn of(url: &str, events: &[String], all: &[Subscription]) -> Self {
        let ours: Vec<_> = all.iter().filter(|one| same(&one.url, url)).collect();
        let finding = |health, about: Option<&Subscription>| Self {
            health,
            subscription: about.map(|one| one.id.clone()),
            missing_events: Vec::new(),
            note: about.and_then(|one| one.note.clone()),
        };
        let Some(first) = ours.first().copied() else {
            let named = |one: &&Subscription| tail(&one.url) == tail(url);
            return match all.iter().find(named) {
                Some(other) => finding(Health::WrongUrl, Some(other)),
                None => Self {
                    missing_events: events.to_vec(),
                    ..finding(Health::Missing, None)
                },
            };
        };
        let told = |event: &String| {
            let mut enabled = ours.iter().filter(|one| one.enabled);
            enabled.any(|one| one.events.iter().any(|e| e == "*" || e == event))
        };
        if let Some(disabled) = ours.iter().find(|one| !one.enabled)
            && (ours.len() == 1 || !events.iter().all(told))
        {
            return finding(Health::Disabled, Some(disabled));
        }
        let missing: Vec<_> = events
            .iter()
            .filter(|event| !told(event))
            .cloned()
            .collect();
        if missing.is_empty() {
            return finding(Health::Good, Some(first));
        }
        Self {
            missing_events: missing,
            ..finding(Health::EventsMissing, Some(first))
        }
    }
}

impl Status {
    /// Returns the next status, from a finding and the previous status.
    pub fn after(source: &str, before: Option<&Self>, finding: Finding, now: UnixMillis) -> Self {
        let well = |finding: &Finding| finding.health == Health::Good;
        let (since, dark_since) = match before {
            None => (now, (!well(&finding)).then_some(now)),
            Some(before) => {
                let same = before.finding.health == finding.health;
                let since = if same { before.since } else { now };
                let dark = match (well(&before.finding), well(&finding)) {
                    (true, false) => Some(before.checked_at),
                    _ => before.dark_since,
                };
                (since, dark)
            }
        };
        Self {
            source: source.to_owned(),
            finding,
            checked_at: now,
            since,
            dark_since,
        }
    }
}

/// Compares URLs without trailing slashes, which some providers add.
fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Returns the part `/in/{source}` of a URL, which is the same in all deployments.
fn tail(url: &str) -> &str {
    let path = url.trim_end_matches('/');
    path.rfind("/in/").map_or(path, |at| &path[at..])
}

impl Serialize for Health {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Health {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        Self::parse(&word)
            .ok_or_else(|| serde::de::Error::custom(format!("invalid health {word:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://hooks.example.com/in/stripe-main";

    fn one(url: &str, enabled: bool, events: &[&str]) -> Subscription {
        Subscription {
            id: "we_1".to_owned(),
            url: url.to_owned(),
            enabled,
            events: events.iter().map(|event| (*event).to_owned()).collect(),
            note: None,
        }
    }

    fn health(all: &[Subscription]) -> (Health, Vec<String>) {
        let wanted = ["a.b".to_owned(), "c.d".to_owned()];
        let finding = Finding::of(URL, &wanted, all);
        (finding.health, finding.missing_events)
    }

    #[test]
    fn each_way_to_fall_silent_has_its_name() {
        let other = one("https://elsewhere.example.com/hook", true, &["*"]);
        let good = one(&format!("{URL}/"), true, &["c.d", "a.b"]);
        assert_eq!(health(&[other.clone(), good]).0, Health::Good);
        assert_eq!(health(&[one(URL, true, &["*"])]).0, Health::Good);
        assert_eq!(health(&[one(URL, false, &["*"])]).0, Health::Disabled);
        let some = health(&[one(URL, true, &["a.b"])]);
        assert_eq!(some, (Health::EventsMissing, vec!["c.d".to_owned()]));
        assert_eq!(health(std::slice::from_ref(&other)).0, Health::Missing);
        assert_eq!(health(&[]).0, Health::Missing);
        let moved = one("https://old.example.com/in/stripe-main", true, &["*"]);
        assert_eq!(health(&[other, moved]).0, Health::WrongUrl);
    }

    #[test]
    fn several_subscriptions_may_share_the_types() {
        let (a, c) = (one(URL, true, &["a.b"]), one(URL, true, &["c.d"]));
        assert_eq!(health(&[a.clone(), c]).0, Health::Good);
        // A disabled subscription matters only if no other subscription includes its types.
        assert_eq!(health(&[a, one(URL, false, &["c.d"])]).0, Health::Disabled);
        let both = [one(URL, true, &["*"]), one(URL, false, &["c.d"])];
        assert_eq!(health(&both).0, Health::Good);
    }

    #[test]
    fn the_dark_window_begins_where_all_was_last_seen_well() {
        let finding = |health| Finding {
            health,
            subscription: None,
            missing_events: vec![],
            note: None,
        };
        let at = |before: Option<&Status>, health, now| {
            Status::after("s", before, finding(health), UnixMillis(now))
        };
        let good = at(None, Health::Good, 1);
        assert_eq!((good.since, good.dark_since), (UnixMillis(1), None));
        let good = at(Some(&good), Health::Good, 2);
        assert_eq!(good.since, UnixMillis(1));
        let dark = at(Some(&good), Health::Disabled, 3);
        assert_eq!(
            (dark.since, dark.dark_since),
            (UnixMillis(3), Some(UnixMillis(2)))
        );
        let dark = at(Some(&dark), Health::Missing, 4);
        assert_eq!(
            (dark.since, dark.dark_since),
            (UnixMillis(4), Some(UnixMillis(2)))
        );
        // The status keeps the time until the next unhealthy period.
        let good = at(Some(&dark), Health::Good, 5);
        assert_eq!(
            (good.since, good.dark_since),
            (UnixMillis(5), Some(UnixMillis(2)))
        );
        let text = serde_json::to_string(&good).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), good);
        assert_eq!(
            at(None, Health::Disabled, 7).dark_since,
            Some(UnixMillis(7))
        );
    }
}
