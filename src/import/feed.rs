//! RSS and Atom: each item of a feed as an event.

use chrono_tz::Tz;
use roxmltree::Node;
use serde_json::{Value, json};

use super::fields::{note_time, time, written_time};
use super::{LeftOut, NewRecord, xml};
use crate::contract::hash::sha256;
use crate::contract::publish::{is_plain_mark, said_by_member, together};
use crate::contract::stable_id::{Part, stable_id};
use crate::contract::time::Timestamp;
use crate::markup::html;
use crate::markup::marks::Marks;

/// A feed with its items, or for each item why it is left out.
pub(crate) struct Feed {
    pub title: Option<String>,
    pub items: Vec<Result<(Timestamp, NewRecord), LeftOut>>,
}

/// Reads a feed; `uri` is the name a person gives the file.
pub(crate) fn read(uri: &str, text: &str, zone: Tz) -> Result<Feed, String> {
    let parsed = xml::parse(text)?;
    let root = parsed.root_element();
    let channel = root.children().find(|node| name(node) == "channel").unwrap_or(root);
    let title = words(channel, &["title"]);
    let author = author(channel).or_else(|| editor(channel));
    // A feed that dates no item dates itself.
    let fallback =
        date(channel, &["pubDate", "lastBuildDate", "updated", "date", "modified"], zone);
    let items = root.descendants().filter(|node| matches!(name(node), "item" | "entry"));
    let publish = said_by(channel);
    let whole = marks_of(channel);
    let items = items.map(|item| {
        let publish = together([publish, said_by(item)]);
        let channel =
            Channel { title: title.as_deref(), author: author.as_deref(), at: fallback.as_ref() };
        let found = event(uri, &channel, item, publish, zone);
        let mut marks = marks_of(item);
        marks.join(whole.clone());
        found.map(|(at, record)| (at, marked(record, marks.clone()))).map_err(|why| match why {
            LeftOut::Undated(record) => LeftOut::Undated(Box::new(marked(*record, marks))),
            why => why,
        })
    });
    let items = items.collect();
    Ok(Feed { title, items })
}

fn name<'a>(node: &Node<'a, '_>) -> &'a str {
    if node.is_element() { node.tag_name().name() } else { "" }
}

/// The words of the first child with one of these names, in their order. Children of an extension, such as
/// `media:title`, come behind those of the format itself.
fn words(node: Node<'_, '_>, names: &[&str]) -> Option<String> {
    let own = node.tag_name().namespace();
    [true, false].into_iter().find_map(|is_own| {
        let children =
            || node.children().filter(|one| (one.tag_name().namespace() == own) == is_own);
        names
            .iter()
            .find_map(|wanted| children().filter(|child| name(child) == *wanted).find_map(words_of))
    })
}

/// The words of an element, read as its type says: markup that is escaped, elements of a page, or plain text.
fn words_of(node: Node<'_, '_>) -> Option<String> {
    let has_elements = node.children().any(|one| one.is_element());
    let text = match node.attribute("type") {
        Some("text" | "text/plain") => text_of(node),
        _ if has_elements => html::page(&markup_of(node)).text,
        _ => html::page(&text_of(node)).text,
    };
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The text of an item: the whole one before its summary, and what describes its picture or film if there is no other.
fn body(item: Node<'_, '_>) -> Option<String> {
    let own = |node: &Node<'_, '_>| node.tag_name().namespace() == item.tag_name().namespace();
    let whole = || {
        let content = item.children().filter(|child| name(child) == "content");
        content.filter(own).find_map(words_of)
    };
    let of_media = || {
        let media = item.descendants().filter(|one| matches!(name(one), "group" | "content"));
        media.filter(|one| !own(one)).find_map(|one| words(one, &["description"]))
    };
    words(item, &["encoded"])
        .or_else(whole)
        .or_else(|| words(item, &["description", "summary", "abstract", "subtitle"]))
        .or_else(of_media)
}

/// The elements within a node as a page writes them, without the prefixes of their names.
fn markup_of(node: Node<'_, '_>) -> String {
    let escaped =
        |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let mut out = String::new();
    // What is left to write: a node, or the end of one. A deep tree needs no deep stack.
    let mut left: Vec<Result<Node<'_, '_>, &str>> = node.children().rev().map(Ok).collect();
    while let Some(next) = left.pop() {
        match next {
            Err(name) => out.push_str(&format!("</{name}>")),
            Ok(one) if one.is_text() => out.push_str(&escaped(one.text().unwrap_or_default())),
            Ok(one) if one.is_element() => {
                let name = name(&one);
                out.push_str(&format!("<{name}"));
                for attribute in one.attributes() {
                    out.push_str(&format!(
                        " {}=\"{}\"",
                        attribute.name(),
                        escaped(attribute.value())
                    ));
                }
                out.push('>');
                // Elements without an end tag have no children.
                if one.has_children() || !matches!(name, "br" | "hr" | "img" | "wbr" | "input") {
                    left.push(Err(name));
                }
                left.extend(one.children().rev().map(Ok));
            }
            Ok(_) => {}
        }
    }
    out
}

/// The texts of the children with one of these names, in the order of the names.
fn inner_all(node: Node<'_, '_>, names: &[&str]) -> Vec<String> {
    let mut texts = Vec::new();
    for wanted in names {
        texts.extend(node.children().filter(|child| name(child) == *wanted).map(text_of));
    }
    texts.retain(|text| !text.is_empty());
    texts
}

fn inner(node: Node<'_, '_>, names: &[&str]) -> Option<String> {
    inner_all(node, names).into_iter().next()
}

/// When an item or a feed was written: the first date that can be read.
fn date(node: Node<'_, '_>, names: &[&str], zone: Tz) -> Option<Value> {
    let texts: Vec<Value> = inner_all(node, names).into_iter().map(Value::from).collect();
    written_time(texts.iter(), zone)
}

fn link(item: Node<'_, '_>) -> Option<String> {
    let links = || item.children().filter(|child| name(child) == "link");
    let alternate =
        |node: &Node<'_, '_>| node.attribute("rel").is_none_or(|rel| rel == "alternate");
    let href = links().filter(alternate).find_map(|node| node.attribute("href"));
    href.map(str::to_owned).or_else(|| inner(item, &["link"]))
}

fn author(item: Node<'_, '_>) -> Option<String> {
    let children = item.children().filter(|child| matches!(name(child), "author" | "creator"));
    let mut names: Vec<String> = Vec::new();
    for child in children {
        let own = || child.text().unwrap_or_default().trim().to_owned();
        let name = inner(child, &["name", "email"]).unwrap_or_else(own);
        // Some feeds name an author in several forms.
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
}

/// The person who edits a channel: `town@x.example (Ana Ruiz)`. An address alone names nobody.
fn editor(channel: Node<'_, '_>) -> Option<String> {
    let editor = inner(channel, &["managingEditor"])?;
    let named = editor.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
    let name = match named {
        Some((name, _)) => name,
        None if editor.contains('@') => return None,
        None => editor.as_str(),
    };
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// What an item or a channel says of its privacy: elements and attributes named as members of records are,
/// categories, and `block` of podcasts. In elements that lie deeper, what can mean nothing else counts.
fn said_by(node: Node<'_, '_>) -> Option<bool> {
    let of = |child: Node<'_, '_>| {
        let words = text_of(child);
        let own = match name(&child) {
            "" | "item" | "entry" => return None,
            // An element without words is the mark itself.
            "private" | "draft" if words.is_empty() => Some(false),
            // `draft` of the publishing protocol of Atom.
            "control" => said_by(child),
            "post_password" => (!words.is_empty()).then_some(false),
            "block" => (words.to_lowercase() == "yes").then_some(false),
            "category" => said_by_member("category", &json!(labels_of(child))),
            name => said_by_member(name, &json!(words)),
        };
        let is_content = CONTENT.contains(&name(&child));
        let below = child.descendants().filter(|one| one.is_element() && !is_content);
        together([own, below.clone().any(is_marked).then_some(false)])
    };
    let own = node.attributes().any(|one| is_plain_mark(one.name(), &json!(one.value())));
    together(node.children().map(of).chain([own.then_some(false)]))
}

/// What an item or a channel says to rules about data beside its categories.
fn marks_of(node: Node<'_, '_>) -> Marks {
    let mut marks = Marks::default();
    node.attributes().for_each(|one| marks.note(one.name(), one.value()));
    for child in node.children().filter(Node::is_element) {
        match name(&child) {
            "item" | "entry" => continue,
            "subject" | "category" => {
                labels_of(child).iter().for_each(|one| marks.note("tags", one))
            }
            one => marks.note(one, &text_of(child)),
        }
        let below =
            child.descendants().filter(|one| one.is_element() && !CONTENT.contains(&name(&child)));
        below.for_each(|one| marks.note(name(&one), &text_of(one)));
    }
    marks
}

fn marked(mut record: NewRecord, marks: Marks) -> NewRecord {
    if let Some(event) = record.value.as_object_mut() {
        marks.keep_in(event);
    }
    record
}

/// Elements with the text of an item. What lies in them is part of it.
const CONTENT: [&str; 6] = ["title", "encoded", "content", "description", "summary", "group"];

fn text_of(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(|one| one.is_text()).filter_map(|one| one.text());
    texts.collect::<String>().trim().to_owned()
}

/// What a category is called: by its text, and for programs and people in Atom.
fn labels_of(category: Node<'_, '_>) -> Vec<String> {
    let named = ["term", "label"].into_iter().filter_map(|name| category.attribute(name));
    let named = named.map(|label| label.trim().to_owned()).chain([text_of(category)]);
    named.filter(|label| !label.is_empty()).collect()
}

/// Whether an element that lies in another one is a mark, by its text, an attribute, or as a pair:
/// `<meta name="robots" content="noindex"/>`.
fn is_marked(node: Node<'_, '_>) -> bool {
    let leaf = !node.children().any(|child| child.is_element());
    let pair = node.attribute("name").or_else(|| node.attribute("key"));
    let value = ["content", "value"].into_iter().find_map(|name| node.attribute(name));
    let value = value.map_or_else(|| text_of(node), str::to_owned);
    leaf && is_plain_mark(name(&node), &json!(text_of(node)))
        || pair.is_some_and(|name| is_plain_mark(name, &json!(value)))
        || node.attributes().any(|one| is_plain_mark(one.name(), &json!(one.value())))
}

/// Elements with the date of an item.
const DATES: [&str; 8] =
    ["pubDate", "pubdate", "published", "issued", "updated", "date", "created", "modified"];

/// What a feed says of all its items.
struct Channel<'a> {
    title: Option<&'a str>,
    /// Of items that name none.
    author: Option<&'a str>,
    /// Of items without a date.
    at: Option<&'a Value>,
}

fn event(
    uri: &str,
    channel: &Channel<'_>,
    item: Node<'_, '_>,
    publish: Option<bool>,
    zone: Tz,
) -> Result<(Timestamp, NewRecord), LeftOut> {
    let title = words(item, &["title"]);
    let body = body(item).unwrap_or_default();
    let at = date(item, &DATES, zone);
    let written = at.as_ref().or(channel.at);
    let link = link(item);
    // Several items may have one title, and none at all: their dates and texts tell them apart.
    let named = || {
        let date = at.as_ref().and_then(Value::as_str);
        let title = title.as_deref();
        let text = || sha256(&body).hex();
        [title.map_or_else(text, str::to_owned), date.unwrap_or_default().to_owned()].join(" ")
    };
    // The items of a status page share its address.
    let addressed = || [link.as_deref().unwrap_or_default(), &named()].join(" ").trim().to_owned();
    let own_id = inner(item, &["guid", "id"]).unwrap_or_else(addressed);
    let parts = [Part::Text("event"), Part::Text("source:feed"), Part::Labelled("item", &own_id)];
    let id = stable_id("evt", &parts);
    let content = match (title.as_deref(), body.trim()) {
        (Some(title), "") => title.to_owned(),
        (_, body) => body.to_owned(),
    };
    if content.is_empty() {
        return Err(LeftOut::NoText("no words".to_owned()));
    }
    let categories = item.children().filter(|child| name(child) == "category");
    let labels: Vec<&str> = categories
        .filter_map(|node| node.attribute("term").or_else(|| node.text()))
        .map(str::trim)
        .collect();
    let mut value = json!({
        "schema_version": "event.v1",
        "event_id": id,
        "content": content,
        "event_kind": "external_observation",
        "event_subkind": "other",
        "source": {"source_system": "rss", "source_record_id": own_id, "source_uri": uri},
    });
    for (key, found) in [
        ("title", title),
        ("url", link),
        ("author", author(item).or_else(|| channel.author.map(str::to_owned))),
        ("feed", channel.title.map(str::to_owned)),
    ] {
        if let Some(found) = found {
            value[key] = json!(found);
        }
    }
    if !labels.is_empty() {
        value["labels"] = json!(labels);
    }
    if let Some(publish) = publish {
        value["publish"] = json!(publish);
    }
    let Some(at) = written.and_then(|written| time(written, zone)) else {
        return Err(LeftOut::Undated(Box::new(NewRecord { order: 0, id, value })));
    };
    note_time(&mut value, at, written);
    Ok((at, NewRecord { order: at.0, id, value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rss_items_keep_their_link_date_author_and_words() {
        let rss = r#"<?xml version="1.0"?><rss version="2.0" xmlns:dc="d" xmlns:content="c"><channel>
            <title>Town &amp; news</title>
            <item><title>Bridge opens</title><link>https://x.example/1</link><guid>g1</guid>
              <pubDate>Wed, 11 Feb 2026 10:00:00 +0100</pubDate><dc:creator>Ana</dc:creator>
              <description>short</description><category>roads</category>
              <content:encoded><![CDATA[<p>The bridge opens on <b>Friday</b>.</p>]]></content:encoded></item>
            <item><title>No date</title></item></channel></rss>"#;
        let feed = read("town.xml", rss, Tz::UTC).unwrap();
        assert_eq!(feed.title.as_deref(), Some("Town & news"));
        let (at, record) = feed.items[0].as_ref().unwrap();
        assert_eq!(at.0, 1_770_800_400_000);
        assert_eq!(record.value["content"], "The bridge opens on Friday.");
        assert_eq!(record.value["title"], "Bridge opens");
        assert_eq!(record.value["url"], "https://x.example/1");
        assert_eq!(
            (&record.value["author"], &record.value["feed"]),
            (&json!("Ana"), &json!("Town & news"))
        );
        assert_eq!(record.value["labels"], json!(["roads"]));
        assert_eq!(record.value["timestamp"], "2026-02-11T10:00:00+01:00", "its own offset");
        assert!(feed.items[1].as_ref().unwrap_err().to_string().contains("No date"));
    }

    #[test]
    fn an_item_keeps_its_date_author_and_text_in_the_elements_of_extensions() {
        let value = |item: &str| {
            let text = format!(
                "<rss xmlns:dc='d' xmlns:content='c' xmlns:media='m' xmlns:itunes='i' xmlns:dcterms='t' \
                 xmlns:excerpt='e' xmlns:atom='http://www.w3.org/2005/Atom'><channel><title>C</title>\
                 <item>{item}</item></channel></rss>"
            );
            let feed = read("f.xml", &text, Tz::UTC).unwrap();
            feed.items[0].as_ref().unwrap().1.value.clone()
        };
        let day = "<pubDate>2026-02-11</pubDate>";
        for text in [
            "<description>We buy a pump.</description>",
            "<media:content url='u'/><description>We buy a pump.</description>",
            "<media:content><media:description>A pump</media:description></media:content>\
             <description>We buy a pump.</description>",
            "<media:description>A pump</media:description><description>We buy a pump.</description>",
            "<content:encoded></content:encoded><excerpt:encoded>We buy a pump.</excerpt:encoded>",
            "<description/><content:encoded>&lt;p>We buy a pump.&lt;/p></content:encoded>",
            "<media:description>We buy a pump.</media:description>",
            "<media:group><media:title>P</media:title><media:description>We buy a pump.</media:description></media:group>",
            "<media:content><media:description type='plain'>We buy a pump.</media:description></media:content>",
            "<itunes:summary>We buy a pump.</itunes:summary>",
            "<itunes:subtitle>We buy a pump.</itunes:subtitle>",
            "<dcterms:abstract>We buy a pump.</dcterms:abstract>",
            "<atom:summary>We buy a pump.</atom:summary>",
            "<dc:description>We buy a pump.</dc:description>",
            "<description><div xmlns='http://www.w3.org/1999/xhtml'><div><p>We <b>buy</b> a pump.</p></div></div></description>",
        ] {
            let value = value(&format!("<title>Pump</title>{day}{text}"));
            assert_eq!(
                (&value["content"], &value["title"]),
                (&json!("We buy a pump."), &json!("Pump")),
                "{text}"
            );
        }
        let titled = value(&format!("<media:title>A</media:title><title>B</title>{day}"));
        assert_eq!(titled["title"], "B");
        for date in [
            "<dc:date>2026-02-11</dc:date>",
            "<pubDate>soon</pubDate><dc:date>2026-02-11T10:00:00Z</dc:date>",
            "<pubDate>Wed, 11 Feb 2026 10:00:00 CET</pubDate>",
            "<dcterms:created>2026-02-11T10:00Z</dcterms:created>",
            "<dcterms:issued>2026-02-11</dcterms:issued>",
            "<atom:updated>2026-02-11T10:00:00+02:00</atom:updated>",
            "<pubdate>Wed, 11 Feb 2026 10:00 GMT</pubdate>",
            "<pubDate>11 février 2026</pubDate>",
            "<pubDate>February 11, 2026</pubDate>",
        ] {
            let value = value(&format!("<title>Pump</title>{date}"));
            let at = Timestamp(value["timestamp_ms"].as_i64().unwrap());
            assert_eq!(at.day_in(Tz::UTC).to_string(), "2026-02-11", "{date}");
        }
        for (author, name) in [
            ("<dc:creator>Ana</dc:creator>", "Ana"),
            ("<itunes:author>Ana</itunes:author><author>Ana</author>", "Ana"),
            ("<author><email>ana@x.example</email></author>", "ana@x.example"),
            ("<atom:author><atom:name>Ana</atom:name></atom:author>", "Ana"),
        ] {
            let value = value(&format!("<title>Pump</title>{day}{author}"));
            assert_eq!(value["author"], name, "{author}");
        }
    }

    #[test]
    fn items_without_an_id_and_a_link_are_told_apart() {
        let ids = |items: &[&str]| {
            let text = items.iter().map(|item| format!("<item>{item}</item>")).collect::<String>();
            let text = format!("<rss><channel><title>C</title>{text}</channel></rss>");
            let feed = read("f.xml", &text, Tz::UTC).unwrap();
            let ids = feed.items.iter().map(|item| item.as_ref().unwrap().1.id.clone());
            ids.collect::<Vec<_>>()
        };
        let found = ids(&[
            "<title>Weather</title><pubDate>2026-02-11</pubDate><description>Rain</description>",
            "<title>Weather</title><pubDate>2026-02-12</pubDate><description>Rain</description>",
            "<pubDate>2026-02-12</pubDate><description>Rain</description>",
            "<pubDate>2026-02-12</pubDate><description>Sun</description>",
            // The items of a status page.
            "<title>Login is down</title><link>https://x.example/s</link><pubDate>2026-02-12</pubDate>",
            "<title>Login works</title><link>https://x.example/s</link><pubDate>2026-02-12</pubDate>",
            "<title>Login is down</title><link>https://x.example/s</link><pubDate>2026-02-13</pubDate>",
        ]);
        let mut apart = found.clone();
        apart.sort();
        apart.dedup();
        assert_eq!(apart.len(), found.len());
        let again =
            "<title>Weather</title><pubDate>2026-02-12</pubDate><description>Rain</description>";
        assert_eq!(ids(&[again]), [found[1].clone()]);
    }

    #[test]
    fn items_of_a_channel_without_an_author_have_its_editor() {
        let author = |head: &str, item: &str| {
            let text = format!(
                "<rss><channel><title>C</title>{head}<item><title>T</title><guid>g</guid>\
                 <pubDate>2026-02-11</pubDate>{item}</item></channel></rss>"
            );
            let feed = read("f.xml", &text, Tz::UTC).unwrap();
            feed.items[0].as_ref().unwrap().1.value["author"].clone()
        };
        let editor = |who: &str| format!("<managingEditor>{who}</managingEditor>");
        assert_eq!(author(&editor("town@x.example (Ana Ruiz)"), ""), "Ana Ruiz");
        assert_eq!(author(&editor("Ana Ruiz"), ""), "Ana Ruiz");
        assert_eq!(author(&editor("webmaster@x.example"), ""), Value::Null);
        assert_eq!(author("<webMaster>w@x.example (Bo)</webMaster>", ""), Value::Null);
        assert_eq!(
            author(&editor("Ana"), "<author>bo@x.example (Bo)</author>"),
            "bo@x.example (Bo)"
        );
    }

    #[test]
    fn marks_of_items_and_of_their_channel_keep_them_private() {
        let item = |marks: &str| {
            format!(
                "<item><title>T</title><guid>g</guid><pubDate>2026-02-11</pubDate>{marks}</item>"
            )
        };
        let said = |channel: &str, marks: &str| {
            let text = format!(
                "<rss xmlns:itunes='i' xmlns:app='a'><channel><title>C</title>{channel}{}</channel></rss>",
                item(marks)
            );
            let feed = read("f.xml", &text, Tz::UTC).unwrap();
            let (_, record) = feed.items[0].as_ref().unwrap().clone();
            (record.value["publish"].clone(), record.id)
        };
        let (open, open_id) = said("", "<category>roads</category><itunes:block>no</itunes:block>");
        assert_eq!(open, Value::Null);
        for marks in [
            "<private/>",
            "<private>true</private>",
            "<category>news</category><category>Private</category>",
            "<category term='private'/>",
            "<category term='c1' label='Private'/>",
            "<x:site xmlns:x='x'><x:private>true</x:private></x:site>",
            "<x:site xmlns:x='x' private='yes'/>",
            "<x:meta xmlns:x='x' name='robots' content='noindex'/>",
            "<itunes:block>Yes</itunes:block>",
            "<app:control><app:draft>yes</app:draft></app:control>",
            "<app:control><draft/></app:control>",
            "<post_password>x</post_password>",
            "<visibility>friends</visibility>",
            "<status>draft</status>",
        ] {
            let (private, id) = said("", marks);
            assert_eq!(private, json!(false), "{marks}");
            assert_eq!(id, open_id, "a partition gives an entry that became private another id");
        }
        assert_eq!(said("<itunes:block>yes</itunes:block>", "").0, json!(false));
        assert_eq!(said("<private>no</private>", "").0, Value::Null);
        for open in [
            "<category term='c1' label='Garden'>private sector</category>",
            "<description>&lt;meta name='robots' content='noindex'></description>",
            "<x:site xmlns:x='x'><x:private>no</x:private></x:site>",
            "<guid isPermaLink='false'>g</guid>",
        ] {
            assert_eq!(said("", open).0, Value::Null, "{open}");
        }
    }

    #[test]
    fn content_is_read_as_its_type_says_and_authors_of_the_feed_count() {
        let atom = r#"<feed xmlns="http://www.w3.org/2005/Atom" xmlns:x="http://www.w3.org/1999/xhtml">
            <title type="xhtml"><x:div>News of <x:b>Ardo</x:b></x:div></title><author><name>Town</name></author>
            <entry><id>1</id><title>Bridge</title><updated>2026-02-02T10:00:00Z</updated>
              <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>It is closed until May</p>
              <p>Cars use the <b>north</b> road; 3 &lt; 4.<br/>Slowly.</p><p hidden="hidden">Not seen</p></div></content></entry>
            <entry><id>2</id><title type="text">a &lt;b&gt; c</title><updated>2026-02-02T10:00:00Z</updated>
              <author><name>Bo</name></author><content type="text">if a &lt;b&gt; c</content></entry></feed>"#;
        let feed = read("f.atom", atom, Tz::UTC).unwrap();
        assert_eq!(feed.title.as_deref(), Some("News of Ardo"));
        let value = |at: usize| feed.items[at].as_ref().unwrap().1.value.clone();
        let text = value(0)["content"].as_str().unwrap().to_owned();
        assert_eq!(
            text.split_whitespace().collect::<Vec<_>>().join(" "),
            "It is closed until May Cars use the north road; 3 < 4. Slowly."
        );
        assert!(text.contains("until May\n"), "paragraphs stay apart: {text:?}");
        assert_eq!(value(0)["author"], "Town");
        let second = value(1);
        assert_eq!((&second["author"], &second["content"]), (&json!("Bo"), &json!("if a <b> c")));
        assert_eq!(second["title"], "a <b> c");
    }

    #[test]
    fn atom_entries_are_read() {
        let atom = r#"<feed xmlns="http://www.w3.org/2005/Atom"><title>Blog</title>
            <updated>2026-02-12T00:00:00Z</updated>
            <entry><title>One</title><id>urn:1</id><link rel="self" href="s"/><link href="https://b.example/1"/>
              <published>2026-02-11T10:00:00Z</published><author><name>Bo</name></author>
              <content type="html">&lt;p&gt;Words.&lt;/p&gt;</content></entry>
            <entry><title>Two</title><id>urn:2</id></entry></feed>"#;
        let feed = read("blog.atom", atom, Tz::UTC).unwrap();
        let (_, one) = feed.items[0].as_ref().unwrap();
        assert_eq!(
            (&one.value["url"], &one.value["content"]),
            (&json!("https://b.example/1"), &json!("Words."))
        );
        assert_eq!(one.value["author"], "Bo");
        let (at, two) = feed.items[1].as_ref().unwrap();
        assert_eq!((at.0, &two.value["content"]), (1_770_854_400_000, &json!("Two")));
        assert!(read("x", "<rss><channel>", Tz::UTC).is_err());
    }
}
