//! A file as a flow is given it outside the queue: with the sources and the context that the queue gives.
//!
//! Contract: what a list or a document is comes from the reader of the bus `other`. A conversation, a feed, a mailbox
//! and every kind that this reader does not know come from the reader of `add`.

use std::io::Write as _;
use std::sync::Arc;

use super::Context;
use super::given_input::{form_of, without_mark};
use crate::config::Config;
use crate::contract::source::{InputContext, SourceContext};
use crate::contract::time::{Day, Timestamp};
use crate::import::collect::NamedFile;
use crate::import::kind::{FileKind, Group};
use crate::import::read::{self, Readers};
use crate::import::units::{Unit, each_unit};
use crate::import::{Clock, LeftOut};
use crate::model::SourceText;
use crate::os::Disk;
use crate::upstream::loose;

/// The sources of one run.
#[derive(Debug, Clone, Default)]
pub(super) struct GivenText {
    pub texts: Vec<SourceText>,
    pub context: InputContext,
    /// They say that nothing made of them is published.
    pub private: bool,
}

impl GivenText {
    fn of_unit(unit: Unit) -> GivenText {
        let private = unit.publish == Some(false);
        GivenText { texts: unit.texts, context: unit.context, private }
    }

    /// The items of a list, each with its own context. A conversation stays whole.
    fn items(self) -> Vec<GivenText> {
        if self.context.window.is_some() {
            return vec![self];
        }
        let private = self.private;
        let one = |(text, context): (SourceText, SourceContext)| GivenText {
            texts: vec![text],
            context: InputContext { sources: vec![context], ..InputContext::default() },
            private,
        };
        self.texts.into_iter().zip(self.context.sources).map(one).collect()
    }
}

/// How the files of a command are read.
pub(super) struct TextReader {
    disk: Arc<dyn Disk>,
    readers: Readers,
    clock: Clock,
}

impl TextReader {
    pub(super) fn new(context: &Context, config: &Config, now: Timestamp) -> TextReader {
        TextReader {
            disk: Arc::clone(&context.machine.disk),
            readers: Readers { pdf: config.extract_pdf.clone() },
            clock: Clock { zone: config.timezone, now },
        }
    }

    /// As on an earlier day: what is read twice is read alike.
    pub(super) fn on(context: &Context, config: &Config, day: &str) -> TextReader {
        let day = day.parse::<Day>().map(|day| day.start_in(config.timezone));
        TextReader::new(context, config, day.unwrap_or_else(|_| context.machine.clock.now()))
    }

    /// A file as the text of one run, and what is said of parts of it that were not read.
    pub(super) fn whole(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Result<(GivenText, Vec<String>), String> {
        let Some(kind) = of_add(name, bytes) else {
            return Ok((self.of_bus(name, bytes)?, Vec::new()));
        };
        let (units, told) = self.units(name, kind, bytes)?;
        let count = units.len();
        if kind.group() == Group::Chat && count > 1 {
            return Err(format!(
                "it holds {count} conversations, and a flow runs on one: `flow run --lines` runs on each of them"
            ));
        }
        let unit = Unit::together(units).ok_or("it holds no text")?;
        Ok((GivenText::of_unit(unit), told))
    }

    /// Each conversation, mail, item or row of a file.
    pub(super) fn each(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Result<(Vec<GivenText>, Vec<String>), String> {
        let Some(kind) = of_add(name, bytes) else {
            return Ok((self.of_bus(name, bytes)?.items(), Vec::new()));
        };
        let (units, told) = self.units(name, kind, bytes)?;
        let all = units.into_iter().map(GivenText::of_unit);
        let lines = match kind.group() {
            Group::Feed => all.flat_map(GivenText::items).collect(),
            _ => all.collect(),
        };
        Ok((lines, told))
    }

    fn of_bus(&self, name: &str, bytes: &[u8]) -> Result<GivenText, String> {
        let file = loose::read(name, &form_of(name, bytes), bytes, self.clock.zone)?;
        let texts = file.texts.into_iter().map(|(id, text)| SourceText { id, text });
        let private = file.publish == Some(false);
        Ok(GivenText { texts: texts.collect(), context: file.context, private })
    }

    fn units(
        &self,
        name: &str,
        kind: FileKind,
        bytes: &[u8],
    ) -> Result<(Vec<Unit>, Vec<String>), String> {
        let words = |error: std::io::Error| error.to_string();
        // Some readers need a file. It goes away with its value.
        let mut file = tempfile::NamedTempFile::new().map_err(words)?;
        file.write_all(bytes).and_then(|()| file.flush()).map_err(words)?;
        let named = NamedFile {
            path: file.path().to_owned(),
            in_folder: None,
            name: name.to_owned(),
            kind,
        };
        let (mut units, mut told) = (Vec::new(), Vec::new());
        each_unit(&*self.disk, &self.readers, &named, self.clock, &mut |found| match found {
            Ok(unit) => units.push(unit),
            Err(why @ LeftOut::OneCell(_)) => told.push(why.to_string()),
            Err(why) => told.push(format!("not read: {why}")),
        })
        .map_err(|error| error.to_string())?;
        match units.is_empty() {
            true => Err(told.into_iter().next().unwrap_or_else(|| "it holds no text".to_owned())),
            false => Ok((units, told)),
        }
    }
}

/// The kind of a file that the reader of `add` reads; `None` where that of the bus `other` does.
fn of_add(name: &str, bytes: &[u8]) -> Option<FileKind> {
    let kind = read::kind_of(name, bytes).ok()?;
    let of_bus = matches!(
        kind,
        FileKind::Text
            | FileKind::Markdown
            | FileKind::Html
            | FileKind::Latex
            | FileKind::Csv
            | FileKind::Json
            | FileKind::Mail
    );
    (!of_bus).then_some(kind)
}

/// Whether a file of JSON is an export of conversations, a feed or a list with words, and no object of inputs.
pub(super) fn is_no_object_of_inputs(name: &str, bytes: &[u8]) -> bool {
    let is_list = || {
        without_mark(bytes).trim_ascii_start().starts_with(b"[")
            && read::kind_of(name, bytes) == Ok(FileKind::Json)
    };
    of_add(name, bytes).is_some() || is_list()
}

/// Whether a file holds several texts: conversations, mails, items, rows.
pub(super) fn holds_several(name: &str, bytes: &[u8]) -> bool {
    let is_table = || matches!(read::kind_of(name, bytes), Ok(FileKind::Csv));
    is_no_object_of_inputs(name, bytes) || is_table()
}

/// Says what was not read beside the text.
pub(super) fn tell(context: &Context, name: &str, told: &[String]) {
    for one in told {
        context.ui.complain(format!("{name}: {one}"));
    }
}
