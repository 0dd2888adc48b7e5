//! The page: each text beside what was made of it and what its labels say.

use super::Judged;
use super::corpus::Half;
use super::score::Judgement;

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

pub fn append(page: &mut String, half: Half, judged: &[Judged<'_>]) {
    page.push_str(&format!("<h1>{half:?}</h1>\n"));
    for one in super::worst(judged) {
        let row = |field: &super::score::Field| {
            let class = match (field.judgement, field.score > 0.99) {
                (_, true) => "right",
                (Judgement::Invented, _) => "invented",
                _ => "wrong",
            };
            format!(
                "<tr class={class}><td>{}<td>{:.2}<td>{}<td>{}</tr>",
                escape(&field.name),
                field.score,
                escape(&field.found),
                escape(&field.wanted)
            )
        };
        let fields: String = one.fields.iter().map(row).collect();
        let broken: String =
            one.broken.iter().map(|said| format!("<li>{}", escape(said))).collect();
        let output = serde_json::to_string_pretty(&one.output).unwrap_or_default();
        page.push_str(&format!(
            "<section><h2>{} {} {:.2}</h2><div><pre>{}</pre><pre>{}</pre></div>\
             <table><tr><th>member<th>score<th>found<th>label</tr>{fields}</table><ul>{broken}</ul></section>\n",
            one.pack,
            escape(&one.sample.id),
            one.score(),
            escape(&one.sample.text),
            escape(&output)
        ));
    }
}

pub fn whole(body: &str) -> String {
    format!(
        "<!doctype html><meta charset=utf-8><title>Quality of the packs</title><style>\
         body{{font:14px sans-serif;margin:2em}}div{{display:grid;grid-template-columns:1fr 1fr;gap:1em}}\
         pre{{white-space:pre-wrap;background:#f4f4f4;padding:1em}}td,th{{border:1px solid #ccc;padding:.3em;text-align:left}}\
         .invented{{background:#fcc}}.wrong{{background:#fec}}</style>\n{body}"
    )
}
