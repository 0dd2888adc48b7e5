//! A file outside any bus, read as the bus `other` would read it.

use chrono_tz::Tz;

use super::context::{name_talks, of_members, talk};
use super::dated::with_day;
use super::other::{Content, content, conversation_of};
use super::text::normalize;
use crate::contract::publish::together;
use crate::contract::source::{InputContext, Origin, SourceContext, SourceKind};
use crate::markup::document::is_known_by_title;

/// The sources of one file: each with its id and normalized text, and what is known of it.
#[derive(Default)]
pub(crate) struct LooseFile {
    pub texts: Vec<(String, String)>,
    pub context: InputContext,
    /// What it says about showing it.
    pub publish: Option<bool>,
}

/// Reads a file. `form` is a name that says how; `name` names its sources.
pub(crate) fn read(name: &str, form: &str, bytes: &[u8], zone: Tz) -> Result<LooseFile, String> {
    let mut file = LooseFile::default();
    let mut flags = Vec::new();
    let mut put = |id: String, kind, text: &str, line, mut context: SourceContext| {
        context.origin = Origin { path: Some(name.to_owned()), line, ..context.origin };
        file.texts.push((id.clone(), normalize(text).into_owned()));
        file.context.sources.push(SourceContext { id, kind, ..context });
    };
    match content(form, bytes)? {
        Content::Document(document) => {
            flags.push(document.publish);
            let members = with_day(document.members, document.date.as_deref());
            let mut context = of_members(&members, zone);
            context.title = document.title.or(context.title);
            context.is_known_by_title = is_known_by_title(document.kind);
            put(name.to_owned(), SourceKind::Document, &document.text, None, context);
        }
        Content::Items(items) => {
            for key in items.keys() {
                let Some(item) = items.get(key) else { continue };
                flags.push(item.publish);
                let members = with_day(item.record.members, item.date.as_deref());
                let mut context = of_members(&members, zone);
                let id = format!("{name}#{key}");
                context.conversation = conversation_of(&id, &members).map(str::to_owned);
                let kind = match context.conversation {
                    Some(_) => SourceKind::Event,
                    None => SourceKind::Record,
                };
                put(id, kind, &item.record.text, Some(item.line), context);
            }
        }
    }
    name_talks(&mut file.context.sources);
    (file.context.whole, file.context.window) = talk(&file.context.sources, zone);
    file.publish = together(flags);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loose_file_has_the_context_it_would_have_on_the_bus() {
        let zone = chrono_tz::America::Bogota;
        let note = b"---\ntitle: T\ndate: 2026-02-11\nauthor: Ana\ntags: a, b\n---\nText\r\n";
        let note = read("n.md", "n.md", note, zone).unwrap();
        assert_eq!(note.texts, [("n.md".to_owned(), "Text".to_owned())]);
        let known = &note.context.sources[0];
        assert_eq!((known.title.as_deref(), known.day.as_deref()), (Some("T"), Some("2026-02-11")));
        assert_eq!(known.ts, None, "a day is no moment");
        assert_eq!(known.author.as_ref().unwrap().shown(), "Ana");
        assert_eq!(known.labels.tags, ["a", "b"]);
        let rows =
            read("r.csv", "r.csv", b"id,text,Published At\n7,x,2026-02-11T23:00:00-01:00\n", zone);
        let rows = rows.unwrap();
        assert_eq!(rows.texts, [("r.csv#7".to_owned(), "x".to_owned())]);
        let known = &rows.context.sources[0];
        assert_eq!(known.origin.shown().as_deref(), Some("r.csv:2"));
        assert_eq!(known.ts.as_deref(), Some("2026-02-11T23:00:00-01:00"));
        let chat = b"{\"id\": \"c\", \"title\": \"Roof\", \"messages\": [\
            {\"author\": \"Ana\", \"time\": \"2026-02-11T10:00:00Z\", \"text\": \"It leaks.\"}]}\n";
        let chat = read("c.jsonl", "c.jsonl", chat, zone).unwrap();
        assert_eq!(chat.texts, [("c.jsonl#c#1".to_owned(), "It leaks.".to_owned())]);
        let session = chat.context.whole.unwrap();
        assert_eq!((session.kind, session.title.as_deref()), (SourceKind::Session, Some("Roof")));
        assert!(chat.context.window.unwrap().start.is_some());
    }

    #[test]
    fn a_loose_file_has_the_day_that_is_written_in_it() {
        let zone = chrono_tz::UTC;
        let of = |name: &str, text: &str| {
            read(name, name, text.as_bytes(), zone).unwrap().context.sources.swap_remove(0)
        };
        for (name, text) in [
            ("a.md", "---\ndate: 5 March 2026\n---\nText"),
            ("a.md", "+++\ndate = 2026-03-05\n+++\nText"),
            ("a.md", "+++\ndate = 2026-03-05T10:00:00\n+++\nText"),
            ("a.txt", "Lisbon, 5 March 2026\n\nDear Ana,\n\ntext"),
            ("a.txt", "Fecha: 05.03.2026\n\nLa reunión es de la casa y del jardín."),
            ("notes/2026-03-05 a.txt", "Text"),
            ("a.tex", "\\date{5 March 2026}\\begin{document}Text\\end{document}"),
            (
                "a.csv",
                "fecha,texto\n05/03/2026,La casa de la abuela\n13/03/2026,El jardín de la casa\n",
            ),
        ] {
            assert_eq!(of(name, text).day.as_deref(), Some("2026-03-05"), "{name}: {text}");
        }
        let undated = of("a.txt", "The rent rises on 5 March 2026.");
        assert_eq!(undated.day, None);
    }

    #[test]
    fn every_author_of_a_text_is_kept() {
        let of = |name: &str, text: &str| {
            let file = read(name, name, text.as_bytes(), chrono_tz::UTC).unwrap();
            file.context.sources[0].author.as_ref().map(crate::contract::source::Person::shown)
        };
        for (name, text, shown) in [
            ("a.md", "---\nauthor: Ruiz, Ana\n---\nText", "Ruiz, Ana"),
            ("a.md", "---\nauthors: [Ana Ruiz, {name: Ben Ode}]\n---\nText", "Ana Ruiz, Ben Ode"),
            (
                "a.tex",
                "\\author{Ana Ruiz\\thanks{Thanks} \\and Ben Ode \\\\ Lisbon}\\begin{document}Text\\end{document}",
                "Ana Ruiz, Ben Ode",
            ),
            ("a.eml", "From: \"Ruiz, Ana\" <a@x.org>\n\nText", "\"Ruiz, Ana\" <a@x.org>"),
        ] {
            assert_eq!(of(name, text).as_deref(), Some(shown), "{text}");
        }
        let page = b"<html><body><nav>x</nav><h1>The heading</h1><p>Text</body></html>";
        let page = read("a.html", "a.html", page, chrono_tz::UTC).unwrap();
        assert_eq!(page.context.sources[0].title.as_deref(), Some("The heading"));
    }
}
