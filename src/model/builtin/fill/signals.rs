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

/// Whether a message reads like a fraud by its words alone: it holds a phrase of several words that
/// frauds use. One word is too little, because honest texts have prizes and heirs too.
pub(crate) fn reads_like_fraud(text: &str) -> bool {
    let folded = fold(text);
    let words = folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let said = format!(" {} ", words.collect::<Vec<_>>().join(" "));
    let phrases = lexicon().mail.scam.iter().filter(|phrase| phrase.contains(' '));
    phrases.into_iter().any(|phrase| said.contains(&format!(" {phrase} ")))
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
    use super::{reads_like_fraud, sender};

    #[test]
    fn a_fraud_is_known_by_a_phrase_and_not_by_a_word() {
        assert!(reads_like_fraud("Please verify your account within 24 hours."));
        assert!(reads_like_fraud("Su cuenta será suspendida hoy."));
        assert!(!reads_like_fraud("Ganó un premio de traducción y una herencia."));
        assert!(!reads_like_fraud("We could verify the account of the treasurer."));
    }

    #[test]
    fn a_sender_is_a_name_and_the_part_before_the_at() {
        assert_eq!(sender("\"Ana P\" <ana.p@x.org>"), ("ana.p".into(), "Ana P".into()));
        assert_eq!(sender("noreply@x.org"), ("noreply".into(), String::new()));
        assert_eq!(sender("Ana"), (String::new(), "Ana".into()));
    }
}
