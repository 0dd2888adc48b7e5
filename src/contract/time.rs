//! Instants and days as data: UTC milliseconds inside, ISO 8601 with exactly three decimals outside.
//! Nothing here reads a clock.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, NaiveDateTime, SecondsFormat, TimeZone as _, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

/// A moment: milliseconds since the Unix epoch, UTC.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Hour and minute of the local clock in a time zone.
    pub(crate) fn clock_in(self, zone: Tz) -> String {
        match DateTime::from_timestamp_millis(self.0) {
            Some(at) => at.with_timezone(&zone).format("%H:%M").to_string(),
            None => "--:--".to_owned(),
        }
    }

    /// Milliseconds later, saturating at the ends of time.
    pub fn plus_ms(self, ms: i64) -> Timestamp {
        Timestamp(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to here; negative when the clock stepped back.
    pub(crate) fn ms_since(self, earlier: Timestamp) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The calendar day of this moment in a time zone.
    pub fn day_in(self, zone: Tz) -> Day {
        Day(self.utc().with_timezone(&zone).date_naive())
    }

    fn utc(self) -> DateTime<Utc> {
        Utc.timestamp_millis_opt(self.0).single().unwrap_or(DateTime::<Utc>::MIN_UTC)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.utc().to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

/// The text names no instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an instant: expected ISO 8601 like 2026-02-11T23:02:11Z")]
pub struct NotAnInstant;

/// A parsed instant and whether the text said which zone it meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// The moment; a missing offset is read as UTC.
    pub at: Timestamp,
    /// False when the offset was missing.
    pub(crate) has_offset: bool,
}

/// Reads ISO 8601 extended format: date, `T`, time with seconds, optional fraction, optional
/// `Z` or `±hh:mm`. A leap second is the last millisecond of its minute.
pub fn parse_instant(text: &str) -> Result<Instant, NotAnInstant> {
    let bytes = text.as_bytes();
    if let Some(at) = bytes.try_into().ok().and_then(parse_written) {
        return Ok(Instant { at, has_offset: true });
    }
    // chrono also accepts a space, a lower-case t and a Unicode minus; the contract does not.
    if !text.is_ascii() || bytes.len() < 19 || bytes[10] != b'T' {
        return Err(NotAnInstant);
    }
    let tail = &bytes[19..];
    let has_offset = tail.iter().any(|byte| matches!(byte, b'Z' | b'+' | b'-'));
    if tail.iter().any(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'Z' | b'+' | b'-' | b':')) {
        return Err(NotAnInstant);
    }
    let utc = if has_offset {
        DateTime::parse_from_rfc3339(text).map_err(|_| NotAnInstant)?.to_utc()
    } else {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f")
            .map_err(|_| NotAnInstant)?
            .and_utc()
    };
    let mut ms = utc.timestamp_millis();
    if utc.timestamp_subsec_millis() >= 1000 {
        ms = utc.timestamp() * 1000 + 999;
    }
    Ok(Instant { at: Timestamp(ms), has_offset })
}

/// The form we write ourselves, `2026-02-11T23:02:11.000Z`, which nearly every record carries; `None`
/// for every other form, and for leap seconds.
fn parse_written(bytes: &[u8; 24]) -> Option<Timestamp> {
    let mut digits = [0_u32; 24];
    for (index, byte) in bytes.iter().enumerate() {
        digits[index] = match (index, byte) {
            (4 | 7, b'-') | (10, b'T') | (13 | 16, b':') | (19, b'.') | (23, b'Z') => continue,
            (4 | 7 | 10 | 13 | 16 | 19 | 23, _) => return None,
            (_, b'0'..=b'9') => u32::from(byte - b'0'),
            _ => return None,
        };
    }
    let two = |at: usize| digits[at] * 10 + digits[at + 1];
    let (year, month, day) = (two(0) * 100 + two(2), two(5), two(8));
    let (hour, minute, second) = (two(11), two(14), two(17));
    let day = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
    let ms = two(20) * 10 + digits[22];
    let at = day.and_hms_milli_opt(hour, minute, second, ms)?;
    Some(Timestamp(at.and_utc().timestamp_millis()))
}

/// A calendar day, `YYYY-MM-DD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub NaiveDate);

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.format("%Y-%m-%d"))
    }
}

impl Day {
    /// Days since 1970-01-01: the form in the log.
    pub fn days(self) -> i32 {
        self.0.to_epoch_days()
    }

    /// The first moment of the day in a time zone. Where the clocks skip midnight, the first that
    /// exists.
    pub(crate) fn start_in(self, zone: Tz) -> Timestamp {
        let begins = |hour| self.0.and_hms_opt(hour, 0, 0)?.and_local_timezone(zone).earliest();
        let first = (0..3).find_map(begins);
        let ms = first.map_or_else(
            || self.0.and_time(Default::default()).and_utc().timestamp_millis(),
            |at| at.timestamp_millis(),
        );
        Timestamp(ms)
    }

    /// The moment a day without a time counts as: its noon in UTC, which lies on that day in nearly
    /// every zone.
    pub(crate) fn noon(self) -> Timestamp {
        let noon = self.0.and_hms_opt(12, 0, 0).unwrap_or_default();
        Timestamp(noon.and_utc().timestamp_millis())
    }

    /// The day so many days after 1970-01-01.
    pub(crate) fn of_days(days: i32) -> Option<Day> {
        NaiveDate::from_epoch_days(days).map(Day)
    }
}

impl serde::Serialize for Day {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Day {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The text is not a calendar day.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a calendar day: expected YYYY-MM-DD")]
pub struct NotADay;

impl FromStr for Day {
    type Err = NotADay;

    fn from_str(text: &str) -> Result<Self, NotADay> {
        let exact = text.len() == 10
            && text.bytes().enumerate().all(|(index, byte)| match index {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        if !exact {
            return Err(NotADay);
        }
        let number = |from: usize, to: usize| {
            let digits = text.as_bytes()[from..to].iter();
            digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
        };
        let year = i32::try_from(number(0, 4)).map_err(|_| NotADay)?;
        NaiveDate::from_ymd_opt(year, number(5, 7), number(8, 10)).map(Day).ok_or(NotADay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_has_three_decimals() {
        let instant = parse_instant("2026-02-11T23:02:11Z").unwrap();
        assert_eq!(instant.at.to_string(), "2026-02-11T23:02:11.000Z");
        let instant = parse_instant("2026-02-11T20:02:11.123456789-03:00").unwrap();
        assert_eq!(instant.at.to_string(), "2026-02-11T23:02:11.123Z");
    }

    #[test]
    fn missing_offset_is_utc_and_says_so() {
        let instant = parse_instant("2026-02-11T23:02:11.5").unwrap();
        assert_eq!(
            (instant.at.to_string().as_str(), instant.has_offset),
            ("2026-02-11T23:02:11.500Z", false)
        );
    }

    #[test]
    fn the_form_we_write_is_read_like_every_other() {
        for year in ["0000", "0001", "1969", "1970", "2000", "2023", "2024", "2100", "9999"] {
            for date in ["01-01", "02-28", "02-29", "02-30", "04-31", "12-31", "00-10", "13-01"] {
                for time in ["00:00:00", "23:59:59", "23:59:60", "24:00:00", "12:60:00", "09:5x:01"]
                {
                    let text = format!("{year}-{date}T{time}.007Z");
                    let elsewhere = parse_instant(&text.replace('Z', "+00:00"));
                    assert_eq!(parse_instant(&text), elsewhere, "{text}");
                }
            }
        }
    }

    #[test]
    fn only_real_instants_pass() {
        for bad in [
            "",
            "2026-02-11",
            "2026-02-30T00:00:00Z",
            "2026-02-11 23:02:11Z",
            "2026-02-11t23:02:11Z",
            "2026-02-11T23:02Z",
            "2026-02-11T25:00:00Z",
            "2026-02-11T23:02:11+0100",
            "2026-02-11T23:02:11Zx",
            "2026-02-11T23:02:11.Z",
            "2026-02-11T23:02:11\u{2212}03:00",
            "+12026-02-11T23:02:11Z",
        ] {
            assert_eq!(parse_instant(bad), Err(NotAnInstant), "{bad}");
        }
    }

    #[test]
    fn a_leap_second_stays_in_its_minute() {
        let instant = parse_instant("2016-12-31T23:59:60.500Z").unwrap();
        assert_eq!(instant.at.to_string(), "2016-12-31T23:59:59.999Z");
    }

    #[test]
    fn days_are_exact() {
        assert_eq!("2026-02-11".parse::<Day>().unwrap().to_string(), "2026-02-11");
        for bad in ["2026-2-11", "2026-02-31", "20260211", "2026-02-11x", ""] {
            assert_eq!(bad.parse::<Day>(), Err(NotADay), "{bad}");
        }
        let late = parse_instant("2026-02-11T23:30:00-03:00").unwrap().at;
        assert_eq!(late.day_in(chrono_tz::UTC).to_string(), "2026-02-12");
        assert_eq!(
            late.day_in(chrono_tz::America::Argentina::Buenos_Aires).to_string(),
            "2026-02-11"
        );
    }
}
