//! Numbers in the text format of Prometheus.

use std::fmt::Write as _;

/// The text. Every name begins with `summarizer_`.
#[derive(Default)]
pub(crate) struct Exposition(pub(crate) String);

impl Exposition {
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP summarizer_{name} {help}");
        let _ = writeln!(self.0, "# TYPE summarizer_{name} {kind}");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.0, "summarizer_{name}");
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// A family of one sample.
    pub(crate) fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// A family with one label.
    pub(crate) fn each<'a>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        label: &str,
        values: impl Iterator<Item = (&'a str, f64)>,
    ) {
        self.family(name, kind, help);
        values.for_each(|(word, value)| self.sample(name, &[(label, word)], value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut out = Exposition::default();
        out.sample("x", &[("a", "q\"\\\n"), ("b", "c")], 1.5);
        assert_eq!(out.0, "summarizer_x{a=\"q\\\"\\\\\\n\",b=\"c\"} 1.5\n");
    }
}
