//! XML from strangers, parsed within bounds.
//!
//! Contract: memory and time follow the length of the text. The parser expands an entity each time it is named,
//! compares each attribute of an element with the others, and gives each element the namespaces of the elements
//! around it. So a short text could ask for very much; one that does is refused before it is parsed.
//!
//! See docs/adr/0138-small-files-that-ask-for-much.md.

use std::collections::{HashMap, HashSet};

use roxmltree::{Document as Xml, ParsingOptions};

/// Most nodes of one text.
const NODES_MAX: u32 = 2_000_000;
/// The deepest element. Readers walk down a tree by recursion, and a stack is small.
pub(super) const DEPTH_MAX: usize = 256;
/// Most attributes of one element.
const ATTRIBUTES_MAX: usize = 512;
/// Most names of namespaces in one text.
const NAMESPACES_MAX: usize = 512;
/// Most entities that a text declares. HTML has 252.
const ENTITIES_MAX: usize = 300;
/// Entities within entities within entities.
const ENTITY_DEPTH_MAX: usize = 10;
/// Most bytes that all entities of a text expand to.
const EXPANDED_BYTES_MAX: u64 = 16 << 20;
/// The work that an entity without bytes takes, as bytes.
const ENTITY_BYTES: u64 = 16;

const GROWS: &str = "its XML grows without measure when it is read";

/// The values that a text declares for each name.
type Entities<'a> = HashMap<&'a str, Vec<&'a str>>;

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Xml<'_>, String> {
    is_bounded(text)?;
    let options = ParsingOptions { allow_dtd: true, nodes_limit: NODES_MAX, ..Default::default() };
    let parsed = Xml::parse_with_options(text, options);
    let parsed = parsed.map_err(|error| format!("its XML is damaged: {error}"))?;
    match is_deeper_than(DEPTH_MAX, &parsed) {
        true => Err(format!("its XML has more than {DEPTH_MAX} elements within one another")),
        false => Ok(parsed),
    }
}

fn is_deeper_than(most: usize, parsed: &Xml<'_>) -> bool {
    // The nodes come in the order of the text, so what lies around one is still open.
    let mut open = Vec::new();
    parsed.root().descendants().any(|node| {
        while open.last().is_some_and(|around| Some(*around) != node.parent()) {
            open.pop();
        }
        open.push(node);
        open.len() > most + 1
    })
}

/// Whether the work of a parser follows the length of a text; else why not.
fn is_bounded(text: &str) -> Result<(), String> {
    let mut names = HashSet::new();
    for name in text.split("xmlns:").skip(1).map(|rest| rest.split('=').next().unwrap_or_default())
    {
        if names.insert(name) && names.len() > NAMESPACES_MAX {
            return Err(format!("its XML names more than {NAMESPACES_MAX} namespaces"));
        }
    }
    let entities = entities(text)?;
    for part in entities.values().flatten().copied().chain([text]) {
        if most_attributes(part) > ATTRIBUTES_MAX {
            return Err(format!(
                "its XML has an element with more than {ATTRIBUTES_MAX} attributes"
            ));
        }
    }
    if !entities.is_empty() && expanded(text, &entities) > EXPANDED_BYTES_MAX {
        return Err(GROWS.to_owned());
    }
    Ok(())
}

/// The most attributes of an element.
fn most_attributes(text: &str) -> usize {
    let (mut most, mut rest) = (0, text);
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let sections = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
        let section = sections.iter().find(|(begin, _)| rest.starts_with(begin));
        if let Some((begin, end)) = section {
            let Some(length) = rest[begin.len()..].find(end) else { return most };
            rest = &rest[begin.len() + length + end.len()..];
            continue;
        }
        let mut attributes = 0;
        rest = &rest[1..];
        // A tag ends outside of quotes.
        while let Some(at) = rest.find(['"', '\'', '>']) {
            let sign = &rest[at..=at];
            rest = &rest[at + 1..];
            if sign == ">" {
                break;
            }
            attributes += 1;
            let Some(end) = rest.find(sign) else { return most.max(attributes) };
            rest = &rest[end + 1..];
        }
        most = most.max(attributes);
    }
    most
}

/// The entities that a text declares, each with its values. What looks like a declaration within a comment or a value
/// counts too: this is a bound.
fn entities(text: &str) -> Result<Entities<'_>, String> {
    let (mut found, mut bytes) = (Entities::new(), 0);
    for (count, (at, begin)) in text.match_indices("<!ENTITY").enumerate() {
        if count == ENTITIES_MAX {
            return Err(format!("its XML declares more than {ENTITIES_MAX} entities"));
        }
        let declared = text[at + begin.len()..].trim_start();
        let Some((name, rest)) = declared.split_once(char::is_whitespace) else { continue };
        let rest = rest.trim_start();
        let Some(quote) = rest.chars().next().filter(|sign| "\"'".contains(*sign)) else {
            continue;
        };
        let value = rest[1..].split(quote).next().unwrap_or_default();
        found.entry(name).or_default().push(value);
        bytes += value.len();
        if bytes as u64 > EXPANDED_BYTES_MAX {
            return Err(GROWS.to_owned());
        }
    }
    Ok(found)
}

/// The names of the entities that a text holds.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split('&').skip(1).filter_map(|rest| {
        let name = rest.split_once(';')?.0;
        (!name.contains(char::is_whitespace)).then_some(name)
    })
}

/// The bytes that all entities in a text become, with the work that they take.
fn expanded(text: &str, entities: &Entities<'_>) -> u64 {
    let mut known = HashMap::new();
    let sizes = named(text).map(|name| size_of(name, entities, &mut known, 0));
    sizes.fold(0, u64::saturating_add)
}

fn size_of<'a>(
    name: &'a str,
    entities: &Entities<'a>,
    known: &mut HashMap<&'a str, u64>,
    depth: usize,
) -> u64 {
    let Some(values) = entities.get(name) else { return 0 };
    if let Some(size) = known.get(name) {
        return *size;
    }
    if depth > ENTITY_DEPTH_MAX {
        return u64::MAX;
    }
    let mut size = ENTITY_BYTES;
    for value in values {
        size = size.saturating_add(value.len() as u64);
        for inner in named(value) {
            size = size.saturating_add(size_of(inner, entities, known, depth + 1));
        }
    }
    known.insert(name, size);
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_ends_in_the_middle_is_damaged() {
        for text in [
            "",
            "<",
            "<a",
            "<a b",
            "<a b='",
            "<a b='c",
            "<!--",
            "<![CDATA[",
            "<?x",
            "<!DOCTYPE a [<!ENTITY",
        ] {
            assert!(parse(text).map(drop).unwrap_err().contains("damaged"), "{text}");
        }
        for end in 0..40 {
            assert!(parse(&"<!DOCTYPE a [<!ENTITY e 'x'>]><a b='&e;'>"[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn a_text_that_asks_for_very_much_is_refused_before_it_is_parsed() {
        let many =
            |count: usize, of: &dyn Fn(usize) -> String| -> String { (0..count).map(of).collect() };
        let attributes = |count| format!("<a {}/>", many(count, &|at| format!(" a{at}='>'")));
        let namespaces =
            |count| format!("<a>{}</a>", many(count, &|at| format!("<b xmlns:n{at}='u{at}'/>")));
        let entities = |count| {
            format!("<!DOCTYPE a [{}]><a/>", many(count, &|at| format!("<!ENTITY e{at} ''>")))
        };
        let long = "x".repeat(100_000);
        let repeated =
            |count| format!("<!DOCTYPE a [<!ENTITY e '{long}'>]><a>{}</a>", "&e;".repeat(count));
        let nested = |count: usize| {
            let inner = many(count, &|at| format!("<!ENTITY e{} '&e{at};&e{at};'>", at + 1));
            format!("<!DOCTYPE a [<!ENTITY e0 'x'>{inner}]><a>&e{count};</a>")
        };
        for (text, why) in [
            (attributes(ATTRIBUTES_MAX + 1), "attributes"),
            (format!("<!DOCTYPE a [<!ENTITY e \"{}\">]><a>&e;</a>", attributes(600)), "attributes"),
            (namespaces(NAMESPACES_MAX + 1), "namespaces"),
            (entities(ENTITIES_MAX + 1), "entities"),
            (repeated(200), "without measure"),
            (nested(40), "without measure"),
            // A comment hides no declaration.
            (
                repeated(200).replace("[<!E", "[<!-- <!ENTITY z \" --><!ENTITY e ''><!E"),
                "without measure",
            ),
            ("<a>".repeat(300) + &"</a>".repeat(300), "256 elements"),
        ] {
            let refused = parse(&text).map(drop).unwrap_err();
            assert!(refused.contains(why), "{why}: {refused}");
        }
        for text in [
            attributes(ATTRIBUTES_MAX),
            namespaces(NAMESPACES_MAX),
            entities(ENTITIES_MAX),
            repeated(100),
            nested(6),
            format!("<a><![CDATA[<b {}>]]></a>", "c='d' ".repeat(1000)),
            format!("<a><!-- it's {} --></a>", "c='d' ".repeat(1000)),
            "<a>".repeat(200) + &"</a>".repeat(200),
            "<a>1 &lt; 2</a>".to_owned(),
        ] {
            assert_eq!(parse(&text).map(drop), Ok(()), "{}", &text[..text.len().min(200)]);
        }
    }
}
