//! The report of a run, and the events of a repair.

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Drift, Drifted, Values};
use crate::base::clock::UnixMillis;
use crate::sources::Source;
use crate::webhook::event::{Event, Fetched, Via};

/// The maximum size of the drift in a report, in bytes. An item of DynamoDB has at most 400 KB.
/// Further drift is only counted, and the next run finds it.
const LARGEST: usize = 240_000;

/// The maximum number of characters of a value that are stored.
const LONGEST_VALUE: usize = 120;

/// The maximum number of values of a field that are stored.
const MOST_VALUES: usize = 10;

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The id of the report, which consists of `rec_` and ten hex digits.
    pub id: String,
    pub source: String,
    /// The name of the comparison.
    pub name: String,
    #[serde(with = "rfc3339")]
    pub started: UnixMillis,
    pub took_ms: u64,
    pub counts: Counts,
    /// The objects with confirmed drift, as many as the size limit allows.
    pub drift: Vec<Drift>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// Why the scheduled run repaired nothing, although it may repair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrepaired: Option<String>,
}

/// The number of objects by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Objects that exist on at least one side.
    pub compared: u64,
    pub agree: u64,
    pub missing: u64,
    pub gone: u64,
    pub different: u64,
    pub ambiguous: u64,
    /// Objects that agreed at the second read.
    pub settled: u64,
    /// Objects that changed during the run. The next run compares them again.
    pub moving: u64,
    /// Objects that are so new at the provider that their events may still arrive.
    pub young: u64,
    /// Objects that differed and were not read a second time.
    pub unconfirmed: u64,
}

/// A repair of the drift in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    #[serde(with = "rfc3339")]
    pub at: UnixMillis,
    pub by: String,
    pub why: String,
    /// The number of events that were added so far.
    pub events: u64,
    pub complete: bool,
}

impl Repair {
    /// Creates a repair that begins now.
    pub fn new(now: UnixMillis, by: &str, why: &str) -> Self {
        Self {
            at: now,
            by: by.to_owned(),
            why: why.to_owned(),
            events: 0,
            complete: false,
        }
    }
}

impl Counts {
    /// Returns the number of objects that drifted, including unconfirmed drift.
    pub fn drifted(&self) -> u64 {
        self.missing + self.gone + self.different + self.ambiguous + self.unconfirmed
    }

    /// Returns the share of objects that drifted, in percent.
    #[expect(
        clippy::cast_precision_loss,
        reason = "the percentage does not need to be exact"
    )]
    pub fn percent(&self) -> f64 {
        if self.compared == 0 {
            return 0.0;
        }
        self.drifted() as f64 * 100.0 / self.compared as f64
    }

    pub fn note(&mut self, kind: Drifted) {
        *match kind {
            Drifted::Missing => &mut self.missing,
            Drifted::Gone => &mut self.gone,
            Drifted::Different => &mut self.different,
            Drifted::Ambiguous => &mut self.ambiguous,
        } += 1;
    }
}

impl Report {
    /// Creates the report of a run that began at `started`.
    pub fn new(source: &str, name: &str, started: UnixMillis) -> Self {
        let named = format!("{source}/{name}/{}", started.0);
        Self {
            id: format!("rec_{}", hex::encode(&Sha256::digest(named)[..5])),
            source: source.to_owned(),
            name: name.to_owned(),
            started,
            took_ms: 0,
            counts: Counts::default(),
            drift: Vec::new(),
            repair: None,
            unrepaired: None,
        }
    }

    /// Returns the report with as much drift as the size limit allows.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let mut room = LARGEST;
        let shortened = self.drift.into_iter().map(Drift::shortened);
        self.drift = shortened
            .take_while(|drift| {
                let size = serde_json::to_string(drift).map_or(LARGEST, |json| json.len() + 1);
                let fits = size <= room;
                room = room.saturating_sub(size);
                fits
            })
            .collect();
        self
    }

    /// Returns the drift that an event can describe.
    pub fn repairable(&self) -> impl Iterator<Item = &Drift> {
        let drift = self.drift.iter();
        drift.filter(|drift| drift.kind != Drifted::Ambiguous)
    }

    /// Returns the event with which the source's actions process a drifted object. The same report
    /// always produces the same event, with the same id and the same body.
    pub fn event(&self, drift: &Drift, source: &Source, config: &str, now: UnixMillis) -> Event {
        let preset = &source.verifier.preset;
        let id = format!("recon:{}:{}", self.id, drift.object);
        let kind = format!("mitt.reconcile.{}", drift.kind);
        let body = json!({
            "id": id,
            "type": kind,
            "created": self.started.secs(),
            "reconcile": { "report": self.id, "name": self.name, "source": self.source },
            "object": drift.object,
            "fields": drift.fields,
        });
        Event::fetched(Fetched {
            source: &self.source,
            provider: if preset.generic {
                &self.source
            } else {
                &preset.id
            },
            preset: &preset.id,
            id: &id,
            kind: &kind,
            body: body.to_string().into(),
            now,
            via: Via::Recon,
            config,
        })
    }
}

impl Drift {
    /// Shortens the values to the lengths that a report allows.
    fn shortened(mut self) -> Self {
        let short = |values: &mut Values| {
            values.truncate(MOST_VALUES);
            for value in values {
                if let Some((end, _)) = value.char_indices().nth(LONGEST_VALUE) {
                    value.truncate(end);
                    value.push('…');
                }
            }
        };
        for field in &mut self.fields {
            short(&mut field.here);
            short(&mut field.there);
        }
        self
    }
}

/// Writes and reads times in RFC 3339, also in stored documents.
pub(crate) mod rfc3339 {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use crate::base::clock::UnixMillis;

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde requires this signature"
    )]
    pub(crate) fn serialize<S: Serializer>(time: &UnixMillis, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&time.rfc3339())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<UnixMillis, D::Error> {
        let text = String::deserialize(from)?;
        super::time(&text).ok_or_else(|| D::Error::custom("invalid time; expected RFC 3339"))
    }

    /// Writes and reads optional times.
    pub(crate) mod option {
        use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

        use crate::base::clock::UnixMillis;

        #[expect(clippy::ref_option, reason = "serde requires this signature")]
        pub(crate) fn serialize<S: Serializer>(
            time: &Option<UnixMillis>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match time {
                Some(time) => to.serialize_str(&time.rfc3339()),
                None => to.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<UnixMillis>, D::Error> {
            let Some(text) = Option::<String>::deserialize(from)? else {
                return Ok(None);
            };
            let time = super::super::time(&text);
            time.ok_or_else(|| D::Error::custom("invalid time; expected RFC 3339"))
                .map(Some)
        }
    }
}

/// Parses a number of seconds since 1970, or a time in RFC 3339.
pub fn time(text: &str) -> Option<UnixMillis> {
    if let Ok(secs) = text.parse() {
        return Some(UnixMillis::from_secs(secs));
    }
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(UnixMillis(time.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::super::Field;
    use super::*;
    use crate::sources::Config;

    fn report(objects: usize, value: &str) -> Report {
        let field = Field {
            name: "plan".to_owned(),
            here: vec![],
            there: vec![value.to_owned()],
        };
        let drift = |n| Drift {
            kind: Drifted::Missing,
            object: format!("sub_{n}"),
            fields: vec![field.clone()],
        };
        Report {
            drift: (0..objects).map(drift).collect(),
            ..Report::new(
                "stripe-main",
                "subscriptions",
                UnixMillis(1_795_169_681_118),
            )
        }
    }

    #[test]
    fn a_report_fits_into_an_item_whatever_was_found() {
        let large = report(20_000, &"ö".repeat(5_000)).bounded();
        let size = serde_json::to_string(&large).unwrap().len();
        assert!(size < LARGEST + 1_000, "{size}");
        assert!(large.drift.len() > 500);
        let small = report(3, "pro");
        assert_eq!(small.clone().bounded(), small);
        let back: Report = serde_json::from_str(&serde_json::to_string(&small).unwrap()).unwrap();
        assert_eq!(back, small);
    }

    #[test]
    fn an_event_is_the_same_whenever_it_is_made() {
        let config = Config::parse(crate::sources::EMBEDDED).unwrap();
        let source = config.source("stripe-main").unwrap();
        let report = report(2, "pro");
        let at = |now| {
            let event = report.event(&report.drift[0], source, "test", UnixMillis(now));
            (event.key().clone(), event.body().clone())
        };
        assert_eq!(at(1), at(2));
        let other = report.event(&report.drift[1], source, "test", UnixMillis(1));
        assert_ne!(at(1).0, *other.key());
        assert_eq!(other.kind(), "mitt.reconcile.missing");
        assert_eq!(other.key().id(), format!("recon:{}:sub_1", report.id));
    }

    #[test]
    fn percent_is_of_all_objects_and_counts_what_nobody_confirmed() {
        let counts = Counts {
            compared: 200,
            missing: 3,
            unconfirmed: 1,
            young: 7,
            ..Counts::default()
        };
        assert!((counts.percent() - 2.0).abs() < 1e-9);
        assert!(Counts::default().percent().abs() < 1e-9);
    }
}
