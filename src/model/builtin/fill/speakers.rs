//! Who speaks in a talk between people, and its sentences behind the names of their speakers.

use std::collections::BTreeSet;

use super::super::rank::select::{Budget, Quoted};
use super::super::text::words::fold;
use super::super::text::{Block, Role, Text};

/// Longest name of a speaker, in bytes.
const NAME_BYTES_MAX: usize = 40;
/// Bytes of a sentence that are always shown.
const SAID_BYTES_MIN: usize = 40;

/// Whether two or more people speak, and no assistant.
pub(crate) fn is_between_people(text: &Text<'_>) -> bool {
    let blocks = &text.blocks;
    if blocks.iter().any(|block| matches!(block.role, Role::Assistant | Role::System | Role::Tool))
    {
        return false;
    }
    let speakers = blocks.iter().filter_map(|block| speaker(text, block)).map(fold);
    match speakers.collect::<BTreeSet<String>>().len() {
        0 => false,
        // One who speaks on a day of a chat is a person with a name, and not the user of a program.
        1 => text.spoken_by.iter().flatten().any(|by| by.name.is_some()),
        _ => true,
    }
}

/// Sentences of a conversation, each behind the name of its speaker unless that one just spoke.
pub(crate) fn told(text: &Text<'_>, sentences: &[usize], budget: Budget) -> Quoted {
    let (mut quoted, mut last) = (Quoted::default(), None);
    for &at in sentences {
        let room = budget.bytes.saturating_sub(quoted.text.len());
        let name = speaker(text, text.block_of(at));
        let shown = name.filter(|name| last != Some(*name));
        let mut said = Quoted::default();
        said.push_sentence(text, at, room.max(SAID_BYTES_MIN));
        let needed = shown.map_or(0, str::len) + said.text.len();
        if said.text.is_empty() || !quoted.text.is_empty() && needed > room {
            continue;
        }
        if !quoted.text.is_empty() {
            quoted.push_plain(" ");
        }
        if let Some(name) = shown {
            quoted.push_plain(name);
            quoted.push_plain(": ");
        }
        quoted.push(&said);
        last = name;
    }
    quoted
}

/// The name of the person who says a block.
pub(crate) fn speaker<'t>(text: &'t Text<'_>, block: &Block) -> Option<&'t str> {
    let said = matches!(block.role, Role::Person | Role::User);
    let known = text.spoken_by.get(block.part).and_then(Option::as_ref);
    let name = match &block.speaker {
        Some(range) => text.parts[block.part].text.get(range.clone()),
        None => known.and_then(|by| by.name.as_deref()),
    };
    let name = name.filter(|_| said)?.trim();
    (!name.is_empty() && name.len() <= NAME_BYTES_MAX).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::super::text::Part;
    use super::*;

    #[test]
    fn a_summary_of_a_talk_says_who_said_what() {
        let source = "[10:02] Maya: did the plumber call\n[10:03] Ollie: yes he comes on thursday at 8\n\
                      [10:03] Ollie: he needs 90 pounds in cash\n[10:05] Maya: I get the cash tomorrow\n";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        assert!(is_between_people(&text));
        let budget = Budget { sentences: 9, bytes: 400 };
        let quoted = told(&text, &[0, 1, 2, 3], budget);
        assert_eq!(
            quoted.text,
            "Maya: did the plumber call. Ollie: yes he comes on thursday at 8. he needs 90 pounds in cash. \
             Maya: I get the cash tomorrow."
        );
        for piece in &quoted.pieces {
            assert_eq!(
                quoted.text[piece.output_start..piece.output_end],
                source[piece.start..piece.end]
            );
        }
        let short = told(&text, &[0, 1, 3], Budget { sentences: 3, bytes: 70 });
        assert_eq!(short.text, "Maya: did the plumber call. Ollie: yes he comes on thursday at 8.");
    }
}
