//! Members of records that people and programs wrote, by the usual spellings of their names.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::authors::{Naming, naming};
use crate::contract::publish::{any_declared, declares_labels, labels_said};

/// Names of the title of a record; the first that holds a text counts.
pub(crate) const TITLES: &[&str] = &["title", "subject", "headline", "heading", "name"];
/// Names of who wrote a text, as the specification of source texts lists them. [`authors`] knows more.
const AUTHORS: &[&str] = &[
    "author",
    "authors",
    "from",
    "sendername",
    "sender",
    "creator",
    "by",
    "byline",
    "userprofile",
    "speaker",
    "username",
    "user",
];
/// Names of the name of a person in a record of them, from the one that people know best.
const PERSONS: &[&str] = &[
    "realname",
    "fullname",
    "displayname",
    "nickname",
    "globalname",
    "name",
    "username",
    "screenname",
    "login",
];
/// Names of the two parts of a name.
const GIVEN: &[&str] = &["given", "givenname", "first", "firstname", "forename"];
const FAMILY: &[&str] = &["family", "familyname", "last", "lastname", "surname"];
/// The member with the people whose words a text holds beside its author: who speaks in a chat without times, and who wrote
/// the parts of a whole. Rules about data and `forget` know it, and no flow is told.
pub(crate) const SAID_BY: &str = "said_by";
/// The member with words that a text is filed under beside its labels. Rules about data know them, and no flow is told.
pub(crate) const FILED_UNDER: &str = "filed_under";
/// Names of people who wrote a part of a text, or wrote it before its author passed it on.
const PEOPLE: &[&str] = &[
    "saidby",
    "forwardedfrom",
    "originalfrom",
    "originalsender",
    "resentfrom",
    "resentsender",
    "xoriginalfrom",
    "xoriginalsender",
];
/// Names of the address to which the answer to a mail goes. In a chat they name whom a message answers.
const ANSWERED: &[&str] = &["replyto", "replytoaddress", "replytoemail"];
/// Names of who says a message, the fullest first. Records that are no messages use some of them for other things.
const SPEAKERS: &[&str] = &[
    "userprofile",
    "author",
    "authorname",
    "from",
    "fromname",
    "sendername",
    "sender",
    "speakername",
    "speaker",
    "displayname",
    "realname",
    "fullname",
    "name",
    "nickname",
    "nick",
    "username",
    "screenname",
    "handle",
    "who",
    "participant",
    "actor",
    "user",
    "u",
    "login",
    "fromid",
];
/// Names of the words of a message. Beside the last two, `name` may be that of a thing.
const WORDS: &[&str] = &["message", "content", "value", "text", "body"];
const WORDS_BESIDE_NAMES: &[&str] = WORDS.split_at(3).0;
/// Names of lists of messages.
const CONVERSATIONS: &[&str] = &[
    "messages",
    "conversation",
    "conversations",
    "chat",
    "chatmessages",
    "dialog",
    "dialogue",
    "turns",
    "thread",
    "talk",
    "transcript",
    "utterances",
    "replies",
    "comments",
    "posts",
];
/// Names of the address of a person in a record of them.
const ADDRESSES: &[&str] = &["address", "email", "mail"];
/// Names of a clock time that stands apart from its day.
pub(crate) const CLOCKS: &[&str] = &["time", "clock", "clocktime", "timeofday"];
/// Names of the time of a record; the first that holds one counts.
pub(crate) const TIMES: &[&str] = &[
    "timestamp",
    "tsabs",
    "tsabsms",
    "timestampms",
    "date",
    "datetime",
    "datepublished",
    "publishedat",
    "pubdate",
    "isodate",
    "published",
    "ts",
    "time",
    "created",
    "createdat",
    "createtime",
    "sentat",
    "updated",
    "updatedat",
    "datemodified",
];

/// Names of other members that become the context of a record, and of its marks.
const OF_CONTEXT: &[&str] = &[
    "tags",
    "labels",
    "categories",
    "keywords",
    "url",
    "link",
    "permalink",
    "externalurl",
    "image",
    "bannerimage",
    "id",
    "uuid",
    "guid",
    "language",
    "lang",
    "project",
    "projectname",
    "to",
    "cc",
    "role",
    "feed",
    "mailbox",
    "conversationid",
    "publish",
    "public",
    "private",
    "draft",
    "visibility",
    "localonly",
];

/// Which members that stand beside the text of a record its context does not hold. Each member is given with its name,
/// and whether it is words. Of several titles one becomes the title, and of several authors one the author; the others
/// are facts like all the rest.
pub(crate) fn beyond_context(members: &[(&str, bool)]) -> Vec<bool> {
    let names: Vec<String> = members.iter().map(|(name, _)| folded(name)).collect();
    let first_of = |group: &[&str], only_words: bool| {
        let ranked = names.iter().enumerate().filter_map(|(at, name)| {
            let rank = group.iter().position(|one| one == name)?;
            (!only_words || members[at].1).then_some((rank, at))
        });
        ranked.min().map(|(_, at)| at)
    };
    let (title, author) = (first_of(TITLES, true), first_of(AUTHORS, false));
    let is_fact = |(at, name): (usize, &String)| {
        let is_placed = [TIMES, OF_CONTEXT].iter().any(|names| names.contains(&name.as_str()));
        // Another form of the same text.
        let is_page = name.ends_with("html");
        !is_placed && !is_page && Some(at) != title && Some(at) != author
    };
    names.iter().enumerate().map(is_fact).collect()
}

/// A name without case and without the signs that people put between words: `Published At`,
/// `published_at` and `publishedAt` are one name.
pub(crate) fn folded(name: &str) -> String {
    let kept = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    kept.flat_map(char::to_lowercase).collect()
}

/// The values under these names, which are folded, in the order of the names. Null is no value.
pub(crate) fn named<'a>(
    members: &'a Map<String, Value>,
    names: &[&str],
) -> impl Iterator<Item = &'a Value> {
    let mut found: Vec<(usize, &Value)> = Vec::new();
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        let folded = folded(name);
        found.extend(names.iter().position(|one| *one == folded).map(|at| (at, value)));
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, value)| value)
}

/// The values of the members that name who wrote a text, the usual names first.
pub(crate) fn authors(members: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let rank = |name: &str| {
        let usual = AUTHORS.iter().position(|one| *one == folded(name));
        let is_author = || matches!(naming(name), Some(Naming::Label | Naming::Column));
        usual.or_else(|| is_author().then_some(AUTHORS.len()))
    };
    let given = members.iter().filter(|(_, value)| !value.is_null());
    let mut found: Vec<(usize, &Value)> =
        given.filter_map(|(name, value)| Some((rank(name)?, value))).collect();
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, value)| value)
}

/// Whether a member names somebody who wrote the text or a part of it.
pub(crate) fn names_people(name: &str) -> bool {
    let folded = folded(name);
    [AUTHORS, PEOPLE].iter().any(|names| names.contains(&folded.as_str()))
        // Two letters name a language as often as a sender.
        || folded.len() > 2 && naming(name).is_some_and(|one| one != Naming::Receiver)
}

/// Everybody whom a record names as one who wrote it or a part of it, by name and by address, as it is written.
pub(crate) fn people_of(members: &Map<String, Value>) -> impl Iterator<Item = String> {
    let named = members.iter().filter(|(name, _)| names_people(name));
    let in_two = in_two_parts(members);
    named
        .flat_map(|(_, value)| names_of(value))
        .chain(answered(members))
        .chain(in_two)
        .chain(said_by(members))
}

/// Who gets the answer to a mail: most often who wrote it, where a list or a form stands in the place of the author.
pub(crate) fn answered(members: &Map<String, Value>) -> impl Iterator<Item = String> {
    named(members, ANSWERED).flat_map(names_of).filter(|one| one.contains('@'))
}

/// The name of somebody whose two names stand in members of their own: `First Name` and `Last Name`.
pub(crate) fn in_two_parts(members: &Map<String, Value>) -> Option<String> {
    let part = |names: &[&str]| {
        let mut words = named(members, names).filter_map(Value::as_str).map(str::trim);
        words.find(|word| !word.is_empty())
    };
    Some(format!("{} {}", part(GIVEN)?, part(FAMILY)?))
}

/// Who says a record that looks like a message.
pub(crate) fn said_by(members: &Map<String, Value>) -> Vec<String> {
    let has = |names: &[&str]| {
        let mut words = named(members, names);
        words.any(|words| words.is_string() || words.is_array() || words.is_object())
    };
    if !has(WORDS) {
        return Vec::new();
    }
    let may_be_thing = !has(WORDS_BESIDE_NAMES) && !members.contains_key("role");
    let is_speaker = |name: &&&str| **name != "name" || !may_be_thing;
    let names: Vec<&str> = SPEAKERS.iter().filter(is_speaker).copied().collect();
    named(members, &names).flat_map(names_of).collect()
}

/// The names of who says a record that is a message, the fullest first.
pub(crate) fn speakers(message: &Map<String, Value>) -> impl Iterator<Item = String> {
    named(message, SPEAKERS).chain(authors(message)).filter_map(name_of_person)
}

/// Whether a member of a message names who says it.
pub(crate) fn names_speaker(name: &str) -> bool {
    let folded = folded(name);
    [SPEAKERS, AUTHORS].iter().any(|names| names.contains(&folded.as_str()))
        || matches!(naming(name), Some(Naming::Label | Naming::Column))
}

/// Everybody whom a value or a record within it names so.
pub(crate) fn people_within(value: &Value) -> BTreeSet<String> {
    let (mut found, mut left) = (BTreeSet::new(), vec![(value, false)]);
    while let Some((one, is_message)) = left.pop() {
        match one {
            Value::Object(members) => {
                found.extend(people_of(members));
                if is_message {
                    found.extend(speakers(members));
                }
                let of_messages = |name: &str| CONVERSATIONS.contains(&folded(name).as_str());
                left.extend(members.iter().map(|(name, inner)| (inner, of_messages(name))));
            }
            Value::Array(all) => left.extend(all.iter().map(|inner| (inner, is_message))),
            _ => {}
        }
    }
    found
}

/// Notes people whose words a text holds, beside its authors.
pub(crate) fn add_people(
    members: &mut Map<String, Value>,
    people: impl IntoIterator<Item = String>,
) {
    let authors: Vec<String> = authors(members).flat_map(names_of).collect();
    let known = members.get(SAID_BY).map(names_of).unwrap_or_default();
    let mut all: BTreeSet<String> = people.into_iter().chain(known).collect();
    all.retain(|one| !authors.contains(one));
    if !all.is_empty() {
        members.insert(SAID_BY.to_owned(), all.into_iter().collect::<Vec<_>>().into());
    }
}

/// Every label that a record declares, however deep it lies: also `taxonomies.tags`, and `tags: {health: true}`.
pub(crate) fn filed_under(members: &Map<String, Value>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    any_declared(members, &mut |one| {
        if one.name == FILED_UNDER || declares_labels(one.name) {
            found.extend(labels_said(one.value));
        }
        false
    });
    found
}

/// Notes words that a text is filed under, where no other member has them.
pub(crate) fn file_under(
    members: &mut Map<String, Value>,
    labels: impl IntoIterator<Item = String>,
) {
    let known = filed_under(members);
    let mut all: BTreeSet<String> =
        labels.into_iter().filter(|label| !known.contains(label)).collect();
    if !all.is_empty() {
        all.extend(members.get(FILED_UNDER).map(labels_said).unwrap_or_default());
        members.insert(FILED_UNDER.to_owned(), all.into_iter().collect::<Vec<_>>().into());
    }
}

/// The names and addresses in a value: a text, a record of a person, or a list of these.
pub(crate) fn names_of(value: &Value) -> Vec<String> {
    match value {
        Value::Array(all) => all.iter().flat_map(names_of).collect(),
        Value::Object(members) => {
            let addresses = named(members, ADDRESSES).filter_map(Value::as_str).map(str::to_owned);
            addresses.chain(name_of_person(value)).collect()
        }
        one => name_of_person(one).into_iter().collect(),
    }
}

/// The name of somebody: a text, or the name in a record of a person.
pub(crate) fn name_of_person(value: &Value) -> Option<String> {
    let word = |value: &Value| {
        value.as_str().map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned)
    };
    match value {
        Value::Object(members) => {
            let name = |names: &[&str]| named(members, names).find_map(word);
            let in_two = || in_two_parts(members);
            name(PERSONS).or_else(in_two).or_else(|| name(FAMILY)).or_else(|| name(GIVEN))
        }
        value => word(value),
    }
}
