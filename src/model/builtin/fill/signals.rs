//! The signs of a message that need nothing but its words and its sender.

use super::super::extract::Mention;
use super::super::lexicon::lexicon;
use super::super::text::Kind;
use super::super::text::blocks::Block;
use super::super::text::words::{fold, spaced};
use super::backing::Backing;
use super::fraud;
use super::scene::Scene;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Signals {
    pub(crate) scam: bool,
    pub(crate) bulk: bool,
    pub(crate) automated: bool,
    pub(crate) stake: bool,
    /// A machine reports what it recorded, delivered or was paid.
    pub(crate) notice: bool,
    /// Somebody's mail program answers while they are away.
    pub(crate) away: bool,
}

/// The signs that need nothing but words and the sender.
pub(crate) fn signals(scene: &Scene<'_, '_>) -> Signals {
    let mail = &lexicon().mail;
    let from = scene.input_text("from", &scene.all()).unwrap_or_default();
    let (local, _) = sender(&from);
    let local_is = |list: &[String]| {
        let mut pieces = local.split(['.', '-', '_', '+']);
        list.contains(&local) || pieces.any(|piece| list.iter().any(|one| one == piece))
    };
    let stake = is_backed(scene, &mail.stakes, |_| true);
    let said = (0..scene.text.sentences.len()).filter(|at| scene.is_said(*at));
    let demands = fraud::demands(said.map(|at| scene.text.sentence(at)));
    let away = says(scene, &mail.away);
    // People write about parcels and receipts too.
    let notice = says(scene, &mail.notices) && named_after(&from) != Some(Named::Person);
    let automated =
        local_is(&mail.automated_senders) || says(scene, &mail.automated) || notice || away;
    let is_bulk = local_is(&mail.bulk_senders) || is_sent_to_everybody(scene, &from);
    // A shop has prizes and gift cards too; what it never does is ask for them.
    // Only a message can be a fraud: in a note somebody writes what they want to buy and pay.
    let scam = is_message(scene, &from) && (demands || !is_bulk && says(scene, &mail.scam));
    // An unsubscribe link in the foot of a bill makes no newsletter of it.
    let is_own_business = says(scene, &mail.own_business) && !local_is(&mail.bulk_senders);
    let bulk = !stake && is_bulk && !is_own_business;
    Signals { scam, bulk, automated, stake: stake && !scam, notice, away }
}

/// Whether somebody sent a text: a sender is known, or it has the head or the greeting of a mail.
fn is_message(scene: &Scene<'_, '_>, from: &str) -> bool {
    let has_head = |block: &Block| matches!(block.kind, Kind::Header | Kind::Signature);
    let has_boxes = || (0..scene.text.sentences.len()).any(|at| is_open_box(scene, at));
    !from.is_empty() || scene.text.blocks.iter().any(has_head) || !has_boxes()
}

/// Whether a sentence is an item with an open box: the text itself marks it as a task.
pub(crate) fn is_open_box(scene: &Scene<'_, '_>, at: usize) -> bool {
    scene.text.block_of(at).kind == Kind::Item && scene.text.mark_of(at) == Some(false)
}

/// Whether a text is one for everybody. The words of newsletters say so only where newsletters have them: in a
/// line that frames the text, beside a link, or above the text. In running text people write of such things
/// themselves: `Please unsubscribe me.` There a sentence counts that speaks to its reader and wishes nothing; from
/// a sender that is no person one that wishes nothing is enough.
fn is_sent_to_everybody(scene: &Scene<'_, '_>, from: &str) -> bool {
    let by_person = from.is_empty() || named_after(from) == Some(Named::Person);
    let by_person = by_person && !is_company(scene);
    let words_of = |at: usize| spaced(scene.text.sentence(at));
    let wishes = |at: usize| {
        let words = words_of(at);
        lexicon().mail.wishes.iter().any(|one| words.contains(&format!(" {one} ")))
    };
    // `If you want no more of these, please unsubscribe.`
    let leaves_it_open = |at: usize| {
        let words = words_of(at);
        lexicon().mail.conditions.iter().any(|one| words.contains(&format!(" {one} ")))
    };
    let speaks_to_reader =
        |at: usize| words_of(at).split(' ').any(|word| lexicon().ask.reader.contains(word));
    let kind = |at: usize| scene.text.block_of(at).kind;
    let is_above_link =
        |at: usize| at + 1 < scene.text.sentences.len() && kind(at + 1) == Kind::Link;
    let counts = |at: usize| match kind(at) {
        Kind::Signature | Kind::Link | Kind::Table | Kind::Columns => true,
        Kind::Header | Kind::Heading(_) => !by_person,
        _ if is_open_box(scene, at) => false,
        _ => {
            has_link(scene.text.sentence(at))
                || is_above_link(at)
                || leaves_it_open(at)
                || !wishes(at) && (!by_person || speaks_to_reader(at))
        }
    };
    says_where(scene, &lexicon().mail.bulk, counts)
}

/// Whether a text says one of some phrases in a sentence that counts.
fn says_where(scene: &Scene<'_, '_>, phrases: &[String], counts: impl Fn(usize) -> bool) -> bool {
    let said = phrases.iter().flat_map(|phrase| scene.index().find(phrase));
    said.map(|mention| mention.sentence).any(counts)
}

/// Whether a sentence has an address of the web, or asks for a click.
fn has_link(said: &str) -> bool {
    let words = spaced(said);
    let is_way = |way: &&String| words.contains(&format!(" {way} "));
    lexicon().mail.links.iter().any(|way| is_way(&way))
        || said.contains("http")
        || said.contains("www.")
}

/// Whether a message reads like a fraud by its words alone: it demands what frauds demand, or holds a
/// phrase of several words that frauds use. One word is too little, because honest texts have prizes and
/// heirs too, and a newsletter is no fraud for what it offers.
pub(crate) fn reads_like_fraud(text: &str) -> bool {
    let mail = &lexicon().mail;
    let said = spaced(text);
    let says = |phrase: &str| said.contains(&format!(" {phrase} "));
    let is_bulk = mail.bulk.iter().any(|phrase| says(phrase));
    let phrases = mail.scam.iter().filter(|phrase| phrase.contains(' '));
    fraud::demands(fraud::sentences(text))
        || !is_bulk && phrases.into_iter().any(|phrase| says(phrase))
}

/// Whether a text says one of some phrases anywhere, frames included.
pub(crate) fn says(scene: &Scene<'_, '_>, phrases: &[String]) -> bool {
    phrases.iter().any(|phrase| !scene.index().find(phrase).is_empty())
}

/// Whether a text says one of some phrases by more than one accidental word. `counts` says which mentions do.
pub(crate) fn is_backed(
    scene: &Scene<'_, '_>,
    phrases: &[String],
    counts: impl Fn(Mention) -> bool,
) -> bool {
    let mut backing = Backing::default();
    for phrase in phrases {
        let alone = lexicon().mail.alone.contains(phrase.as_str());
        for mention in scene.index().find(phrase).into_iter().filter(|one| counts(*one)) {
            backing.add(scene, mention, alone);
        }
    }
    backing.is_enough()
}

/// The local part and the shown name of a sender.
pub(crate) fn sender(from: &str) -> (String, String) {
    let (name, address) = match from.split_once('<') {
        Some((name, rest)) => (name, rest.trim_end_matches(['>', ' '])),
        None if from.contains('@') => ("", from),
        None => (from, ""),
    };
    let local = address.split('@').next().unwrap_or_default();
    (fold(local.trim()), name.trim().trim_matches('"').to_string())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Person,
    Company,
}

/// Whom an address is named after: the shown name of a person stands before the `@`, that of a company
/// behind it.
pub(crate) fn named_after(from: &str) -> Option<Named> {
    /// Letters of a word from which on it is found by chance no more.
    const PERSON_LETTERS: usize = 3;
    const COMPANY_LETTERS: usize = 4;
    let (local, name) = sender(from);
    let domain = from.rsplit_once('@').map_or("", |(_, rest)| rest.trim_end_matches(['>', ' ']));
    let domain = fold(domain.rsplit_once('.').map_or(domain, |(rest, _)| rest));
    let folded = fold(&name);
    let words = folded.split(|c: char| !c.is_alphanumeric());
    let mut words = words.filter(|word| !word.is_empty());
    let is_in = |word: &str, least: usize, place: &str| {
        word.chars().count() >= least && place.contains(word)
    };
    // `Service Desk <servicedesk@…>` is an office.
    let mail = &lexicon().mail;
    let roles =
        [&mail.office_senders, &mail.office_names, &mail.automated_senders, &mail.bulk_senders];
    let is_role = |word: &str| roles.iter().any(|list| list.iter().any(|one| one == word));
    let is_of_person =
        |word: &str| !is_role(word) && (is_in(word, PERSON_LETTERS, &local) || word == local);
    if words.clone().any(is_of_person) {
        return Some(Named::Person);
    }
    words.any(|word| is_in(word, COMPANY_LETTERS, &domain)).then_some(Named::Company)
}

/// Whether the sender is an office, a shop or another organization.
pub(crate) fn is_company(scene: &Scene<'_, '_>) -> bool {
    let mail = &lexicon().mail;
    let from = scene.input_text("from", &scene.all()).unwrap_or_default();
    let (local, name) = sender(&from);
    let office = mail.office_senders.iter().any(|office| local.starts_with(office.as_str()));
    let said = fold(&name);
    let mut words = said.split([' ', ',', '.']);
    let organized = words.any(|word| {
        lexicon().names.organization.contains(word)
            || mail.office_names.iter().any(|one| one == word)
    });
    let named = named_after(&from) == Some(Named::Company);
    office || organized || named || says(scene, &mail.to_customers)
}

#[cfg(test)]
mod tests {
    use super::{Named, named_after, reads_like_fraud, sender};

    #[test]
    fn a_fraud_is_known_by_a_phrase_and_not_by_a_word() {
        assert!(reads_like_fraud("Please verify your account within 24 hours."));
        assert!(reads_like_fraud("Su cuenta será suspendida hoy."));
        assert!(!reads_like_fraud("Ganó un premio de traducción y una herencia."));
        assert!(!reads_like_fraud("We could verify the account of the treasurer."));
    }

    #[test]
    fn an_address_is_named_after_a_person_or_a_company() {
        let person = Some(Named::Person);
        assert_eq!(named_after("Tobias Renn <t.renn@gmx.example>"), person);
        assert_eq!(named_after("Anna Ott <anna@annaott.example>"), person);
        assert_eq!(named_after("Jo Feldt <jo@feldtpartners.example>"), person);
        assert_eq!(named_after("Islay Line <bookings@islayline.example>"), Some(Named::Company));
        assert_eq!(
            named_after("Stadtwerke Elm <post@stadtwerke-elm.example>"),
            Some(Named::Company)
        );
        assert_eq!(named_after("Service Desk <servicedesk@portfield.example>"), None);
        assert_eq!(named_after("Tolby Security <security@tolby.example>"), Some(Named::Company));
        assert_eq!(named_after("Ana P <ap3@x.example>"), None);
        assert_eq!(named_after("noreply@x.example"), None);
        assert_eq!(named_after(""), None);
    }

    #[test]
    fn a_sender_is_a_name_and_the_part_before_the_at() {
        assert_eq!(sender("\"Ana P\" <ana.p@x.org>"), ("ana.p".into(), "Ana P".into()));
        assert_eq!(sender("noreply@x.org"), ("noreply".into(), String::new()));
        assert_eq!(sender("Ana"), (String::new(), "Ana".into()));
    }
}
