//! The text of docx and epub files: zip archives with XML or pages inside.

use std::collections::HashMap;

use roxmltree::{Document as Xml, Node};
use serde_json::{Map, Value};

use super::archive::{Archive, ArchiveError};
use super::head;
use super::xml::parse as xml;
use crate::contract::publish::said_by_member;
use crate::markup::document::Document;
use crate::markup::marks::Marks;
use crate::markup::members::add_people;
use crate::markup::{html, markdown};

/// Reads a docx file: paragraphs, headings, list items, tables, notes and comments.
pub(super) fn docx(bytes: &[u8]) -> Result<Document, String> {
    let archive = Archive::open(bytes).map_err(|error| error.to_string())?;
    let part = |name: &str| -> Result<String, String> {
        let bytes = archive.read(name).map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8"))
    };
    // What a document may lack. One that is too large is refused as a whole.
    let beside = |name: &str| match archive.read(name) {
        Err(error @ ArchiveError::TooLarge(_)) => Err(error.to_string()),
        read => Ok(read.ok().and_then(|bytes| String::from_utf8(bytes).ok())),
    };
    let main = part("word/document.xml")?;
    let main = xml(&main)?;
    let mut out = String::new();
    if let Some(body) = main.descendants().find(|node| is(node, "body")) {
        blocks(body, &mut out);
    }
    for (name, element) in [("word/footnotes.xml", "footnote"), ("word/endnotes.xml", "endnote")] {
        let Some(notes) = beside(name)? else { continue };
        let Ok(notes) = xml(&notes) else { continue };
        // The first notes are the separator lines above the notes.
        let real = notes.descendants().filter(|node| is(node, element));
        for note in real.filter(|note| attribute(*note, "type").is_none()) {
            blocks(note, &mut out);
        }
    }
    let mut commented_by = Vec::new();
    if let Some(comments) = beside("word/comments.xml")? {
        commented_by = comments_of(&xml(&comments)?, &mut out);
    }
    let core = beside("docProps/core.xml")?;
    let core = core.as_deref().and_then(|text| xml(text).ok());
    let said = |name: &str| {
        let core = core.as_ref()?;
        let node = core.descendants().find(|node| is(node, name))?;
        Some(node.text()?.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let title = said("title").or_else(|| first_heading(&out));
    let mut members = author(said("creator"));
    add_people(&mut members, commented_by.into_iter().chain(said("lastModifiedBy")));
    let mut marks = Marks::default();
    marks.members(&marks_of(core.as_ref(), part("docProps/custom.xml").ok()));
    let publish = marks.publish;
    marks.keep_in(&mut members);
    Ok(Document {
        kind: "docx",
        text: out.trim_end().to_owned(),
        title,
        date: said("modified").or_else(|| said("created")),
        publish,
        members,
        ..Document::default()
    })
}

/// What readers wrote beside the text, each comment with the name of who wrote it. Returns these names.
fn comments_of(comments: &Xml<'_>, out: &mut String) -> Vec<String> {
    let mut people = Vec::new();
    for comment in comments.descendants().filter(|node| is(node, "comment")) {
        let mut text = String::new();
        blocks(comment, &mut text);
        let text = text.trim();
        let author = attribute(comment, "author").map(str::trim).filter(|name| !name.is_empty());
        let by = author.map(|name| format!(" by {name}")).unwrap_or_default();
        if !text.is_empty() {
            out.push_str(&format!("[Comment{by}] {text}\n\n"));
            people.extend(author.map(str::to_owned));
        }
    }
    people
}

/// What the properties of a file say of it: its key words, its category, its state, and those that a person added.
fn marks_of(core: Option<&Xml<'_>>, custom: Option<String>) -> Map<String, Value> {
    let text_of = |node: Node<'_, '_>| -> Value {
        let texts = node.descendants().filter(Node::is_text).filter_map(|text| text.text());
        texts.collect::<String>().trim().into()
    };
    let mut found = Map::new();
    for (property, name) in [
        ("keywords", "keywords"),
        ("category", "category"),
        ("contentStatus", "status"),
        ("subject", "subject"),
    ] {
        let node = core.and_then(|core| core.descendants().find(|node| is(node, property)));
        found.extend(node.map(|node| (name.to_owned(), text_of(node))));
    }
    if let Some(custom) = custom
        && let Ok(custom) = xml(&custom)
    {
        let added = custom.descendants().filter(|node| is(node, "property"));
        found.extend(
            added.filter_map(|node| Some((attribute(node, "name")?.to_owned(), text_of(node)))),
        );
    }
    found
}

fn is(node: &Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}

/// An attribute, whatever its namespace.
fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.attributes().find(|one| one.name() == name).map(|one| one.value())
}

/// The author, under the name that front matter has for one.
fn author(name: Option<String>) -> Map<String, Value> {
    name.into_iter().map(|name| ("author".to_owned(), name.into())).collect()
}

fn first_heading(text: &str) -> Option<String> {
    let first = markdown::headings(text).into_iter().find(|heading| heading.level == 1)?;
    Some(first.title.to_owned())
}

/// Paragraphs and tables below a node, in order. What was deleted under tracked changes is left out.
fn blocks(node: Node<'_, '_>, out: &mut String) {
    for child in node.children().filter(Node::is_element) {
        match child.tag_name().name() {
            "p" => paragraph(child, out),
            "tbl" => table(child, out),
            "del" | "moveFrom" => {}
            _ => blocks(child, out),
        }
    }
}

fn paragraph(node: Node<'_, '_>, out: &mut String) {
    let mut text = String::new();
    runs(node, &mut text);
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    let properties = node.children().find(|child| is(child, "pPr"));
    let property = |name: &str| {
        let found = properties?.children().find(|child| is(child, name))?;
        Some(attribute(found, "val").unwrap_or_default().to_owned())
    };
    let is_item = properties.is_some_and(|one| one.children().any(|child| is(&child, "numPr")));
    match heading_level(property("pStyle"), property("outlineLvl")) {
        Some(level) => out.push_str(&format!("{} {text}\n\n", "#".repeat(level))),
        None if is_item => out.push_str(&format!("- {text}\n\n")),
        None => out.push_str(&format!("{text}\n\n")),
    }
}

/// The level of a heading, by its style or its place in the outline.
fn heading_level(style: Option<String>, outline: Option<String>) -> Option<usize> {
    if let Some(level) = outline.and_then(|level| level.parse::<usize>().ok()) {
        return (level < 6).then_some(level + 1);
    }
    let style = style?.to_lowercase();
    if style == "title" {
        return Some(1);
    }
    // Word keeps the English name in most languages; the others begin like the word in theirs.
    let begins = ["heading", "ttulo", "título", "titre", "berschrift", "überschrift", "kop"];
    let digits = begins.iter().find_map(|name| style.strip_prefix(name))?;
    digits.trim().parse::<usize>().ok().filter(|level| (1..=6).contains(level))
}

fn runs(node: Node<'_, '_>, text: &mut String) {
    for child in node.children().filter(Node::is_element) {
        match child.tag_name().name() {
            "t" => text.push_str(child.text().unwrap_or_default()),
            "tab" => text.push(' '),
            "br" | "cr" => text.push('\n'),
            "noBreakHyphen" => text.push('-'),
            "pPr" | "rPr" | "del" | "moveFrom" | "instrText" | "Fallback" => {}
            "r" if is_hidden(child) => {}
            _ => runs(child, text),
        }
    }
}

/// Whether the words of a run are hidden: Word shows and prints none of them.
fn is_hidden(run: Node<'_, '_>) -> bool {
    let properties = run.children().filter(|child| is(child, "rPr"));
    let mut marks = properties.flat_map(|one| one.children()).filter(|one| is(one, "vanish"));
    let is_off = |mark: Node<'_, '_>| {
        let value = mark.attributes().find(|one| one.name() == "val");
        value.is_some_and(|one| matches!(one.value(), "0" | "false" | "off"))
    };
    marks.any(|mark| !is_off(mark))
}

/// A table. Where its first row names the columns, each row below it is a sentence with these names, so that it says the
/// same alone.
fn table(node: Node<'_, '_>, out: &mut String) {
    let cells_of = |row: Node<'_, '_>| -> Vec<String> {
        let cells = row.children().filter(|one| is(one, "tc")).map(|cell| {
            let mut text = String::new();
            blocks(cell, &mut text);
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        cells.collect()
    };
    let mut all: Vec<Vec<String>> = rows(node).into_iter().map(cells_of).collect();
    all.retain(|cells| cells.iter().any(|cell| !cell.is_empty()));
    let lines: Vec<String> = match all.split_first() {
        Some((names, below)) if names_all_columns(names, below) => {
            below.iter().map(|cells| row_sentence(names, cells)).collect()
        }
        _ => all.iter().map(|cells| cells.join(" | ")).collect(),
    };
    lines.iter().for_each(|line| out.push_str(&format!("{line}\n")));
    out.push('\n');
}

/// Whether the first row of a table has a name for each cell below it.
fn names_all_columns(names: &[String], below: &[Vec<String>]) -> bool {
    let has_columns = names.len() > 1 && names.iter().all(|name| !name.is_empty());
    let is_even = below.iter().all(|cells| cells.len() == names.len());
    has_columns && is_even && !below.is_empty() && head::names_columns(names, below)
}

/// A row with the names of its columns: `Item: Roof tiles; Cost: 12000 EUR.`
fn row_sentence(names: &[String], cells: &[String]) -> String {
    let named = names.iter().zip(cells).filter(|(_, cell)| !cell.is_empty());
    let named = named.map(|(name, cell)| format!("{}: {cell}", name.trim_end_matches(':')));
    let named: Vec<String> = named.collect();
    format!("{}.", named.join("; ").trim_end_matches('.'))
}

/// The rows of a table. Those of a table within a cell are part of the cell.
fn rows<'a, 'i>(table: Node<'a, 'i>) -> Vec<Node<'a, 'i>> {
    let (mut rows, mut left) = (Vec::new(), vec![table]);
    while let Some(node) = left.pop() {
        match is(&node, "tr") {
            true => rows.push(node),
            false => left.extend(node.children().rev().filter(Node::is_element)),
        }
    }
    rows
}

/// Reads an epub file: its pages in reading order.
pub(super) fn epub(bytes: &[u8]) -> Result<Document, String> {
    let archive = Archive::open(bytes).map_err(|error| error.to_string())?;
    let part = |name: &str| -> Result<String, String> {
        let bytes = archive.read(name).map_err(|error| format!("{name}: {error}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let container = part("META-INF/container.xml")?;
    let container = xml(&container)?;
    let root = container.descendants().find_map(|node| node.attribute("full-path"));
    let root = root.ok_or("it does not name its package file")?;
    let package = part(root)?;
    let package = xml(&package)?;
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut items = HashMap::new();
    for item in package.descendants().filter(|node| is(node, "item")) {
        items.entry(item.attribute("id")).or_insert(item.attribute("href"));
    }
    let (mut out, mut marks) = (String::new(), Marks::default());
    for page in package.descendants().filter(|node| is(node, "itemref")) {
        let Some(id) = page.attribute("idref") else { continue };
        let Some(href) = items.get(&Some(id)).copied().flatten() else { continue };
        let read = html::page(&part(&entry_name(folder, href))?);
        marks.members(&read.members);
        let text = read.text.trim();
        if !text.is_empty() {
            out.push_str(&format!("{text}\n\n"));
        }
    }
    let said = |name: &str| {
        let node = package.descendants().find(|node| is(node, name))?;
        Some(node.text()?.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let subjects: Vec<Value> = package
        .descendants()
        .filter(|node| is(node, "subject"))
        .filter_map(|node| Some(node.text()?.trim().into()))
        .collect();
    let subjects = Map::from_iter([("keywords".to_owned(), subjects.into())]);
    // `<meta property="private">true</meta>`, or `name` and `content` in older files.
    for node in package.descendants().filter(|node| is(node, "meta")) {
        let name = attribute(node, "property").or_else(|| attribute(node, "name"));
        let name = name.and_then(|name| name.rsplit(':').next()).unwrap_or_default();
        let value = attribute(node, "content").or_else(|| node.text()).unwrap_or_default();
        marks.said(said_by_member(name, &value.trim().into()));
        marks.note(name, value);
    }
    marks.members(&subjects);
    let publish = marks.publish;
    let mut members = author(said("creator"));
    marks.keep_in(&mut members);
    Ok(Document {
        kind: "epub",
        text: out.trim_end().to_owned(),
        title: said("title"),
        date: said("date"),
        publish,
        members,
        ..Document::default()
    })
}

/// The entry that a link names, seen from the folder of the package file.
fn entry_name(folder: &str, href: &str) -> String {
    let href = href.split('#').next().unwrap_or_default();
    let href = percent_encoding::percent_decode_str(href).decode_utf8_lossy();
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in href.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::zip;
    use super::super::xml::DEPTH_MAX;
    use super::*;

    #[test]
    fn a_docx_keeps_headings_lists_tables_and_notes() {
        let body = r#"<?xml version="1.0"?><w:document xmlns:w="w"><w:body>
            <w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Offer</w:t></w:r></w:p>
            <w:p><w:r><w:t xml:space="preserve">The roof costs </w:t></w:r><w:r><w:t>900 EUR.</w:t></w:r>
              <w:del><w:r><w:delText>Old.</w:delText></w:r></w:del></w:p>
            <w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>Hidden.</w:t></w:r></w:p>
            <w:p><w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t>Shown.</w:t></w:r></w:p>
            <w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>Tiles</w:t><w:tab/><w:t>200</w:t></w:r></w:p>
            <w:tbl><w:tr><w:tc><w:p><w:r><w:t>Day</w:t></w:r></w:p></w:tc>
              <w:tc><w:p><w:r><w:t>Price</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
            </w:body></w:document>"#;
        let notes = r#"<w:footnotes xmlns:w="w"><w:footnote w:type="separator"><w:p/></w:footnote>
            <w:footnote><w:p><w:r><w:t>Without tax.</w:t></w:r></w:p></w:footnote></w:footnotes>"#;
        let end = r#"<w:endnotes xmlns:w="w"><w:endnote><w:p><w:r><w:t>At the end.</w:t></w:r></w:p></w:endnote>
            </w:endnotes>"#;
        let comments = r#"<w:comments xmlns:w="w"><w:comment w:id="0" w:author="Ben"><w:p><w:r>
            <w:t>Too dear.</w:t></w:r></w:p></w:comment><w:comment w:id="1" w:author="Al"><w:p/></w:comment></w:comments>"#;
        let core = r#"<c:coreProperties xmlns:c="c" xmlns:dc="dc"><dc:title>Roof offer</dc:title>
            <dc:creator>Ana</dc:creator><c:lastModifiedBy>Ed</c:lastModifiedBy></c:coreProperties>"#;
        let bytes = zip(&[
            ("word/document.xml", body),
            ("word/footnotes.xml", notes),
            ("word/endnotes.xml", end),
            ("word/comments.xml", comments),
            ("docProps/core.xml", core),
        ]);
        let read = docx(&bytes).unwrap();
        assert_eq!(
            read.text,
            "# Offer\n\nThe roof costs 900 EUR.\n\nShown.\n\n- Tiles 200\n\nDay | Price\n\nWithout tax.\n\n\
            At the end.\n\n[Comment by Ben] Too dear."
        );
        assert_eq!(
            (read.title.as_deref(), &read.members["author"]),
            (Some("Roof offer"), &Value::from("Ana"))
        );
        assert_eq!(read.members["said_by"], Value::from(vec!["Ben", "Ed"]));
        assert!(docx(&zip(&[("word/document.xml", "<w:document")])).unwrap_err().contains("XML"));
    }

    #[test]
    fn a_row_of_a_table_says_the_same_alone() {
        let read = |rows: &[&[&str]]| {
            let cell =
                |cell: &&str| format!("<w:tc><w:p><w:r><w:t>{cell}</w:t></w:r></w:p></w:tc>");
            let row = |cells: &&[&str]| {
                format!("<w:tr>{}</w:tr>", cells.iter().map(cell).collect::<String>())
            };
            let rows: String = rows.iter().map(row).collect();
            let body = format!(
                "<w:document xmlns:w='w'><w:body><w:tbl>{rows}</w:tbl></w:body></w:document>"
            );
            docx(&zip(&[("word/document.xml", &body)])).unwrap().text
        };
        let named = read(&[
            &["Item", "Cost"],
            &["Roof tiles", "12000 EUR"],
            &["Gutter", ""],
            &["Work", "4 days."],
        ]);
        assert_eq!(
            named,
            "Item: Roof tiles; Cost: 12000 EUR.\nItem: Gutter.\nItem: Work; Cost: 4 days."
        );
        // Nothing names the columns.
        assert_eq!(read(&[&["Tiles", "12"], &["Wood", "7"]]), "Tiles | 12\nWood | 7");
        assert_eq!(read(&[&["", "Cost"], &["Tiles", "12"]]).trim(), "| Cost\nTiles | 12");
        assert_eq!(read(&[&["Item", "Cost"], &["Together 12"]]), "Item | Cost\nTogether 12");
    }

    /// A stack overflow ends the whole process, and anybody can send such a file.
    #[test]
    fn a_deep_tree_is_refused_and_overflows_no_stack() {
        let deep = |count: usize| {
            let (begin, end) = ("<w:sdt>".repeat(count), "</w:sdt>".repeat(count));
            let inner = "<w:p><w:r><w:t>Text</w:t></w:r></w:p>";
            format!("<w:document xmlns:w='w'><w:body>{begin}{inner}{end}</w:body></w:document>")
        };
        let read = |body: &str| docx(&zip(&[("word/document.xml", body)]));
        assert_eq!(read(&deep(200)).unwrap().text, "Text");
        assert!(read(&deep(200_000)).unwrap_err().contains("256 elements"));
        let flat = "<a>".to_owned() + &"<b><c/></b>".repeat(1_000) + "</a>";
        assert!(xml(&flat).is_ok());
        // The deepest one that is read, in the smallest stack that a thread of the service has.
        let deepest = deep(DEPTH_MAX - 6);
        std::thread::scope(|scope| {
            let small = std::thread::Builder::new().stack_size(1 << 20);
            let read = small.spawn_scoped(scope, || read(&deepest).unwrap().text).unwrap();
            assert_eq!(read.join().unwrap(), "Text");
        });
    }

    #[test]
    fn a_table_within_a_cell_stands_there_once() {
        let mut inner = "<w:p><w:r><w:t>Pump</w:t></w:r></w:p>".to_owned();
        for _ in 0..40 {
            inner = format!("<w:tbl><w:tr><w:tc>{inner}</w:tc></w:tr></w:tbl>");
        }
        let body = format!("<w:document xmlns:w='w'><w:body>{inner}</w:body></w:document>");
        assert_eq!(docx(&zip(&[("word/document.xml", &body)])).unwrap().text, "Pump");
    }

    #[test]
    fn the_properties_of_a_docx_say_that_it_is_private() {
        let body = "<w:document xmlns:w='w'><w:body><w:p><w:r><w:t>Text</w:t></w:r></w:p></w:body></w:document>";
        let core =
            |inner: &str| format!("<c:coreProperties xmlns:c='c'>{inner}</c:coreProperties>");
        let custom = |name: &str, value: &str| {
            format!(
                "<Properties xmlns:vt='v'><property name='{name}'><vt:x>{value}</vt:x></property></Properties>"
            )
        };
        for (core, custom, expected) in [
            (core("<c:keywords>home, private</c:keywords>"), String::new(), Some(false)),
            (core("<c:category>Confidential</c:category>"), String::new(), Some(false)),
            (core("<c:contentStatus>Draft</c:contentStatus>"), String::new(), Some(false)),
            (core(""), custom("Publish", "false"), Some(false)),
            (core("<c:subject>Confidential</c:subject>"), String::new(), Some(false)),
            (core(""), custom("MSIP_Label_1-a_Name", "Confidential"), Some(false)),
            (core(""), custom("MSIP_Label_1-a_Name", "General"), None),
            (core(""), custom("Sensitivity", "Normal"), None),
            (core("<c:keywords>home</c:keywords>"), String::new(), None),
        ] {
            let bytes = zip(&[
                ("word/document.xml", body),
                ("docProps/core.xml", &core),
                ("docProps/custom.xml", &custom),
            ]);
            assert_eq!(docx(&bytes).unwrap().publish, expected, "{core} {custom}");
        }
    }

    #[test]
    fn office_files_say_what_they_are_filed_under_and_that_they_stay_here() {
        let body = "<w:document xmlns:w='w'><w:body><w:p><w:r><w:t>Text</w:t></w:r></w:p></w:body></w:document>";
        let core = "<c:coreProperties xmlns:c='c'><c:keywords>home; health</c:keywords></c:coreProperties>";
        let custom = "<Properties xmlns:vt='v'><property name='Local only'><vt:x>true</vt:x></property></Properties>";
        let read = docx(&zip(&[
            ("word/document.xml", body),
            ("docProps/core.xml", core),
            ("docProps/custom.xml", custom),
        ]));
        let package = "<package xmlns:dc='dc'><metadata><dc:subject>home</dc:subject><dc:subject>health</dc:subject>\
            <meta property='x:local_only'>true</meta></metadata><manifest/><spine/></package>";
        let book = epub(&zip(&[
            ("META-INF/container.xml", "<container><rootfile full-path='p.opf'/></container>"),
            ("p.opf", package),
        ]));
        for document in [read.unwrap(), book.unwrap()] {
            assert!(document.is_local_only(), "{}", document.kind);
            assert_eq!(document.filed_under(), ["health", "home"], "{}", document.kind);
            assert!(document.labels.is_empty(), "flows are not told");
        }
    }

    #[test]
    fn an_epub_is_read_in_its_own_order() {
        let bytes = zip(&[
            ("mimetype", "application/epub+zip"),
            (
                "META-INF/container.xml",
                r#"<container><rootfiles><rootfile full-path="OPS/p.opf"/></rootfiles></container>"#,
            ),
            (
                "OPS/p.opf",
                r#"<package xmlns:dc="dc"><metadata><dc:title>Bees</dc:title></metadata>
                <manifest><item id="b" href="two.xhtml"/><item id="a" href="text/one%20x.xhtml"/></manifest>
                <spine><itemref idref="a"/><itemref idref="b"/></spine></package>"#,
            ),
            ("OPS/two.xhtml", "<html><body><p>Second.</p></body></html>"),
            ("OPS/text/one x.xhtml", "<html><body><h1>One</h1><p>First.</p></body></html>"),
        ]);
        let read = epub(&bytes).unwrap();
        assert_eq!(read.publish, None);
        assert_eq!(read.text, "# One\n\nFirst.\n\nSecond.");
        assert_eq!(read.title.as_deref(), Some("Bees"));
    }
}
