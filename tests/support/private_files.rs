//! Files that say themselves that they are private, and files that do not. `%` stands for their text.
//!
//! To try another format or spelling, add a row to one of the lists. `tests/truth.rs` sends each of them
//! through the commands.
#![allow(dead_code, reason = "each test uses its own list")]

/// The name of a file, and what is in it. Nothing of it may be published.
pub const PRIVATE_FILES: &[(&str, &str)] = &[
    // Markdown: front matter of YAML, TOML and JSON, lines at the head, comments, tags.
    ("flow.md", "---\nmeta: {publish: false}\n---\n%\n"),
    ("nested.md", "---\nsite:\n  page:\n    private: true\n---\n%\n"),
    ("empty.md", "---\nmeta:\n  publish:\n---\n%\n"),
    ("broken.md", "---\nsite: {private: true}\n: broken [\n---\n%\n"),
    ("tags.md", "---\ntags: [garden, '#private']\n---\n%\n"),
    ("list.md", "---\ntags:\n  - garden\n  - private/family\n---\n%\n"),
    ("pairs.md", "---\nfields:\n  - {name: private, value: yes}\n---\n%\n"),
    ("table.md", "+++\ntitle = \"T\"\n[extra]\nprivate = true\n+++\n%\n"),
    ("tables.md", "+++\n[site.page]\npublish = false\n+++\n%\n"),
    ("json.md", "{\n  \"site\": {\"page\": {\"draft\": true}}\n}\n%\n"),
    ("logseq.md", "private:: true\n\n%\n"),
    ("tag.md", "# A day\n\n% #private\n"),
    ("head.md", "Title: A day\nPublish: no\n\n%\n"),
    ("comment.md", "<!-- publish: false -->\n%\n"),
    // Plain text, reStructuredText, AsciiDoc.
    ("title.txt", "PRIVATE AND CONFIDENTIAL\n\n%\n"),
    ("head.txt", "publish: no\n%\n"),
    ("front.txt", "---\nsite: {private: true}\n---\n%\n"),
    ("field.rst", ":private: true\n\n%\n"),
    ("fields.rst", "A day\n=====\n\n:status: draft\n\n%\n"),
    ("robots.rst", "A day\n=====\n\nWords.\n\n.. meta::\n   :robots: noindex\n\n%\n"),
    ("tags.rst", "A day\n=====\n\n.. tags:: garden, private\n\n%\n"),
    // LaTeX.
    ("head.tex", "%! publish: no\n\\section{A}\n%\n"),
    ("keywords.tex", "\\section{A}\n\\keywords{garden, private}\n%\n"),
    ("pdf.tex", "\\hypersetup{pdfkeywords={private}}\n\\begin{document}\n%\n\\end{document}"),
    ("watermark.tex", "\\SetWatermarkText{CONFIDENTIAL}\n\\begin{document}\n%\n\\end{document}"),
    (
        "text.tex",
        "\\DraftwatermarkOptions{text=CONFIDENTIAL}\n\\begin{document}\n%\n\\end{document}",
    ),
    (
        "bold.tex",
        "\\SetWatermarkText{\\textbf{CONFIDENTIAL}}\n\\begin{document}\n%\n\\end{document}",
    ),
    // Org.
    ("lisp.org", "* A day\n:PROPERTIES:\n:PRIVATE: t\n:END:\n%\n"),
    ("nil.org", "* A day\n:PROPERTIES:\n:publish: nil\n:END:\n%\n"),
    ("property.org", "#+PROPERTY: private t\n\n%\n"),
    // Pages.
    ("robots.html", "<meta name=robots content='noindex'><p>%</p>"),
    ("header.html", "<meta http-equiv='X-Robots-Tag' content='noindex, nofollow'><p>%</p>"),
    ("bot.html", "<meta name=googlebot content='googlebot: noindex'><p>%</p>"),
    ("data.html", "<body data-private='true'><p>%</p></body>"),
    ("article.html", "<meta property='article:tag' content='private'><p>%</p>"),
    ("ld.html", "<script type='application/ld+json'>{\"private\": true}</script><p>%</p>"),
    (
        "ld-words.html",
        "<script type='application/ld+json'>{\"keywords\": \"private\"}</script><p>%</p>",
    ),
    (
        "ld-type.html",
        "<script type='application/LD+JSON; charset=utf-8'>{\"private\": true}</script><p>%</p>",
    ),
    (
        "deep.html",
        "<script type='application/ld+json'>{\"a\": {\"visibility\": \"private\"}}</script><p>%</p>",
    ),
    // Mails.
    ("subject.eml", "From: a@x.org\r\nSubject: [Confidential] A day\r\n\r\n%\r\n"),
    ("sensitivity.eml", "From: a@x.org\r\nSensitivity: Company-Confidential\r\n\r\n%\r\n"),
    ("robots.eml", "From: a@x.org\r\nX-Robots-Tag: noindex\r\n\r\n%\r\n"),
    ("keywords.eml", "From: a@x.org\r\nX-Keywords: home, private\r\n\r\n%\r\n"),
    ("gmail.eml", "From: a@x.org\r\nX-Gmail-Labels: Inbox,Private\r\n\r\n%\r\n"),
    (
        "label.eml",
        "From: a@x.org\r\nmsip_labels: MSIP_Label_1_Enabled=true; MSIP_Label_1_Name=Confidential;\r\n\r\n%\r\n",
    ),
    // Lists of records.
    ("label.json", "[{\"text\": \"%\", \"labels\": [{\"name\": \"private\"}]}]"),
    ("site.json", "[{\"text\": \"%\", \"site\": {\"private\": true}}]"),
    ("deep.json", "[{\"text\": \"%\", \"a\": {\"b\": {\"c\": {\"publish\": \"no\"}}}}]"),
    ("pair.json", "[{\"text\": \"%\", \"a\": [{\"key\": \"private\", \"value\": \"1\"}]}]"),
    ("whole.json", "{\"text\": \"%\", \"site\": {\"private\": true}}"),
    ("nested.jsonl", "{\"text\": \"%\", \"properties\": {\"Publish\": false}}\n"),
    ("site.jsonl", "{\"text\": \"%\", \"site\": {\"status\": \"draft\"}}\n"),
    ("path.jsonl", "{\"text\": \"%\", \"site.private\": true}\n"),
    ("comment.csv", "# publish: false\nid,text\n1,%\n"),
    ("cell.csv", "id,text,extra\n1,%,\"{\"\"site\"\": {\"\"private\"\": true}}\"\n"),
    ("words.csv", "id,text,meta\n1,%,publish: no\n"),
    ("path.csv", "id,text,meta.publish\n1,%,no\n"),
    ("cell.tsv", "id\ttext\tmeta\n1\t%\t{\"private\": true}\n"),
    // Feeds.
    (
        "item.json",
        "{\"version\": \"https://jsonfeed.org/version/1.1\", \"items\": [{\"id\": \"1\", \
         \"date_published\": \"2026-02-11T10:00:00Z\", \"_x\": {\"private\": true}, \"content_text\": \"%\"}]}",
    ),
    (
        "whole-feed.json",
        "{\"version\": \"https://jsonfeed.org/version/1.1\", \"_x\": {\"site\": {\"private\": true}}, \
         \"items\": [{\"id\": \"1\", \"date_published\": \"2026-02-11T10:00:00Z\", \"content_text\": \"%\"}]}",
    ),
    (
        "atom.xml",
        "<feed xmlns='http://www.w3.org/2005/Atom'><title>A</title><entry><id>a1</id><title>T</title>\
         <updated>2026-02-11T10:00:00Z</updated><category term='c1' label='Private'/><content>%</content></entry></feed>",
    ),
    (
        "rss.xml",
        "<rss xmlns:x='x'><channel><title>A</title><item><guid>r1</guid><title>T</title>\
         <pubDate>Wed, 11 Feb 2026 10:00:00 +0000</pubDate><x:site><x:private>true</x:private></x:site>\
         <description>%</description></item></channel></rss>",
    ),
    // Chats.
    (
        "turns.json",
        "{\"is_private\": true, \"messages\": [{\"role\": \"user\", \"content\": \"%\"}]}",
    ),
    (
        "channel.json",
        "{\"channel\": {\"name\": \"a\", \"is_private\": true}, \"messages\": [{\"author\": {\"name\": \"Ana\"}, \
         \"timestamp\": \"2026-02-11T10:00:00Z\", \"content\": \"%\"}]}",
    ),
    // Org files, calendars, contacts.
    ("keyword.org", "#+TITLE: A day\n#+PUBLISH: no\n\n%\n"),
    ("filetags.org", "#+FILETAGS: :home:private:\n\n%\n"),
    ("tag.org", "* A day :private:\n%\n"),
    (
        "class.ics",
        "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nCLASS:PRIVATE\r\nDESCRIPTION:%\r\nEND:VEVENT\r\n",
    ),
    (
        "confidential.ics",
        "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nCLASS:CONFIDENTIAL\r\nDESCRIPTION:%\r\nEND:VEVENT\r\n",
    ),
    (
        "category.ics",
        "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nCATEGORIES:Home,Private\r\nDESCRIPTION:%\r\nEND:VEVENT\r\n",
    ),
    (
        "access.ics",
        "BEGIN:VCALENDAR\r\nX-CALENDARSERVER-ACCESS:CONFIDENTIAL\r\nBEGIN:VEVENT\r\nDESCRIPTION:%\r\nEND:VEVENT\r\n",
    ),
];

/// Files that may be published: their marks say no, or they only speak of privacy.
pub const OPEN_FILES: &[(&str, &str)] = &[
    ("no.md", "---\nsite: {private: false}\npublished: true\n---\n%\n"),
    ("yes.md", "---\nmeta: {publish: true}\n---\n%\n"),
    ("cover.md", "---\ncover: {hidden: true}\ntoc: {show: false}\n---\n%\n"),
    ("subject.md", "---\ntags: [private sector]\ncategories: [drafts of wind]\n---\n%\n"),
    ("about.md", "# Private schools\n\nA rule such as `private: true` keeps a page hidden.\n\n%\n"),
    ("table.md", "+++\n[extra]\nprivate = false\n+++\n%\n"),
    (
        "about.txt",
        "The lock was private: the garden of Ana is public: false claims were made.\n\n%\n",
    ),
    ("field.rst", ":private: the garden of Ana\n\n%\n"),
    ("index.rst", "A day\n=====\n\n.. meta::\n   :robots: index\n\n%\n"),
    (
        "draft.tex",
        "\\documentclass[draft]{article}\n\\begin{document}\n\\label{private}%\n\\end{document}",
    ),
    ("words.tex", "\\keywords{private sector}\n%\n"),
    ("robots.html", "<meta http-equiv='X-Robots-Tag' content='index'><p>%</p>"),
    ("data.html", "<body data-theme='private'><p>%</p></body>"),
    (
        "plain.eml",
        "From: a@x.org\r\nSensitivity: Normal\r\nSubject: The private sector\r\n\r\n%\r\n",
    ),
    ("schools.json", "[{\"text\": \"%\", \"schools\": {\"private\": 30, \"public\": 12}}]"),
    ("no.json", "[{\"text\": \"%\", \"site\": {\"private\": false, \"published\": true}}]"),
    ("body.jsonl", "{\"title\": \"T\", \"text\": \"% So {\\\"private\\\": true} is written.\"}\n"),
    (
        "links.jsonl",
        "{\"text\": \"%\", \"links\": {\"privacy\": \"https://example.org/privacy\"}}\n",
    ),
    ("cell.csv", "id,text,extra\n1,%,\"{\"\"private\"\": false}\"\n"),
    ("note.csv", "id,text,note\n1,%,it was private: yes\n"),
    (
        "atom.xml",
        "<feed xmlns='http://www.w3.org/2005/Atom'><title>A</title><entry><id>o1</id><title>T</title>\
         <updated>2026-02-11T10:00:00Z</updated><category term='c1' label='Private sector'/><content>%</content>\
         </entry></feed>",
    ),
    ("home.org", "#+FILETAGS: :home:\n\nThe private talks ended.\n%\n"),
    (
        "class.ics",
        "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nCLASS:PUBLIC\r\nDESCRIPTION:%\r\nEND:VEVENT\r\n",
    ),
];

/// Whether the bus `other` has files with such a name.
pub fn is_of_other(name: &str) -> bool {
    !["org", "ics", "xml"].iter().any(|end| name.ends_with(&format!(".{end}")))
}

/// A file with its text. A `%` that begins a comment stays.
pub fn with_text(file: &str, text: &str) -> String {
    match file.rsplit_once('%') {
        Some((before, after)) => format!("{before}{text}{after}"),
        None => file.to_owned(),
    }
}
