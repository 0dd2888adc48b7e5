//! The `publish` flag: whether a text may be shown to others.
//!
//! Contract. A flag says nothing, yes or no. What is there and does not clearly say yes is a no, and
//! of several flags one no decides: what was marked private somewhere stays private.
//!
//! See docs/adr/0047-privacy-flag.md.

use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization as _;

mod declared;

pub(crate) use declared::{
    Declared, PRIVATE_MARK, any_declared, is_pair, is_plain_mark, mark_of, said_by_record,
    said_in_line, said_within,
};

/// What a flag says.
pub fn said(flag: Option<&Value>) -> Option<bool> {
    match flag? {
        Value::Null => None,
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => Some(is_clear_yes(text)),
        number => Some(*number == 1),
    }
}

fn is_clear_yes(word: &str) -> bool {
    let word = word.trim().to_lowercase();
    matches!(
        word.as_str(),
        "true" | "t" | "yes" | "y" | "on" | "1" | "s\u{ed}" | "si" | "ja" | "oui"
    )
}

fn is_clear_no(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::String(text) => {
            let word = text.trim().to_lowercase();
            matches!(word.as_str(), "false" | "nil" | "no" | "n" | "off" | "0" | "nein" | "non")
        }
        number => *number == 0,
    }
}

/// What a member of a record says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PublishMark {
    /// Yes or no.
    Publish,
    /// Whether somebody may publish it. A yes does not count: it orders nothing.
    Permission,
    /// Yes or no, or the date of publication.
    Published,
    /// A yes does not count: a text may be public at its origin although its owner does not want it passed
    /// on.
    Public,
    /// A value of no does not count.
    Private,
    /// A private text that stands beside. What is made of the record may tell it, so only an empty one does not count.
    PrivateText,
    /// Only a clear yes counts, because members with other meanings have such names too.
    Hidden,
    /// Silent unless it is a clear no.
    Shared,
    /// Names its readers: `public`, `private`.
    Visibility,
    /// How far its publication is, or how it is classified. Other things have such a name too.
    Status,
    /// How far its publication is, and nothing else.
    PublicationStatus,
    /// When it is published. Only a date that stands for never says something.
    PublicationDate,
    /// The rights of its file, as a number or as letters.
    Permissions,
    /// How it is classified.
    Classification,
    /// How well it is to be guarded.
    Security,
    /// Of what kind it is. Most such names have nothing to do with publication.
    Kind,
    /// Names the people that it is for. Other things have such a name too.
    Audience,
    /// A list of its readers: an empty one is nobody.
    Readers,
    /// Those that it was sent to: silent unless they are only the author.
    Recipients,
    /// A name that ends in `public`: silent unless it is a clear no.
    OpenFlag,
    /// A name that ends in `private`, `draft` or `hide`: silent unless it is a clear yes.
    ClosedFlag,
    /// Words that it is filed under.
    Labels,
    /// What programs that search may do with it.
    Robots,
    /// What it is called. Only a title that is a mark says something.
    Title,
}

/// Words for what is not meant for others, in the languages that are read, as [`folded`] gives them.
const PRIVATE_WORDS: &[&str] = &[
    "private",
    "draft",
    "unlisted",
    "confidential",
    "secret",
    "topsecret",
    "unpublished",
    "donotpublish",
    "dontpublish",
    "nopublish",
    "notforpublication",
    "noshare",
    "donotshare",
    "dontshare",
    "notforsharing",
    "drafts",
    "borradores",
    "entwurfe",
    "brouillons",
    "privado",
    "privada",
    "borrador",
    "confidencial",
    "secreto",
    "privat",
    "entwurf",
    "vertraulich",
    "geheim",
    "prive",
    "privee",
    "brouillon",
    "confidentiel",
    "confidentielle",
    "strictlyconfidential",
    "privateandconfidential",
    "strengvertraulich",
];

/// Words for a small circle of readers. They count in members that say for whom something is.
const RESTRICTED_WORDS: &[&str] = &[
    "internal",
    "restricted",
    "hidden",
    "onlyme",
    "noindex",
    "restringido",
    "soloyo",
    "nurich",
    "restreint",
    "restreinte",
    "vsnfd",
    "tlpred",
    "tlpamber",
    "tlpamberstrict",
];

/// Words for the person who wrote it, for a few people, and for nobody. They count in members that name
/// the people that something is for.
const SELF_WORDS: &[&str] = &[
    "me",
    "myself",
    "justme",
    "meonly",
    "self",
    "myeyesonly",
    "owner",
    "author",
    "nobody",
    "noone",
    "none",
    "never",
    "personal",
    "family",
    "friends",
    "yo",
    "mi",
    "nadie",
    "ninguno",
    "familia",
    "amigos",
    "ich",
    "mich",
    "niemand",
    "familie",
    "freunde",
    "moi",
    "personne",
    "famille",
    "amis",
];

/// Words for a text that its author has not finished.
const UNFINISHED_WORDS: &[&str] = &["pending", "wip", "workinprogress"];

/// Words of programs that publish, for what they do not show.
const UNPUBLISHED_WORDS: &[&str] =
    &["future", "scheduled", "planned", "idea", "trash", "trashed", "deleted", "embargoed"];

/// A date of publication from this year on stands for never.
const NEVER_YEAR: u32 = 2090;

/// The lowest level of security, and the lowest class (`C2`), that are not for everybody.
const CLOSED_LEVEL: u32 = 2;

/// Most words of a value in which each word is looked at: `private note`, `only me`.
const FEW_WORDS: usize = 4;

/// Words for everybody.
const OPEN_WORDS: &[&str] = &[
    "public",
    "normal",
    "everyone",
    "everybody",
    "anyone",
    "open",
    "all",
    "world",
    "unrestricted",
    "visible",
    "publico",
    "publica",
    "publique",
    "offentlich",
    "oeffentlich",
    "todos",
    "todas",
    "alle",
    "tous",
];

/// A name or a word without case, accents, blanks and signs: `Is published?` is `ispublished`.
fn folded(word: &str) -> String {
    let bare = word.nfkd().filter(|c| c.is_alphanumeric());
    bare.flat_map(char::to_lowercase).collect()
}

/// Longest name or word that is looked at, in bytes.
const WORD_BYTES_MAX: usize = 80;

fn is_one_of(words: &[&str], word: &str) -> bool {
    word.len() <= WORD_BYTES_MAX && words.contains(&folded(word).as_str())
}

/// Whether a value is one of some words, or is short and has one of them.
fn has_one_of(words: &[&str], value: &str) -> bool {
    let is_separator = |c: char| !c.is_alphanumeric() && c != '\'';
    let parts = || value.split(is_separator).filter(|part| !part.is_empty());
    is_one_of(words, value)
        || value.len() <= WORD_BYTES_MAX
            && parts().count() <= FEW_WORDS
            && parts().any(|part| is_one_of(words, part))
}

fn is_never(word: &str) -> bool {
    matches!(&*folded(word), "never" | "none" | "nobody" | "nunca" | "nadie" | "nie" | "jamais")
}

/// The last word of a name: `Hide` of `dgHide`, `public` of `notion_public`.
fn last_word(name: &str) -> &str {
    let name = name.trim_end_matches(|c: char| !c.is_alphanumeric());
    let begins = |(at, c): (usize, char)| match c {
        c if !c.is_alphanumeric() => Some(at + c.len_utf8()),
        c if c.is_uppercase() && !name[..at].ends_with(char::is_uppercase) => Some(at),
        _ => None,
    };
    name.char_indices().filter_map(begins).next_back().map_or(name, |at| &name[at..])
}

fn is_private_word(word: &str) -> bool {
    is_one_of(PRIVATE_WORDS, word)
}

/// Whether a label or one of its levels is such a word: `private/family`, `status:private`.
fn is_private_label(label: &str) -> bool {
    label.split(['/', ':']).any(is_private_word)
}

/// The labels of a text. Those without a sign between them are separated by blanks.
fn labels_of(text: &str) -> Vec<&str> {
    let signs = [',', ';', '|'];
    match text.contains(signs) {
        true => text.split(signs).collect(),
        false => text.split_whitespace().collect(),
    }
}

/// What a member with this name says, in the spellings people use.
fn sign_of(name: &str) -> Option<PublishMark> {
    if name.len() > WORD_BYTES_MAX {
        return None;
    }
    Some(match folded(name).as_str() {
        "title" | "subject" | "headline" | "titulo" | "titel" | "titre" | "asunto" | "betreff"
        | "objet" | "heading" | "documenttitle" | "doctitle" | "sectiontitle" | "pagetitle"
        | "titulodocumento" | "dokumenttitel" | "titredocument" => PublishMark::Title,
        "publish" | "dgpublish" | "publicar" | "publier" | "veroffentlichen"
        | "veroeffentlichen" | "pubblicare" => PublishMark::Publish,
        "publishable"
        | "maypublish"
        | "canpublish"
        | "publishtoweb"
        | "publishonweb"
        | "publishonline"
        | "publishweb"
        | "publishthis"
        | "topublish"
        | "tobepublished"
        | "oktopublish"
        | "readytopublish"
        | "readyforpublication"
        | "allowpublish"
        | "allowpublishing"
        | "allowpublication"
        | "publishingallowed"
        | "publicationallowed"
        | "maybepublished"
        | "canbepublished"
        | "shouldpublish"
        | "shouldbepublished" => PublishMark::Permission,
        "published" | "ispublished" | "publicado" | "publicada" | "publie" | "publiee"
        | "veroffentlicht" | "veroeffentlicht" | "pubblicato" | "pubblicata" => {
            PublishMark::Published
        }
        "public" | "ispublic" | "publico" | "publica" | "publique" | "offentlich"
        | "oeffentlich" | "pubblico" | "pubblica" => PublishMark::Public,
        "isprivate"
        | "isdraft"
        | "isconfidential"
        | "issecret"
        | "isunlisted"
        | "nopublish"
        | "dontpublish"
        | "notpublish"
        | "skippublish"
        | "skippublishing"
        | "skippublication"
        | "hiddenfrompublic"
        | "hidefrompublic"
        | "notforpublication"
        | "notforpublishing"
        | "noshare"
        | "dontshare"
        | "donotshare"
        | "notforsharing"
        | "noindex"
        | "donotindex"
        | "embargo"
        | "embargoed"
        | "nopublicar"
        | "nocompartir"
        | "nichtveroffentlichen"
        | "nichtveroeffentlichen"
        | "keineveroffentlichung"
        | "nepaspublier"
        | "notpublic"
        | "nonpublic"
        | "nopub"
        | "noexport"
        | "dontexport"
        | "donotexport"
        | "donotdistribute"
        | "dontdistribute"
        | "notfordistribution"
        | "ispasswordprotected"
        | "passwordprotected"
        | "noredistribution"
        | "formyeyesonly"
        | "myeyesonly"
        | "eyesonly"
        | "onlyme"
        | "onlyforme"
        | "meonly"
        | "familyonly"
        | "friendsonly"
        | "teamonly"
        | "staffonly"
        | "membersonly"
        | "internalonly"
        | "justforme"
        | "soloparami"
        | "nurfurmich"
        | "pourmoiseul"
        | "embargountil"
        | "publishafter"
        | "releaseafter"
        | "password"
        | "contrasena"
        | "passwort"
        | "motdepasse"
        | "mozilladraftinfo"
        | "tlpred"
        | "tlpamber" => PublishMark::Private,
        "privatenote" | "privatenotes" => PublishMark::PrivateText,
        "hidden"
        | "hide"
        | "ishidden"
        | "exclude"
        | "excluded"
        | "protected"
        | "encrypt"
        | "encrypted"
        | "wip"
        | "drafts"
        | "restrict"
        | "limited"
        | "nda"
        | "undernda"
        | "eleventyexcludefromcollections"
        | "excludefromsearch"
        | "excludefromfeed"
        | "excludefromfeeds"
        | "excludefromrss"
        | "excludefromsitemap"
        | "excludefromindex"
        | "excludefromlist"
        | "excludefromlists"
        | "locked"
        | "islocked"
        | "trashed"
        | "istrashed"
        | "intrash"
        | "deleted"
        | "isdeleted"
        | "intern"
        | "nurintern"
        | "personlich"
        | "persoenlich"
        | "personnel"
        | "personnelle"
        | "interne"
        | "masque"
        | "internal"
        | "isinternal"
        | "internaluse"
        | "forinternaluse"
        | "restricted"
        | "isrestricted"
        | "sensitive"
        | "issensitive"
        | "personal"
        | "ispersonal"
        | "oculto"
        | "interno"
        | "versteckt" => PublishMark::Hidden,
        "share" | "shared" | "isshared" | "shareable" | "visible" | "isvisible" | "show"
        | "export" | "listed" | "searchable" | "sitemap" | "compartir" | "teilen" | "partager"
        | "sichtbar" | "search" | "render" | "permalink" | "exportar" | "exportieren"
        | "publicaccess" => PublishMark::Shared,
        "visibility"
        | "privacy"
        | "privacylevel"
        | "sensitivity"
        | "sensitivitylevel"
        | "confidentiality"
        | "confidentialitylevel"
        | "sharing"
        | "sichtbarkeit"
        | "visibilidad"
        | "visibilite"
        | "privacidad"
        | "confidencialidad"
        | "confidentialite"
        | "vertraulichkeit"
        | "tlp" => PublishMark::Visibility,
        "audience" | "for" | "foreyes" | "list" | "access" | "accesslevel" | "scope"
        | "restrictedto" | "limitedto" | "accessibleto" | "availableto" | "distribution"
        | "circulation" | "audiencia" | "publicoobjetivo" | "para" | "acceso" | "alcance"
        | "fur" | "fuer" | "zugriff" | "verteiler" | "pour" | "acces" | "diffusion" => {
            PublishMark::Audience
        }
        "readers" | "reader" | "viewers" | "viewer" | "visibleto" | "visiblefor" | "sharewith"
        | "sharedwith" | "shareto" | "whocansee" | "whocanread" | "acl" | "visiblepara"
        | "compartircon" | "compartidocon" | "lesbarfur" | "sichtbarfur" | "geteiltmit"
        | "visiblepour" | "partageavec" => PublishMark::Readers,
        "recipient" | "recipients" | "destinatario" | "destinatarios" | "empfanger"
        | "empfaenger" | "destinataire" | "destinataires" => PublishMark::Recipients,
        "status" | "publication" | "publishing" | "publishto" | "state" | "class"
        | "sensibility" | "license" | "copyright" | "rights" | "stage" | "phase" | "workflow"
        | "estado" | "zustand" | "etat" => PublishMark::Status,
        "creativeworkstatus" | "poststatus" | "publishstatus" | "publicationstatus"
        | "publishingstatus" | "publishstate" | "publicationstate" => {
            PublishMark::PublicationStatus
        }
        "publishdate" | "publishon" | "publishat" | "publicationdate" | "publishfrom" => {
            PublishMark::PublicationDate
        }
        "permission" | "permissions" | "filepermissions" | "filemode" | "chmod" => {
            PublishMark::Permissions
        }
        "classification"
        | "classificationlevel"
        | "clasificacion"
        | "klassifizierung"
        | "klassifikation" => PublishMark::Classification,
        "security" | "securitylevel" | "securityclass" | "clearance" | "clearancelevel"
        | "seguridad" | "sicherheit" | "sicherheitsstufe" | "securite" => PublishMark::Security,
        "type" | "kind" | "mode" | "level" | "layout" | "tipo" | "nivel" | "typ" | "stufe"
        | "niveau" => PublishMark::Kind,
        "tags" | "tag" | "labels" | "label" | "keywords" | "keyword" | "categories"
        | "category" | "flag" | "flags" | "gmaillabels" | "gmlabels" | "mozillakeys"
        | "filetags" | "etiquetas" | "etiqueta" | "schlagworter" | "schlagworte" | "etiquettes"
        | "motscles" => PublishMark::Labels,
        "robots" | "googlebot" | "bingbot" | "robotstag" | "xrobotstag" => PublishMark::Robots,
        word if PRIVATE_WORDS.contains(&word) => PublishMark::Private,
        // A page that no table of contents lists is still published.
        word if word.ends_with("toc") || word.ends_with("nav") || word.ends_with("menu") => {
            return None;
        }
        word if word.starts_with("excludefrom") || word.starts_with("excludedfrom") => {
            PublishMark::Hidden
        }
        // The label that Office and Outlook give: `MSIP_Label_ID_Name`.
        word if word.starts_with("msiplabel") && word.ends_with("name") => {
            PublishMark::Classification
        }
        _ => match folded(last_word(name)).as_str() {
            "public" => PublishMark::OpenFlag,
            "private" | "draft" | "hide" | "hidden" | "unlisted" | "noindex" | "confidential" => {
                PublishMark::ClosedFlag
            }
            _ => return None,
        },
    })
}

/// Whether a member with this name may say something.
pub(crate) fn is_sign(name: &str) -> bool {
    sign_of(name).is_some()
}

/// Whether a member with this name holds words that a record is filed under.
pub(crate) fn names_labels(name: &str) -> bool {
    sign_of(name) == Some(PublishMark::Labels)
}

/// The same for the name of a declared member, which may be a path: `taxonomies.tags`.
pub(crate) fn declares_labels(name: &str) -> bool {
    name.rsplit(['.', '/', ':']).next().is_some_and(names_labels)
}

/// Whether a member with this name, or one that lies in it, may say something of a record.
pub(crate) fn may_say(name: &str) -> bool {
    is_sign(name) || is_nested(name) || declared::end_of_path(name).is_some_and(is_sign)
}

/// Whether a flag is absent or clearly a no.
pub(crate) fn is_refused(value: &Value) -> bool {
    value.is_null() || is_clear_no(value)
}

/// What the members of an object say together, in the spellings people use.
pub(crate) fn said_by_members(object: &Map<String, Value>) -> Option<bool> {
    together(object.iter().map(|(name, value)| said_by_member(name, value)))
}

/// Members in which upstream keeps what it says about a record. There every spelling counts, and a yes
/// too; elsewhere in a record only what can mean nothing else counts.
pub(crate) fn is_nested(name: &str) -> bool {
    const NESTED: &[&str] = &[
        "meta",
        "flags",
        "metadata",
        "frontmatter",
        "payload",
        "summary",
        "properties",
        "props",
        "attributes",
        "attrs",
        "fields",
        "settings",
        "options",
        "privacy",
        // Tables in which site generators keep members that they do not know.
        "extra",
        "params",
        "taxonomies",
        "hugo",
        "jekyll",
        "build",
        "sitemap",
        "search",
        "quartz",
    ];
    name.len() <= WORD_BYTES_MAX && NESTED.contains(&folded(name).as_str())
}

/// What one member of an object says. Only `publish` and `published` can say yes.
pub(crate) fn said_by_member(name: &str, value: &Value) -> Option<bool> {
    let sign = sign_of(name)?;
    let word = value.as_str().map(|text| text.trim().to_lowercase());
    match sign {
        PublishMark::Publish => said(Some(value)),
        PublishMark::Permission => said(Some(value)).filter(|yes| !yes),
        PublishMark::Published if word.as_deref().is_some_and(is_never_date) => Some(false),
        PublishMark::Published => said(Some(value)).filter(|_| match &word {
            Some(word) => word.chars().all(char::is_alphabetic) || is_bit(word),
            None => value.is_boolean() || *value == 0 || *value == 1,
        }),
        PublishMark::PublicationDate => {
            let is_no = |word: &str| is_never(word) || is_never_date(word);
            word.is_some_and(|word| is_no(&word)).then_some(false)
        }
        PublishMark::Public => said(Some(value)).filter(|yes| !yes),
        PublishMark::Private => {
            let is_silent = value.is_null() || is_clear_no(value);
            (!is_silent).then_some(false)
        }
        PublishMark::PrivateText => (!is_silent(value)).then_some(false),
        PublishMark::Hidden => {
            let is_marked = word.as_deref() == Some("x") || said(Some(value)) == Some(true);
            is_marked.then_some(false)
        }
        PublishMark::Shared => {
            // A number counts: shared by nobody yet.
            let is_flag = value.is_boolean() || word.as_ref().is_some_and(|word| !is_bit(word));
            let closes =
                |word: &str| is_never(word) || is_one_of(&["onlyme", "justme", "me"], word);
            let is_no = is_clear_no(value) || word.is_some_and(|word| closes(&word));
            (is_flag && is_no).then_some(false)
        }
        PublishMark::Visibility => {
            let is_level =
                matches!(folded(name).as_str(), "tlp" | "sensitivity" | "confidentiality")
                    || folded(name).ends_with("level");
            let is_open = word.is_some_and(|word| {
                let is_low = ["none", "low", "no", "clear", "white", "green"].contains(&&*word);
                is_one_of(OPEN_WORDS, &word) || is_level && is_low
            });
            let is_nested = value.is_object();
            (!value.is_null() && !is_open && !is_nested).then_some(false)
        }
        PublishMark::Status => {
            let is_of_publication =
                matches!(folded(name).as_str(), "publication" | "publishing" | "publishto");
            let is_no = |word: &&str| closes(word) || is_of_publication && is_never(word);
            let is_clear = is_of_publication && is_clear_no(value);
            (is_clear || words_of(value).iter().any(is_no)).then_some(false)
        }
        PublishMark::PublicationStatus => {
            let is_no = |word: &&str| closes(word) || has_one_of(UNPUBLISHED_WORDS, word);
            words_of(value).iter().any(is_no).then_some(false)
        }
        PublishMark::Permissions => {
            let is_closed = words_of(value).iter().any(|word| closes(word));
            (is_closed || shuts_others_out(value)).then_some(false)
        }
        PublishMark::Classification => {
            let is_closed = words_of(value).iter().any(|word| closes(word));
            let class = level_after(&shown(value), &["c", "class", "level", "l", "stufe", "nivel"]);
            (is_closed || class.is_some_and(|class| class >= CLOSED_LEVEL)).then_some(false)
        }
        PublishMark::Security => {
            let text = shown(value);
            let is_closed = words_of(value).iter().any(|word| closes(word));
            let is_high = has_one_of(&["high", "highest", "alta", "alto", "hoch", "haute"], &text);
            let level = level_after(&text, &["", "level", "l", "stufe", "nivel", "niveau"]);
            let is_high = is_high || level.is_some_and(|level| level >= CLOSED_LEVEL);
            (is_closed || is_high).then_some(false)
        }
        PublishMark::Kind => {
            let names_it = |word: &&str| {
                let is_phrase = word.split_whitespace().count() == 2;
                is_one_of(RESTRICTED_WORDS, word)
                    || is_private_word(word)
                    || is_phrase && has_one_of(PRIVATE_WORDS, word)
            };
            words_of(value).iter().any(names_it).then_some(false)
        }
        PublishMark::Audience => {
            let names_few = |word: &&str| closes(word) || has_one_of(SELF_WORDS, word);
            words_of(value).iter().any(names_few).then_some(false)
        }
        PublishMark::Readers => {
            let names_few = |word: &&str| closes(word) || has_one_of(SELF_WORDS, word);
            let is_nobody = value.as_array().is_some_and(Vec::is_empty) || is_clear_no(value);
            (is_nobody || words_of(value).iter().any(names_few)).then_some(false)
        }
        PublishMark::Recipients => {
            let words = words_of(value);
            let names_author = |word: &&str| is_one_of(SELF_WORDS, word) || closes(word);
            (!words.is_empty() && words.iter().all(names_author)).then_some(false)
        }
        PublishMark::OpenFlag => is_clear_no(value).then_some(false),
        PublishMark::ClosedFlag => (said(Some(value)) == Some(true)).then_some(false),
        PublishMark::Labels => {
            labels_in(value).iter().any(|word| is_private_label(word)).then_some(false)
        }
        PublishMark::Robots => {
            let closes = |word: &str| matches!(folded(word).as_str(), "noindex" | "none");
            // A rule may name whom it is for: `googlebot: noindex`.
            let has_one = |label: &&str| label.split(':').any(closes);
            let words = words_of(value);
            words.iter().any(|text| labels_of(text).iter().any(has_one)).then_some(false)
        }
        PublishMark::Title => value.as_str().is_some_and(is_private_title).then_some(false),
    }
}

/// Whether a text that stands beside says nothing at all.
fn is_silent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty() || is_clear_no(value),
        Value::Array(items) => items.iter().all(is_silent),
        Value::Object(members) => members.is_empty(),
        flag => is_clear_no(flag),
    }
}

/// Whether a word says of a text that it is not for everybody, or not finished.
fn closes(word: &str) -> bool {
    let closing = [PRIVATE_WORDS, RESTRICTED_WORDS, UNFINISHED_WORDS];
    closing.iter().any(|words| has_one_of(words, word))
}

/// Whether a text begins with a day so far away that it stands for never.
fn is_never_date(word: &str) -> bool {
    let (year, rest) = word.split_at_checked(4).unwrap_or_default();
    rest.starts_with(['-', '/', '.']) && year.parse().is_ok_and(|year: u32| year >= NEVER_YEAR)
}

/// A short value as a person wrote it, or nothing.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.len() <= WORD_BYTES_MAX => text.trim().to_lowercase(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Whether the rights of a file let only its owner or its group read it: `600`, `rw-r-----`.
fn shuts_others_out(value: &Value) -> bool {
    const READ_BY_OTHERS: u64 = 4;
    let rights = shown(value);
    // YAML reads `0600` as an octal number, 384. Nobody writes a 2 or an 8 for rights.
    if let Some(bits) = value.as_u64().filter(|bits| (0o400..=0o777).contains(bits))
        && rights.bytes().any(|digit| !matches!(digit, b'0' | b'4'..=b'7'))
    {
        return bits & READ_BY_OTHERS == 0;
    }
    let digits = rights.strip_prefix("0o").unwrap_or(&rights);
    if (3..=4).contains(&digits.len()) && digits.bytes().all(|digit| matches!(digit, b'0'..=b'7')) {
        return digits.ends_with(['0', '1', '2', '3']);
    }
    let is_letters = rights.len() >= 9 && rights.chars().all(|letter| "-rwxdlst".contains(letter));
    is_letters && rights.bytes().nth_back(2) == Some(b'-')
}

/// The number of a text that is one of some words and a number of one digit: `level 3`, `C3`.
fn level_after(text: &str, words: &[&str]) -> Option<u32> {
    let text = folded(text);
    let (word, digit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    words.contains(&word).then(|| digit.parse().ok()).flatten()
}

/// Whether a word is a number that stands for yes or no.
fn is_bit(word: &str) -> bool {
    matches!(word, "0" | "1")
}

/// The text of a value, or the texts of a list.
fn words_of(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text.as_str()],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The names under which an object has the words of a label.
const LABEL_NAMES: [&str; 6] = ["name", "label", "title", "term", "value", "slug"];

/// The labels of a member, each whole: those of a text between its signs, of a list, of objects with a name, and the names
/// of an object that says no to none of them.
pub(crate) fn labels_said(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => whole_labels(text),
        Value::Number(number) => vec![number.to_string()],
        Value::Array(list) => list.iter().flat_map(labels_said).collect(),
        Value::Object(object) => object
            .iter()
            .flat_map(|(name, value)| match value {
                Value::String(_) if LABEL_NAMES.contains(&name.as_str()) => labels_said(value),
                value if is_refused(value) => Vec::new(),
                _ => vec![name.clone()],
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn whole_labels(text: &str) -> Vec<String> {
    let text = text.trim();
    let is_of_org = text.len() > 2 && text.starts_with(':') && text.ends_with(':');
    // `#garden #health`
    let text = text.replace(" #", ",");
    let is_end = |c: char| if is_of_org { c == ':' } else { matches!(c, ',' | ';' | '|' | '\n') };
    let bare = |label: &str| {
        label.trim_matches(|c: char| c.is_whitespace() || "[]{}\"'".contains(c)).to_owned()
    };
    text.split(is_end).map(bare).filter(|label| !label.is_empty()).collect()
}

/// Labels as programs write them: a text, a list, objects with a name, or an object with a yes for each.
fn labels_in(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => labels_of(text),
        Value::Array(list) => list
            .iter()
            .flat_map(|one| match one {
                Value::String(text) => vec![text.as_str()],
                Value::Object(_) => labels_in(one),
                _ => Vec::new(),
            })
            .collect(),
        Value::Object(object) => object
            .iter()
            .filter_map(|(name, value)| match value {
                Value::String(word) if LABEL_NAMES.contains(&name.as_str()) => Some(word.as_str()),
                value if said(Some(value)) == Some(true) => Some(name.as_str()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// What a line at the head of a text says: `publish: no`. Others write such lines too, so only a word that
/// decides counts, and only a no.
pub(crate) fn said_by_line(name: &str, value: &str) -> Option<bool> {
    let value = value.trim();
    let decides = match sign_of(name)? {
        PublishMark::Labels | PublishMark::Robots | PublishMark::Classification => true,
        _ => {
            let word = Value::from(value);
            let is_word = is_private_word(value) || is_one_of(RESTRICTED_WORDS, value);
            let names_few = is_one_of(SELF_WORDS, value) || is_one_of(&["onlyme"], value);
            is_clear_no(&word) || is_clear_yes(value) || is_word || names_few
        }
    };
    said_by_member(name, &Value::from(value)).filter(|yes| decides && !yes)
}

/// Marks of answers and of mails that were passed on, as [`folded`] gives them.
const REPLY_MARKS: &[&str] = &["re", "fw", "fwd", "aw", "wg", "sv", "rv", "res", "enc", "tr"];

/// The title of a thread: `Rent` of `Re: AW: Rent`.
pub(crate) fn without_reply_marks(title: &str) -> &str {
    let mut title = title.trim();
    while let Some((mark, rest)) = title.split_once(':')
        && is_one_of(REPLY_MARKS, mark)
    {
        title = rest.trim_start();
    }
    title
}

/// Whether a title is such a mark, or begins with one in brackets: `PRIVATE`, `[Confidential] Offer`. An
/// answer to a text with such a title is one too.
pub(crate) fn is_private_title(title: &str) -> bool {
    let title = without_reply_marks(title);
    let in_brackets = title.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    // Before a colon a word in capitals is a mark, and else the beginning of a sentence. `Do not share` can only be one.
    let before_colon = title.split_once(':').filter(|(word, _)| {
        let in_capitals =
            word.chars().any(char::is_alphabetic) && !word.chars().any(char::is_lowercase);
        in_capitals || word.trim().contains(' ')
    });
    let marks = in_brackets.into_iter().chain(before_colon);
    is_private_word(title) || marks.into_iter().any(|(word, _)| is_private_word(word))
}

/// Whether a text has a tag for what is not meant for others: `#private`, `#private/family`.
pub(crate) fn has_private_tag(text: &str) -> bool {
    has_tag(text, &is_private_word)
}

/// Whether a text has a tag of which a level is such a word.
pub(crate) fn has_tag(text: &str, is_such: &dyn Fn(&str) -> bool) -> bool {
    let words = text.split_whitespace().filter_map(|word| word.strip_prefix('#'));
    let ends: &[char] = &['.', ',', ';', '!', '?', ')'];
    words.filter(|word| word.len() <= WORD_BYTES_MAX).any(|word| {
        let word = word.trim_end_matches(ends);
        word.starts_with(char::is_alphabetic)
            && word.split('/').any(|part| {
                part.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_')) && is_such(part)
            })
    })
}

/// What several flags say together.
pub fn together(flags: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    flags.into_iter().flatten().reduce(|one, other| one && other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_clear_word_publishes() {
        for (flag, expected) in [
            (json!(null), None),
            (json!(true), Some(true)),
            (json!("Yes"), Some(true)),
            (json!(""), Some(false)),
            (json!(false), Some(false)),
            (json!("false"), Some(false)),
            (json!("maybe"), Some(false)),
            (json!(0), Some(false)),
            (json!(1), Some(true)),
            (json!("S\u{ed}"), Some(true)),
            (json!([true]), Some(false)),
        ] {
            assert_eq!(said(Some(&flag)), expected, "{flag}");
        }
        assert_eq!(said(None), None);
    }

    #[test]
    fn a_title_that_is_a_mark_says_no() {
        let said =
            |name: &str, title: &str| said_by_members(json!({name: title}).as_object().unwrap());
        let marks = [
            "PRIVATE",
            "[Draft] The roof",
            "Re: [Private] x",
            "AW: WG: [Vertraulich] x",
            "privado",
            "PRIVATE: the boat",
            "Re: VERTRAULICH: Angebot",
            "Do not share: the boat",
            // A joke and a mark look the same. The item names the title, so a person can rename it.
            "Top secret: my grandmother's cake",
            "Strictly confidential: wages",
        ];
        for title in marks {
            assert_eq!(said("title", title), Some(false), "{title}");
            assert_eq!(said("Subject", title), Some(false), "{title}");
        }
        for title in [
            "The private sector",
            "Private: how it works",
            "Re: roof",
            "Draft of the lease",
            "[Roof] private",
            "",
        ] {
            assert_eq!(said("title", title), None, "{title}");
        }
    }

    #[test]
    fn settings_of_generators_of_sites_are_read_where_they_lie() {
        for record in [
            json!({"_build": {"list": "never"}}),
            json!({"build": {"render": "never"}}),
            json!({"sitemap": {"exclude": true}}),
            json!({"search": {"exclude": true}}),
            json!({"quartz": {"publish": false}}),
            json!({"params": {"private": true}}),
        ] {
            assert_eq!(said_by_record(record.as_object().unwrap()), Some(false), "{record}");
            assert_eq!(said_in_line(record.to_string().as_bytes()), Some(false), "{record}");
        }
        for record in [json!({"build": {"list": "always"}}), json!({"sitemap": {"priority": 0.5}})]
        {
            assert_eq!(said_by_record(record.as_object().unwrap()), None, "{record}");
        }
    }

    #[test]
    fn the_flag_is_known_in_the_spellings_people_use() {
        for (object, expected) in [
            (json!({"Publish": true}), Some(true)),
            (json!({"PUBLISH": "no"}), Some(false)),
            (json!({"exclude_from_publishing": true}), Some(false)),
            (json!({"skip_publish": true}), Some(false)),
            (json!({"hidden_from_public": "yes"}), Some(false)),
            (json!({"skip_publishing": false}), None),
            (json!({"exclude_from_site": false}), None),
            (json!({"exclude_from_toc": true}), None),
            (json!({"allow_publish": "no"}), Some(false)),
            (json!({"ok to publish": "no"}), Some(false)),
            (json!({"May be published": "no"}), Some(false)),
            (json!({"publish_web": false}), Some(false)),
            (json!({"publication": "none"}), Some(false)),
            (json!({"publish_to": "nobody"}), Some(false)),
            (json!({"internal-use": true}), Some(false)),
            (json!({"private_note": true}), Some(false)),
            (json!({"Private notes": "The key lies under the mat."}), Some(false)),
            (json!({"private_notes": ["", "Ask Ana"]}), Some(false)),
            (json!({"private_notes": " "}), None),
            (json!({"private_notes": [""]}), None),
            (json!({"private_notes": "no"}), None),
            (json!({"allow_publishing": true}), None),
            (json!({"allow_publishing": false}), Some(false)),
            (json!({"may publish": "perhaps"}), Some(false)),
            (json!({"publishable": "yes", "private": true}), Some(false)),
            (json!({"publish": true, "allow_publishing": false}), Some(false)),
            (json!({"publish": true, "allow_publishing": true}), Some(true)),
            (json!({"publish_to_web": true}), None),
            (json!({"ready to publish": "yes"}), None),
            (json!({"published": "yes"}), Some(true)),
            (json!({"published": "2026-02-11"}), None),
            (json!({"public": true}), None),
            (json!({"public": false}), Some(false)),
            (json!({"private": "yes"}), Some(false)),
            (json!({"private": false}), None),
            (json!({"visibility": "friends"}), Some(false)),
            (json!({"publish": true, "draft": true}), Some(false)),
            (json!({"is_private": "0"}), None),
            (json!({"Is Private": 1}), Some(false)),
            (json!({"isPublic": "no"}), Some(false)),
            (json!({"publicar": "no"}), Some(false)),
            (json!({"privado": "s\u{ed}"}), Some(false)),
            (json!({"Sensitivity": "Normal"}), None),
            (json!({"do-not-publish": true}), Some(false)),
            (json!({"title": "publish"}), None),
            (json!({"dont_publish": true}), Some(false)),
            (json!({"privat": "ja"}), Some(false)),
            (json!({"privat": "nein"}), None),
            (json!({"private": " "}), Some(false)),
            (json!({"private": null}), None),
            (json!({"flags": ["private"]}), Some(false)),
            (json!({"Brouillon": true}), Some(false)),
            (json!({"publish": "oui"}), Some(true)),
            (json!({"status": "draft"}), Some(false)),
            (json!({"status": "done"}), None),
            (json!({"post_status": "Private"}), Some(false)),
            (json!({"tags": ["garden", "#Private"]}), Some(false)),
            (json!({"keywords": "garden, borrador"}), Some(false)),
            (json!({"labels": ["private property"]}), None),
            (json!({"tags": "work private"}), Some(false)),
            (json!({"tags": "private garden, work"}), None),
            (json!({"Tag": "Private"}), Some(false)),
            (json!({"tags": ["private/family"]}), Some(false)),
            (json!({"X-Gmail-Labels": "Inbox,Private"}), None),
            (json!({"Gmail-Labels": "Inbox,Private"}), Some(false)),
            (json!({"Labels": "private;work"}), Some(false)),
            (json!({"Schlagw\u{f6}rter": ["Privat"]}), Some(false)),
            (json!({"publier": "non"}), Some(false)),
            (json!({"publishing": "off"}), Some(false)),
            (json!({"publishing": "Non"}), Some(false)),
            (json!({"publishing": "nein"}), Some(false)),
            (json!({"publishing": 0}), Some(false)),
            (json!({"publishing": "0"}), Some(false)),
            (json!({"publishing": false}), Some(false)),
            (json!({"publishing": "Reuters"}), None),
            (json!({"publishing": true}), None),
            (json!({"ver\u{f6}ffentlichen": "nein"}), Some(false)),
            (json!({"state": "draft"}), Some(false)),
            (json!({"state": "open"}), None),
            (json!({"access": "private"}), Some(false)),
            (json!({"noindex": true}), Some(false)),
            (json!({"\u{ff50}rivate": true}), Some(false)),
            (json!({"_meta": {"private": true}}), None),
            (json!({"Is published?": "no"}), Some(false)),
            (json!({"published": 0}), Some(false)),
            (json!({"published": "0"}), Some(false)),
            (json!({"published": 1770800000}), None),
            (json!({"dg-publish": false}), Some(false)),
            (json!({"classification": "Confidential"}), Some(false)),
            (json!({"classification": "biology"}), None),
            (json!({"Confidentiality": "high"}), Some(false)),
            (json!({"confidentiality": "none"}), None),
            (json!({"visibility": "\u{f6}ffentlich"}), None),
            (json!({"Sichtbarkeit": "privat"}), Some(false)),
            (json!({"visibilit\u{e9}": "priv\u{e9}e"}), Some(false)),
            (json!({"sharing": "only me"}), Some(false)),
            (json!({"sharing": "anyone"}), None),
            (json!({"share": false}), Some(false)),
            (json!({"shared": 0}), None),
            (json!({"show": "The Daily"}), None),
            (json!({"hidden": true}), Some(false)),
            (json!({"hidden": "treasures"}), None),
            (json!({"internal": "x"}), Some(false)),
            (json!({"access": "internal"}), Some(false)),
            (json!({"permissions": ["read", "private"]}), Some(false)),
            (json!({"type": "private"}), Some(false)),
            (json!({"type": "note"}), None),
            (json!({"TLP": "red"}), Some(false)),
            (json!({"TLP": "clear"}), None),
            (json!({"robots": "noindex, nofollow"}), Some(false)),
            (json!({"robots": "index, follow"}), None),
            (json!({"Nicht ver\u{f6}ffentlichen": true}), Some(false)),
            (json!({"do not share": true}), Some(false)),
            (json!({"embargo": "2099-01-01"}), Some(false)),
            (json!({"labels": [{"name": "Private"}]}), Some(false)),
            (json!({"labels": {"private": true}}), Some(false)),
            (json!({"labels": {"private": false}}), None),
            (json!({"category": {"name": "garden", "term": "draft"}}), Some(false)),
            (json!({"audience": "me"}), Some(false)),
            (json!({"audience": ["just me"]}), Some(false)),
            (json!({"audience": "developers"}), None),
            (json!({"audience": "people who know me well and others"}), None),
            (json!({"for": "my eyes only: me"}), Some(false)),
            (json!({"for": "Ana"}), None),
            (json!({"f\u{fc}r": "mich"}), Some(false)),
            (json!({"para": "m\u{ed}"}), Some(false)),
            (json!({"for-my-eyes-only": true}), Some(false)),
            (json!({"readers": []}), Some(false)),
            (json!({"readers": ["everyone"]}), None),
            (json!({"shared_with": ["me"]}), Some(false)),
            (json!({"shared_with": null}), None),
            (json!({"share": "never"}), Some(false)),
            (json!({"visible": "only me"}), Some(false)),
            (json!({"access": "owner"}), Some(false)),
            (json!({"scope": "chapter two"}), None),
            (json!({"status": "work in progress"}), Some(false)),
            (json!({"status": "in progress"}), None),
            (json!({"state": "pending review"}), Some(false)),
            (json!({"classification": "internal use only"}), Some(false)),
            (json!({"kind": "private note"}), Some(false)),
            (json!({"type": "internal combustion engine"}), None),
            (json!({"type": "PushEvent"}), None),
            (json!({"level": 3}), None),
            (json!({"dgHide": true}), Some(false)),
            (json!({"notion_public": false}), Some(false)),
            (json!({"notion_public": true}), None),
            (json!({"republic": "France"}), None),
            (json!({"is_note_private": "yes"}), Some(false)),
            (json!({"is_note_private": "no"}), None),
            (json!({"Is this private?": "yes"}), Some(false)),
            (json!({"embargo_until": "2030-01-01"}), Some(false)),
            (json!({"password": "hunter2"}), Some(false)),
            (json!({"password": ""}), Some(false)),
            (json!({"protected": false}), None),
            (json!({"eleventyExcludeFromCollections": true}), Some(false)),
            (json!({"exclude_from_feed": true}), Some(false)),
            (json!({"publish_to_web": false}), Some(false)),
            (json!({"family-only": true}), Some(false)),
            (json!({"Members only": false}), None),
            (json!({"acl": ["me"]}), Some(false)),
            (json!({"pubblico": "no"}), Some(false)),
            (json!({"Pubblicato": false}), Some(false)),
            (json!({"permalink": false}), Some(false)),
            (json!({"permalink": "/a/"}), None),
            (json!({"search": false}), Some(false)),
            (json!({"nur intern": "ja"}), Some(false)),
            (json!({"TLP:RED": "yes"}), Some(false)),
            (json!({"permissions": 600}), Some(false)),
            (json!({"permissions": "0600"}), Some(false)),
            (json!({"permissions": "0o640"}), Some(false)),
            (json!({"permissions": "-rw-------"}), Some(false)),
            (json!({"permissions": 0o600}), Some(false)),
            (json!({"permissions": 0o640}), Some(false)),
            (json!({"permissions": 0o644}), None),
            (json!({"permissions": 3}), None),
            (json!({"permissions": 644}), None),
            (json!({"permissions": "rwxr-xr-x"}), None),
            (json!({"permissions": "read"}), None),
            (json!({"mode": 600}), None),
            (json!({"publishDate": "2026-12-01"}), None),
            (json!({"publishDate": "2099-12-31"}), Some(false)),
            (json!({"published": "9999-01-01T00:00:00Z"}), Some(false)),
            (json!({"publish_on": "never"}), Some(false)),
            (json!({"expiryDate": "2020-01-01"}), None),
            (json!({"date": "2099-12-31"}), None),
            (json!({"status": "idea"}), None),
            (json!({"status": "budding"}), None),
            (json!({"status": "scheduled"}), None),
            (json!({"post_status": "future"}), Some(false)),
            (json!({"publish_status": "idea"}), Some(false)),
            (json!({"post_status": "publish"}), None),
            (json!({"publication_status": "in press"}), None),
            (json!({"classification": "C3"}), Some(false)),
            (json!({"classification": "c 2"}), Some(false)),
            (json!({"classification": "C1"}), None),
            (json!({"classification": "TLP:AMBER"}), Some(false)),
            (json!({"classification": "VS-NfD"}), Some(false)),
            (json!({"classification": 510}), None),
            (json!({"class": "C3"}), None),
            (json!({"security": "level 3"}), Some(false)),
            (json!({"security": "level 1"}), None),
            (json!({"security_level": 3}), Some(false)),
            (json!({"security": "high"}), Some(false)),
            (json!({"security": "TLS 1.3"}), None),
            (json!({"locked": true}), Some(false)),
            (json!({"locked": false}), None),
            (json!({"locked": "in the cellar"}), None),
            (json!({"isTrashed": true}), Some(false)),
            (json!({"recipients": "me"}), Some(false)),
            (json!({"recipients": ["me"]}), Some(false)),
            (json!({"recipients": ["me", "Ana"]}), None),
            (json!({"recipients": ["family@example.org"]}), None),
            (json!({"who": "me"}), None),
            (json!({"license": "CC BY 4.0"}), None),
            (json!({"publish": true, "permissions": 644, "status": "evergreen"}), Some(true)),
        ] {
            assert_eq!(said_by_members(object.as_object().unwrap()), expected, "{object}");
        }
    }

    #[test]
    fn a_line_says_what_its_members_and_its_metadata_say() {
        for (line, expected) in [
            (json!({"content": "publish: false"}), None),
            (json!({"publish": null}), None),
            (json!({"Publish": "no"}), Some(false)),
            (json!({"publish": true, "meta": {"draft": true}}), Some(false)),
            (json!({"payload": {"publish": "yes"}}), Some(true)),
            (json!({"metadata": ["private"], "summary": "private"}), None),
            (json!({"_meta": {"private": true}}), Some(false)),
            (json!({"meta": {"flags": {"private": true}}}), Some(false)),
            (json!({"meta": {"flags": ["draft"]}}), Some(false)),
            (json!({"flags": {"draft": false}}), None),
            (json!({"taxonomies": {"tags": ["private"]}}), Some(false)),
            (json!({"extra": {"private": true}}), Some(false)),
            (json!({"frontmatter": {"publish": false}}), Some(false)),
            (json!({"Front Matter": {"publish": false}}), Some(false)),
            (json!({"properties": {"private": true}}), Some(false)),
            (json!({"privacy": {"level": "all"}}), None),
            (json!({"privacy": {"private": true}}), Some(false)),
        ] {
            assert_eq!(said_in_line(line.to_string().as_bytes()), expected, "{line}");
            assert_eq!(said_by_record(line.as_object().unwrap()), expected, "{line}");
        }
        assert_eq!(said_in_line(b"no JSON"), None);
    }

    #[test]
    fn a_line_at_the_head_of_a_text_counts_where_its_word_decides() {
        for (name, value, expected) in [
            ("<!-- Publish", " no ", Some(false)),
            ("#+DRAFT", "yes", Some(false)),
            ("Visibility", "private", Some(false)),
            ("Visibility", "10 km", None),
            ("publish", "yes", None),
            ("Status", "Draft", Some(false)),
            ("Private", "the garden of Ana", None),
            ("Keywords", "garden, private", Some(false)),
            ("Note", "private", None),
            ("Classification", "C3", Some(false)),
            ("Classification", "ferns", None),
            ("Security", "level 3 of the game", None),
            ("Recipients", "me", Some(false)),
        ] {
            assert_eq!(said_by_line(name, value), expected, "{name}: {value}");
        }
        for (title, expected) in [
            ("PRIVATE", true),
            ("Strictly confidential", true),
            ("[Draft] The roof", true),
            ("[1] The roof", false),
            ("Private life of bees", false),
        ] {
            assert_eq!(is_private_title(title), expected, "{title}");
        }
        for (text, expected) in [
            ("We met. #private", true),
            ("#Private/family: we met", true),
            ("(#private/family)", false),
            ("We met #draft, and left", true),
            ("#privateer sails", false),
            ("# private life", false),
            ("https://example.org/#private", false),
        ] {
            assert_eq!(has_private_tag(text), expected, "{text}");
        }
    }

    #[test]
    fn one_no_decides() {
        assert_eq!(together([None, None]), None);
        assert_eq!(together([None, Some(true)]), Some(true));
        assert_eq!(together([Some(true), None, Some(false)]), Some(false));
    }
}
