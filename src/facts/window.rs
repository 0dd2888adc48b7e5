//! Windows of time: local days in a zone. A window includes its last day; as instants it is
//! half-open.
//!
//! A summary belongs to the window that contains the local day of its source time. The boundary is
//! local midnight, also on days of 23 or 25 hours.

use chrono::{Datelike as _, Days, NaiveDate, NaiveTime, TimeZone as _};
use chrono_tz::Tz;

use crate::contract::time::{Day, Timestamp};
use crate::facts::digest::WindowType;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Window {
    pub kind: WindowType,
    /// First local day; `None` for the window of everything.
    pub start: Option<Day>,
    /// Last local day, inclusive; `None` for the window of everything.
    pub end: Option<Day>,
}

impl Window {
    /// The window of this type that contains a day.
    pub(crate) fn of(kind: WindowType, day: Day) -> Window {
        let day = day.0;
        let monday =
            |day: NaiveDate| day - Days::new(u64::from(day.weekday().num_days_from_monday()));
        let (start, length) = match kind {
            WindowType::All => return Window { kind, start: None, end: None },
            WindowType::Day => (day, 1),
            WindowType::IsoWeek => (monday(day), 7),
            WindowType::Fortnight => {
                let (monday, week) = (monday(day), day.iso_week().week());
                match week {
                    53 => (monday, 7),
                    odd if odd % 2 == 1 => (monday, 14),
                    _ => (monday - Days::new(7), 14),
                }
            }
            WindowType::Month => {
                let start = day.with_day(1).unwrap_or(day);
                let next = start + chrono::Months::new(1);
                (start, next.signed_duration_since(start).num_days().unsigned_abs())
            }
        };
        Window { kind, start: Some(Day(start)), end: Some(Day(start + Days::new(length - 1))) }
    }

    /// The type of the windows that can have this label; `None` when no window can.
    pub(crate) fn type_of_label(text: &str) -> Option<WindowType> {
        let first = match text.as_bytes() {
            b"all" => return Some(WindowType::All),
            [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'-', b'W', ..] => {
                let (year, week) = (text.get(..4), text.get(6..8));
                let number = |part: Option<&str>| part?.parse::<u32>().ok();
                NaiveDate::from_isoywd_opt(
                    number(year)? as i32,
                    number(week)?,
                    chrono::Weekday::Mon,
                )
            }
            _ if text.len() == 7 => format!("{text}-01").parse::<Day>().ok().map(|day| day.0),
            _ => text.parse::<Day>().ok().map(|day| day.0),
        }?;
        let kinds =
            [WindowType::Day, WindowType::IsoWeek, WindowType::Fortnight, WindowType::Month];
        kinds.into_iter().find(|kind| Window::of(*kind, Day(first)).label() == text)
    }

    /// The name in records and file names.
    pub(crate) fn label(&self) -> String {
        let (Some(start), Some(end)) = (self.start, self.end) else { return "all".to_owned() };
        let week = start.0.iso_week();
        match self.kind {
            WindowType::All => "all".to_owned(),
            WindowType::Day => start.to_string(),
            WindowType::Month => start.0.format("%Y-%m").to_string(),
            WindowType::IsoWeek => format!("{:04}-W{:02}", week.year(), week.week()),
            WindowType::Fortnight => {
                // Week 53 stands alone, and its label still differs from that of an ISO week.
                let (first, last) = (week.week(), end.0.iso_week().week());
                format!("{:04}-W{first:02}_W{last:02}", week.year())
            }
        }
    }

    pub(crate) fn title(&self) -> String {
        let (Some(start), Some(end)) = (self.start, self.end) else {
            return "everything so far".to_owned();
        };
        let week = start.0.iso_week();
        match self.kind {
            WindowType::All => "everything so far".to_owned(),
            WindowType::Day => start.to_string(),
            WindowType::Month => start.0.format("%B %Y").to_string(),
            WindowType::IsoWeek => format!("week {} of {}", week.week(), week.year()),
            WindowType::Fortnight => {
                let (first, last) = (week.week(), end.0.iso_week().week());
                match first == last {
                    true => format!("week {first} of {}", week.year()),
                    false => format!("weeks {first} and {last} of {}", week.year()),
                }
            }
        }
    }

    /// The half-open range of instants in a zone.
    pub(crate) fn instants(&self, zone: Tz) -> (Option<Timestamp>, Option<Timestamp>) {
        let end = self.end.and_then(|end| end.0.succ_opt());
        (self.start.map(|start| midnight(start.0, zone)), end.map(|end| midnight(end, zone)))
    }
}

fn midnight(day: NaiveDate, zone: Tz) -> Timestamp {
    let mut local = day.and_time(NaiveTime::MIN);
    // Where clocks skip midnight, the day begins after the gap, which is at most a few hours.
    for _ in 0..96 {
        if let Some(instant) = zone.from_local_datetime(&local).earliest() {
            return Timestamp(instant.timestamp_millis());
        }
        local += chrono::TimeDelta::minutes(15);
    }
    Timestamp(chrono_tz::UTC.from_utc_datetime(&day.and_time(NaiveTime::MIN)).timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::time::parse_instant;

    fn holds(window: &Window, day: Day) -> bool {
        window.start.is_none_or(|start| start <= day) && window.end.is_none_or(|end| day <= end)
    }

    fn window(kind: WindowType, day: &str) -> (String, String, String) {
        let window = Window::of(kind, day.parse().unwrap());
        assert!(holds(&window, day.parse().unwrap()));
        let text = |day: Option<Day>| day.map_or("-".to_owned(), |day| day.to_string());
        (window.label(), text(window.start), text(window.end))
    }

    #[test]
    fn windows_have_their_labels_and_bounds() {
        let w = |label: &str, start: &str, end: &str| (label.into(), start.into(), end.into());
        use WindowType::{All, Day, Fortnight, IsoWeek, Month};
        assert_eq!(window(Day, "2026-02-11"), w("2026-02-11", "2026-02-11", "2026-02-11"));
        assert_eq!(window(IsoWeek, "2026-02-15"), w("2026-W07", "2026-02-09", "2026-02-15"));
        assert_eq!(window(IsoWeek, "2027-01-01"), w("2026-W53", "2026-12-28", "2027-01-03"));
        assert_eq!(window(Fortnight, "2026-02-11"), w("2026-W07_W08", "2026-02-09", "2026-02-22"));
        assert_eq!(window(Fortnight, "2026-02-16"), w("2026-W07_W08", "2026-02-09", "2026-02-22"));
        assert_eq!(window(Fortnight, "2026-12-31"), w("2026-W53_W53", "2026-12-28", "2027-01-03"));
        assert_eq!(window(Fortnight, "2025-12-29"), w("2026-W01_W02", "2025-12-29", "2026-01-11"));
        assert_eq!(window(Month, "2024-02-29"), w("2024-02", "2024-02-01", "2024-02-29"));
        assert_eq!(window(All, "2024-02-29"), w("all", "-", "-"));
    }

    #[test]
    fn labels_are_told_from_other_words() {
        for good in
            ["all", "2026-02-11", "2026-W07", "2026-W53", "2026-W53_W53", "2026-W07_W08", "2024-02"]
        {
            assert!(Window::type_of_label(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "2026",
            "2026-W7",
            "2026-W54",
            "2025-W53",
            "2026-W08_W09",
            "2026-13",
            "2026-02-30",
            "2026-W07_",
            "week 7",
            "2026-Wé",
            "é2026-0",
            "ALL",
        ] {
            assert_eq!(Window::type_of_label(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_window_is_half_open_in_its_zone() {
        let zone: Tz = "America/Argentina/Buenos_Aires".parse().unwrap();
        let window = Window::of(WindowType::Day, "2026-02-11".parse().unwrap());
        let (from, until) = window.instants(zone);
        let at = |text: &str| Some(parse_instant(text).unwrap().at);
        assert_eq!((from, until), (at("2026-02-11T03:00:00Z"), at("2026-02-12T03:00:00Z")));
        for (instant, inside) in [(from.unwrap(), true), (until.unwrap(), false)] {
            assert_eq!(holds(&window, instant.day_in(zone)), inside);
            assert_eq!(holds(&window, instant.plus_ms(-1).day_in(zone)), !inside);
        }
    }

    #[test]
    fn days_without_midnight_begin_after_the_gap() {
        // In Santiago the clocks went from 24:00 to 01:00 on 2023-09-02.
        let zone: Tz = "America/Santiago".parse().unwrap();
        let window = Window::of(WindowType::Day, "2023-09-03".parse().unwrap());
        let (from, until) = window.instants(zone);
        assert_eq!(until.unwrap().ms_since(from.unwrap()), 23 * 3_600_000);
        assert_eq!(from.unwrap().day_in(zone).to_string(), "2023-09-03");
    }
}
