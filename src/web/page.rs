//! The page: markup, style and script put together into one document whose policy names the hashes
//! of exactly these two.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::http::Response;
use crate::contract::hash::sha256;

const MARKUP: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// One script of several files, each with one subject; none of its names is global.
const SCRIPT: &str = concat!(
    "\"use strict\";\n{\n",
    include_str!("page/base.js"),
    include_str!("page/charts.js"),
    include_str!("page/read.js"),
    include_str!("page/work.js"),
    include_str!("page/start.js"),
    "}\n",
);

static PAGE: OnceLock<(Vec<u8>, String)> = OnceLock::new();

/// The document with its policy.
pub(super) fn page() -> Response {
    let (body, policy) = PAGE.get_or_init(put_together);
    Response::html(body.clone(), policy.clone())
}

fn put_together() -> (Vec<u8>, String) {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(sha256(text).0));
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
        hash(SCRIPT),
        hash(STYLE),
    );
    let body = MARKUP.replacen("/*style*/", STYLE, 1).replacen("/*script*/", SCRIPT, 1);
    (body.into_bytes(), policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_holds_what_its_policy_names() {
        let (body, policy) = put_together();
        let body = String::from_utf8(body).unwrap();
        for (tag, source) in [("style", STYLE), ("script", SCRIPT)] {
            let (_, rest) = body.split_once(&format!("<{tag}>")).unwrap();
            let (inside, _) = rest.split_once(&format!("</{tag}>")).unwrap();
            assert_eq!(inside, source, "{tag}");
            assert!(policy.contains(&STANDARD.encode(sha256(inside).0)), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        // Nothing is loaded from elsewhere, and text never becomes markup.
        for word in ["http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval("]
        {
            let allowed = body.matches(word).count()
                - body.matches("http://www.w3.org/2000/svg").count()
                    * usize::from(word == "http://");
            assert_eq!(allowed, 0, "{word}");
        }
    }
}
