//! How often an entry of a calendar repeats, in words.
//!
//! Contract: what is told is the whole rule. A rule with parts that have no words here is not told.

use crate::contract::time::Day;

const DAYS: [(&str, &str); 7] = [
    ("MO", "Monday"),
    ("TU", "Tuesday"),
    ("WE", "Wednesday"),
    ("TH", "Thursday"),
    ("FR", "Friday"),
    ("SA", "Saturday"),
    ("SU", "Sunday"),
];

const PLACES: [(&str, &str); 6] = [
    ("1", "first"),
    ("2", "second"),
    ("3", "third"),
    ("4", "fourth"),
    ("5", "fifth"),
    ("-1", "last"),
];

/// `FREQ=WEEKLY;INTERVAL=2;BYDAY=MO` as `every 2 weeks on Monday`.
pub(super) fn told(rule: &str) -> Option<String> {
    let rule = rule.trim().to_ascii_uppercase();
    let (mut frequency, mut interval, mut on, mut end) = (None, 1, None, None);
    let mut month = None;
    for part in rule.split(';').filter(|part| !part.is_empty()) {
        match part.split_once('=')? {
            ("FREQ", value) => frequency = Some(value),
            ("INTERVAL", value) => interval = value.parse::<u32>().ok().filter(|one| *one > 0)?,
            ("COUNT", value) => end = Some(format!("{} times", value.parse::<u32>().ok()?)),
            ("UNTIL", value) => end = Some(format!("until {}", day(value)?)),
            ("BYDAY", value) => on = Some(On::of(value)?),
            ("BYMONTHDAY", value) => {
                let day: u32 = value.parse().ok().filter(|day| (1..=31).contains(day))?;
                on = Some(On::DayOfMonth(day));
            }
            ("BYMONTH", value) => month = Some(value.parse::<u32>().ok()?),
            // Which day begins a week has no words.
            ("WKST", _) => {}
            _ => return None,
        }
    }
    let (adverb, unit) = match frequency? {
        "DAILY" => ("daily", "days"),
        "WEEKLY" => ("weekly", "weeks"),
        "MONTHLY" => ("monthly", "months"),
        "YEARLY" => ("yearly", "years"),
        _ => return None,
    };
    let mut words = match interval {
        1 => adverb.to_owned(),
        interval => format!("every {interval} {unit}"),
    };
    match (adverb, on, month) {
        (_, None, None) => {}
        // Its begin says which day of the year it is.
        ("yearly", None | Some(On::DayOfMonth(_)), Some(_)) => {}
        ("weekly", Some(On::Days(days)), None) => words.push_str(&format!(" on {days}")),
        ("monthly", Some(On::Place(place, day)), None) => {
            words.push_str(&format!(" on the {place} {day}"));
        }
        ("monthly", Some(On::DayOfMonth(day)), None) => words.push_str(&format!(" on day {day}")),
        _ => return None,
    }
    if let Some(end) = end {
        words.push_str(&format!(", {end}"));
    }
    Some(words)
}

/// Which days a rule names.
enum On {
    Days(String),
    /// `2MO`: the second Monday.
    Place(&'static str, &'static str),
    DayOfMonth(u32),
}

impl On {
    fn of(days: &str) -> Option<On> {
        let named = |all: &[(&str, &'static str)], wanted: &str| {
            all.iter().find(|(name, _)| *name == wanted).map(|(_, word)| *word)
        };
        let all: Vec<&str> = days.split(',').collect();
        if let Some(words) = all.iter().map(|day| named(&DAYS, day)).collect::<Option<Vec<_>>>() {
            let (last, before) = words.split_last()?;
            let before = before.join(", ");
            return Some(On::Days(if before.is_empty() {
                (*last).to_owned()
            } else {
                format!("{before} and {last}")
            }));
        }
        let [only] = all.as_slice() else { return None };
        let (place, day) = only.split_at_checked(only.len().checked_sub(2)?)?;
        let place = place.strip_prefix('+').unwrap_or(place);
        Some(On::Place(named(&PLACES, place)?, named(&DAYS, day)?))
    }
}

fn day(time: &str) -> Option<String> {
    let part = |range: std::ops::Range<usize>| time.get(range);
    let day = format!("{}-{}-{}", part(0..4)?, part(4..6)?, part(6..8)?);
    day.parse::<Day>().ok().map(|day| day.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_told_whole_or_not_at_all() {
        for (rule, words) in [
            ("FREQ=YEARLY", Some("yearly")),
            (
                "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE,FR;WKST=SU",
                Some("every 2 weeks on Monday, Wednesday and Friday"),
            ),
            ("FREQ=DAILY;COUNT=5", Some("daily, 5 times")),
            ("FREQ=WEEKLY;UNTIL=20260630T000000Z", Some("weekly, until 2026-06-30")),
            ("FREQ=MONTHLY;BYDAY=2MO", Some("monthly on the second Monday")),
            ("FREQ=MONTHLY;BYDAY=-1FR", Some("monthly on the last Friday")),
            ("FREQ=MONTHLY;BYMONTHDAY=15", Some("monthly on day 15")),
            ("FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=8", Some("yearly")),
            ("FREQ=YEARLY;BYMONTH=1,7", None),
            ("FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU", None),
            ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=-1", None),
            ("FREQ=MONTHLY;BYDAY=MO", None),
            ("FREQ=HOURLY", None),
            ("FREQ=WEEKLY;UNTIL=é", None),
            ("FREQ=MONTHLY;BYDAY=é", None),
            ("FREQ=DAILY;INTERVAL=0", None),
            ("INTERVAL=2", None),
            ("x", None),
        ] {
            assert_eq!(told(rule).as_deref(), words, "{rule}");
        }
    }
}
