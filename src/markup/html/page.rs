//! The text of a page, as a browser shows it.
//!
//! `docs/source-text-hash.md` specifies it and `tests/golden/markup/vectors.json` has the examples.
//! Elements are kept on a stack, so that an end tag that is missing, as HTML allows, ends what it
//! would end in a browser. There is no tree.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::elements::{self, Shown};
use super::entities;
use super::tag::{self, Sight};
use crate::contract::privacy::{LOCAL_ONLY, local_only_by_line, names_local_only};
use crate::contract::publish;
use crate::markup::authors::{Naming, naming};
use crate::markup::layout::{Break, Layout, fence_for};
use crate::markup::marks::Marks;
use crate::markup::members::{add_people, name_of_person, names_of, names_people};
use crate::markup::prefix;

/// Most elements that are open at the same time. Deeper ones only make their break.
const OPEN_MAX: usize = 256;
/// `time` elements that are looked at: an article has one or two, a list of events has many.
const TIMES_MAX: usize = 64;
/// Words from which on an article stands for its page, and the part of the words of the page it has.
const ARTICLE_WORDS_MIN: usize = 15;
const ARTICLE_SHARE_MIN: usize = 8;
/// Roles, and parts of classes and ids, that pages give to what surrounds their article.
const ROLES: [&str; 7] =
    ["navigation", "dialog", "alertdialog", "contentinfo", "complementary", "search", "menu"];
const SURROUNDINGS: [&str; 28] = [
    "nav",
    "navigation",
    "navbar",
    "menu",
    "breadcrumb",
    "breadcrumbs",
    "cookie",
    "cookies",
    "consent",
    "gdpr",
    "share",
    "sharing",
    "social",
    "sidebar",
    "footer",
    "related",
    "newsletter",
    "subscribe",
    "advert",
    "advertisement",
    "ads",
    "promo",
    "pagination",
    "skip",
    "toolbar",
    "popup",
    "modal",
    "paywall",
];
/// Parts of names that say how a page looks rather than what an element is.
const STATES: [&str; 7] = ["has", "with", "no", "is", "js", "not", "without"];
/// Bytes of `2026-03-05`.
const DAY_BYTES: usize = 10;
/// Deepest JSON-LD that is looked through.
const JSON_LD_DEPTH_MAX: usize = 6;
/// Bytes of an element that names who wrote the page, and words of a name.
const NAME_BYTES_MAX: usize = 600;
const NAME_WORDS_MAX: usize = 8;

/// A page as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    pub title: Option<String>,
    pub text: String,
    /// What its `meta` elements, its JSON-LD and its `time` elements say of it, under names that every
    /// kind of document uses.
    pub members: Map<String, Value>,
}

/// Reads a page.
pub fn page(source: &str) -> Page {
    read(source, false)
}

/// Reads a page without its surroundings: menus, banners, buttons, footers, links to other pages. A page
/// that is hardly anything else is read whole.
pub(crate) fn article(source: &str) -> Page {
    let words = |page: &Page| page.text.split_whitespace().count();
    let (whole, article) = (read(source, false), read(source, true));
    let is_enough = words(&article) * ARTICLE_SHARE_MIN >= words(&whole);
    if is_enough && words(&article) >= ARTICLE_WORDS_MIN { article } else { whole }
}

fn read(source: &str, is_article: bool) -> Page {
    let mut reader = Reader { is_article, ..Reader::new(source) };
    reader.read();
    while !reader.open.is_empty() {
        reader.pop();
    }
    reader.date();
    let people = std::mem::take(&mut reader.people);
    let is_author = |(name, is): &&(String, bool)| *is && !is_address(name);
    if let Some((author, _)) = people.iter().find(is_author) {
        reader.members.entry("author").or_insert(author.as_str().into());
    }
    add_people(&mut reader.members, people.into_iter().map(|(name, _)| name));
    std::mem::take(&mut reader.marks).keep_in(&mut reader.members);
    Page { title: reader.title, text: reader.layout.finish(), members: reader.members }
}

struct Reader<'a> {
    source: &'a str,
    layout: Layout,
    title: Option<String>,
    members: Map<String, Value>,
    /// What `time` elements say, each with whether it is the time of the publication.
    times: Vec<(String, bool)>,
    /// Everybody whom it names as one who wrote it or a part of it, and whether as its author.
    people: Vec<(String, bool)>,
    /// What it says to rules about data.
    marks: Marks,
    open: Vec<Open<'a>>,
    /// How many open elements are hidden, and how many of them with all that is in them.
    hidden: usize,
    gone: usize,
    /// Whether text is invisible here.
    is_invisible: bool,
    /// Open `p` elements: most tags ask for one, few pages have it.
    paragraphs: usize,
    /// Open lists, outermost first; an ordered one has the number of its next item.
    lists: Vec<Option<i64>>,
    in_code: bool,
    in_heading: bool,
    /// How many backticks stand before and after code.
    fence: Option<usize>,
    /// Whether what surrounds the article is left out.
    is_article: bool,
}

struct Open<'a> {
    name: Cow<'a, str>,
    shown: Shown,
    hides: Hides,
    /// Whether text around it is invisible.
    in_invisible: bool,
    /// The layout knows that it is open.
    laid_out: bool,
}

/// What an open element hides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Hides {
    /// Its own text, at least.
    text: bool,
    /// All that is in it.
    all: bool,
}

struct Start<'a> {
    name: Cow<'a, str>,
    sight: Sight,
    number: Option<i64>,
    is_empty: bool,
    /// What a `meta` element says, with its name.
    meta: Option<(String, String)>,
    /// The moment of a `time` element, and whether it is that of the publication.
    time: Option<(String, bool)>,
    /// A script that holds JSON-LD.
    is_json_ld: bool,
    /// It holds the name of somebody who wrote the page; its author, where it says so.
    names_author: Option<bool>,
    /// Part of what surrounds the article.
    surrounds: bool,
    /// Where the source continues.
    end: usize,
}

impl<'a> Reader<'a> {
    fn new(source: &'a str) -> Self {
        Reader {
            source,
            layout: Layout::default(),
            title: None,
            members: Map::new(),
            times: Vec::new(),
            people: Vec::new(),
            marks: Marks::default(),
            open: Vec::new(),
            hidden: 0,
            gone: 0,
            is_invisible: false,
            paragraphs: 0,
            lists: Vec::new(),
            in_code: false,
            in_heading: false,
            fence: None,
            is_article: false,
        }
    }

    fn read(&mut self) {
        let source = self.source;
        let mut at = 0;
        while let Some(length) = source[at..].find('<') {
            let start = at + length;
            self.text(&source[at..start]);
            let rest = &source[start..];
            let next = rest.as_bytes().get(1).copied().unwrap_or(b' ');
            let after = rest.as_bytes().get(2).copied().unwrap_or(b' ');
            let end = match next {
                b'!' | b'?' => self.comment(rest),
                b'/' if after.is_ascii_alphabetic() => self.end_tag(rest),
                b'/' if rest.len() > 2 => comment_end(rest),
                _ if next.is_ascii_alphabetic() => self.start_tag(rest),
                _ => {
                    self.text("<");
                    Some(1)
                }
            };
            // A tag or a comment that never ends takes the rest of the page with it.
            let Some(end) = end else { return };
            at = start + end;
        }
        self.text(&source[at..]);
    }

    /// A comment before the first word is the head of the text: its lines may say that the page is private.
    fn comment(&mut self, rest: &str) -> Option<usize> {
        let end = comment_end(rest)?;
        let said = rest[..end].strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
        for (name, value) in
            said.unwrap_or_default().lines().filter_map(|line| line.split_once(':'))
        {
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            if !self.layout.is_empty() {
                continue;
            }
            self.marks.note(&name, value);
            if publish::said_by_line(&name, value) == Some(false) {
                self.meta(name, value.into());
            }
        }
        Some(end)
    }

    fn is_shown(&self) -> bool {
        self.gone == 0 && !self.is_invisible
    }

    fn text(&mut self, text: &str) {
        if self.is_shown() {
            each_stretch(text, |stretch| self.layout.text(stretch));
        }
    }

    fn start_tag(&mut self, rest: &'a str) -> Option<usize> {
        let mut start = Start::read(rest)?;
        let shown = elements::shown(&start.name);
        if self.is_shown() && elements::stands_apart(&start.name) {
            self.layout.breaks(Break::Space);
        }
        if shown == Shown::Raw {
            let end = raw_end(&rest[start.end..], &start.name);
            self.raw(&start, &rest[start.end..start.end + end]);
            return Some(start.end + end);
        }
        let end = start.end;
        if let Some((name, content)) = start.meta.take() {
            self.meta(name, content.into());
        }
        if let Some(is_author) = start.names_author {
            let name = named_in(&start.name, &rest[end..]);
            self.people.extend(name.map(|name| (name, is_author)));
        }
        if let Some(time) = start.time.take()
            && self.is_shown()
            && self.times.len() < TIMES_MAX
            && !self.is_aside()
        {
            self.times.push(time);
        }
        self.imply_ends(&start.name, shown);
        let all =
            start.sight.is_gone || shown == Shown::Not || (self.is_article && start.surrounds);
        let hides = Hides { text: all || start.sight.hides(), all };
        let in_invisible = self.is_invisible;
        let is_invisible = start.sight.visible.map_or(in_invisible, |visible| !visible);
        let is_seen = self.gone == 0 && !all && !is_invisible;
        if start.is_empty || elements::is_empty(&start.name) {
            if is_seen {
                self.void(shown);
            }
            return Some(end);
        }
        // The end of an inline element changes nothing, so that it does not end a block it was put around:
        // it is followed only where it hides.
        if shown == Shown::Inline && !hides.text && self.hidden == 0 {
            return Some(end);
        }
        if self.open.len() >= OPEN_MAX {
            if is_seen {
                self.layout.breaks(breaks_of(shown));
            }
            return Some(end);
        }
        let is_more_code = shown == Shown::Code && self.in_code;
        let laid_out = is_seen && !is_more_code;
        if laid_out {
            self.lay_out(&start, shown);
        }
        self.hidden += usize::from(hides.text);
        self.gone += usize::from(hides.all);
        self.is_invisible = is_invisible;
        self.paragraphs += usize::from(start.name == "p");
        self.open.push(Open { name: start.name, shown, hides, in_invisible, laid_out });
        Some(end)
    }

    /// Scripts and the like are no text; the first title names the page.
    fn raw(&mut self, start: &Start<'_>, content: &str) {
        let in_page = !self.open.iter().any(|open| open.name == "svg");
        if start.name == "title" && self.title.is_none() && in_page {
            let mut layout = Layout::default();
            each_stretch(content, |stretch| layout.text(stretch));
            self.title = Some(layout.finish()).filter(|title| !title.is_empty());
        }
        if start.is_json_ld
            && let Ok(said) = serde_json::from_str(content)
        {
            if let Some(date) = date_published(&said, 0) {
                self.members.entry("date").or_insert(date.into());
            }
            people_in(&said, &mut self.people);
            self.marks.members(&Map::from_iter([("meta".to_owned(), said.clone())]));
            if is_private(&said) {
                self.members.entry("private").or_insert(true.into());
            }
        }
    }

    /// What a `meta` or `link` element says. Names that many pages use otherwise count where they say something of
    /// privacy, and a page may say it after it said something else under the same name.
    fn meta(&mut self, name: String, content: Value) {
        self.marks.note(&name, content.as_str().unwrap_or_default());
        if name == KEY_WORDS || names_local_only(&name) {
            return;
        }
        let is_mark = publish::said_by_member(&name, &content).is_some();
        if name == PERSON {
            self.people.extend(content.as_str().map(|name| (name.to_owned(), false)));
            return;
        }
        if name == "author" {
            // A page may name several.
            self.people.extend(content.as_str().map(|name| (name.to_owned(), true)));
        }
        if name == "url" && !content.as_str().is_some_and(is_address) {
            return;
        }
        if is_mark {
            self.members.insert(name, content);
        } else if matches!(&*name, "author" | "date" | "url") || publish::names_labels(&name) {
            self.members.entry(name).or_insert(content);
        }
    }

    /// Whether what follows stands beside the text of the page: other pages have dates of their own.
    fn is_aside(&self) -> bool {
        self.open.iter().any(|open| matches!(&*open.name, "nav" | "aside" | "footer"))
    }

    /// The day of the page by its `time` elements: that of the publication, or the only one there is.
    fn date(&mut self) {
        let published = self.times.iter().find(|(_, published)| *published);
        let day = |time: &str| time.get(..DAY_BYTES).unwrap_or(time).to_owned();
        let first = self.times.first();
        let only =
            first.filter(|(first, _)| self.times.iter().all(|(one, _)| day(one) == day(first)));
        if let Some((time, _)) = published.or(only) {
            self.members.entry("date").or_insert(time.as_str().into());
        }
    }

    fn void(&mut self, shown: Shown) {
        match shown {
            Shown::Break if self.in_code => self.layout.text("\n"),
            Shown::Break if self.in_heading => self.layout.breaks(Break::Space),
            Shown::Break => self.layout.breaks(Break::Line),
            shown => self.layout.breaks(breaks_of(shown)),
        }
    }

    fn lay_out(&mut self, start: &Start<'_>, shown: Shown) {
        match shown {
            Shown::Heading(level) => {
                self.in_heading = true;
                self.layout.heading(level);
            }
            Shown::List { ordered } => {
                let is_inner = !self.lists.is_empty();
                self.layout.breaks(if is_inner { Break::Line } else { Break::Paragraph });
                self.lists.push(ordered.then_some(start.number.unwrap_or(1)));
            }
            Shown::Item => {
                let marker = match self.lists.last_mut() {
                    Some(Some(next)) => {
                        let number = start.number.unwrap_or(*next);
                        *next = number.saturating_add(1);
                        format!("{number}.")
                    }
                    _ => "-".to_owned(),
                };
                self.layout.item(self.lists.len().saturating_sub(1), &marker);
            }
            Shown::Quote => self.layout.quote(),
            Shown::Code => {
                self.in_code = true;
                let fence = *self.fence.get_or_insert_with(|| fence_for(self.source));
                self.layout.code(fence);
            }
            Shown::Table => self.layout.table(),
            Shown::Row => self.layout.begin_row(),
            Shown::Cell => self.layout.cell(),
            shown => self.layout.breaks(breaks_of(shown)),
        }
    }

    /// Ends the element that was opened last.
    fn pop(&mut self) {
        let Some(open) = self.open.pop() else { return };
        self.hidden -= usize::from(open.hides.text);
        self.gone -= usize::from(open.hides.all);
        self.is_invisible = open.in_invisible;
        self.paragraphs -= usize::from(open.name == "p");
        if !open.laid_out {
            return;
        }
        match open.shown {
            Shown::Heading(_) => {
                self.in_heading = false;
                self.layout.end_heading();
            }
            Shown::List { .. } => {
                self.lists.pop();
                let is_inner = !self.lists.is_empty();
                self.layout.breaks(if is_inner { Break::Line } else { Break::Paragraph });
            }
            Shown::Item => self.layout.end_item(),
            Shown::Quote => self.layout.end_quote(),
            Shown::Code => {
                self.in_code = false;
                self.layout.end_code();
            }
            Shown::Table => self.layout.end_table(),
            Shown::Row => self.layout.end_row(),
            Shown::Cell => {}
            shown => self.layout.breaks(breaks_of(shown)),
        }
    }

    fn end_tag(&mut self, rest: &'a str) -> Option<usize> {
        let (name, named) = name_of(rest, 2);
        let end = tag::scan(rest, named, |_, _| ())?;
        let shown = elements::shown(&name);
        if self.is_shown() && elements::stands_apart(&name) {
            self.layout.breaks(Break::Space);
        }
        if shown == Shown::Inline && self.hidden == 0 {
            return Some(end);
        }
        // An end tag does not reach out of the table cell it stands in, or out of the table.
        let barrier: &[&str] = match shown {
            Shown::Table => &[],
            Shown::Row | Shown::Cell => &["table"],
            _ if elements::is_table_part(&name) => &["table"],
            _ => &["td", "th", "caption", "table"],
        };
        let ended = self.end(&[&name], barrier);
        if !ended && self.is_shown() && matches!(&*name, "p" | "br") {
            self.void(shown);
        }
        Some(end)
    }

    /// Ends the innermost open element with one of the names, and everything in it.
    fn end(&mut self, names: &[&str], barrier: &[&str]) -> bool {
        for place in (0..self.open.len()).rev() {
            let name = &*self.open[place].name;
            if names.contains(&name) {
                while self.open.len() > place {
                    self.pop();
                }
                return true;
            }
            if barrier.contains(&name) {
                return false;
            }
        }
        false
    }

    /// A start tag ends some elements whose end tags may be left out.
    fn imply_ends(&mut self, name: &str, shown: Shown) {
        const CELL: &[&str] = &["td", "th", "caption", "table"];
        const ITEM: &[&str] = &["ul", "ol", "menu", "dir", "td", "th", "caption", "table"];
        const CHOICES: &[&str] = &["select", "datalist", "td", "th", "caption", "table"];
        if self.open.is_empty() {
            return;
        }
        match name {
            "li" => self.end(&["li"], ITEM),
            "dt" | "dd" => self.end(&["dt", "dd"], &["dl", "td", "th", "caption", "table"]),
            "option" | "optgroup" => self.end(&["option"], CHOICES),
            "td" | "th" => self.end(&["td", "th", "caption"], &["tr", "table"]),
            "tr" => self.end(&["tr", "caption"], &["table"]),
            _ if elements::is_table_part(name) => {
                self.end(&["thead", "tbody", "tfoot", "caption"], &["table"])
                    || self.end(&["tr"], &["table"])
            }
            _ => false,
        };
        if matches!(shown, Shown::Heading(_)) && self.in_heading {
            self.end(&["h1", "h2", "h3", "h4", "h5", "h6"], CELL);
        }
        let inside = matches!(shown, Shown::Inline | Shown::Break | Shown::Choices | Shown::Not)
            || matches!(name, "option" | "optgroup" | "legend");
        if self.paragraphs > 0 && !inside {
            self.end(&["p"], CELL);
        }
        // A cell without a row begins one.
        let in_table =
            |open: &Open<'_>| open.shown == Shown::Table || elements::is_table_part(&open.name);
        if shown == Shown::Cell && self.open.last().is_some_and(in_table) {
            let laid_out = self.is_shown();
            if laid_out {
                self.layout.begin_row();
            }
            let name = Cow::Borrowed("tr");
            let (hides, in_invisible) = (Hides::default(), self.is_invisible);
            self.open.push(Open { name, shown: Shown::Row, hides, in_invisible, laid_out });
        }
    }
}

impl<'a> Start<'a> {
    /// Reads the tag a text begins with.
    fn read(rest: &'a str) -> Option<Start<'a>> {
        let (name, named) = name_of(rest, 1);
        let (mut sight, mut number) = (Sight::default(), None);
        let (mut said_of, mut content) = (None, String::new());
        let may_surround = !matches!(&*name, "html" | "body" | "main" | "article" | "head");
        let mut surrounds = matches!(&*name, "nav" | "aside" | "footer" | "button" | "menu");
        let (is_meta, is_link) = (name == "meta", name == "link");
        let is_whole = matches!(&*name, "html" | "body" | "main" | "article");
        let counts = matches!(&*name, "ol" | "li");
        let (is_time, is_script) = (name == "time", name == "script");
        let (mut time, mut published, mut is_json_ld) = (None, false, false);
        let mut names_author = None;
        let end = tag::scan(rest, named, |attribute, value| {
            if !is_meta && !is_link {
                names_author = says_author(attribute, value).max(names_author);
            }
            match attribute {
                "hidden" | "style" => sight.take(attribute, value),
                "start" | "value" if counts => number = value.trim().parse().ok(),
                "name" | "property" | "itemprop" if is_meta => said_of = member_of(value),
                // A header that the page brings itself: `X-Robots-Tag`.
                "http-equiv" if is_meta && publish::is_sign(value.trim()) => {
                    said_of = Some(value.trim().to_ascii_lowercase());
                }
                "rel" if is_link => {
                    let mut words = value.split_whitespace();
                    let names_page = words.any(|word| word.eq_ignore_ascii_case("canonical"));
                    said_of = names_page.then(|| "url".to_owned());
                }
                "href" if is_link => each_stretch(value, |stretch| content.push_str(stretch)),
                "content" if is_meta => each_stretch(value, |stretch| content.push_str(stretch)),
                "role" => surrounds |= ROLES.contains(&value.trim()),
                "class" | "id" if may_surround && names_surroundings(value) => {
                    surrounds = true;
                    published |= is_time && says_published(value);
                }
                "datetime" if is_time => time = Some(value.trim().to_owned()),
                "pubdate" if is_time => published = true,
                "itemprop" | "class" if is_time => published |= says_published(value),
                mark if is_whole && keeps_page_here(mark, value) => {
                    (said_of, content) = (Some(LOCAL_ONLY.to_owned()), "true".to_owned());
                }
                mark if is_whole && is_mark_of_page(mark, value) => {
                    (said_of, content) = (Some("private".to_owned()), "true".to_owned());
                }
                "type" if is_script => {
                    // Parameters may stand behind the type.
                    let kind = value.split(';').next().unwrap_or(value);
                    is_json_ld = kind.trim().eq_ignore_ascii_case("application/ld+json")
                }
                _ => {}
            }
        })?;
        // Only elements of SVG and MathML can end themselves.
        let is_empty = matches!(&*name, "svg" | "math") && rest[..end].ends_with("/>");
        let content = content.trim();
        let meta = said_of.filter(|_| !content.is_empty()).map(|name| (name, content.to_owned()));
        let time = time.filter(|time| !time.is_empty()).map(|time| (time, published));
        let surrounds = surrounds && may_surround;
        Some(Start {
            name,
            sight,
            number,
            is_empty,
            meta,
            time,
            is_json_ld,
            names_author,
            surrounds,
            end,
        })
    }
}

/// Whether an attribute of an element around the whole page says that it is private: `data-private="true"`.
fn is_mark_of_page(attribute: &str, value: &str) -> bool {
    let name = attribute.strip_prefix("data-");
    name.is_some_and(|name| publish::is_plain_mark(name, &value.into()))
}

/// The same for a page that stays on this machine: `data-local-only`.
fn keeps_page_here(attribute: &str, value: &str) -> bool {
    attribute.strip_prefix("data-").is_some_and(|name| local_only_by_line(name, value))
}

/// The member that a `meta` element stands for; `None` for those that say nothing about the text.
fn member_of(name: &str) -> Option<String> {
    let name = name.trim().to_ascii_lowercase();
    let known = match name.as_str() {
        "author" | "article:author" | "dc.creator" | "dcterms.creator" => "author",
        "date" | "article:published_time" | "dc.date" | "dcterms.date" | "dcterms.created" => {
            "date"
        }
        "keywords" => "keywords",
        "og:url" => "url",
        other => {
            let bare = other.rsplit([':', '.']).next().unwrap_or(other);
            if publish::is_sign(bare) || names_local_only(bare) {
                return Some(bare.to_owned());
            }
            let last = other.rsplit([':', '.', '-', '_']).next().unwrap_or(other);
            if publish::names_labels(last) {
                return Some(KEY_WORDS.to_owned());
            }
            return names_writer(last).then(|| PERSON.to_owned());
        }
    };
    Some(known.to_owned())
}

/// What a `meta` element stands for that names somebody who wrote the page.
const PERSON: &str = "person";

/// What a `meta` element stands for whose words only rules about data read: `news_keywords`.
const KEY_WORDS: &str = "key_words";

fn is_address(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

/// Whether a word is one for who wrote a text or a part of it.
fn names_writer(word: &str) -> bool {
    word == "byl"
        || matches!(naming(word), Some(Naming::Label | Naming::Column | Naming::Part))
            && word != "by"
}

/// Whether an attribute says that its element names who wrote the page: `rel=author`, `itemprop=author`, a class such as
/// `p-author`, `byline` or `fn`.
fn says_author(attribute: &str, value: &str) -> Option<bool> {
    let words: Vec<String> = value.split_whitespace().map(str::to_ascii_lowercase).collect();
    match attribute {
        "rel" | "itemprop" if words.iter().any(|word| word == "author") => Some(true),
        "rel" | "itemprop" => words.iter().any(|word| names_writer(word)).then_some(false),
        "class" => {
            let is_one = |part: &str| matches!(part, "author" | "authors" | "byline");
            // `fn` is the whole name in the card of somebody.
            let names = |word: &String| word == "fn" || word.split(['-', '_']).any(is_one);
            words.iter().any(names).then_some(false)
        }
        _ => None,
    }
}

/// The name in an element whose source is `rest`, without the word before it: `By Ana Ruiz`. Microdata may have it in an
/// attribute.
fn named_in(element: &str, rest: &str) -> Option<String> {
    let rest = prefix(rest, NAME_BYTES_MAX);
    let ends = |at: &usize| {
        let tail = &rest.as_bytes()[at + 2..];
        tail.get(..element.len()).is_some_and(|name| name.eq_ignore_ascii_case(element.as_bytes()))
    };
    let end = rest.match_indices("</").map(|(at, _)| at).find(ends)?;
    let (mut left, mut text, mut content) = (&rest[..end], String::new(), None);
    while let Some(at) = left.find('<') {
        each_stretch(&left[..at], |stretch| text.push_str(stretch));
        text.push(' ');
        let (mut is_name, mut value_of) = (false, None);
        let tag = &left[at..];
        let is_tag = tag.as_bytes().get(1).is_some_and(u8::is_ascii_alphabetic);
        let (_, named) = name_of(tag, 1);
        let scanned = is_tag.then(|| {
            tag::scan(tag, named, |attribute, value| match attribute {
                "itemprop" => is_name |= value.trim() == "name",
                "content" => value_of = Some(unescape(value)),
                _ => {}
            })
        });
        content = content.or(value_of.filter(|_| is_name));
        let end = scanned.flatten().or_else(|| tag.find('>').map(|end| end + 1));
        left = end.map_or("", |end| &tag[end..]);
    }
    each_stretch(left, |stretch| text.push_str(stretch));
    let name = text.split(['·', '|', '•', '–', '—']).next().unwrap_or_default();
    let mut words: Vec<&str> = name.split_whitespace().collect();
    if words.first().is_some_and(|first| naming(first) == Some(Naming::Label)) {
        words.remove(0);
    }
    let is_name = (1..=NAME_WORDS_MAX).contains(&words.len());
    content.or_else(|| is_name.then(|| words.join(" "))).filter(|name| !name.trim().is_empty())
}

/// Everybody whom JSON-LD names as one who wrote something. Somebody may be named only by the id of another node.
fn people_in(value: &Value, people: &mut Vec<(String, bool)>) {
    let (mut seen, mut referred) = (Vec::new(), Vec::new());
    each_person(value, 0, &mut seen, &mut referred, people);
    for id in referred {
        let named = seen.iter().filter(|(known, _)| *known == id);
        people.extend(named.map(|(_, name)| (name.clone(), true)));
    }
}

fn each_person(
    value: &Value,
    depth: usize,
    seen: &mut Vec<(String, String)>,
    referred: &mut Vec<String>,
    people: &mut Vec<(String, bool)>,
) {
    if depth > JSON_LD_DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(object) => {
            let id = object.get("@id").and_then(Value::as_str);
            let name = name_of_person(value);
            seen.extend(id.zip(name).map(|(id, name)| (id.to_owned(), name)));
            for (name, inner) in object {
                if names_people(name) {
                    people.extend(names_of(inner).into_iter().map(|one| (one, name == "author")));
                    let one = std::slice::from_ref(inner);
                    let all = inner.as_array().map_or(one, Vec::as_slice);
                    let ids = all.iter().filter_map(|one| one.get("@id")?.as_str());
                    referred.extend(ids.map(str::to_owned));
                }
                each_person(inner, depth + 1, seen, referred, people);
            }
        }
        Value::Array(list) => {
            list.iter().for_each(|one| each_person(one, depth + 1, seen, referred, people));
        }
        _ => {}
    }
}

/// Whether JSON-LD says of the page that it is private.
fn is_private(value: &Value) -> bool {
    match value {
        Value::Object(object) => {
            let mut own = object.clone();
            let graph = own.remove("@graph");
            publish::any_declared(&own, &mut |one| one.says_no() && !is_subject(one))
                || graph.as_ref().and_then(Value::as_array).is_some_and(|nodes| {
                    let flat = |node: &&Value| node.get("@graph").is_none();
                    nodes.iter().filter(flat).any(is_private)
                })
        }
        Value::Array(list) => list.iter().any(is_private),
        _ => false,
    }
}

/// Whether key words are about the subject of a page: the draft of a league is no draft.
fn is_subject(one: &publish::Declared<'_>) -> bool {
    publish::names_labels(one.name) && one.value.to_string().to_lowercase().contains("draft")
}

/// Whether the names of an element say that it surrounds the article: `share-bar`, `site-nav`. Names of
/// three parts and more are about layout: `content-with-sidebar`.
fn names_surroundings(value: &str) -> bool {
    value.split_whitespace().any(|name| {
        let name = name.to_ascii_lowercase();
        let parts: Vec<&str> = name.split(['-', '_']).filter(|part| !part.is_empty()).collect();
        let is_state = parts.first().is_some_and(|first| STATES.contains(first));
        parts.len() <= 2 && !is_state && parts.iter().any(|part| SURROUNDINGS.contains(part))
    })
}

/// Whether a class or a property of a `time` element says that the page was published then.
fn says_published(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    ["publish", "entry-date", "posted"].iter().any(|word| value.contains(word))
}

/// The first date of publication in JSON-LD.
fn date_published(value: &Value, depth: usize) -> Option<String> {
    let inner = |value| date_published(value, depth + 1);
    match value {
        _ if depth > JSON_LD_DEPTH_MAX => None,
        Value::Object(object) => match &object.get("datePublished") {
            Some(Value::String(date)) => Some(date.trim().to_owned()),
            _ => object.values().find_map(inner),
        },
        Value::Array(list) => list.iter().find_map(inner),
        _ => None,
    }
}

/// The break before and after an element that does nothing else.
fn breaks_of(shown: Shown) -> Break {
    match shown {
        Shown::Inline | Shown::Cell | Shown::Not | Shown::Raw => Break::None,
        Shown::Choices => Break::Space,
        Shown::Break | Shown::Line | Shown::Row | Shown::Item => Break::Line,
        _ => Break::Paragraph,
    }
}

/// Name of a tag in lower case, and where it ends.
fn name_of(rest: &str, from: usize) -> (Cow<'_, str>, usize) {
    let body = &rest[from..];
    let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>');
    let name = &body[..body.find(is_end).unwrap_or(body.len())];
    let named = from + name.len();
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return (Cow::Owned(name.to_ascii_lowercase()), named);
    }
    (Cow::Borrowed(name), named)
}

/// Past a comment, a declaration or what a browser takes for a comment.
fn comment_end(rest: &str) -> Option<usize> {
    let Some(body) = rest.strip_prefix("<!--") else {
        return rest.find('>').map(|end| end + 1);
    };
    for empty in [">", "->"] {
        if body.starts_with(empty) {
            return Some(4 + empty.len());
        }
    }
    body.find("-->").map(|end| end + 7)
}

/// Bytes up to the end tag of an element that holds no markup.
fn raw_end(rest: &str, name: &str) -> usize {
    let ends = |at: &usize| {
        let body = &rest.as_bytes()[at + 2..];
        let same =
            body.get(..name.len()).is_some_and(|said| said.eq_ignore_ascii_case(name.as_bytes()));
        let after = body.get(name.len());
        same && after.is_some_and(|c| c.is_ascii_whitespace() || matches!(c, b'/' | b'>'))
    };
    rest.match_indices("</").map(|(at, _)| at).find(ends).unwrap_or(rest.len())
}

/// A text with its references replaced by their characters: `&amp;` is `&`.
pub(crate) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    each_stretch(text, |stretch| plain.push_str(stretch));
    plain
}

/// The text between references and the characters of the references, in order.
fn each_stretch(text: &str, mut take: impl FnMut(&str)) {
    let mut from = 0;
    let mut at = 0;
    while let Some(length) = text[at..].find('&') {
        at += length;
        let Some(found) = entities::read(&text[at..]) else {
            at += 1;
            continue;
        };
        take(&text[from..at]);
        for character in [Some(found.first), found.second].into_iter().flatten() {
            take(character.encode_utf8(&mut [0; 4]));
        }
        at += found.bytes;
        from = at;
    }
    take(&text[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_any_bytes_ends() {
        for source in [
            "<p",
            "<p <p",
            "</",
            "</p",
            "<!--",
            "<![CDATA[",
            "<a href=",
            "<a href='x",
            "&#;",
            "<",
            "<td><tr></td>",
            "<ol><li>a<ol><li>b",
            "</table></td>",
            "<script>",
            "<title>",
            "<pre><pre>`",
            "<li hidden>",
            "<table><table>",
            "é<é>",
            "<a é='ü'>",
        ] {
            page(source);
            page(&source.repeat(300));
        }
    }

    #[test]
    fn a_comment_before_the_first_word_can_say_that_a_page_is_private() {
        let says_no = |source: &str| publish::said_by_members(&page(source).members) == Some(false);
        for source in [
            "<html><head><title>Roof</title><!-- draft: true --></head><body><p>Text</body></html>",
            "<html><body><!-- publish: no --><p>Text",
            "<!doctype html><!-- private: yes\n--><p>Text",
            "<head>\n<!--\nlang: en\nvisibility: private\n-->\n</head><p>Text",
            "<body><script>x</script><div><!-- Draft: yes --><h1>Roof</h1>",
        ] {
            assert!(says_no(source), "{source}");
        }
        for source in [
            "<body><p>Text<!-- draft: true -->",
            "<body><!-- publish: yes --><p>Text",
            "<body><!-- private: the garden of Ana --><p>Text",
            "<body><!-- [if IE]: 9 --><p>draft: true",
        ] {
            assert!(!says_no(source), "{source}");
        }
    }

    #[test]
    fn an_article_is_read_without_its_surroundings() {
        let words =
            "The council voted to turn three streets into bike streets from the first of June on.";
        let source = format!(
            "<body class='has-sidebar'><nav>Home</nav><div class=cookie-banner role=dialog>We value your privacy</div>\
             <main class='content-with-sidebar'><h1>News</h1><div class=share-bar>Share</div><p>{words}</p>\
             <aside>Ten cafes</aside></main><div id=footer>Imprint</div></body>"
        );
        assert_eq!(article(&source).text, format!("# News\n\n{words}"));
        assert!(page(&source).text.contains("Imprint"));
        let menu = "<nav><a>One</a> <a>Two</a></nav>";
        assert_eq!(article(menu).text, page(menu).text, "a page that is only a menu is read whole");
    }

    #[test]
    fn the_title_is_the_first_and_not_a_drawing() {
        let title = |source: &str| page(source).title;
        assert_eq!(title("<TITLE lang=en>\n A\n &amp; b </TITLE>").as_deref(), Some("A & b"));
        assert_eq!(title("<svg><title>x</title></svg><title>y</title>").as_deref(), Some("y"));
        assert_eq!(title("<title>"), None);
    }

    #[test]
    fn time_grows_with_the_length_of_the_page() {
        for part in ["<div>", "<p hidden>", "<b></i>", "<pre>`", "<table><tr><td>", "<li>x", "&a"] {
            let source = part.repeat((1 << 20) / part.len());
            page(&source);
        }
    }
}
