//! The words of the languages, read once from `languages/*.toml`: adding a language, a word or a cue
//! needs no Rust.
//!
//! Most lists of all languages are put together, because texts mix languages and a cue of one language
//! is hardly ever an everyday word of another. Stop words, stemming and a few habits of writing belong
//! to the language of the text.

mod words;

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use serde::Deserialize;

use super::text::hash::Fast;
use words::Merge;
pub(crate) use words::Numbered;
pub(crate) use words::Phrases;
pub(crate) use words::Words;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/languages.rs"));
}

/// A language of the lexicon, or undetermined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Language(usize);

impl Language {
    /// Too little evidence for any language.
    pub(crate) const UNDETERMINED: Language = Language(usize::MAX);

    /// The language at a position of [`Lexicon::languages`].
    pub fn at(index: usize) -> Language {
        Language(index)
    }

    /// The language of an ISO 639-1 code.
    #[cfg(test)]
    pub(crate) fn of_code(code: &str) -> Language {
        let index = lexicon().languages.iter().position(|habits| habits.code == code);
        index.map_or(Language::UNDETERMINED, Language)
    }

    /// ISO 639-1 code, or `und`.
    pub fn code(self) -> &'static str {
        self.habits().map_or("und", |habits| &habits.code)
    }

    /// What is particular to the language.
    pub(crate) fn habits(self) -> Option<&'static Habits> {
        lexicon().languages.get(self.0)
    }

    /// The word for what is done, in English where the language has none.
    pub(crate) fn done(self) -> &'static str {
        let own = self.habits().and_then(|habits| habits.done_label.as_deref());
        own.unwrap_or("Done")
    }

    /// The word for what is to do, in English where the language has none.
    pub(crate) fn to_do(self) -> &'static str {
        let own = self.habits().and_then(|habits| habits.to_do_label.as_deref());
        own.unwrap_or("To do")
    }

    /// The words for one row of a table and for several, in English where the language has none.
    pub(crate) fn rows(self) -> [&'static str; 2] {
        let own = self.habits().and_then(|habits| habits.rows.as_ref());
        own.map_or(["row", "rows"], |[one, several]| [one, several])
    }

    /// Whether the language has a habit.
    pub fn does(self, habit: fn(&Habits) -> bool) -> bool {
        self.habits().is_some_and(habit)
    }
}

/// What a sentence does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Asks for something to be done, or says it will be.
    Action,
    Question,
    Decision,
    /// Says what is wanted.
    Goal,
    /// Says what was done.
    Result,
    /// Says what went wrong or might.
    Problem,
    /// Says what is still to be done.
    Pending,
    /// Has a number that matters: a percentage, an amount.
    Figure,
    /// Quotes somebody.
    Speech,
    /// Is uncertain.
    Doubt,
}

/// One file of `languages/`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(flatten)]
    habits: Habits,
    #[serde(flatten)]
    lists: Lists,
}

/// What counts in texts of one language only.
#[derive(Debug, Deserialize)]
pub struct Habits {
    pub code: String,
    pub(crate) stemmer: String,
    order: u32,
    pub markers: Words,
    #[serde(default)]
    pub(crate) marker_letters: String,
    pub(crate) stop_words: Words,
    /// One row of a table, and several.
    #[serde(default)]
    rows: Option<[String; 2]>,
    /// What stands before an item that is done.
    #[serde(default)]
    done_label: Option<String>,
    to_do_label: Option<String>,
    /// What a program that answers is called before what it says.
    #[serde(default)]
    pub(crate) assistant: Option<String>,
    #[serde(default)]
    stop_words_everywhere: bool,
    #[serde(default)]
    pub(crate) month_first: bool,
    #[serde(default)]
    pub(crate) nouns_have_capitals: bool,
    #[serde(default)]
    pub(crate) ordinals_end_in_a_stop: bool,
    /// `- pagar la luz`: items of a list of tasks are infinitives.
    #[serde(default)]
    pub(crate) lists_order_in_infinitives: bool,
    /// The noun of a phrase stands first: `agua potable`.
    #[serde(default)]
    pub(crate) nouns_stand_first: bool,
    /// An article before a vowel is a part of the next word: `l'accord`.
    #[serde(default)]
    pub(crate) articles_are_elided: bool,
    /// How the language says that something is done.
    #[serde(default)]
    pub(crate) done: Done,
}

/// How a language says that something is done. Its lists are not put together with those of others,
/// because an auxiliary verb of one language is an article of another.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Done {
    /// `done`: the words around it say of what.
    pub done: Vec<String>,
    /// Whole replies.
    pub replies: Vec<String>,
    /// `finished`, which is said of what somebody makes, and the verbs of making.
    pub finished: Words,
    pub making: Words,
    /// Irregular participles; regular ones by their forms, as `ge…t`.
    pub participles: Words,
    pub forms: Vec<Form>,
    /// Words of such a form that are no participles.
    pub not_participles: Words,
    /// Verbs that make a form with a participle, with their accents, and how many words may stand between.
    pub auxiliaries: Words,
    pub reach: usize,
    /// Those of them before which stands who did it, and not what is done.
    pub active: Words,
    pub already: Words,
    /// A participle that begins a sentence says that something is over: `Paid this morning.`
    pub stands_alone: bool,
    /// Irregular past forms; regular ones by their endings, and those that need `already` before them.
    pub pasts: Words,
    pub past_endings: Vec<String>,
    pub bare_past_endings: Vec<String>,
    /// Endings of the future that look like the past.
    pub futures: Vec<String>,
    /// Who must stand before a past form; without any, the form says it.
    pub persons: Words,
    /// Endings of past forms whose doer is the speaker, with their accents: any noun before is an object.
    pub own_endings: Vec<String>,
    /// What makes a past form behind it passive: `se movió`.
    pub passive: Words,
    /// What stands before who did it: `by`.
    pub agents: Words,
    /// Verbs whose object may be a person who can also be the subject: in `Dentist called.` the dentist may
    /// be either.
    pub mutual: Words,
    /// Words for a state, and what the tasks ask for that it ends: `out`, `take … out`.
    pub states: Vec<Vec<String>>,
    /// With one of these, what is done is not done yet, or not all of it.
    pub not_yet: Vec<String>,
    /// These say the same of their own clause only: `I called the plumber, he will come`.
    pub not_yet_here: Vec<String>,
    /// What begins a clause that hands something over, `attached is`, and the verbs that ask for that.
    pub hands_over: Vec<String>,
    pub handing_over: Words,
    /// Thanks of somebody who got what stands behind them, and words that say that it is still to come.
    pub thanks_for: Vec<String>,
    pub ahead: Words,
    /// Things that one sentence may tell, and what stands before it: `the number is`.
    pub values: Words,
    pub copulas: Words,
    /// Parts of a year that a thing may be of, and what says that one is over: `last month`.
    pub periods: Words,
    pub bygone: Words,
    /// What stands for a thing that was named before: `I sent it.`
    pub stands_for: Words,
    /// Those of them that stand for several things.
    pub stands_for_several: Words,
    /// Words before a thing that may be any of its kind: `on a phone`.
    pub any_one: Words,
    /// Words that lead to where or with what something is done.
    pub around: Words,
    /// Endings of verbs, the longest first.
    pub endings: Vec<String>,
    /// Parts of verbs that stand alone behind them: `ruf … an`.
    pub separable: Words,
    /// The forms of irregular verbs, one verb a string; `*` stands for any ending.
    pub verbs: Vec<String>,
    /// Words that carry no meaning in a task.
    pub little: Words,
    /// Verbs that only make a request polite.
    pub polite: Words,
    /// What stands behind the object of a verb, between two verbs, and before what a thing belongs to.
    pub links: Words,
    pub joints: Words,
    pub belongs: Words,
    /// What stands between the number of some and that of all: `two of the three`.
    pub some_of: Words,
    /// What begins a clause about the noun before it, or only behind a comma.
    pub relative: Words,
    pub relative_behind_comma: Words,
    /// Words that deny the verb behind them, verbs with which such words ask all the same, and words that deny the verb
    /// before them.
    pub denies: Words,
    pub forgetting: Words,
    pub denies_before: Words,
    /// Words that say that something is left: then nothing is done as a whole.
    pub remainder: Words,
    /// Words that make a thing another one, unless the task has them too; words without meaning that tell one of several
    /// things from the others.
    pub others: Words,
    pub telling_apart: Words,
    /// Whoever speaks.
    pub asker: Words,
    /// What stands before the day that something is moved to.
    pub onto: Words,
    /// What stands before the number of a day.
    pub dated: Words,
    /// The first form of an irregular verb by each of its forms, by its stem, and by beginnings of forms.
    #[serde(skip)]
    families: HashMap<Box<str>, Box<str>, Fast>,
    #[serde(skip)]
    stems: HashMap<Box<str>, Box<str>, Fast>,
    #[serde(skip)]
    beginnings: Vec<(Box<str>, Box<str>)>,
}

/// What stands before and behind the core of a participle: `ge…t`.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
pub(crate) struct Form {
    pub begin: Box<str>,
    pub end: Box<str>,
    /// The accent tells the participle: `envoyé` and not `envoye`.
    pub has_accent: bool,
}

impl From<String> for Form {
    fn from(written: String) -> Form {
        let (begin, end) = written.split_once('…').unwrap_or(("", &written));
        Form { begin: begin.into(), end: end.into(), has_accent: !end.is_ascii() }
    }
}

impl Done {
    /// Fewest letters of a stem: `us` of `use`, and `bring` is no `br` with an ending.
    const STEM_MIN: usize = 2;
    const STEM_OF_LONG_ENDING_MIN: usize = 3;

    fn prepare(&mut self) {
        longest_first(&mut self.endings, String::len);
        for verb in &self.verbs {
            let first = verb.split(' ').next().unwrap_or_default();
            for form in verb.split(' ') {
                match form.strip_suffix('*') {
                    Some(beginning) => self.beginnings.push((beginning.into(), first.into())),
                    None => {
                        self.stems.entry(self.stem(form).into()).or_insert(first.into());
                        self.families.entry(form.into()).or_insert(first.into());
                    }
                }
            }
        }
    }

    /// The first form of the irregular verb that a word is a form of.
    pub(crate) fn family(&self, word: &str) -> Option<String> {
        self.with_prefix(word, |word| {
            let by_beginning =
                || self.beginnings.iter().find(|(beginning, _)| word.starts_with(&**beginning));
            self.families.get(word).or_else(|| Some(&by_beginning()?.1))
        })
    }

    /// The first form of the irregular verb of a stem.
    pub(crate) fn family_of_stem(&self, stem: &str) -> Option<String> {
        self.with_prefix(stem, |stem| self.stems.get(stem))
    }

    /// Finds a verb also behind a part that may stand alone: `anrufen`, `abzuholen`.
    fn with_prefix<'s>(
        &'s self,
        word: &str,
        find: impl Fn(&str) -> Option<&'s Box<str>>,
    ) -> Option<String> {
        if let Some(first) = find(word) {
            return Some(first.to_string());
        }
        self.separable.iter().find_map(|prefix| {
            let rest = word.strip_prefix(&**prefix)?;
            let first = find(rest).or_else(|| find(rest.strip_prefix("zu")?))?;
            Some(format!("{prefix}{first}"))
        })
    }

    /// A verb without its ending.
    pub(crate) fn stem<'w>(&self, word: &'w str) -> &'w str {
        let cut = self.endings.iter().find_map(|end| {
            let is_long = end.len() > Self::STEM_MIN;
            let least = if is_long { Self::STEM_OF_LONG_ENDING_MIN } else { Self::STEM_MIN };
            word.strip_suffix(end.as_str()).filter(|rest| rest.chars().count() >= least)
        });
        cut.unwrap_or(word)
    }

    /// Whether a word, singular or plural, looks like a participle but is not one.
    pub(crate) fn is_no_participle(&self, word: &str) -> bool {
        let one = word.strip_suffix('s').unwrap_or(word);
        self.not_participles.contains(word) || self.not_participles.contains(one)
    }
}

/// Declares lists that several languages put together.
macro_rules! lists {
    ($(#[$meta:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        #[derive(Debug, Default, Deserialize)]
        $(#[$meta])*
        #[serde(default)]
        pub(crate) struct $name { $(pub(crate) $field: $kind),* }

        impl Merge for $name {
            fn add_all(&mut self, other: Self) {
                $(self.$field.add_all(other.$field);)*
            }
        }
    };
}

lists!(Lists {
    abbreviations: Words,
    assigns: Words,
    denials: Words,
    decisions: Words,
    attendance: Words,
    head_labels: Words,
    settled: Settled,
    answer: Answer,
    roles: Roles,
    mail: Mail,
    fraud: Fraud,
    ask: Ask,
    posting: Posting,
    weight: Weight,
    purposes: BTreeMap<Purpose, Vec<String>>,
    unlike: BTreeMap<Purpose, Vec<String>>,
    names: Names,
    countries: BTreeMap<String, String>,
    money: Money,
    phrases: PhraseWords,
    dates: Dates,
    chat: Chat,
});
lists!(
    #[serde(deny_unknown_fields)]
    Posting { duties: Vec<String>, profile: Vec<String>, offers: Vec<String>, hires: Vec<String> }
);
lists!(#[serde(deny_unknown_fields)] Answer {
    yes_no: Words,
    asks_thing: Words,
    asks_person: Words,
    asks_amount: Vec<String>,
    asks_reason: Vec<String>,
    reasons: Vec<String>,
    unsure: Vec<String>,
});
lists!(
    #[serde(deny_unknown_fields)]
    Settled { says: Vec<String>, concludes: Vec<String>, denied: Words, beside: Words, leads: Words }
);
lists!(
    #[serde(deny_unknown_fields)]
    Chat { placeholders: Words, attached: Vec<String> }
);
lists!(
    #[serde(deny_unknown_fields)]
    Roles { user: Words, assistant: Words, system: Words, tool: Words }
);
lists!(#[serde(deny_unknown_fields)] Mail {
    courtesy_starts: Vec<String>,
    headers: Words,
    closings: Vec<String>,
    greetings: Vec<String>,
    frames: Vec<String>,
    events: Vec<String>,
    offers: Vec<String>,
    open_hours: Vec<String>,
    rhetorical: Vec<String>,
    bulk: Vec<String>,
    subscriptions: Vec<String>,
    links: Vec<String>,
    wishes: Vec<String>,
    conditions: Vec<String>,
    passes_on: Vec<String>,
    greeting_questions: Vec<String>,
    bulk_senders: Vec<String>,
    automated: Vec<String>,
    notices: Vec<String>,
    away: Vec<String>,
    automated_senders: Vec<String>,
    office_senders: Vec<String>,
    office_names: Vec<String>,
    to_customers: Vec<String>,
    stakes: Vec<String>,
    own_business: Vec<String>,
    scam: Vec<String>,
    alone: Words,
    legal: Vec<String>,
    urgent: Vec<String>,
    calm: Vec<String>,
    replies: Vec<String>,
    forwards: Words,
    forward_lines: Words,
    quote_starts: Vec<String>,
    quote_lines: Vec<String>,
    subject_labels: Vec<String>,
    title_labels: Vec<String>,
    reply_marks: Words,
    signature_starts: Vec<String>,
});
lists!(
    #[serde(deny_unknown_fields)]
    Fraud {
        orders: Vec<String>,
        denials: Vec<String>,
        secrets: Vec<String>,
        ways: Vec<String>,
        threats: Vec<String>,
        locked: Vec<String>,
        data: Vec<String>,
        accounts: Vec<String>,
        papers: Vec<String>,
        reasons: Vec<String>,
        gains: Vec<String>,
        vouchers: Vec<String>,
        cards: Vec<String>,
        brands: Vec<String>,
        codes: Vec<String>,
        coins: Vec<String>,
        currencies: Vec<String>,
        payments: Vec<String>,
        secrecy: Vec<String>,
    sends: Vec<String>,
    haste: Vec<String>,
    advances: Vec<String>,
    bills: Vec<String>,
        new_accounts: Vec<String>,
        parcels: Vec<String>,
        fees: Vec<String>,
    }
);
lists!(#[serde(deny_unknown_fields)] Ask {
    requests: Vec<String>,
    obligations: Vec<String>,
    not_asked: Vec<String>,
    taken_back: Vec<String>,
    contrasts: Words,
    own_duties: Vec<String>,
    own_beginnings: Vec<String>,
    own_remainders: Vec<String>,
    conditional: Words,
    unable: Vec<String>,
    enclitics: Vec<String>,
    own_enclitics: Vec<String>,
    forbids: Vec<String>,
    forbids_before: Words,
    forbids_endings: Vec<String>,
    own_labels: Vec<String>,
    task_labels: Vec<String>,
    thanked_orders: Vec<String>,
    thanked_wishes: Vec<String>,
    behind_thanks: Words,
    not_thanked: Words,
    performed_endings: Vec<String>,
    bygone: Words,
    told_endings: Vec<String>,
    headings: Vec<String>,
    bare_headings: Vec<String>,
    finished: Words,
    still_open: Words,
    labels: Words,
    imperatives: Words,
    openers: Words,
    noun_links: Words,
    reader: Words,
    infinitive_endings: Vec<String>,
});
lists!(
    #[serde(deny_unknown_fields)]
    Weight {
        announce: Phrases,
        disclaim: Phrases,
        formal: Phrases,
        licences: Phrases,
        asides: Phrases,
        agendas: Phrases,
        upcoming: Words,
        releases: Words,
        defines: Words,
        being: Words,
        kind_articles: Words,
        lean: Words,
        pronouns: Words,
        demonstratives: Words,
        impersonal: Phrases,
        telling: Vec<String>,
        joining: Words,
        courtesy: Phrases,
        pleasantries: Phrases
    }
);
lists!(
    #[serde(deny_unknown_fields)]
    Names {
        organization: Words,
        honorific: Words,
        connective: Words,
        leading: Words,
        customary: Words,
        place_before: Words,
        place_articles: Words,
        place_links: Words,
        place_stops: Words,
        place_words: Vec<String>,
    }
);
lists!(#[serde(deny_unknown_fields)] Money { currencies: Words, scales: Words, links: Words, periods: Vec<String> });
lists!(
    #[serde(deny_unknown_fields)]
    PhraseWords {
        before: Words,
        asking: Words,
        verbs: Words,
        finite: Words,
        subjects: Words,
        told_endings: Vec<String>,
        title_openers: Words,
        units: Words,
        topic_before: Words,
        shells: Words,
        actors: Words
    }
);
lists!(#[serde(deny_unknown_fields)] Dates {
    months: Numbered,
    weekdays: Numbered,
    numbers: Numbered,
    half: Words,
    links: Words,
    leading: Words,
    ordinal_marks: Words,
    counted: Phrases,
    day: Words,
    week: Words,
    minute: Words,
    hour: Words,
    longer: Words,
    habitual: Words,
    past_before: Words,
    past_after: Words,
    told: Words,
    denied: Phrases,
    denied_behind: Words,
    contrasts: Phrases,
    instead: Phrases,
    before_day: Words,
    moves: Phrases,
    moved_from: Phrases,
    moved_to: Phrases,
    unnamed: Phrases,
    corrections: Phrases,
    called_off: Phrases,
    conditions: Phrases,
    new_days: Phrases,
    now: Words,
    joints: Vec<String>,
    am: Vec<String>,
    pm: Vec<String>,
    hour_marks: Words,
    hour_after: Vec<String>,
    hours_after: Vec<String>,
    half_unknown_after: Vec<String>,
    forenoon: Phrases,
    afternoon: Phrases,
    days: Vec<DayWord>,
    noon: Words,
    day_articles: Words,
    bare_day_after: Words,
    due: Phrases,
    deadlines: Phrases,
    date_labels: Vec<String>,
    text_labels: Vec<String>,
    date_leads: Words,
    records: Words,
    time_labels: Vec<String>,
    ends: Vec<String>,
    zones: Words,
    zone_before: Phrases,
    zone_after: Words,
    repeats: Vec<Repeat>,
    repeated_events: Vec<Repeat>,
});

/// `every week` and the rule it stands for; a rule that begins with `+` needs a weekday behind the words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Repeat {
    pub say: String,
    pub rule: String,
}

/// `pasado mañana`: a day counted from the day of the text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DayWord {
    pub say: String,
    pub after: i64,
    /// The word says something else behind one of these: `por la mañana`.
    #[serde(default)]
    pub(crate) not_behind: Words,
    /// The word means a day only in texts of its own language.
    #[serde(default)]
    only_here: bool,
    #[serde(skip)]
    pub(crate) only_in: Option<Language>,
}

#[derive(Debug)]
pub(crate) struct Lexicon {
    /// By rank: on a tie between languages the earlier one wins.
    pub(crate) languages: Vec<Habits>,
    /// Stop words of the languages that other texts mix in.
    pub(crate) stop_words: Words,
    /// The languages, as bits by position, that have a marker.
    pub markers: HashMap<Box<str>, u32, Fast>,
    pub lists: Lists,
    /// The days by their first word, the longest first.
    pub days: HashMap<Box<str>, Vec<DayWord>, Fast>,
    /// `p.m.` (true), `a.m.` (false) and `h`, the longest first.
    pub(crate) hour_marks: Vec<(String, Option<bool>)>,
}

impl std::ops::Deref for Lexicon {
    type Target = Lists;

    fn deref(&self) -> &Lists {
        &self.lists
    }
}

/// The lexicon. A file that does not read is left out here; a test refuses it.
pub(crate) fn lexicon() -> &'static Lexicon {
    static LEXICON: OnceLock<Lexicon> = OnceLock::new();
    LEXICON.get_or_init(|| {
        let texts =
            embedded::LANGUAGES.iter().filter_map(|(_, bytes)| std::str::from_utf8(bytes).ok());
        Lexicon::new(texts.filter_map(|text| read(text).ok()).collect())
    })
}

fn read(text: &str) -> Result<File, toml::de::Error> {
    toml::from_str(text)
}

impl Lexicon {
    fn new(mut files: Vec<File>) -> Lexicon {
        files.sort_by_key(|file| file.habits.order);
        let mut lists = Lists::default();
        let mut stop_words = Words::default();
        let mut markers: HashMap<Box<str>, u32, Fast> = HashMap::default();
        let mut languages = Vec::new();
        for (index, mut file) in files.into_iter().enumerate() {
            for day in &mut file.lists.dates.days {
                day.only_in = day.only_here.then_some(Language(index));
            }
            for marker in file.habits.markers.iter() {
                *markers.entry(marker.clone()).or_insert(0) |= 1 << index;
            }
            if file.habits.stop_words_everywhere {
                stop_words.add_all(file.habits.stop_words.clone());
            }
            lists.add_all(file.lists);
            file.habits.done.prepare();
            languages.push(file.habits);
        }
        let mut days: HashMap<Box<str>, Vec<DayWord>, Fast> = HashMap::default();
        for day in std::mem::take(&mut lists.dates.days) {
            let first = day.say.split(' ').next().unwrap_or_default();
            days.entry(first.into()).or_default().push(day);
        }
        days.values_mut().for_each(|days| longest_first(days, |day| day.say.len()));
        let dates = &mut lists.dates;
        let mut hour_marks: Vec<(String, Option<bool>)> =
            dates.am.drain(..).map(|mark| (mark, Some(false))).collect();
        hour_marks.extend(dates.pm.drain(..).map(|mark| (mark, Some(true))));
        hour_marks.extend(dates.hour_marks.iter().map(|mark| (mark.to_string(), None)));
        longest_first(&mut hour_marks, |mark| mark.0.len());
        longest_first(&mut dates.joints, String::len);
        longest_first(&mut lists.money.periods, String::len);
        Lexicon { languages, stop_words, markers, lists, days, hour_marks }
    }
}

/// So that ` a las ` is found before ` a `.
fn longest_first<T>(list: &mut [T], length: impl Fn(&T) -> usize) {
    list.sort_by_key(|one| std::cmp::Reverse(length(one)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_file_reads() {
        assert!(embedded::LANGUAGES.len() >= 6);
        for (path, bytes) in embedded::LANGUAGES {
            let file = read(std::str::from_utf8(bytes).unwrap());
            let file = file.unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(*path, format!("{}.toml", file.habits.code));
        }
    }

    #[test]
    fn a_language_needs_no_more_than_its_markers_and_stop_words() {
        let file = read(
            "code = \"nl\"\nstemmer = \"dutch\"\norder = 9\nmarkers = \"het een\"\nstop_words = \"het\"",
        );
        let lexicon = Lexicon::new(vec![file.unwrap()]);
        assert_eq!(lexicon.languages[0].code, "nl");
        assert!(read("code = \"nl\"\nstemer = \"dutch\"").is_err());
    }
}
