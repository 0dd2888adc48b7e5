//! The summary of a text whose content is a list of steps: a recipe, instructions.
//!
//! Contract: the steps stay together and in their order, each cut to its first words where there is no room
//! for more. A text whose steps do not fit in any form is summed up as any other text.

use std::ops::Range;

use super::super::rank::select::{Budget, Quoted, pick};
use super::super::text::{Kind, lines};
use super::scene::{Focus, Scene};

/// Steps of a list that counts as one, at least and at most.
const STEPS_MIN: usize = 3;
const STEPS_MAX: usize = 40;
/// Things needed for the steps; a longer list is a text of its own.
const NEEDED_MAX: usize = 60;
/// Of all words of the text, steps have this share, in percent.
const SHARE_MIN: usize = 35;
/// Words of a step, on the average of a list.
const STEP_WORDS_MAX: usize = 22;
/// Bytes of a step that still says something.
const STEP_BYTES_MIN: usize = 24;
/// Words of an item that only names something: `250 g flour`.
const INGREDIENT_WORDS_MAX: usize = 9;
/// Bytes of the number of a step, and of what stands around it.
const NUMBER_BYTES: usize = 5;

/// The blocks of a text that are steps, and those that list what is needed for them.
struct StepList {
    steps: Vec<(u32, usize)>,
    needed: Vec<usize>,
}

impl Scene<'_, '_> {
    /// The summary of what is in focus, at most so long.
    pub fn summary(&self, focus: &Focus, sentences: usize, bytes: usize) -> Quoted {
        let budget =
            Budget { sentences: self.scaled(sentences).max(1), bytes: self.scaled(bytes).max(40) };
        // The steps of one text are no summary of several.
        let steps = if self.apart && focus.whole { None } else { summary(self, focus, budget) };
        steps.unwrap_or_else(|| self.sentence_summary(focus, budget))
    }
}

/// The summary of a text with steps; `None` for every other text.
fn summary(scene: &Scene<'_, '_>, focus: &Focus, budget: Budget) -> Option<Quoted> {
    let found = find(scene, focus)?;
    let apart: Vec<usize> = found.steps.iter().map(|(_, block)| *block).collect();
    let in_list = |at: usize| {
        let block = scene.text.sentences[at].block;
        apart.contains(&block) || found.needed.contains(&block)
    };
    let around: Vec<usize> = scene.prose(focus).into_iter().filter(|&at| !in_list(at)).collect();
    let single = budget.sentences == 1;
    let most = Budget {
        sentences: if single { 1 } else { (budget.sentences / 2).clamp(1, 4) },
        bytes: if single { budget.bytes } else { budget.bytes / 3 },
    };
    let mut quoted = Quoted::default();
    let scores = scene.scores_for(most.sentences);
    let picked = match around.is_empty() {
        true => Vec::new(),
        false => pick(scene.text, &scene.matrix, scores, &around, most),
    };
    for at in picked {
        quoted.push_sentence(scene.text, at, most.bytes);
    }
    if single {
        return (!quoted.text.is_empty()).then_some(quoted);
    }
    let room = budget.bytes.saturating_sub(quoted.text.len());
    let whole: usize = apart.iter().map(|&block| length(scene, block) + NUMBER_BYTES).sum();
    let each = (room / found.steps.len()).saturating_sub(NUMBER_BYTES);
    if whole > room && each < STEP_BYTES_MIN {
        return None;
    }
    push_needed(scene, &found.needed, room.saturating_sub(whole), &mut quoted);
    for (number, block) in found.steps {
        if !quoted.text.is_empty() {
            quoted.push_plain("\n");
        }
        quoted.push_plain(&format!("{number}. "));
        push_step(scene, block, if whole <= room { usize::MAX } else { each }, &mut quoted);
    }
    Some(quoted)
}

fn range(scene: &Scene<'_, '_>, block: usize) -> (usize, Range<usize>) {
    let block = &scene.text.blocks[block];
    (block.part, block.text.clone())
}

fn length(scene: &Scene<'_, '_>, block: usize) -> usize {
    range(scene, block).1.len()
}

fn words(scene: &Scene<'_, '_>, block: usize) -> usize {
    let sentences = scene.text.blocks[block].sentences.clone();
    sentences.map(|at| scene.text.tokens_of(at).len()).sum()
}

/// A step, cut behind its first clause where it is too long.
fn push_step(scene: &Scene<'_, '_>, block: usize, bytes: usize, quoted: &mut Quoted) {
    let (part, place) = range(scene, block);
    let said = &scene.text.parts[part].text[place.clone()];
    let clause = said.match_indices([',', ';', '.', ':', '(']).map(|(at, _)| at);
    // A mark inside a number ends nothing.
    let ends = |at: &usize| said[at + 1..].starts_with(' ') || said[*at..].starts_with('(');
    let fits = |at: &usize| *at >= STEP_BYTES_MIN / 2 && ends(at);
    let clause = clause.take_while(|at| *at <= bytes).filter(fits).last();
    match clause.filter(|_| said.len() > bytes) {
        Some(end) => quoted.push_range(scene.text, part, place.start, place.start + end, bytes),
        None => quoted.push_range(scene.text, part, place.start, place.end, bytes),
    }
    if quoted.text.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ')' | '%')) {
        quoted.push_plain(".");
    }
}

/// What is needed, as one line under its heading, where there is room for it.
fn push_needed(scene: &Scene<'_, '_>, needed: &[usize], room: usize, quoted: &mut Quoted) {
    let bytes: usize = needed.iter().map(|&block| length(scene, block) + 2).sum();
    let Some(&first) = needed.first() else { return };
    if bytes + 30 > room {
        return;
    }
    if !quoted.text.is_empty() {
        quoted.push_plain("\n");
    }
    let above = first.checked_sub(1).map(|at| &scene.text.blocks[at]);
    if let Some(heading) = above.filter(|block| matches!(block.kind, Kind::Heading(_))) {
        let said = &scene.text.parts[heading.part].text[heading.text.clone()];
        let end = heading.text.start + said.trim_end_matches([':', ' ']).len();
        quoted.push_range(scene.text, heading.part, heading.text.start, end, 40);
        quoted.push_plain(": ");
    }
    for (number, &block) in needed.iter().enumerate() {
        let (part, place) = range(scene, block);
        quoted.push_plain(if number == 0 { "" } else { ", " });
        quoted.push_range(scene.text, part, place.start, place.end, usize::MAX);
    }
    quoted.push_plain(".");
}

/// The steps of the text, where they are what it says.
fn find(scene: &Scene<'_, '_>, focus: &Focus) -> Option<StepList> {
    let text = scene.text;
    if !focus.whole
        || text.blocks.iter().filter(|block| block.kind == Kind::Item).count() < STEPS_MIN
    {
        return None;
    }
    let mut steps: Vec<(u32, usize)> = Vec::new();
    let mut run: Vec<(u32, usize)> = Vec::new();
    let mut needed = Vec::new();
    for (at, block) in text.blocks.iter().enumerate() {
        if block.kind != Kind::Item || block.sentences.is_empty() {
            continue;
        }
        let before = &text.parts[block.part].text[..block.text.start];
        match lines::number_before(before) {
            Some(1) => {
                keep(&mut steps, std::mem::take(&mut run));
                run.push((1, at));
            }
            Some(number) if run.last().is_some_and(|(last, _)| last + 1 == number) => {
                run.push((number, at));
            }
            Some(_) => {}
            None if words(scene, at) <= INGREDIENT_WORDS_MAX
                && lines::box_before(before).is_none() =>
            {
                needed.push(at);
            }
            None => {}
        }
    }
    keep(&mut steps, run);
    // What is needed stands before the steps.
    let first = steps.first()?.1;
    needed.retain(|&at| at < first);
    if !(STEPS_MIN..=NEEDED_MAX).contains(&needed.len()) {
        needed.clear();
    }
    // Numbered paragraphs of a letter are no steps.
    let long = steps.iter().map(|(_, at)| words(scene, *at)).sum::<usize>();
    if long > steps.len() * STEP_WORDS_MAX {
        return None;
    }
    let count = |blocks: &mut dyn Iterator<Item = usize>| -> usize {
        blocks.map(|at| words(scene, at)).sum()
    };
    let all = count(&mut (0..text.blocks.len()));
    let said = count(&mut steps.iter().map(|(_, at)| *at)) + count(&mut needed.iter().copied());
    (steps.len() <= STEPS_MAX && said * 100 >= all * SHARE_MIN)
        .then_some(StepList { steps, needed })
}

fn keep(steps: &mut Vec<(u32, usize)>, run: Vec<(u32, usize)>) {
    if run.len() >= STEPS_MIN {
        steps.extend(run);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::super::super::text::{Part, Text};
    use super::super::gather::Gathered;
    use super::super::hints::Hints;
    use super::*;

    fn summed(source: &str, sentences: usize, bytes: usize) -> Option<String> {
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let parts = [Gathered { source: Some(0), text: source.into(), ..Gathered::default() }];
        let (inputs, hints) = (Map::new(), Hints::default());
        let scene = Scene::new(&text, &parts, &inputs, &hints, 100);
        summary(&scene, &scene.all(), Budget { sentences, bytes }).map(|quoted| quoted.text)
    }

    const RECIPE: &str = "# Soup\n\nA soup for four people.\n\n## Ingredients\n\n- 2 onions\n- 1 l water\n- salt\n\n\
        ## Steps\n\n1. Cut the onions into thin rings, as evenly as you can.\n2. Boil the water in a large pot, with salt.\n\
        3. Add the onions and cook them for 20 minutes, until they are soft.\n";

    #[test]
    fn a_recipe_keeps_its_steps_in_order() {
        assert_eq!(
            summed(RECIPE, 5, 1000).unwrap(),
            "A soup for four people.\nIngredients: 2 onions, 1 l water, salt.\n\
             1. Cut the onions into thin rings, as evenly as you can.\n\
             2. Boil the water in a large pot, with salt.\n\
             3. Add the onions and cook them for 20 minutes, until they are soft."
        );
        assert_eq!(
            summed(RECIPE, 2, 150).unwrap(),
            "A soup for four people.\n1. Cut the onions into thin rings.\n\
             2. Boil the water in a large pot.\n3. Add the onions and cook them for 20…"
        );
        assert_eq!(summed(RECIPE, 1, 240).unwrap(), "A soup for four people.");
    }

    #[test]
    fn a_text_with_a_small_list_is_no_recipe() {
        let text = "The board met on Monday and spoke for three hours about the roof of the hall, which is old and leaks. \
            It wants to repair it before the winter comes, because the repair would cost twice as much in spring.\n\n\
            1. Ana\n2. Ben\n3. Eva\n";
        assert_eq!(summed(text, 5, 1000), None);
    }
}
