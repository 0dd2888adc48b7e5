//! The elements of HTML: which names there are and what each does to the text around it.

/// What an element does to the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    /// Nothing: its text runs on.
    Inline,
    /// `br`
    Break,
    /// Begins and ends a paragraph.
    Block,
    /// A heading of a level.
    Heading(usize),
    List,
    /// An item of a list.
    Item,
    /// A row of a table.
    Row,
    /// A cell of a row.
    Cell,
    /// Quoted text.
    Quotation,
    /// Text whose lines are lines.
    Preformatted,
    Anchor,
    /// Never shown.
    Hidden,
    /// Shown, but no text: menus and controls.
    Navigation,
    /// A control of a form and what names it: its text stands alone.
    Control,
}

const INLINE: &str = " abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd mark q ruby rt rp s \
samp small span strike strong sub sup time tt u var wbr img map area picture source track audio video canvas param embed link meta base \
col colgroup nobr ";
const BLOCK: &str = " address article aside body caption center dd details dialog dir div dl dt fieldset figcaption figure footer form header \
hgroup hr html legend main p section summary table tbody tfoot thead ";
const HIDDEN: &str =
    " script style noscript template svg math iframe object applet frameset textarea datalist ";
const NAVIGATION: &str = " nav menu button select option optgroup ";
const CONTROL: &str = " label meter output progress input ";
const VOID: &str = " area base col embed img input link meta param source track ";
/// Names that mean nothing else, so that they need neither attributes nor an end.
const ALONE: &str = " br hr wbr ";
const OPEN: &str = " p li td tr th dd dt tbody thead tfoot h1 h2 h3 h4 h5 h6 html body div ";

/// What the element of a lower-case name does.
pub(crate) fn element(name: &str) -> Element {
    match name {
        "br" => Element::Break,
        "title" => Element::Heading(1),
        "h1" => Element::Heading(1),
        "h2" => Element::Heading(2),
        "h3" => Element::Heading(3),
        "h4" => Element::Heading(4),
        "h5" => Element::Heading(5),
        "h6" => Element::Heading(6),
        "ul" | "ol" => Element::List,
        "li" => Element::Item,
        "tr" => Element::Row,
        "td" | "th" => Element::Cell,
        "blockquote" => Element::Quotation,
        "pre" => Element::Preformatted,
        "a" => Element::Anchor,
        _ if says(HIDDEN, name) => Element::Hidden,
        _ if says(NAVIGATION, name) => Element::Navigation,
        _ if says(CONTROL, name) => Element::Control,
        _ if says(INLINE, name) => Element::Inline,
        _ => Element::Block,
    }
}

/// Whether HTML, or a mail program's dialect of it, has the element.
pub(crate) fn is_known(name: &str) -> bool {
    let office = name.starts_with("o:") || name.starts_with("v:") || name.starts_with("w:");
    office
        || name.contains('-')
        || matches!(name, "head" | "blink" | "marquee")
        || !matches!(element(name), Element::Block)
        || says(BLOCK, name)
}

/// Whether the name alone, without attributes or an end, is a tag.
pub(crate) fn stands_alone(name: &str) -> bool {
    says(ALONE, name)
}

/// Whether the element has no end tag.
pub(crate) fn is_void(name: &str) -> bool {
    says(VOID, name)
}

/// Whether the end tag is commonly left out.
pub(crate) fn may_stay_open(name: &str) -> bool {
    says(OPEN, name)
}

/// Where the last end tag of a name stands.
pub(crate) fn last_closing(source: &str, name: &str) -> Option<usize> {
    source.rmatch_indices("</").map(|(at, _)| at).find(|at| {
        let body = &source[at + 2..];
        body.get(..name.len()).is_some_and(|said| said.eq_ignore_ascii_case(name))
            && body[name.len()..].trim_start().starts_with('>')
    })
}

/// Whether a start tag of a name stands anywhere.
pub(crate) fn has_opening_tag(source: &str, name: &str) -> bool {
    source.match_indices('<').any(|(at, _)| {
        let body = &source[at + 1..];
        body.get(..name.len()).is_some_and(|said| said.eq_ignore_ascii_case(name))
            && !body[name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric())
    })
}

/// Whether the text closes an element of HTML somewhere.
pub(crate) fn has_closing_tag(text: &str) -> bool {
    text.match_indices("</").any(|(at, _)| {
        let body = &text[at + 2..];
        let named = body.bytes().take_while(u8::is_ascii_alphanumeric).count();
        body[named..].starts_with('>') && is_known(&body[..named].to_ascii_lowercase())
    })
}

fn says(list: &str, name: &str) -> bool {
    list.split(' ').any(|one| one == name && !name.is_empty())
}

/// What a browser shows of an element of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Inline,
    Break,
    /// Begins and ends a line.
    Line,
    /// Begins and ends a paragraph.
    Paragraph,
    Heading(usize),
    List {
        ordered: bool,
    },
    Item,
    Quote,
    Code,
    Table,
    Row,
    Cell,
    /// A control that holds choices. It stands in its line and ends what is in it.
    Choices,
    /// The element and all in it is left out.
    Not,
    /// As `Not`, and its content is not markup.
    Raw,
}

/// What a browser shows of the element of a lower-case name.
pub(super) fn shown(name: &str) -> Shown {
    match name {
        "br" => Shown::Break,
        "script" | "style" | "title" | "textarea" | "iframe" | "noembed" | "noframes" | "xmp" => {
            Shown::Raw
        }
        "template" | "noscript" | "svg" | "object" | "audio" | "video" | "canvas" | "datalist"
        | "annotation" | "annotation-xml" => Shown::Not,
        "h1" => Shown::Heading(1),
        "h2" => Shown::Heading(2),
        "h3" => Shown::Heading(3),
        "h4" => Shown::Heading(4),
        "h5" => Shown::Heading(5),
        "h6" => Shown::Heading(6),
        "ol" => Shown::List { ordered: true },
        "ul" | "menu" | "dir" => Shown::List { ordered: false },
        "li" => Shown::Item,
        "blockquote" => Shown::Quote,
        "pre" | "listing" => Shown::Code,
        "table" => Shown::Table,
        "tr" => Shown::Row,
        "td" | "th" => Shown::Cell,
        "select" => Shown::Choices,
        "address" | "article" | "aside" | "details" | "dialog" | "dl" | "fieldset" | "figure"
        | "footer" | "form" | "header" | "hgroup" | "hr" | "main" | "nav" | "p" | "search"
        | "section" => Shown::Paragraph,
        "body" | "caption" | "center" | "dd" | "div" | "dt" | "figcaption" | "head" | "html"
        | "legend" | "optgroup" | "option" | "summary" | "tbody" | "tfoot" | "thead" => Shown::Line,
        _ => Shown::Inline,
    }
}

/// Whether an element in a line stands apart from the words beside it: a control of a form, or something
/// that is shown and is no text.
pub(super) fn stands_apart(name: &str) -> bool {
    matches!(
        name,
        "audio"
            | "button"
            | "canvas"
            | "embed"
            | "iframe"
            | "img"
            | "input"
            | "label"
            | "meter"
            | "object"
            | "output"
            | "progress"
            | "select"
            | "svg"
            | "textarea"
            | "video"
    )
}

/// Whether the element can hold nothing.
pub(super) fn is_empty(name: &str) -> bool {
    is_void(name) || stands_alone(name)
}

/// Whether the element stands directly in a table.
pub(super) fn is_table_part(name: &str) -> bool {
    matches!(name, "thead" | "tbody" | "tfoot" | "caption")
}
