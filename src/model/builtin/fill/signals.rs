//! The signs of a message that need nothing but its words and its sender.

use super::super::lexicon::lexicon;
use super::super::text::words::fold;
use super::scene::Scene;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Signals {
    pub(crate) scam: bool,
    pub(crate) bulk: bool,
    pub(crate) automated: bool,
    pub(crate) stake: bool,
}

/// The signs that need nothing but words and the sender.
pub(crate) fn signals(scene: &Scene<'_, '_>) -> Signals {
    let mail = &lexicon().mail;
    let from = scene.input_text("from", &scene.all()).unwrap_or_default();
    let (local, _) = sender(&from);
    let local_is = |list: &[String]| {
        let mut pieces = local.split(['.', '-', '_', '+']);
        list.contains(&local) || pieces.any(|piece| list.iter().any(|one| one == piece))
    };
    let stake = says(scene, &mail.stakes);
    let scam = says(scene, &mail.scam);
    let automated = local_is(&mail.automated_senders) || says(scene, &mail.automated);
    let bulk = !stake && (local_is(&mail.bulk_senders) || says(scene, &mail.bulk));
    Signals { scam, bulk, automated, stake: stake && !scam }
}

/// Whether a text says one of some phrases anywhere, frames included.
pub(crate) fn says(scene: &Scene<'_, '_>, phrases: &[String]) -> bool {
    phrases.iter().any(|phrase| !scene.index().find(phrase).is_empty())
}

/// The local part and the shown name of a sender.
pub(crate) fn sender(from: &str) -> (String, String) {
    let (name, address) = match from.split_once('<') {
        Some((name, rest)) => (name, rest.trim_end_matches(['>', ' '])),
        None if from.contains('@') => ("", from),
        None => (from, ""),
    };
    let local = address.split('@').next().unwrap_or_default();
    (fold(local.trim()), name.trim().trim_matches('"').to_string())
}

#[cfg(test)]
mod tests {
    use super::sender;

    #[test]
    fn a_sender_is_a_name_and_the_part_before_the_at() {
        assert_eq!(sender("\"Ana P\" <ana.p@x.org>"), ("ana.p".into(), "Ana P".into()));
        assert_eq!(sender("noreply@x.org"), ("noreply".into(), String::new()));
        assert_eq!(sender("Ana"), (String::new(), "Ana".into()));
    }
}
