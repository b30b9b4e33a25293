//! The signed time, and whether it is near enough to ours.

use super::candidates::Group;
use super::{Reason, Rejected, unreadable};
use crate::clock::Millis;
use crate::preset::{Location, Place, Timestamp, Unit};

/// 15 digits are the year 33658 in milliseconds: what is longer is no time.
const LONGEST: usize = 15;

/// The longest RFC 3339 time that is read.
const LONGEST_TEXT: usize = 40;

/// The text of the signed time, which can be read.
pub(super) fn text(
    ts: &Timestamp,
    place: Place<'_>,
    group: Option<&Group>,
) -> Result<String, Rejected> {
    let (text, missing) = match &ts.from {
        Location::Sig(key) => {
            let field = group.map_or(Ok(None), |group| group.field(key))?;
            (field.map(str::to_owned), Reason::MissingHeader)
        }
        location => {
            let missing = match location {
                Location::Header(_) => Reason::MissingHeader,
                _ => Reason::MissingField,
            };
            (location.find(place).map_err(unreadable)?, missing)
        }
    };
    let text = text.filter(|text| !text.is_empty());
    let text = text.ok_or(Rejected(missing))?;
    match seconds(ts.unit, &text) {
        Some(_) => Ok(text),
        None => Err(Rejected(Reason::MalformedTimestamp)),
    }
}

/// Both ends of the window are inside it.
pub(super) fn check(ts: &Timestamp, text: &str, now: Millis) -> Result<(), Rejected> {
    if !ts.enforce {
        return Ok(());
    }
    let signed = seconds(ts.unit, text).ok_or(Rejected(Reason::MalformedTimestamp))?;
    let age = now.secs() - signed;
    if age > ts.past {
        Err(Rejected(Reason::TimestampTooOld))
    } else if -age > ts.future {
        Err(Rejected(Reason::TimestampInFuture))
    } else {
        Ok(())
    }
}

/// The time in whole seconds.
pub(super) fn seconds(unit: Unit, text: &str) -> Option<i64> {
    if unit == Unit::Rfc3339 {
        let short = text.len() <= LONGEST_TEXT;
        let time: jiff::Timestamp = short.then(|| text.parse().ok())??;
        return Some(time.as_second());
    }
    if text.len() > LONGEST || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: i64 = text.parse().ok()?;
    let millis = match unit {
        Unit::Ms => true,
        Unit::Auto => text.len() >= 13,
        Unit::S | Unit::Rfc3339 => false,
    };
    Some(if millis { number / 1000 } else { number })
}

/// A time in the unit and form of a preset.
pub(crate) fn written(unit: Unit, at: Millis) -> String {
    match unit {
        Unit::S | Unit::Auto => at.secs().to_string(),
        Unit::Ms => at.0.to_string(),
        Unit::Rfc3339 => jiff::Timestamp::from_second(at.secs())
            .map(|time| time.to_string())
            .unwrap_or_default(),
    }
}
