//! What `flow run` and `flow batch` are given: files, objects of inputs, parameters.

use std::io::Read as _;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::Context;
use super::failure::{Exit, Failure};
use crate::import::kind::FileKind;
use crate::import::read;
use crate::markup::document;

/// Longest input file.
const INPUT_BYTES_MAX: u64 = 256 << 20;

/// The parameters of the command line. A value that is no JSON is a text.
pub(super) fn given_params(given: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut params = Map::new();
    for given in given {
        let (key, value) = given
            .split_once('=')
            .ok_or_else(|| Failure::new(Exit::Usage, format!("`--param {given}` has no `=`")))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        params.insert(key.to_owned(), value);
    }
    Ok(params)
}

fn object(text: &str, what: &str) -> Result<Map<String, Value>, Failure> {
    let no_object =
        || Failure::new(Exit::Input, format!("{what} is not a JSON object of flow inputs"));
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(no_object()),
        Err(error) => Err(no_object().because(&error)),
    }
}

/// A name that says how a text is read: its own, or one with the end that its content has.
pub(super) fn form_of(name: &str, bytes: &[u8]) -> String {
    if document::has_known_name(name) {
        return name.to_owned();
    }
    let end = match read::kind_of("", bytes) {
        Ok(FileKind::Mail) => "eml",
        Ok(FileKind::Html) => "html",
        Ok(FileKind::Latex) => "tex",
        Ok(FileKind::Markdown) => "md",
        _ => "txt",
    };
    format!("{name}.{end}")
}

/// The bytes of a text without a byte-order mark.
pub(super) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// The outputs of a line with its number, counted from 0, as readers of PromptFlow results expect.
pub(super) fn flat_row(index: usize, outputs: &Map<String, Value>) -> Value {
    let mut row = Map::from_iter([("line_number".to_owned(), index.into())]);
    row.extend(outputs.iter().map(|(name, value)| (name.clone(), value.clone())));
    Value::Object(row)
}

/// Where `--input` is read from.
pub(super) enum GivenInput {
    File(PathBuf),
    Json(String),
    Stdin,
}

impl GivenInput {
    pub(super) fn of(given: &str) -> GivenInput {
        match given {
            "-" => GivenInput::Stdin,
            json if json.trim_start().starts_with('{') => GivenInput::Json(json.to_owned()),
            path => GivenInput::File(path.into()),
        }
    }

    /// The name of the text as a source.
    pub(super) fn name(&self) -> String {
        match self {
            GivenInput::File(path) => {
                path.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            GivenInput::Json(_) | GivenInput::Stdin => "standard input".to_owned(),
        }
    }

    /// Whether it must be an object of inputs.
    pub(super) fn is_json(&self) -> bool {
        match self {
            GivenInput::File(path) => path.extension().is_some_and(|extension| extension == "json"),
            GivenInput::Json(_) => true,
            GivenInput::Stdin => false,
        }
    }

    /// What errors call it.
    pub(super) fn shown(&self) -> String {
        match self {
            GivenInput::File(path) => path.display().to_string(),
            GivenInput::Json(_) => "the input".to_owned(),
            GivenInput::Stdin => "standard input".to_owned(),
        }
    }

    pub(super) fn unreadable(&self) -> Failure {
        Failure::new(Exit::Input, format!("cannot read {}", self.shown()))
    }

    /// The object of inputs that it holds.
    pub(super) fn object(&self, context: &Context) -> Result<Map<String, Value>, Failure> {
        object(&self.text(context)?, &self.shown())
    }

    /// The objects of inputs on its lines.
    pub(super) fn lines(&self, context: &Context) -> Result<Vec<Map<String, Value>>, Failure> {
        self.lines_of(&self.bytes(context)?)
    }

    /// The objects of inputs on the lines of these bytes, which it holds.
    pub(super) fn lines_of(&self, bytes: &[u8]) -> Result<Vec<Map<String, Value>>, Failure> {
        let text = std::str::from_utf8(without_mark(bytes));
        let text = text.map_err(|error| self.unreadable().because(&error))?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(at, line)| object(line, &format!("line {} of {}", at + 1, self.shown())))
            .collect()
    }

    pub(super) fn bytes(&self, context: &Context) -> Result<Vec<u8>, Failure> {
        let too_long =
            || self.unreadable().hint(format!("it has more than {INPUT_BYTES_MAX} bytes"));
        let path = match self {
            GivenInput::File(path) => path,
            GivenInput::Json(text) => return Ok(text.clone().into_bytes()),
            GivenInput::Stdin => {
                let mut bytes = Vec::new();
                let read =
                    std::io::stdin().lock().take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes);
                read.map_err(|error| self.unreadable().because(&error))?;
                return if bytes.len() as u64 > INPUT_BYTES_MAX {
                    Err(too_long())
                } else {
                    Ok(bytes)
                };
            }
        };
        let disk = &*context.machine.disk;
        match disk.stat(path) {
            Ok(Some(stat)) if stat.len > INPUT_BYTES_MAX => return Err(too_long()),
            Ok(Some(_)) => {}
            Ok(None) => return Err(self.unreadable().hint("there is no such file")),
            Err(error) => return Err(self.unreadable().because(&error)),
        }
        disk.read(path).map_err(|error| self.unreadable().because(&error))
    }

    fn text(&self, context: &Context) -> Result<String, Failure> {
        let bytes = self.bytes(context)?;
        let text = String::from_utf8(bytes).map_err(|error| self.unreadable().because(&error))?;
        Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
    }
}
