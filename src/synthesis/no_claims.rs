//! Sentences that state nothing: requests, what stands below every mail of a firm, and lines that only
//! name somebody and say where to find them.

use crate::model::builtin::lexicon::lexicon;
use crate::model::builtin::text::lines::{closes_letter, greets, is_frame};
use crate::model::builtin::text::stopwords::is_stop_word;
use crate::model::builtin::text::words::spaced;

/// How requests begin.
const ASKED: &[&str] = &[
    "please",
    "pls",
    "kindly",
    "could you",
    "can you",
    "would you",
    "will you",
    "we kindly",
    "i kindly",
    "we ask you",
    "i ask you",
    "i need you to",
    "we need you to",
    "let me know",
    "let us know",
    "make sure",
    "remember to",
    "don t forget",
    "do not forget",
    "be so kind",
    "action required",
    "todo",
    "to do",
    "rogamos",
    "le rogamos",
    "les rogamos",
    "te ruego",
    "le ruego",
    "se ruega",
    "solicitamos",
    "le solicito",
    "les solicito",
    "le solicitamos",
    "les solicitamos",
    "te pido",
    "le pido",
    "les pido",
    "le pedimos",
    "les pedimos",
    "podrias",
    "podria usted",
    "por favor",
    "favor de",
    "recuerda",
    "recuerde",
    "no olvides",
    "no olvide",
    "necesito que",
    "necesitamos que",
    "enviame",
    "enviame",
    "mandame",
    "envianos",
    "avisame",
    "avisanos",
    "bitte",
    "wir bitten",
    "ich bitte",
    "konnten sie",
    "konnen sie",
    "konntest du",
    "kannst du",
    "veuillez",
    "merci de",
    "priere de",
    "pourriez vous",
    "pouvez vous",
    "peux tu",
    "si prega",
    "vi preghiamo",
    "la prego",
    "potrebbe",
    "potresti",
    "por gentileza",
    "poderia",
    "solicito",
    "nao esqueca",
    "lembre se",
];
/// Words of a request wherever they stand.
const POLITE: &[&str] =
    &["please", "pls", "por favor", "bitte", "s il vous plait", "s il te plait", "per favore"];
/// Words that announce a fact although they sound like a request.
const ANNOUNCED: &[&str] = &["please note that", "please note", "nota", "bitte beachten sie dass"];
/// Orders that are nouns as well: `Test results are good.`
const NOUNS: &[&str] = &[
    "order", "book", "test", "call", "review", "check", "print", "sign", "register", "buy",
    "schedule", "update", "fix", "return", "upload", "share", "draft", "email", "contact",
    "change", "hand", "copy", "pay", "read", "find", "reserve", "move", "finish", "clear", "clean",
    "complete", "correct", "pick", "forward", "install", "replace", "finalize", "paga", "firma",
    "compra", "entrega", "reserva", "completa", "sube", "pide", "envia", "revisa", "prepara",
    "lleva", "avisa", "imprime", "corrige", "arregla", "borra", "manda", "trae", "llama", "pasa",
    "ponga", "revise", "entregue", "firme",
];
/// Parts of the notices that firms put below every mail: each needs all words of its row.
const NOTICES: &[&[&str]] = &[
    &["confidential", "intended"],
    &["confidential", "recipient"],
    &["confidential", "addressee"],
    &["received", "in error"],
    &["confidencial", "destinatari"],
    &["por error", "mensaje"],
    &["por error", "correo"],
    &["vertraulich", "empfanger"],
    &["irrtumlich", "erhalten"],
    &["confidentiel", "destinataire"],
    &["par erreur", "message"],
    &["riservat", "destinatari"],
    &["per errore", "messaggio"],
    &["por engano", "mensagem"],
    &["proteccion de datos", "reglamento"],
    &["consider the environment"],
    &["all rights reserved"],
    &["todos los derechos reservados"],
];
/// Words before a telephone number.
const REST_OF_CONTACT_MAX: usize = 2;
/// Fewest digits of a telephone number.
const PHONE_DIGITS_MIN: usize = 7;

/// Why a sentence, without the label before it, states nothing, if it does not.
pub(super) fn states_nothing(said: &str) -> Option<&'static str> {
    let words = spaced(said);
    if greets(said) || closes_letter(said) {
        return Some("a greeting or thanks");
    }
    if is_notice(said, &words) {
        return Some("a notice below a mail");
    }
    if is_contact(said) {
        return Some("a telephone number or an address");
    }
    if names_only(said) {
        return Some("a name");
    }
    is_request(said, &words).then_some("a request")
}

fn has(words: &str, phrase: &str) -> bool {
    words.contains(&format!(" {phrase} "))
}

fn is_notice(said: &str, words: &str) -> bool {
    let starts = &lexicon().mail.signature_starts;
    is_frame(said)
        || NOTICES.iter().any(|row| row.iter().all(|part| words.contains(part)))
        || starts.iter().any(|start| words.trim_start().starts_with(spaced(start).trim()))
}

fn is_request(said: &str, words: &str) -> bool {
    if ANNOUNCED.iter().any(|phrase| words.starts_with(&format!(" {phrase} "))) {
        return false;
    }
    if ASKED.iter().any(|phrase| words.starts_with(&format!(" {phrase} ")))
        || POLITE.iter().any(|phrase| has(words, phrase))
    {
        return true;
    }
    let ask = &lexicon().ask;
    let mut rest = words.split_whitespace().skip_while(|word| ask.openers.contains(*word));
    let (Some(verb), Some(next)) = (rest.next(), rest.next()) else { return false };
    // A question is none, and `Call of 20 minutes` orders nothing.
    if !ask.imperatives.contains(verb) || ask.noun_links.contains(next) || said.contains('=') {
        return false;
    }
    match NOUNS.contains(&verb) {
        false => !lexicon().phrases.finite.contains(next),
        // `Call the plumber`: an article follows an order and no noun.
        true => is_stop_word(next) && !lexicon().phrases.finite.contains(next),
    }
}

/// A telephone number, a mail address or a place, with hardly a word around it.
fn is_contact(said: &str) -> bool {
    let is_number = |word: &&str| {
        word.chars().all(|c| c.is_ascii_digit() || "+()-./".contains(c))
            && word.contains(|c: char| c.is_ascii_digit())
    };
    let trimmed = |word: &str| word.trim_matches([',', ';', '.', ':']).to_owned();
    let words: Vec<String> =
        said.split_whitespace().map(trimmed).filter(|word| !word.is_empty()).collect();
    let digits = |word: &str| word.bytes().filter(u8::is_ascii_digit).count();
    let numbers: usize =
        words.iter().filter(|word| is_number(&word.as_str())).map(|word| digits(word)).sum();
    let is_mail = |word: &str| word.contains('@') && word.contains('.');
    let others = words.iter().filter(|word| !is_number(&word.as_str()) && !is_mail(word)).count();
    let has_sum = said.contains(['€', '$', '£', '%']);
    // An amount has separators of thousands: `4,300,000 EUR` is no telephone number.
    let is_phone = numbers >= PHONE_DIGITS_MIN
        && words.iter().any(|word| digits(word) >= 3 && is_number(&word.as_str()))
        && !words.iter().any(|word| word.contains(',') && is_number(&word.as_str()));
    let has_mail = words.iter().any(|word| is_mail(word));
    others <= REST_OF_CONTACT_MAX && !has_sum && (is_phone || has_mail) && !is_dated(&words)
}

/// `2026-03-05` and `05/03/2026` have eight digits too.
fn is_dated(words: &[String]) -> bool {
    words.iter().any(|word| {
        let parts: Vec<&str> = word.split(['-', '/', '.']).collect();
        parts.len() == 3
            && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
            && parts.iter().filter(|part| part.len() == 4).count() == 1
            && parts.iter().filter(|part| part.len() <= 2).count() == 2
    })
}

/// Whether a text consists of names, and of the numbers of an address: `Ana Ruiz, Notaría Pérez, Calle
/// Mayor 5, 28001 Madrid.`
fn names_only(said: &str) -> bool {
    let words: Vec<&str> = said
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|' | '·' | '/'))
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .collect();
    let is_high = |word: &&&str| word.starts_with(char::is_uppercase);
    let has_low = |word: &&&str| word.contains(char::is_lowercase);
    let names = words.iter().filter(is_high).count();
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    // A word in small letters that says something makes a sentence of it.
    let says = words.iter().any(|word| {
        let folded = crate::model::builtin::text::words::fold(word);
        word.starts_with(char::is_lowercase)
            && (!is_stop_word(&folded) || lexicon().phrases.finite.contains(folded.as_str()))
    });
    if says || names == 0 || !words.iter().any(|word| has_low(&word)) {
        return false;
    }
    let numbers = words.iter().filter(|word| is_number(word)).count();
    let commas = said.matches([',', ';', '|', '·']).count();
    // `Salary 32,000 EUR.` and `Deadline 4 May.` have a number and no list of places.
    numbers == 0 || (commas >= 2 && !said.contains(['€', '$', '£', '%']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_states_nothing_is_told_by_its_reason() {
        for (said, why) in [
            ("Please send me the signed copy.", "a request"),
            ("Rogamos envíen el formulario antes del viernes.", "a request"),
            ("Le rogamos que confirme su asistencia.", "a request"),
            ("Could you call the notary tomorrow.", "a request"),
            ("Send the invoice to Ana before Friday.", "a request"),
            ("Call the plumber about the leak.", "a request"),
            ("Bitte senden Sie uns die Unterlagen bis Montag.", "a request"),
            ("Merci de nous renvoyer le contrat signé.", "a request"),
            ("If the pump leaks, call me please.", "a request"),
            ("Tel. +34 600 123 456.", "a telephone number or an address"),
            ("Phone: 555-010-2233", "a telephone number or an address"),
            ("ana.ruiz@example.org.", "a telephone number or an address"),
            ("Ana Ruiz, Notaría Pérez, Calle Mayor 5, 28001 Madrid.", "a name"),
            ("Dr. Ana María Ruiz García.", "a name"),
            ("Notaría Pérez & Asociados.", "a name"),
            (
                "This message is confidential and intended only for the addressee.",
                "a notice below a mail",
            ),
            (
                "Este mensaje es confidencial y está dirigido solo a su destinatario.",
                "a notice below a mail",
            ),
            ("If you have received this mail in error, delete it.", "a notice below a mail"),
            ("Dear Ms Okeke,", "a greeting or thanks"),
        ] {
            assert_eq!(states_nothing(said), Some(why), "{said}");
        }
    }

    #[test]
    fn what_states_something_is_kept() {
        for said in [
            "The pump is new.",
            "Test results are good.",
            "Order 40-11872 arrived on Monday.",
            "Book sales rose by four percent.",
            "Our new number is +34 600 123 456.",
            "Salary 32,000 EUR.",
            "4,300,000 EUR.",
            "The launch is on 4 May.",
            "THE PUMP IS NEW.",
            "Please note that the office closes at five.",
            "Paris and Lyon signed the contract.",
            "Die Sitzung beginnt um neun.",
            "We will book the flights.",
            "You should take the night bus.",
            "La bomba es nueva.",
            "会议定于星期五上午十点举行。",
        ] {
            assert_eq!(states_nothing(said), None, "{said}");
        }
    }
}
