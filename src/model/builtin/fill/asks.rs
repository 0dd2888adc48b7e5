//! What a text asks somebody to do: requests, orders, duties with a day, and items of a list of tasks.
//!
//! Contract: a sentence counts where the words of `[ask]` in the language files say so; code, quoted mail
//! and what frames a text never do. A text that is sent to everybody, or that is a fraud, asks nothing of
//! its reader.

use std::collections::BTreeSet;

use super::super::done;
use super::super::lexicon::lexicon;
use super::super::rank::quality;
use super::super::text::words::{Token, spaced};
use super::super::text::{Kind, Role};
use super::due::names_last_weekday;
use super::duties::{
    asks_around, asks_only_in_seeming, asks_only_who_cannot, is_labelled, is_own_duty, is_own_note,
    orders_with_pronoun,
};
use super::event::is_due;
use super::posting::Postings;
use super::scene::{Focus, Scene};
use super::signals::{is_open_box, signals};
use super::speakers::speaker;

impl Scene<'_, '_> {
    /// The sentences that ask for something, found on first use.
    pub(crate) fn asks(&self) -> &[usize] {
        self.asked(|| find(self))
    }

    /// Those of them that nobody reports to be done later in the same talk.
    pub(crate) fn open_asks(&self) -> Vec<usize> {
        self.asks().iter().copied().filter(|at| !self.is_reported_done(*at)).collect()
    }

    /// The sentences that the text itself marks as tasks.
    pub(crate) fn marked_tasks(&self) -> Vec<usize> {
        marked(self)
    }
}

/// The place of a block among the headings of its text.
fn place(scene: &Scene<'_, '_>, at: usize) -> (usize, usize) {
    (scene.text.block_of(at).part, scene.text.block_of(at).section)
}

/// The places under headings for tasks.
fn task_places(scene: &Scene<'_, '_>) -> BTreeSet<(usize, usize)> {
    let headed = scene.index().sentences(lexicon().ask.headings.iter().map(String::as_str));
    let heads = |at: &usize| matches!(scene.text.block_of(*at).kind, Kind::Heading(_));
    let is_bare = |at: &usize| {
        let words = spaced(scene.text.sentence(*at));
        lexicon().ask.bare_headings.iter().any(|heading| heading == words.trim())
    };
    let bare = (0..scene.text.sentences.len()).filter(heads).filter(is_bare);
    headed.into_iter().chain(bare).filter(heads).map(|at| place(scene, at)).collect()
}

/// What stands right below a line that is a heading for tasks but for its form: `Tareas:` and lines with names.
fn below_label_lines(scene: &Scene<'_, '_>) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut is_below = false;
    for block in &scene.text.blocks {
        let Some(first) = block.sentences.clone().next() else { continue };
        let said = scene.text.sentence(first).trim_end();
        let words = spaced(said);
        let is_label = block.kind == Kind::Paragraph
            && said.ends_with(':')
            && lexicon().ask.headings.iter().any(|heading| heading == words.trim());
        let tokens = scene.text.tokens_of(first);
        let is_task = || block.kind == Kind::Item || opening(scene, first, tokens).assigned;
        if is_below && !is_label && is_task() {
            found.insert(first);
        } else {
            is_below = is_label;
        }
    }
    found
}

/// See docs/adr/0125-what-texts-mark-as-decided-and-to-do.md.
///
/// The open boxes of a text, and what stands under its headings for tasks: items, and lines that begin with
/// the name of somebody. What is done or asks back is no task.
fn marked(scene: &Scene<'_, '_>) -> Vec<usize> {
    // The boxes of a text are its own, whatever else it says.
    let signals = signals(scene);
    let is_for_nobody = signals.scam || signals.bulk;
    let (under, postings) = (task_places(scene), Postings::of(scene));
    let listed = below_label_lines(scene);
    let is_marked = |&at: &usize| {
        let (block, tokens) = (scene.text.block_of(at), scene.text.tokens_of(at));
        let asks_back = scene.text.sentence(at).trim_end().ends_with('?');
        if tokens.len() < 2 || asks_back || postings.describes(scene, at) {
            return false;
        }
        match scene.text.mark_of(at) {
            Some(ticked) => !ticked && is_first_of_block(scene, at),
            None if is_for_nobody => false,
            None if !under.contains(&place(scene, at)) && !listed.contains(&at) => false,
            None if block.kind == Kind::Item => is_first_of_block(scene, at),
            None => block.kind == Kind::Paragraph && opening(scene, at, tokens).assigned,
        }
    };
    (0..scene.text.sentences.len()).filter(is_marked).collect()
}

/// Whether more than a day stands behind a name: `Nächstes Treffen: 26.3.` is no task.
fn names_more_than_a_day(said: &str) -> bool {
    !done::content(done::spoken_by(said).1).is_empty()
}

/// What follows the first sentence of an item says more of the same task.
fn is_first_of_block(scene: &Scene<'_, '_>, at: usize) -> bool {
    scene.text.block_of(at).sentences.start == at
}

/// The items of lists of which at least two, and half of all, order: their neighbours do so too, by verbs that no list
/// has.
fn items_among_orders(scene: &Scene<'_, '_>, notice: bool) -> BTreeSet<usize> {
    const ORDERS_MIN: usize = 2;
    let mut found = BTreeSet::new();
    let blocks = &scene.text.blocks;
    for list in blocks.chunk_by(|one, next| one.kind == Kind::Item && next.kind == Kind::Item) {
        let firsts = list.iter().filter(|block| block.kind == Kind::Item && !notice);
        let firsts: Vec<usize> =
            firsts.filter_map(|block| block.sentences.clone().next()).collect();
        let is_order = |at: &&usize| {
            let tokens = scene.text.tokens_of(**at);
            orders(scene, **at, tokens, opening(scene, **at, tokens), true)
        };
        let count = firsts.iter().filter(is_order).count();
        if count >= ORDERS_MIN && count * 2 >= firsts.len() {
            found.extend(firsts);
        }
    }
    found
}

/// The sentences that ask for something, in reading order.
fn find(scene: &Scene<'_, '_>) -> Vec<usize> {
    let ask = &lexicon().ask;
    let said = |cues: &[String]| -> BTreeSet<usize> {
        scene.index().sentences(cues.iter().map(String::as_str)).into_iter().collect()
    };
    let (requested, obliged) = (said(&ask.requests), said(&ask.obligations));
    let (not_asked, under) = (said(&ask.not_asked), task_places(scene));
    let dated: BTreeSet<usize> = scene
        .whens()
        .iter()
        .filter(|when| when.date.is_some())
        .map(|when| when.mention.sentence)
        .collect();
    let (notice, postings) = (signals(scene).notice, Postings::of(scene));
    let is_note = is_own_note(scene);
    let among_orders = items_among_orders(scene, notice);
    let listed = below_label_lines(scene);
    let asks = |&at: &usize| {
        let block = scene.text.block_of(at);
        let prose = matches!(block.kind, Kind::Paragraph | Kind::Item | Kind::Table);
        let is_box = is_open_box(scene, at);
        let said = scene.text.sentence(at);
        let is_in_seeming = || asks_only_in_seeming(said) || asks_only_who_cannot(said);
        let is_excluded = !is_box && (not_asked.contains(&at) || is_in_seeming());
        if !prose || is_excluded || matches!(block.role, Role::System | Role::Tool) {
            return false;
        }
        if quality::is_greeting_question(said) {
            return false;
        }
        let tokens = scene.text.tokens_of(at);
        if tokens.len() < 2 || postings.describes(scene, at) {
            return false;
        }
        let item = block.kind == Kind::Item;
        // An open box is something to do, a ticked one is done.
        if let Some(ticked) = scene.text.mark_of(at) {
            return !ticked;
        }
        let first = opening(scene, at, tokens);
        // `You must have a licence` in an advertisement says who is sought.
        let obliged = obliged.contains(&at) && !postings.holds(scene, at);
        let has_last_day = || {
            let mut within = scene.whens().iter().filter(|when| when.mention.sentence == at);
            names_last_weekday(said) || within.any(|when| is_due(scene, when))
        };
        // `We must close the line on 5 December` says what its writers do.
        let is_own_act = is_own_duty(said) && !has_last_day();
        let obliged = obliged && !is_own_act;
        let has_day = || dated.contains(&at) || names_last_weekday(said);
        let asks_back = said.trim_end().ends_with('?');
        let is_headed = under.contains(&place(scene, at)) || listed.contains(&at);
        let name = speaker(scene.text, block);
        let is_label = || name.is_some_and(|name| is_labelled(&format!("{name}: {said}")));
        // A machine's report orders nothing by the way: `Change your settings.`
        let by_the_way = notice && !dated.contains(&at);
        requested.contains(&at)
            || asks_around(said)
            || orders_with_pronoun(said)
            || quality::asks_by_thanks(said)
            || is_labelled(said)
            || is_note && is_own_duty(said)
            || (!by_the_way && orders(scene, at, tokens, first, item))
            || (obliged && (speaks_to_reader(scene, tokens) || has_day()))
            || is_label()
            || !asks_back
                && (item && (is_headed || first.assigned || among_orders.contains(&at))
                    || is_headed
                        && (name.is_some() || first.assigned)
                        && names_more_than_a_day(said)
                    || first.mentioned)
    };
    (0..scene.text.sentences.len()).filter(asks).collect()
}

/// As [`find`], as elements of a list; only the open boxes where the text is for everybody or a fraud.
pub(crate) fn elements(scene: &Scene<'_, '_>, focus: &Focus) -> Vec<Focus> {
    let signals = signals(scene);
    let is_for_nobody = signals.scam || signals.bulk;
    let item_of =
        |at: usize| scene.items.iter().position(|item| item.sentences.binary_search(&at).is_ok());
    let inside = |at: &usize| focus.whole || focus.sentences.binary_search(at).is_ok();
    let asked = scene.open_asks().into_iter().filter(inside);
    asked
        .filter(|at| !is_for_nobody || is_open_box(scene, *at))
        .map(|at| Focus {
            sentences: vec![at],
            items: item_of(at).into_iter().collect(),
            ..Focus::default()
        })
        .collect()
}

#[derive(Debug, Clone, Copy, Default)]
struct Opening {
    /// The first token behind a name and linking words.
    at: usize,
    /// A name stands before it: `Marta: fix …`, `Joost to call …`.
    assigned: bool,
    /// A person is addressed before a verb that orders: `@lena fix the test`.
    mentioned: bool,
}

fn opening(scene: &Scene<'_, '_>, sentence: usize, tokens: &[Token]) -> Opening {
    let mut opening = Opening::default();
    let source = scene.text.parts[scene.text.sentences[sentence].part].text;
    let high =
        |token: &Token| scene.text.token_text(sentence, token).starts_with(char::is_uppercase);
    if let [name, verb, ..] = tokens
        && source[..name.start as usize].ends_with('@')
        && lexicon().ask.imperatives.contains(scene.text.folded(verb))
    {
        return Opening { at: 1, assigned: true, mentioned: true };
    }
    for last in 0..tokens.len().min(3).saturating_sub(1) {
        if !high(&tokens[last]) {
            break;
        }
        let gap = &source[tokens[last].end as usize..tokens[last + 1].start as usize];
        let linked = matches!(gap.trim(), ":" | "-" | "–" | "—") && gap != "-";
        let to = lexicon().assigns.contains(scene.text.folded(&tokens[last + 1]));
        let verb = tokens.get(last + 2).map_or("", |token| scene.text.folded(token));
        // `Bread: A Global History` is a title.
        let title = scene.text.term(&tokens[last + 1]).is_none()
            && high(&tokens[last + 1])
            && !lexicon().ask.openers.contains(scene.text.folded(&tokens[last + 1]));
        if linked && title {
            break;
        }
        if linked {
            opening = Opening { at: last + 1, assigned: true, mentioned: false };
            break;
        }
        let word = scene.text.folded(&tokens[last]);
        let named =
            scene.text.term(&tokens[last]).is_some() && !lexicon().phrases.verbs.contains(word);
        if to && named && lexicon().ask.imperatives.contains(verb) {
            opening = Opening { at: last + 2, assigned: true, mentioned: false };
            break;
        }
    }
    while tokens
        .get(opening.at)
        .is_some_and(|token| lexicon().ask.openers.contains(scene.text.folded(token)))
    {
        opening.at += 1;
    }
    opening
}

/// Tokens of a label and its number, at most.
const LABEL_TOKENS: usize = 5;

/// Whether a verb that orders stands first.
fn orders(
    scene: &Scene<'_, '_>,
    sentence: usize,
    tokens: &[Token],
    first: Opening,
    item: bool,
) -> bool {
    let Some(word) = tokens.get(first.at).map(|token| scene.text.folded(token)) else {
        return false;
    };
    let source = scene.text.parts[scene.text.sentences[sentence].part].text;
    let ask = &lexicon().ask;
    // `Llamé al banco` tells, `Llame al banco` orders.
    let raw = scene.text.token_text(sentence, &tokens[first.at]).to_lowercase();
    if ask.told_endings.iter().any(|end| raw.ends_with(end.as_str())) {
        return false;
    }
    if ask.imperatives.contains(word) {
        // `test_rounding` is a name, and an address is nothing to do.
        let rest = &source[tokens[first.at].end as usize..];
        let address = rest.split_whitespace().take(2).any(|word| word.starts_with("http"));
        // `Call of 20 minutes` orders nothing.
        let number = |token: &Token| {
            scene.text.token_text(sentence, token).starts_with(|c: char| c.is_ascii_digit())
        };
        // `Order 5513 was lost` neither.
        let mut behind = tokens[first.at + 1..].iter().take(2);
        let noun = behind
            .find(|token| !number(token))
            .is_some_and(|next| ask.noun_links.contains(scene.text.folded(next)));
        // `Order 40-11872` and `Pick up code: 7731` are names of numbers.
        let label = tokens.len() <= first.at + LABEL_TOKENS
            && tokens.last().is_some_and(number)
            && (rest.contains(':') || tokens[first.at + 1..].iter().all(number));
        return !noun
            && !label
            && tokens.len() > first.at + 1
            && (!rest.starts_with(['_', '.', '-']) || is_behind_hyphen(rest))
            && !address;
    }
    // `entregar mañana los afiches`: in a list an infinitive is an order.
    let infinitive = ask.infinitive_endings.iter().any(|ending| word.ends_with(ending.as_str()));
    item && scene.text.language.does(|habits| habits.lists_order_in_infinitives) && infinitive
}

/// Whether a hyphen and a pronoun follow a verb: `Envoie-moi le contrat`.
fn is_behind_hyphen(rest: &str) -> bool {
    let word = rest.strip_prefix('-').map(|rest| rest.split(|c: char| !c.is_alphabetic()).next());
    word.flatten().is_some_and(|word| lexicon().ask.behind_thanks.contains(word) || word == "moi")
}

fn speaks_to_reader(scene: &Scene<'_, '_>, tokens: &[Token]) -> bool {
    tokens.iter().any(|token| lexicon().ask.reader.contains(scene.text.folded(token)))
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::super::super::text::{Part, Text};
    use super::super::hints::Hints;
    use super::*;

    fn found(text: &str, find: impl Fn(&Scene<'_, '_>) -> Vec<usize>) -> Vec<String> {
        let (read, hints, inputs) =
            (Text::new(vec![Part { id: "a", text }]), Hints::default(), Map::new());
        let scene = Scene::new(&read, &[], &inputs, &hints, 100);
        find(&scene).into_iter().map(|at| read.sentence(at).to_owned()).collect()
    }

    #[test]
    fn notes_lists_and_minutes_name_what_is_to_do() {
        for (text, expected) in [
            (
                "Tengo que llamar al seguro antes del viernes.\nAyer cené con Paula.\n",
                &["Tengo que llamar al seguro antes del viernes."][..],
            ),
            (
                "We need to renew the insurance by March. Mum says the green folder.\n",
                &["We need to renew the insurance by March."],
            ),
            ("Hi Tom,\n\nI have to leave at three.\n\nBest,\nNora\n", &[]),
            (
                "Hi Tom,\n\nthe plan:\n\n- Book the van\n- Return the keys\n- Unplug the fridge\n\nBest,\nNora\n",
                &["Book the van", "Return the keys", "Unplug the fridge"],
            ),
            ("Hi all,\n\nwe have now:\n\n- two chairs\n- an old lamp\n- a red rug\n", &[]),
            (
                "Acta del club\n\nAcuerdos: la cuota sube.\nTareas:\nRosa: escribir al ayuntamiento\nIván: reservar la pista\n\
                 El bar abre en mayo.\n",
                &["Rosa: escribir al ayuntamiento", "Iván: reservar la pista"],
            ),
            (
                "To-do:\nFrau Kern: Bänke anfragen\nHerr Sahin: Zuschuss überweisen\n",
                &["Frau Kern: Bänke anfragen", "Herr Sahin: Zuschuss überweisen"],
            ),
            (
                "Standup\n\n@lena fix the login test\n@raj is ill today\n",
                &["@lena fix the login test"],
            ),
            ("Order 5513 was never delivered.\n", &[]),
            (
                "Hi Tom,\n\nI still need the floor plan from you by Friday.\n\nBest,\nNora\n",
                &["I still need the floor plan from you by Friday."],
            ),
            (
                "Hi Tom,\n\nCould I have the list by Monday? The hall is booked.\n\nBest,\nNora\n",
                &["Could I have the list by Monday?"],
            ),
            (
                "Hi Tom,\n\nDo let me have your measurements before 3 May.\n\nBest,\nNora\n",
                &["Do let me have your measurements before 3 May."],
            ),
            (
                "Hi Tom,\n\nI am still waiting for the photos from you.\n\nBest,\nNora\n",
                &["I am still waiting for the photos from you."],
            ),
            ("Hi Tom,\n\nI don't need anything from you now.\n\nBest,\nNora\n", &[]),
            ("Hi Tom,\n\nI got the plan from you. Thanks!\n\nBest,\nNora\n", &[]),
            (
                "Hola Luis:\n\nMe falta que me mandes el plano antes del viernes.\n\nSaludos,\nNora\n",
                &["Me falta que me mandes el plano antes del viernes."],
            ),
            (
                "Hola Luis:\n\nTodavía necesito de tu parte el plano.\n\nSaludos,\nNora\n",
                &["Todavía necesito de tu parte el plano."],
            ),
            (
                "Hallo Tom,\n\nich brauche den Plan noch von dir bis Freitag.\n\nGruß\nNora\n",
                &["ich brauche den Plan noch von dir bis Freitag."],
            ),
            (
                "Hallo Tom,\n\nkönnte ich die Liste bis Montag haben?\n\nGruß\nNora\n",
                &["könnte ich die Liste bis Montag haben?"],
            ),
            (
                "Bonjour Luc,\n\nIl me manque encore le plan de ta part pour vendredi.\n\nCordialement,\nNora\n",
                &["Il me manque encore le plan de ta part pour vendredi."],
            ),
            (
                "Bonjour Luc,\n\nPourrais-je avoir la liste avant lundi ?\n\nCordialement,\nNora\n",
                &["Pourrais-je avoir la liste avant lundi ?"],
            ),
            (
                "Hola Luis:\n\nAyer llovió. Ah, y devuélveme el taladro cuando puedas.\n\nSaludos,\nNora\n",
                &["Ah, y devuélveme el taladro cuando puedas."],
            ),
            ("Hi Tom,\n\nwe have to move the deployment to Friday.\n\nBest,\nNora\n", &[]),
            ("Hi Tom,\n\nwe must cancel your order of 20 November.\n\nBest,\nNora\n", &[]),
            (
                "Date: 2026-02-09\n\nHi Tom,\n\nwe need to confirm the number before February 20.\n\nBest,\nNora\n",
                &["we need to confirm the number before February 20."],
            ),
            (
                "Hi Tom,\n\nwe have to hand in the form by Friday.\n\nBest,\nNora\n",
                &["we have to hand in the form by Friday."],
            ),
            (
                "Hallo Tom,\n\nwir müssen die Strecke ab dem 5. Dezember leider sperren.\n\nGruß\nNora\n",
                &[],
            ),
            (
                "Hola Luis:\n\nTenemos que cerrar la oficina el 5 de diciembre.\n\nSaludos,\nNora\n",
                &[],
            ),
            (
                "Bonjour Luc,\n\nNous devons fermer le bureau le 5 décembre.\n\nCordialement,\nNora\n",
                &[],
            ),
            (
                "Hallo Tom,\n\nFalls Sie verhindert sind, sagen Sie bitte bis zum 20. November ab.\n\nGruß\nNora\n",
                &[],
            ),
            (
                "Hallo Tom,\n\nWer nicht zu Hause ist, gibt den Schlüssel bitte beim Hausmeister ab.\n\nGruß\nNora\n",
                &[],
            ),
            ("Hi Tom,\n\nIf you cannot come, please tell us.\n\nBest,\nNora\n", &[]),
            ("Hola Luis:\n\nSi no puedes venir, por favor avisa antes.\n\nSaludos,\nNora\n", &[]),
            (
                "Bonjour Luc,\n\nSi vous ne pouvez pas venir, veuillez nous prévenir.\n\nCordialement,\nNora\n",
                &[],
            ),
            (
                "Hi Tom,\n\nIf you have not sent the form, please send it.\n\nBest,\nNora\n",
                &["If you have not sent the form, please send it."],
            ),
            (
                "Der Zettel muss bis Mittwoch bei mir sein.\n",
                &["Der Zettel muss bis Mittwoch bei mir sein."],
            ),
        ] {
            let found = found(text, |scene| {
                let all = scene.all();
                elements(scene, &all).iter().map(|one| one.sentences[0]).collect()
            });
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn what_a_job_asks_of_its_holder_is_no_task_of_the_reader() {
        for (posting, requests) in [
            (
                "Shift Lead, York\n\nWe are looking for a shift lead from 1 May.\n\nYour tasks\n- Plan the dough for the next day\n\
                 - Check the ovens\n\nWhat you bring\n- You must have a food certificate\n\nSend your CV to a@b.example by 10 April.\n",
                &["Send your CV to a@b.example by 10 April."][..],
            ),
            (
                "Sachbearbeiter (m/w/d)\n\nWir suchen eine Verstärkung in Teilzeit.\n\nIhre Aufgaben:\n- Prüfen Sie Rechnungen\n\
                 - Bereiten Sie den Abschluss vor\n\nIhr Profil:\n- Sie müssen DATEV können\n",
                &[],
            ),
            (
                "Encargada de vivero\n\nBuscamos una persona para el vivero.\n\nTus funciones\n- Planificar la siembra\n- Enviar informes\n\n\
                 Requisitos\n- Título de técnico\n",
                &[],
            ),
            (
                "Chargé de communication\n\nL'association recrute en CDI.\n\nVos missions\n- Rédiger la lettre\n- Envoyer les communiqués\n\n\
                 Votre profil\n- Anglais courant\n",
                &[],
            ),
        ] {
            assert_eq!(found(posting, |scene| scene.asks().to_vec()), requests, "{posting}");
            assert!(found(posting, |scene| scene.marked_tasks()).is_empty(), "{posting}");
        }
        let mail = "Hi Ana,\n\nYour tasks\n- Check the ovens\n- Order the flour by 10 April\n\nThanks,\nBen\n";
        assert_eq!(found(mail, |scene| scene.marked_tasks()).len(), 2);
        let plan =
            "# New server\n\nAna is looking for a provider.\n\n## Tasks\n- Ana: ask for quotes\n";
        assert_eq!(found(plan, |scene| scene.marked_tasks()).len(), 1);
    }

    #[test]
    fn a_word_of_newsletters_in_own_words_takes_no_task() {
        let ask = |text: &str| {
            found(text, |scene| {
                let focus = scene.all();
                elements(scene, &focus).iter().map(|one| one.sentences[0]).collect()
            })
        };
        for text in [
            "- [ ] Strom abmelden\n- [ ] call the landlord\n",
            "- [ ] unsubscribe from the wine newsletter\n- [ ] call the landlord\n",
            "- [ ] darse de baja del gimnasio\n- [ ] llamar al casero\n",
            "- [ ] se désabonner du journal\n- [ ] appeler le propriétaire\n",
            "- [ ] buy gift cards for Oma and send her the codes\n- [ ] call the landlord\n",
            "- [ ] pay the customs fee of the parcel at https://dhl.example/pay today\n- [ ] buy milk\n",
            "- [ ] view in browser: check the website\n- [ ] buy milk\n",
        ] {
            assert_eq!(found(text, |scene| scene.marked_tasks()).len(), 2, "{text}");
            assert_eq!(ask(text).len(), 2, "{text}");
        }
        for text in [
            "Hallo Ute,\n\nbitte den Strom bis Freitag abmelden und den Vermieter anrufen.\n\nJens\n",
            "Hi Ute,\n\nplease unsubscribe me from the newsletter.\n\nBen\n",
            "Bitte die Zeitung abbestellen.\n",
            "Merci de me désabonner de l'infolettre.\n",
        ] {
            assert_eq!(ask(text).len(), 1, "{text}");
        }
        for letter in [
            "Come by and see the new lamps.\n\nYou get this because you signed up. Unsubscribe: https://s.example/u\n",
            "Bitte kommt vorbei.\n\nHier klicken, um den Newsletter abzubestellen: https://s.example\nNewsletter abbestellen\n",
            "Por favor, visita la tienda.\n\nSi no quiere recibir este boletín, haga clic aquí.\n",
            "Please visit us before Friday. If you no longer want our newsletter, you can unsubscribe at any time.\n",
        ] {
            assert!(ask(letter).is_empty(), "{letter}");
        }
    }

    #[test]
    fn a_past_with_its_accent_is_no_order() {
        for told in [
            "Llamé al banco.",
            "Pagué la luz.",
            "Envié la carta a Rosa.",
            "Reservé la sala.",
            "Firmé el contrato.",
        ] {
            assert!(found(told, |scene| scene.asks().to_vec()).is_empty(), "{told}");
        }
        for asked in [
            "Llame al banco.",
            "Pague la luz hoy.",
            "Envoie-moi le contrat, s'il te plaît.",
            "Merci de payer le loyer.",
        ] {
            assert_eq!(found(asked, |scene| scene.asks().to_vec()).len(), 1, "{asked}");
        }
        for other in [
            "¿Qué tal todo?",
            "Todo llegó bien.",
            "Hola, Ivo, ¿cómo va todo?",
            "Merci de votre aide.",
        ] {
            assert!(found(other, |scene| scene.asks().to_vec()).is_empty(), "{other}");
        }
    }

    #[test]
    fn a_heading_that_says_open_heads_tasks_where_it_stands_alone() {
        for heading in ["Open", "Offen", "Pendiente", "En suspens"] {
            let text = format!("# Club\n\nWe met.\n\n## {heading}\n- tents for the stage\n");
            assert_eq!(found(&text, |scene| scene.marked_tasks()).len(), 1, "{text}");
        }
        let text = "# Club\n\nWe met.\n\n## Open source news\n- a new kernel came out\n";
        assert!(found(text, |scene| scene.marked_tasks()).is_empty());
    }

    #[test]
    fn what_is_marked_as_done_is_no_task() {
        for text in [
            "Done: order the compost\nDone: call Ana by Friday\n",
            "## Erledigt\n\n- Bitte die Kasse prüfen\n",
            "Hecho: enviar el acta\n~~Por favor, pagar la luz~~\n",
            "Fait : envoyer le dossier\n[x] Appelez la mairie\n✅ Send the map\n",
        ] {
            assert!(found(text, |scene| scene.asks().to_vec()).is_empty(), "{text}");
            assert!(found(text, |scene| scene.marked_tasks()).is_empty(), "{text}");
        }
    }

    #[test]
    fn what_stands_under_a_heading_for_tasks_is_one_whatever_its_verb() {
        for (text, expected) in [
            (
                "# Board\n\nWe met at noon.\n\n## Actions\n- Peter: inform the club\n- Clara will write a guide\n- Ana: quotes\n- Did Ben call?\n\n## Rest\n- Tea for all\n",
                &["Peter: inform the club", "Clara will write a guide", "Ana: quotes"][..],
            ),
            (
                "## Aufgaben\n\n- Jan: informiert die Gemeinde bis 12. März\n- Petra lädt die Musik ein\n",
                &["Jan: informiert die Gemeinde bis 12. März", "Petra lädt die Musik ein"],
            ),
            (
                "## Tareas\n\n- Luis: invitar a los vecinos\n- [x] pagar la luz\n",
                &["Luis: invitar a los vecinos"],
            ),
            (
                "## Actions\n\nKarim : inviter la mairie\nDenis : les tables\n",
                &["Karim : inviter la mairie", "Denis : les tables"],
            ),
            (
                "# House\n\n- [ ] Paint the door\n- [x] Call Ana\n\nThe door is old.\n",
                &["Paint the door"],
            ),
        ] {
            let (read, hints, inputs) =
                (Text::new(vec![Part { id: "a", text }]), Hints::default(), Map::new());
            let scene = Scene::new(&read, &[], &inputs, &hints, 100);
            let found = scene.marked_tasks().into_iter().map(|at| read.sentence(at));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
