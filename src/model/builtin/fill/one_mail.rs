//! One mail of several, for a flow whose answer is about one thing.
//!
//! Mails with the same subject are a thread and stay together: an answer may give the room of an event that the
//! first mail gave the day of.

use super::gather::{Gathered, headed};
use crate::contract::publish::without_reply_marks;

/// The parts of the thread to which `weigh` gives the most, of equal ones the first; all parts where it gives nothing
/// to any, or where there is one thread.
pub(crate) fn clearest<'c>(
    parts: Vec<Gathered<'c>>,
    weigh: impl Fn(&[Gathered<'c>]) -> Option<i64>,
) -> Vec<Gathered<'c>> {
    let mut threads: Vec<&str> = parts.iter().filter_map(thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let is_mail = |part: &Gathered<'_>| part.source.is_none() || part.subject.is_some();
    if threads.len() < 2 || !parts.iter().all(is_mail) {
        return parts;
    }
    // In reading order, so that the first of equal ones is the first that was read.
    let mut found: Option<(i64, Vec<Gathered<'c>>)> = None;
    let mut seen: Vec<&str> = Vec::new();
    for part in &parts {
        let Some(subject) = thread(part).filter(|subject| !seen.contains(subject)) else {
            continue;
        };
        seen.push(subject);
        let own = of_thread(&parts, subject);
        if let Some(weight) = weigh(&own)
            && found.as_ref().is_none_or(|(other, _)| weight > *other)
        {
            found = Some((weight, own));
        }
    }
    found.map_or(parts, |(_, own)| own)
}

fn thread<'p>(part: &'p Gathered<'_>) -> Option<&'p str> {
    part.subject.as_deref().map(without_reply_marks)
}

/// The subject and the mails of a thread.
fn of_thread<'c>(parts: &[Gathered<'c>], subject: &str) -> Vec<Gathered<'c>> {
    let mails = parts.iter().filter(|part| thread(part) == Some(subject)).cloned();
    std::iter::once(headed(subject)).chain(mails).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(source: usize, subject: &str, text: &'static str) -> Gathered<'static> {
        Gathered {
            source: Some(source),
            text: text.into(),
            subject: Some(subject.to_owned()),
            ..Gathered::default()
        }
    }

    fn told(parts: &[Gathered<'_>]) -> String {
        parts.iter().map(|part| &*part.text).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_thread_stays_together_and_other_mails_go() {
        let mails = || {
            vec![
                mail(0, "Lunch", "Lunch at 12."),
                mail(1, "Review", "Review on Thursday."),
                mail(2, "Re: Review", "Room 2."),
            ]
        };
        let named = |word: &'static str| {
            move |parts: &[Gathered<'_>]| told(parts).contains(word).then_some(1)
        };
        let kept = told(&clearest(mails(), named("Thursday")));
        assert_eq!(kept, "Subject: Review | Review on Thursday. | Room 2.");
        let all = "Lunch at 12. | Review on Thursday. | Room 2.";
        assert_eq!(told(&clearest(mails(), named("Friday"))), all);
        assert_eq!(told(&clearest(mails(), |_| Some(1))), "Subject: Lunch | Lunch at 12.");
        let thread = || mails().split_off(1);
        assert_eq!(told(&clearest(thread(), |_| Some(1))), "Review on Thursday. | Room 2.");
    }
}
