//! Dates as people and programs write them.

use chrono::{DateTime, FixedOffset, NaiveDateTime, NaiveTime};
use chrono_tz::Tz;
use serde_json::{Map, Value};

use crate::contract::source::{on_clock, zoned};
use crate::contract::time::{Day, Timestamp, parse_instant};
use crate::markup::members::{CLOCKS, TIMES, named};

/// Numbers below are no times: as seconds they lie before 1973.
const SECONDS_MIN: f64 = 1e8;
/// Seconds are below this and milliseconds above it, for every time since 1973.
const SECONDS_END: f64 = 1e11;

/// When something was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A moment, with the offset it was written with.
    At(DateTime<FixedOffset>),
    /// A day and a clock time without an offset. The day is known, the moment is not.
    Local(NaiveDateTime),
    /// A day; no moment of it is known.
    Day(Day),
}

impl Moment {
    /// Reads milliseconds, seconds, ISO 8601, RFC 2822 or a date. A number has no offset of its own:
    /// it gets the one of the zone.
    pub(crate) fn read(value: &Value, zone: Tz) -> Option<Moment> {
        match value {
            Value::Number(number) => of_number(number.as_f64()?, zone),
            Value::String(text) => of_text(text.trim(), zone),
            _ => None,
        }
    }

    /// The time of a record.
    pub(crate) fn of(members: &Map<String, Value>, zone: Tz) -> Option<Moment> {
        let first = named(members, TIMES).find_map(|value| Moment::read(value, zone))?;
        Some(first.with_clock(members))
    }

    /// The same, with the clock time that stands apart from its day.
    pub(crate) fn with_clock(self, members: &Map<String, Value>) -> Moment {
        let Moment::Day(day) = self else { return self };
        let clock = named(members, CLOCKS).find_map(|value| clock_of(value.as_str()?.trim()));
        clock.map_or(self, |clock| Moment::Local(day.0.and_time(clock)))
    }

    /// The day it counts on: the day of a moment in a zone, or the day that is written.
    pub(crate) fn day_in(self, zone: Tz) -> Day {
        match self {
            Moment::At(at) => Timestamp(at.timestamp_millis()).day_in(zone),
            Moment::Local(local) => Day(local.date()),
            Moment::Day(day) => day,
        }
    }

    /// Milliseconds of what must have some, such as an event: a time without an offset is on the clock of the zone.
    /// The day of these milliseconds in the zone is the day as written.
    pub(crate) fn event_millis(self, zone: Tz) -> i64 {
        match self {
            Moment::At(at) => at.timestamp_millis(),
            Moment::Local(local) => on_clock(local, zone).timestamp_millis(),
            // Noon in UTC is of the next day in zones far to the east.
            Moment::Day(day) if day.noon().day_in(zone) == day => day.noon().0,
            Moment::Day(day) => {
                let noon = day.0.and_hms_opt(12, 0, 0).unwrap_or_default();
                on_clock(noon, zone).timestamp_millis()
            }
        }
    }
}

/// A clock time: `10:30`, `10:30:05`, `10:30 PM`.
fn clock_of(text: &str) -> Option<NaiveTime> {
    const FORMS: [&str; 5] = ["%H:%M", "%H:%M:%S%.f", "%I:%M %p", "%I:%M%p", "%I:%M:%S %p"];
    FORMS.iter().find_map(|form| NaiveTime::parse_from_str(text, form).ok())
}

fn of_number(number: f64, zone: Tz) -> Option<Moment> {
    let ms = if number < SECONDS_END { number * 1000.0 } else { number };
    (number >= SECONDS_MIN).then(|| zoned(Timestamp(ms as i64), zone).map(Moment::At))?
}

fn of_text(text: &str, zone: Tz) -> Option<Moment> {
    // `+00:00Z` is what some exporters write.
    let text = &text.strip_suffix("+00:00Z").map_or(text.to_owned(), |head| format!("{head}Z"));
    let iso = || {
        let instant = parse_instant(text).ok()?;
        if instant.has_offset {
            return DateTime::parse_from_rfc3339(text).ok().map(Moment::At);
        }
        NaiveDateTime::parse_from_str(text, LOCAL[0]).ok().map(Moment::Local)
    };
    let zoned = || with_zone(text).map(Moment::At);
    let local = |text: &str| {
        let spaced = text.replace('/', "-");
        let is_iso = spaced.get(..10).is_some_and(|day| day.parse::<Day>().is_ok());
        let is_apart = is_iso && matches!(text.as_bytes().get(10), Some(b' ' | b't'));
        let text = if is_apart {
            format!("{}T{}", &spaced[..10], text[11..].trim())
        } else {
            text.to_owned()
        };
        let read = |form: &str| NaiveDateTime::parse_from_str(&text, form).ok();
        let halved = |form: &&str| read(&format!("{} %p", form.replace("%H", "%I")));
        let whole = LOCAL.iter().find_map(|form| read(form));
        whole.or_else(|| LOCAL.iter().find_map(halved)).map(Moment::Local)
    };
    let mail = || DateTime::parse_from_rfc2822(text).ok().map(Moment::At);
    // A zone such as `CET` has several meanings: the clock time is known, its offset is not.
    let named = || {
        let (clock, zone) = text.rsplit_once(' ')?;
        let is_name = (2..=5).contains(&zone.len()) && zone.bytes().all(|b| b.is_ascii_uppercase());
        // The half of a day is no zone.
        let is_zone = is_name && !matches!(zone, "AM" | "PM");
        is_zone.then(|| local(clock)).flatten()
    };
    let day = || {
        let (day, rest) = text.split_at_checked(10)?;
        // What stands behind the day is a clock time that cannot be read, such as one with the name of a zone.
        let is_day = rest.is_empty() || rest.starts_with([' ', 'T']);
        day.parse().ok().filter(|_| is_day).map(Moment::Day)
    };
    let number = || of_number(text.parse().ok()?, zone);
    let moment = iso().or_else(zoned).or_else(mail).or_else(|| local(text)).or_else(day);
    moment.or_else(named).or_else(number)
}

/// Forms of a time with its zone that are neither ISO 8601 extended nor RFC 2822. A space stands for any
/// number of them.
const ZONED: [&str; 7] = [
    "%Y-%m-%dT%H:%M:%S%.f %#z",
    "%Y-%m-%dT%H:%M %#z",
    "%Y%m%dT%H%M%S %#z",
    "%a %b %d %Y %H:%M:%S %#z",
    "%a %b %d %H:%M:%S %#z %Y",
    "%a, %d %b %Y %H:%M:%S %#z",
    "%a, %d %b %Y %H:%M %#z",
];

/// Forms of a day with a clock time and without a zone.
const LOCAL: [&str; 9] = [
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y%m%dT%H%M%S",
    "%a %b %d %Y %H:%M:%S",
    "%a %b %d %H:%M:%S %Y",
    "%a, %d %b %Y %H:%M:%S",
    "%a, %d %b %Y %H:%M",
    "%d %b %Y %H:%M:%S",
    "%d %b %Y %H:%M",
];

/// A time with its zone as a number: `+0900`, `+09:00`, `+09`, `GMT+0900`, `Z`, `UTC`.
fn with_zone(text: &str) -> Option<DateTime<FixedOffset>> {
    let bare = text.split(" (").next()?.trim().replace('\u{2212}', "-");
    let bare = bare.replace("GMT+", "+").replace("GMT-", "-");
    let mut bare = bare.replace("UTC+", "+").replace("UTC-", "-");
    for utc in ["UTC", "GMT", "Z", "z"] {
        if let Some(head) = bare.strip_suffix(utc) {
            bare = format!("{head}+0000");
            break;
        }
    }
    let is_iso = bare.get(..10).is_some_and(|day| day.parse::<Day>().is_ok());
    if is_iso && matches!(bare.as_bytes().get(10), Some(b' ' | b't')) {
        bare.replace_range(10..11, "T");
    }
    ZONED.iter().find_map(|form| DateTime::parse_from_str(&bare, form).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn moments_keep_their_offset_and_days_have_no_clock_time() {
        let read = |value: Value| match Moment::read(&value, chrono_tz::America::Bogota)? {
            Moment::At(at) => Some(at.to_rfc3339()),
            Moment::Local(local) => Some(crate::contract::source::local_text(local)),
            Moment::Day(day) => Some(day.to_string()),
        };
        for (value, expected) in [
            (json!(1_770_768_000), Some("2026-02-10T19:00:00-05:00")),
            (json!(1_770_768_000_000_i64), Some("2026-02-10T19:00:00-05:00")),
            (json!("1770768000"), Some("2026-02-10T19:00:00-05:00")),
            (json!("2026-02-11T01:00:00+01:00"), Some("2026-02-11T01:00:00+01:00")),
            (json!("2026-02-11T01:00:00+00:00Z"), Some("2026-02-11T01:00:00+00:00")),
            (json!("Wed, 11 Feb 2026 10:00:00 -0300"), Some("2026-02-11T10:00:00-03:00")),
            (json!("2026-02-11"), Some("2026-02-11")),
            (json!("2026-02-11T10:00:00"), Some("2026-02-11T10:00:00")),
            (json!(" 2026-02-11 10:00 "), Some("2026-02-11T10:00:00")),
            (json!("2026/02/11 10:00"), Some("2026-02-11T10:00:00")),
            (json!("2026-02-11 10:00:00.250"), Some("2026-02-11T10:00:00.250")),
            (json!("20260211T003000"), Some("2026-02-11T00:30:00")),
            (json!("Wed, 11 Feb 2026 10:00:00"), Some("2026-02-11T10:00:00")),
            (json!("Wed Feb 11 00:30:00 2026"), Some("2026-02-11T00:30:00")),
            (json!("2026-02-11 at noon"), Some("2026-02-11")),
            (json!("2026-02-11 00:30:00 +0900"), Some("2026-02-11T00:30:00+09:00")),
            (json!("2026-02-11 00:30:00+0900"), Some("2026-02-11T00:30:00+09:00")),
            (json!("2026-02-11 00:30:00.250 +09:00"), Some("2026-02-11T00:30:00.250+09:00")),
            (json!("2026-02-11T00:30:00+0900"), Some("2026-02-11T00:30:00+09:00")),
            (json!("2026-02-11T00:30:00+09"), Some("2026-02-11T00:30:00+09:00")),
            (json!("2026-02-11T00:30+09:00"), Some("2026-02-11T00:30:00+09:00")),
            (json!("2026-02-11 00:30 -0530"), Some("2026-02-11T00:30:00-05:30")),
            (json!("20260211T003000+0900"), Some("2026-02-11T00:30:00+09:00")),
            (json!("20260211T003000Z"), Some("2026-02-11T00:30:00+00:00")),
            (json!("2026-02-11 00:30:00 UTC"), Some("2026-02-11T00:30:00+00:00")),
            (json!("2026-02-11 00:30:00Z"), Some("2026-02-11T00:30:00+00:00")),
            (
                json!("Wed Feb 11 2026 00:30:00 GMT+0900 (Japan Standard Time)"),
                Some("2026-02-11T00:30:00+09:00"),
            ),
            (json!("Wed Feb 11 00:30:00 +0900 2026"), Some("2026-02-11T00:30:00+09:00")),
            (json!("Wed, 11 Feb 2026 00:30 +0900"), Some("2026-02-11T00:30:00+09:00")),
            (json!("Wed, 11 Feb 2026 00:30:00 +09:00"), Some("2026-02-11T00:30:00+09:00")),
            (json!("Wed, 11 Feb 2026 00:30:00 GMT"), Some("2026-02-11T00:30:00+00:00")),
            (json!("2026-02-11 00:30:00 JST"), Some("2026-02-11")),
            (json!("Wed, 11 Feb 2026 10:00:00 CET"), Some("2026-02-11T10:00:00")),
            (json!("9 Feb 2026 10:30 PM"), Some("2026-02-09T22:30:00")),
            (json!("9 Feb 2026 12:30 AM"), Some("2026-02-09T00:30:00")),
            (json!("Mon, 9 Feb 2026 12:30:05 pm"), Some("2026-02-09T12:30:05")),
            (json!("2026-02-09 10:30 PM"), Some("2026-02-09T22:30:00")),
            (json!("9 Feb 2026 13:30 PM"), None),
            (json!("2026"), None),
            (json!(7), None),
            (json!("soon"), None),
            (json!(null), None),
        ] {
            assert_eq!(read(value.clone()).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn a_clock_time_may_stand_apart_from_its_day() {
        for (members, expected) in [
            (json!({"date": "2026-02-11", "time": "10:30"}), "2026-02-11T10:30:00"),
            (json!({"Date": "2026-02-11", "Time": "10:30 PM"}), "2026-02-11T22:30:00"),
            (json!({"time": "10:30:05", "date": "2026-02-11"}), "2026-02-11T10:30:05"),
        ] {
            let Some(Moment::Local(at)) = Moment::of(members.as_object().unwrap(), chrono_tz::UTC)
            else {
                panic!("{members}")
            };
            assert_eq!(crate::contract::source::local_text(at), expected);
        }
        for members in [
            json!({"date": "2026-02-11", "time": "soon"}),
            json!({"date": "2026-02-11", "time": 30}),
        ] {
            let found = Moment::of(members.as_object().unwrap(), chrono_tz::UTC);
            assert!(matches!(found, Some(Moment::Day(_))), "{members}");
        }
    }

    #[test]
    fn the_milliseconds_of_an_event_are_on_the_day_that_is_written_in_every_zone() {
        use chrono_tz::{America, Atlantic, Europe, Pacific, UTC};
        let zones = [
            UTC,
            Europe::Madrid,
            America::Bogota,
            America::New_York,
            Atlantic::Azores,
            Pacific::Auckland,
            Pacific::Kiritimati,
            Pacific::Pago_Pago,
        ];
        for zone in zones {
            for text in [
                "2026-02-11",
                "2026-02-11T00:00:00",
                "2026-02-11 23:59",
                // The clocks of Madrid leave out this hour, those of New York one on another day.
                "2026-03-29T02:30:00",
                "2026-03-08T02:30:00",
                "2026-03-29T00:30:00",
            ] {
                let moment = Moment::read(&json!(text), zone).unwrap();
                let day = Timestamp(moment.event_millis(zone)).day_in(zone).to_string();
                assert_eq!(day, text[..10], "{text} in {zone}");
                assert_eq!(moment.day_in(zone).to_string(), text[..10]);
            }
        }
    }
}
