//! People with their addresses: from `Name <address>` in inputs and mail headers, and from the text.

use serde_json::{Value, json};

use super::super::extract::tokens;
use super::super::text::Kind;
use super::filled::Filled;
use super::scene::{Focus, Scene};

/// `{name, email}` of everyone addressed, each address once.
pub fn people(scene: &Scene<'_, '_>, inputs: &[String], most: usize, focus: &Focus) -> Filled {
    let mut found: Vec<(Option<String>, String)> = Vec::new();
    for name in inputs {
        let entries = match scene.input(name, focus) {
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).map(str::to_string).collect()
            }
            Some(Value::String(text)) => vec![text.clone()],
            _ => Vec::new(),
        };
        entries
            .iter()
            .flat_map(|entry| entry.split([',', ';']))
            .filter_map(address)
            .for_each(|person| add(&mut found, person));
    }
    for &at in &focus.sentences {
        let said = scene.text.sentence(at);
        if scene.text.block_of(at).kind == Kind::Header {
            said.split([',', ';']).filter_map(address).for_each(|person| add(&mut found, person));
            continue;
        }
        for mention in tokens::emails(scene.text, at) {
            add(&mut found, (None, scene.quote_mention(mention, 320).text));
        }
    }
    found.truncate(most);
    Filled::List(
        found
            .into_iter()
            .map(|(name, email)| Filled::Value(json!({"name": name, "email": email})))
            .collect(),
    )
}

fn add(found: &mut Vec<(Option<String>, String)>, person: (Option<String>, String)) {
    match found.iter_mut().find(|(_, email)| email.eq_ignore_ascii_case(&person.1)) {
        Some(known) if known.0.is_none() => known.0 = person.0,
        Some(_) => {}
        None => found.push(person),
    }
}

/// Reads `Name <address>` or a bare address.
fn address(entry: &str) -> Option<(Option<String>, String)> {
    let entry = entry.trim();
    let (name, email) = match entry.split_once('<') {
        Some((name, rest)) => (name, rest.split('>').next().unwrap_or(rest)),
        None => ("", entry),
    };
    let email = email.trim();
    let plausible = email
        .split_once('@')
        .is_some_and(|(local, domain)| !local.is_empty() && domain.contains('.'));
    let name = name.trim().trim_matches(['"', '\'']).trim();
    (plausible && !email.contains(char::is_whitespace))
        .then(|| ((!name.is_empty()).then(|| name.to_string()), email.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_names() {
        assert_eq!(address("\"Ana P\" <a@x.org>"), Some((Some("Ana P".into()), "a@x.org".into())));
        assert_eq!(address("a@x.org"), Some((None, "a@x.org".into())));
        assert_eq!(address("Ana"), None);
    }
}
