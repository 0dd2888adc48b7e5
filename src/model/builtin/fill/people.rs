//! People with their addresses: from `Name <address>` in inputs and mail headers, and from the text.

use serde_json::{Value, json};

use super::super::extract::tokens;
use super::super::text::Kind;
use super::filled::Filled;
use super::scene::{Focus, Scene};
use crate::contract::source::Person;

/// `{name, email}` of everyone addressed, each address once.
pub(super) fn people(
    scene: &Scene<'_, '_>,
    inputs: &[String],
    most: usize,
    focus: &Focus,
) -> Filled {
    let mut found: Vec<(Option<String>, String)> = Vec::new();
    for name in inputs {
        let entries = match scene.input(name, focus) {
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).map(str::to_string).collect()
            }
            Some(Value::String(text)) => vec![text.clone()],
            _ => Vec::new(),
        };
        addressed(entries.iter().map(String::as_str), &mut found);
    }
    for &at in &focus.sentences {
        let said = scene.text.sentence(at);
        if scene.text.block_of(at).kind == Kind::Header {
            addressed(std::iter::once(said), &mut found);
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

/// Everybody whom headers name with an address.
fn addressed<'t>(
    headers: impl Iterator<Item = &'t str>,
    found: &mut Vec<(Option<String>, String)>,
) {
    for person in headers.flat_map(Person::all_of) {
        let name = person.name.map(|name| name.trim_matches('\'').trim().to_owned());
        let address = person.address.filter(|address| is_plausible(address));
        if let Some(address) = address {
            add(found, (name.filter(|name| !name.is_empty()), address));
        }
    }
}

fn is_plausible(address: &str) -> bool {
    let parts = address.split_once('@').filter(|(local, _)| !local.is_empty());
    parts.is_some_and(|(_, domain)| domain.contains('.')) && !address.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_names() {
        let mut found = Vec::new();
        let header =
            "\"Ana P\" <a@x.org>, b@x.org; Ana, \"M\u{fc}ller, Max\" <m@x.org>, To: <c@x.org>";
        addressed(std::iter::once(header), &mut found);
        let shown: Vec<_> = found.iter().map(|(name, at)| (name.as_deref(), at.as_str())).collect();
        assert_eq!(
            shown,
            [
                (Some("Ana P"), "a@x.org"),
                (None, "b@x.org"),
                (Some("M\u{fc}ller, Max"), "m@x.org"),
                (Some("To:"), "c@x.org"),
            ]
        );
    }
}
