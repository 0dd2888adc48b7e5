//! Sentences below a mail to everybody that say how to get no more of them. The words are `subscriptions` in
//! `[mail]` of the language files.

use super::super::lexicon::lexicon;
use super::words::{in_order, spaced};

/// Whether a sentence only says why somebody gets such mails, or how to end that: `Unsubscribe at any time.`
pub(crate) fn ends_subscription(sentence: &str) -> bool {
    /// Words of such a sentence, at most.
    const WORDS_MAX: usize = 40;
    let words = spaced(sentence);
    words.split_whitespace().count() <= WORDS_MAX
        && lexicon().mail.subscriptions.iter().any(|phrase| in_order(&words, phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_subscription_is_told_from_what_is_said_of_one() {
        for footer in [
            "Unsubscribe at any time.",
            "If you no longer wish to receive these emails, click here.",
            "You are receiving this email because you signed up in the shop.",
            "To stop getting these mails, click unsubscribe.",
            "Para no recibir más estos correos hacé clic en cancelar la suscripción.",
            "Si no desea recibir más correos, haga clic aquí.",
            "Recibe este correo porque se registró en la tienda.",
            "Sie erhalten diese E-Mail, weil Sie sich angemeldet haben.",
            "Wenn Sie keine weiteren E-Mails erhalten möchten, klicken Sie hier.",
            "Vous recevez ce message parce que vous êtes inscrit.",
            "Pour ne plus recevoir nos messages, cliquez ici.",
        ] {
            assert!(ends_subscription(footer), "{footer}");
        }
        for other in [
            "The unsubscribe link is broken on phones.",
            "Two readers cancelled their subscription in May.",
            "You receive the keys on Monday.",
            "La suscripción cuesta 40 euros al año.",
            "Quiero cancelar la suscripción del gimnasio.",
            "Sie erhalten die Schlüssel am Montag.",
            "Vous recevez les clés lundi.",
        ] {
            assert!(!ends_subscription(other), "{other}");
        }
    }

    #[test]
    fn words_of_footers_are_folded() {
        for phrase in &lexicon().mail.subscriptions {
            let pieces: Vec<&str> = phrase.split(" … ").collect();
            assert!(pieces.iter().all(|piece| spaced(piece).trim() == *piece), "{phrase}");
        }
    }
}
