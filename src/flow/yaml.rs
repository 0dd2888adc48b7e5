//! YAML as PromptFlow reads it: version 1.2 scalars (`yes` and `on` are words, `017` is text), one
//! document, duplicate keys refused, anchors allowed within a budget.
//!
//! The document becomes a JSON value. Neither interpolation nor inclusion of files exists.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Longest YAML text we read.
const YAML_BYTES_MAX: usize = 1 << 20;
/// Most nodes after aliases are followed.
const YAML_NODES_MAX: usize = 50_000;

/// The text is not the YAML we accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read YAML: {0}")]
pub(crate) struct NotYaml(pub String);

/// Reads one YAML document.
pub(super) fn parse(text: &str) -> Result<Value, NotYaml> {
    parse_as(text)
}

/// Reads one YAML document into a form of its own.
pub(super) fn parse_as<T: DeserializeOwned>(text: &str) -> Result<T, NotYaml> {
    if text.len() > YAML_BYTES_MAX {
        return Err(NotYaml(format!("longer than {YAML_BYTES_MAX} bytes")));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: YAML_NODES_MAX },
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_saphyr::from_str_with_options(text, options).map_err(|error| NotYaml(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scalars_follow_version_1_2() {
        let value = parse(
            "a: yes\nb: true\nc: 017\nd: 1_000\ne: '7'\nf: 0.7\ng: ~\nh: ${inputs.x}\ni: |-\n  two\n  lines\n",
        )
        .unwrap();
        assert_eq!(
            value,
            json!({"a": "yes", "b": true, "c": "017", "d": "1_000", "e": "7", "f": 0.7, "g": null, "h": "${inputs.x}", "i": "two\nlines"})
        );
    }

    #[test]
    fn unbounded_and_dangerous_yaml_is_refused() {
        assert!(parse("a: 1\na: 2").unwrap_err().0.contains('a'));
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let previous = format!("*a{}", level - 1);
            bomb += &format!("a{level}: &a{level} [{}]\n", vec![previous; 10].join(", "));
        }
        parse(&bomb).unwrap_err();
        parse(&"[".repeat(100_000)).unwrap_err();
        parse(&"x".repeat(YAML_BYTES_MAX + 1)).unwrap_err();
    }
}
