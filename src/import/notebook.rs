//! Notebooks of Jupyter: their texts and their code, one cell after another.
//!
//! Contract: pure. What a cell printed is left out, and counted.

use serde_json::Value;

use super::LeftOut;
use crate::contract::publish;
use crate::markup::document::{self, Document};
use crate::markup::records::value_of;

/// A notebook as Markdown; `None` where the JSON is something else.
pub(super) fn document(text: &str) -> Option<Result<Document, String>> {
    let notebook = read(text)?;
    let language = notebook.pointer("/metadata/kernelspec/language").and_then(Value::as_str);
    let language = language.unwrap_or_default();
    let cells = cells(&notebook).filter_map(|cell| {
        let source = joined(&cell["source"]);
        let source = source.trim();
        (!source.is_empty()).then(|| match cell["cell_type"] == "code" {
            true => format!("```{language}\n{source}\n```"),
            false => source.to_owned(),
        })
    });
    let text = cells.collect::<Vec<_>>().join("\n\n");
    let read = document::read("x.md", text.as_bytes());
    Some(read.map(|document| with_metadata(document, &notebook["metadata"])))
}

/// What a notebook says about itself stands beside its cells.
fn with_metadata(mut document: Document, metadata: &Value) -> Document {
    let Some(metadata) = metadata.as_object() else { return document };
    document.publish = publish::together([document.publish, publish::said_by_record(metadata)]);
    for (name, value) in metadata {
        document.members.entry(name).or_insert_with(|| value.clone());
    }
    document
}

/// What the cells printed.
pub(super) fn outputs(text: &str) -> Option<LeftOut> {
    let notebook = read(text)?;
    let of_cell = |cell: &Value| cell["outputs"].as_array().map_or(0, Vec::len);
    let what = match cells(&notebook).map(of_cell).sum::<usize>() {
        0 => return None,
        1 => "1 output of a cell".to_owned(),
        many => format!("{many} outputs of cells"),
    };
    Some(LeftOut::Attachment(format!("{what} (of a notebook, texts and code are read)")))
}

fn read(text: &str) -> Option<Value> {
    let is_likely = text.contains("\"nbformat\"") && text.contains("\"cells\"");
    let value = is_likely.then(|| value_of(text)).flatten()?;
    (value["nbformat"].is_u64() && value["cells"].is_array()).then_some(value)
}

fn cells(notebook: &Value) -> impl Iterator<Item = &Value> {
    notebook["cells"].as_array().into_iter().flatten()
}

/// A source is a text, or a list of its lines.
fn joined(source: &Value) -> String {
    match source {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notebook_gives_its_texts_and_its_code() {
        let text = r##"{"nbformat": 4, "metadata": {"kernelspec": {"language": "python"}}, "cells": [
            {"cell_type": "markdown", "source": ["# Sales\n", "They grew."]},
            {"cell_type": "code", "source": "print(1)", "outputs": [{"text": ["1"]}]},
            {"cell_type": "code", "source": [], "outputs": []}]}"##;
        let read = document(text).unwrap().unwrap();
        assert_eq!(read.text, "# Sales\nThey grew.\n\n```python\nprint(1)\n```");
        assert_eq!(read.title.as_deref(), Some("Sales"));
        assert!(outputs(text).unwrap().to_string().starts_with("1 output of a cell"));
        assert!(document(r#"{"cells": [], "name": "nbformat"}"#).is_none());
        let private = text.replace("\"metadata\": {", "\"metadata\": {\"publish\": \"no\", ");
        assert_eq!(document(&private).unwrap().unwrap().publish, Some(false));
        assert_eq!(read.publish, None);
    }
}
