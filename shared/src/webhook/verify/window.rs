//! Reads the signed timestamp, and checks that it is near the current time.

use super::candidates::Group;
use super::{Reason, Rejected, unreadable};
use crate::base::clock::UnixMillis;
use crate::webhook::preset::{Location, Place, Timestamp, Unit};

/// The maximum number of digits of a timestamp. A number of milliseconds with 15 digits reaches the
/// year 33658.
const LONGEST: usize = 15;

/// The longest accepted RFC 3339 time, in bytes.
const LONGEST_TEXT: usize = 40;

/// Returns the text of the signed timestamp. Fails if the text cannot be parsed.
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

/// Checks that the timestamp is in the window. Both limits are inclusive.
pub(super) fn check(ts: &Timestamp, text: &str, now: UnixMillis) -> Result<(), Rejected> {
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

/// Parses a timestamp as whole seconds.
pub(super) fn seconds(unit: Unit, text: &str) -> Option<i64> {
    millis(unit, text).map(|millis| millis / 1000)
}

/// Parses a timestamp as milliseconds.
pub(super) fn millis(unit: Unit, text: &str) -> Option<i64> {
    match unit {
        Unit::Rfc3339 => return rfc3339(text),
        Unit::HttpDate => return http_date(text).or_else(|| rfc3339(text)),
        Unit::Iso8601Utc => return rfc3339(text).or_else(|| without_zone(text)),
        Unit::S | Unit::Ms | Unit::Auto => {}
    }
    // A leading zero could belong to the previous part of the signed message.
    let padded = text.len() > 1 && text.starts_with('0');
    if padded || text.len() > LONGEST || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: i64 = text.parse().ok()?;
    let millis = match unit {
        Unit::Ms => true,
        Unit::Auto => text.len() >= 13,
        Unit::S | Unit::Rfc3339 | Unit::HttpDate | Unit::Iso8601Utc => false,
    };
    Some(if millis { number } else { number * 1000 })
}

/// Parses a time such as `2026-11-23T10:00:00.5Z`. The zone can also be an offset, such as
/// `+01:00`. The time must start with a four-digit year and end with the zone, so that adjacent
/// text cannot be read as part of the time.
fn rfc3339(text: &str) -> Option<i64> {
    let form = is_date_and_time(text.get(..19)?);
    let zone = matches!(text.as_bytes().last(), Some(b'Z' | b'z'))
        || text.len() >= 25 && matches!(text.as_bytes().get(text.len() - 6), Some(b'+' | b'-'));
    if !(form && zone) || text.len() > LONGEST_TEXT {
        return None;
    }
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.as_millisecond())
}

fn is_date_and_time(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, b)| match at {
        4 | 7 => b == b'-',
        10 => matches!(b, b'T' | b't' | b' '),
        13 | 16 => b == b':',
        _ => b.is_ascii_digit(),
    })
}

/// Parses a time in UTC without its zone, such as `2026-11-23T10:00:00.5`.
fn without_zone(text: &str) -> Option<i64> {
    let (time, fraction) = text.split_at_checked(19)?;
    let digits = fraction.strip_prefix('.');
    let digits = digits.filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
    if !is_date_and_time(time)
        || !(fraction.is_empty() || digits.is_some())
        || text.len() > LONGEST_TEXT
    {
        return None;
    }
    rfc3339(&format!("{time}Z"))
}

/// Parses a date such as `Mon, 23 Nov 2026 10:00:00 GMT`.
/// <https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7>
fn http_date(text: &str) -> Option<i64> {
    if text.len() != 29 || !text.ends_with(" GMT") {
        return None;
    }
    let time = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text);
    Some(time.ok()?.as_millisecond())
}

/// Formats a timestamp in the unit of a preset.
pub(crate) fn written(unit: Unit, at: UnixMillis) -> String {
    match unit {
        Unit::S | Unit::Auto => at.secs().to_string(),
        Unit::Ms => at.0.to_string(),
        Unit::HttpDate => jiff::Timestamp::from_second(at.secs())
            .ok()
            .and_then(|time| {
                jiff::fmt::rfc2822::DateTimePrinter::new()
                    .timestamp_to_rfc9110_string(&time)
                    .ok()
            })
            .unwrap_or_default(),
        Unit::Rfc3339 => jiff::Timestamp::from_second(at.secs())
            .map(|time| time.to_string())
            .unwrap_or_default(),
        Unit::Iso8601Utc => jiff::Timestamp::from_second(at.secs())
            .map(|time| time.to_string().trim_end_matches('Z').to_owned())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_zone_is_in_utc() {
        let read = |text: &str| seconds(Unit::Iso8601Utc, text);
        for text in [
            "2024-09-10T20:26:40",
            "2024-09-10T20:26:40.123",
            "2024-09-10T20:26:40.123456789",
            "2024-09-10T20:26:40Z",
            "2024-09-10T22:26:40.5+02:00",
        ] {
            assert_eq!(read(text), Some(1_726_000_000), "{text}");
        }
        for bad in [
            "",
            "2024-09-10",
            "2024-09-10T20:26",
            "2024-09-10T20:26:40.",
            "2024-09-10T20:26:40.1a",
            "2024-09-10T20:26:40+02",
            "2024-13-10T20:26:40",
            "2024-09-10T25:26:40",
            " 2024-09-10T20:26:40",
            "2024-09-10T20:26:4é",
            "2024-09-10T20:26:40.1111111111111111111111111111111111",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
        let at = UnixMillis::from_secs(1_726_000_000);
        assert_eq!(written(Unit::Iso8601Utc, at), "2024-09-10T20:26:40");
    }
}
