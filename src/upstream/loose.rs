//! A file outside any bus, read as the bus `other` would read it.

use chrono_tz::Tz;

use super::context::of_members;
use super::other::{Content, content};
use super::text::normalize;
use crate::contract::source::{InputContext, Origin, SourceContext, SourceKind};

/// The sources of one file: each with its id and normalized text, and what is known of it.
pub(crate) struct LooseFile {
    pub texts: Vec<(String, String)>,
    pub context: InputContext,
}

/// Reads a file; its name says how, and names its sources.
pub(crate) fn read(name: &str, bytes: &[u8], zone: Tz) -> Result<LooseFile, String> {
    let mut file = LooseFile { texts: Vec::new(), context: InputContext::default() };
    let mut put = |id: String, kind, text: &str, line, mut context: SourceContext| {
        context.origin = Origin { path: Some(name.to_owned()), line, ..context.origin };
        file.texts.push((id.clone(), normalize(text).into_owned()));
        file.context.sources.push(SourceContext { id, kind, ..context });
    };
    match content(name, bytes)? {
        Content::Document(document) => {
            let mut context = of_members(&document.members, zone);
            context.title = document.title.or(context.title);
            put(name.to_owned(), SourceKind::Document, &document.text, None, context);
        }
        Content::Items(items) => {
            for key in items.keys() {
                let Some(item) = items.get(key) else { continue };
                let context = of_members(&item.record.members, zone);
                let id = format!("{name}#{key}");
                put(id, SourceKind::Record, &item.record.text, Some(item.line), context);
            }
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_what_it_would_tell_on_the_bus() {
        let zone = chrono_tz::America::Bogota;
        let note = b"---\ntitle: T\ndate: 2026-02-11\nauthor: Ana\ntags: a, b\n---\nText\r\n";
        let note = read("n.md", note, zone).unwrap();
        assert_eq!(note.texts, [("n.md".to_owned(), "Text".to_owned())]);
        let known = &note.context.sources[0];
        assert_eq!((known.title.as_deref(), known.day.as_deref()), (Some("T"), Some("2026-02-11")));
        assert_eq!(known.ts, None, "a day is no moment");
        assert_eq!(known.author.as_ref().unwrap().shown(), "Ana");
        assert_eq!(known.labels.tags, ["a", "b"]);
        let rows = read("r.csv", b"id,text,Published At\n7,x,2026-02-11T23:00:00-01:00\n", zone);
        let rows = rows.unwrap();
        assert_eq!(rows.texts, [("r.csv#7".to_owned(), "x".to_owned())]);
        let known = &rows.context.sources[0];
        assert_eq!(known.origin.shown().as_deref(), Some("r.csv:2"));
        assert_eq!(known.ts.as_deref(), Some("2026-02-11T23:00:00-01:00"));
    }
}
