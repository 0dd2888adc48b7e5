//! Files that a person took back, and that are there again or still.
//!
//! Contract. Who forgets a file does not want its text here, whatever the text becomes. A folder that a service watches does
//! not bring the file back; a person who adds it does. From then on it is a file like any other.

use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use super::prose::plain_line;
use super::ui;
use crate::contract::time::Day;
use crate::home::Home;
use crate::import::{ImportError, Target, files_held};
use crate::upkeep::tombstones;

/// Files that are named at once.
const NAMED_MAX: usize = 20;

/// Files with the day on which a person took them back.
pub(super) type TakenBackOn = BTreeMap<String, Day>;

/// All files that were ever taken back. Damage of the list is told elsewhere.
fn all_taken_back(context: &Context, home: &Home) -> TakenBackOn {
    let found = tombstones::look(&*context.machine.disk, &home.forgotten()).ok().flatten();
    let mut all = TakenBackOn::new();
    for (at, one) in found.map(|found| found.all).unwrap_or_default() {
        let day = at.day_in(chrono_tz::UTC);
        all.extend(one.files.into_iter().map(|file| (file, day)));
    }
    all
}

/// The files that were taken back and of which the home has nothing.
pub(super) fn away(
    context: &Context,
    home: &Home,
    target: Target<'_>,
) -> Result<TakenBackOn, ImportError> {
    let mut all = all_taken_back(context, home);
    if !all.is_empty() {
        let names: BTreeSet<String> = all.keys().cloned().collect();
        let held = files_held(target, &names)?;
        all.retain(|file, _| !held.contains(file));
    }
    Ok(all)
}

/// What an import did with files that a person took back before.
#[derive(Debug, Default)]
pub(super) struct ComeAgain {
    /// Their text is another one, and it was taken in.
    pub taken: TakenBackOn,
    /// Their text is the same, and it was not taken in.
    pub left: TakenBackOn,
}

impl ComeAgain {
    /// `away` is what was away before the import, and `is_given` says which files it was given.
    pub(super) fn after(
        target: Target<'_>,
        away: TakenBackOn,
        is_given: impl Fn(&str) -> bool,
    ) -> Result<ComeAgain, ImportError> {
        if away.is_empty() {
            return Ok(ComeAgain::default());
        }
        let names: BTreeSet<String> = away.keys().cloned().collect();
        let held = files_held(target, &names)?;
        let (taken, mut left): (TakenBackOn, TakenBackOn) =
            away.into_iter().partition(|(file, _)| held.contains(file));
        left.retain(|file, _| is_given(file));
        Ok(ComeAgain { taken, left })
    }

    /// Says so.
    pub(super) fn talk(&self, ui: ui::Ui) {
        let taken = self.taken.iter().map(|(file, day)| {
            format!("{}: it was forgotten on {day}; its new text was taken in", plain_line(file))
        });
        let left = self.left.iter().map(|(file, day)| {
            format!(
                "{}: it was forgotten on {day}; the same text is not taken in again",
                plain_line(file)
            )
        });
        let all: Vec<String> = taken.chain(left).collect();
        all.iter().take(NAMED_MAX).for_each(|told| ui.talk(told));
        if all.len() > NAMED_MAX {
            ui.talk(format!("and {} more; --json lists all", all.len() - NAMED_MAX));
        }
    }

    /// The same for programs.
    pub(super) fn as_json(&self) -> serde_json::Value {
        let one = |taken: bool| move |(file, day): (&String, &Day)| serde_json::json!({"source": file, "forgotten_on": day.to_string(), "taken_in": taken});
        self.taken.iter().map(one(true)).chain(self.left.iter().map(one(false))).collect()
    }
}
