//! Sentences that state nothing: requests, what stands below every mail of a firm, and lines that only
//! name somebody and say where to find them.

use crate::model::builtin::done;
use crate::model::builtin::fill::duties::{forbids, orders_on_condition, orders_with_pronoun};
use crate::model::builtin::lexicon::lexicon;
use crate::model::builtin::text::footers::ends_subscription;
use crate::model::builtin::text::lines::{closes_letter, greets, is_frame};
use crate::model::builtin::text::stopwords::is_stop_word;
use crate::model::builtin::text::words::{fold, spaced};
use crate::model::redact::announces_phone;

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
    "use code",
    "use the code",
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
    &["alle rechte vorbehalten"],
    &["tous droits reserves"],
    &["tutti i diritti riservati"],
    &["todos os direitos reservados"],
];
/// How a note about the owner of a text begins.
const OWNERS: &[&str] = &["(c) ", "© ", "copyright "];
/// How a sentence begins that only announces or hands over something. `Attached is …` states nothing, but a
/// verb, a number or a second part behind it does.
const ANNOUNCES: &[&str] = &[
    "just a quick note",
    "just a short note",
    "just a note",
    "just a quick update",
    "a quick note",
    "a short note",
    "quick note",
    "i attach",
    "i am attaching",
    "i m attaching",
    "i have attached",
    "i ve attached",
    "we attach",
    "we have attached",
    "attached is",
    "attached are",
    "attached please find",
    "attached you will find",
    "attached you ll find",
    "please find attached",
    "please find enclosed",
    "enclosed is",
    "enclosed are",
    "enclosed please find",
    "enclosed you will find",
    "see attached",
    "here is the",
    "here is a",
    "here is my",
    "here is our",
    "here are the",
    "here are my",
    "here are our",
    "here are some",
    "here s the",
    "here s my",
    "i am writing to you",
    "i am writing about",
    "i m writing about",
    "i am forwarding",
    "i forward",
    "adjunto",
    "te adjunto",
    "le adjunto",
    "les adjunto",
    "os adjunto",
    "adjuntamos",
    "te adjuntamos",
    "le adjuntamos",
    "les adjuntamos",
    "se adjunta",
    "se adjuntan",
    "te envio",
    "le envio",
    "les envio",
    "le enviamos",
    "les enviamos",
    "te mando",
    "le mando",
    "les mando",
    "te reenvio",
    "le reenvio",
    "les reenvio",
    "aqui tienes",
    "aqui tiene",
    "aqui va",
    "aqui van",
    "solo una nota",
    "una nota rapida",
    "una nota breve",
    "te escribo por",
    "le escribo por",
    "les escribo por",
    "anbei",
    "anbei finden sie",
    "anbei findest du",
    "anbei erhalten sie",
    "anbei erhaltst du",
    "anbei sende ich",
    "anbei schicke ich",
    "im anhang",
    "im anhang finden sie",
    "im anhang findest du",
    "in der anlage",
    "in der anlage finden sie",
    "ich schicke ihnen",
    "ich schicke dir",
    "ich sende ihnen",
    "ich sende dir",
    "nur eine kurze notiz",
    "nur eine kurze nachricht",
    "eine kurze notiz",
    "kurze notiz",
    "ci joint",
    "vous trouverez ci joint",
    "tu trouveras ci joint",
    "veuillez trouver ci joint",
    "en piece jointe",
    "je joins",
    "je vous joins",
    "je te joins",
    "je vous envoie",
    "je t envoie",
    "je vous transmets",
    "je te transmets",
    "voici",
    "juste un mot",
    "juste un petit mot",
    "un petit mot",
    "juste une note",
];
/// Words that begin a part of a sentence which may state something.
const PARTS: &[&str] = &["that", "which", "because", "que", "porque", "dass", "weil", "qui", "car"];

/// Words before a telephone number.
const REST_OF_CONTACT_MAX: usize = 2;
/// Fewest digits of a telephone number.
const PHONE_DIGITS_MIN: usize = 7;

/// The reasons. Each is true of everything that it is given for.
pub(super) const COURTESY: &str = "a greeting or thanks";
pub(super) const FRAME: &str = "a notice, a menu or a mark of a page";
pub(super) const ONLY_NAMES: &str = "names or words without a statement";

/// Why a sentence, without the label before it, states nothing, if it does not.
pub(super) fn states_nothing(said: &str) -> Option<&'static str> {
    let words = spaced(said);
    if greets(said) || closes_letter(said) || done::only_thanks(said) {
        return Some(COURTESY);
    }
    if announces(said, &words) {
        return Some("an announcement");
    }
    if is_notice(said, &words) {
        return Some(FRAME);
    }
    if is_contact(said) {
        return Some("a telephone number or an address");
    }
    if names_only(said) {
        return Some(ONLY_NAMES);
    }
    let asks = is_request(said, &words)
        || orders_with_pronoun(said)
        || orders_on_condition(said)
        || forbids(said);
    asks.then_some("a request")
}

fn has(words: &str, phrase: &str) -> bool {
    words.contains(&format!(" {phrase} "))
}

fn is_notice(said: &str, words: &str) -> bool {
    let starts = &lexicon().mail.signature_starts;
    is_frame(said)
        || ends_subscription(said)
        || NOTICES.iter().any(|row| row.iter().all(|part| words.contains(part)))
        || starts.iter().any(|start| words.trim_start().starts_with(spaced(start).trim()))
}

/// A sentence that says what comes with it or what it is about, and no more.
fn announces(said: &str, words: &str) -> bool {
    // The longest beginning decides: `Anbei finden Sie` has a verb.
    let begins = |phrase: &&&str| words.starts_with(&format!(" {phrase} "));
    let Some(phrase) = ANNOUNCES.iter().filter(begins).max_by_key(|phrase| phrase.len()) else {
        return false;
    };
    let mut rest = words[phrase.len() + 1..].split_whitespace();
    let states = |word: &str| lexicon().phrases.finite.contains(word) || PARTS.contains(&word);
    let has_parts = said.contains([':', ';', '?']) || said.contains(|c: char| c.is_ascii_digit());
    !has_parts && !rest.any(states)
}

/// What a sentence says beside the notices in it, and whether that is less than all: `The shears cost 24 EUR.
/// (c) 2026 Garden Tools Ltd. All rights reserved.` is one sentence for a splitter that knows `EUR.`
pub(super) fn without_notices(said: &str) -> (String, bool) {
    let mut kept: Vec<&str> = Vec::new();
    let parts = notice_parts(said);
    let is_row = |part: &&str| is_notice(part, &spaced(part));
    if !parts.iter().any(|part| names_owner(part)) && !is_row(&said) {
        return (said.to_owned(), false);
    }
    let mut at = 0;
    while at < parts.len() {
        let part = parts[at];
        if names_owner(part) {
            // `(c) 2026 Dr. Smith. All rights reserved.`: up to the end of the notice.
            let end = parts[at..].iter().position(|part| is_row(part) && !names_owner(part));
            at += end.unwrap_or(0) + 1;
            continue;
        }
        if !is_row(&part) {
            kept.push(part);
        }
        at += 1;
    }
    let is_less = kept.len() < parts.len();
    (kept.join(" "), is_less)
}

/// The parts of a sentence behind full stops, and what begins with the mark of an owner.
fn notice_parts(said: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in said.match_indices(' ') {
        let rest = &said[at + 1..];
        if said[..at].ends_with(['.', '!']) || names_owner(rest) {
            parts.push(said[start..at].trim());
            start = at + 1;
        }
    }
    parts.push(said[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// `(c) 2026 Garden Tools Ltd.`
fn names_owner(part: &str) -> bool {
    let low = part.get(..20.min(part.len())).unwrap_or(part).to_lowercase();
    let behind = OWNERS.iter().find_map(|mark| low.strip_prefix(mark));
    behind.is_some_and(|rest| {
        low.starts_with('©')
            || rest
                .trim_start_matches(['(', 'c', ')', '©', ' '])
                .split(|c: char| !c.is_ascii_digit())
                .next()
                .is_some_and(|year| year.len() == 4)
    })
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
    // `Order 12345678 arrived.` says something of its number; `tel` only names it.
    let says = words.iter().any(|word| {
        !is_number(&word.as_str()) && !is_mail(word) && !announces_phone(word) && states(word)
    });
    // An amount has separators of thousands: `4,300,000 EUR` is no telephone number.
    let is_phone = numbers >= PHONE_DIGITS_MIN
        && !says
        && words.iter().any(|word| digits(word) >= 3 && is_number(&word.as_str()))
        && !words.iter().any(|word| word.contains(',') && is_number(&word.as_str()));
    let has_mail = words.iter().any(|word| is_mail(word));
    others <= REST_OF_CONTACT_MAX && !has_sum && (is_phone || has_mail) && !is_dated(&words)
}

/// Whether a word is none of those that only connect, and no name. A script without capitals does not
/// show which words are names.
fn states(word: &str) -> bool {
    let folded = fold(word);
    word.starts_with(|c: char| c.is_alphabetic() && !c.is_uppercase())
        && (!is_stop_word(&folded) || lexicon().phrases.finite.contains(folded.as_str()))
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
    let says = words.iter().any(|word| word.starts_with(char::is_lowercase) && states(word));
    if is_titled_place(said) {
        return true;
    }
    if says || names == 0 || !words.iter().any(|word| has_low(&word)) {
        return false;
    }
    let numbers = words.iter().filter(|word| is_number(word)).count();
    let commas = said.matches([',', ';', '|', '·']).count();
    // One word is no name to be sure of: `Congratulations!`
    if names == 1 && numbers == 0 {
        return false;
    }
    // `Salary 32,000 EUR.` and `Deadline 4 May.` have a number and no list of places.
    numbers == 0 || (commas >= 2 && !said.contains(['€', '$', '£', '%']))
}

/// A few words and the name of a place or a firm in brackets, without a verb: `Analyst for data (City of Lima).`
fn is_titled_place(said: &str) -> bool {
    const WORDS_MAX: usize = 5;
    let said = said.trim_end_matches('.');
    let Some((before, inside)) = said.strip_suffix(')').and_then(|rest| rest.split_once('('))
    else {
        return false;
    };
    let is_high = |word: &str| word.starts_with(char::is_uppercase);
    let all = |word: &str| is_high(word) || is_stop_word(&fold(word));
    let is_named = inside.split_whitespace().all(all) && inside.split_whitespace().any(is_high);
    let has_verb = before
        .split_whitespace()
        .any(|word| lexicon().phrases.finite.contains(fold(word).as_str()));
    is_named
        && before.split_whitespace().count() <= WORDS_MAX
        && !said.contains(|c: char| c.is_ascii_digit())
        && !has_verb
        && !done::has_past(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_states_nothing_is_told_by_its_reason() {
        for (said, why) in [
            ("Ah, y devuélveme el taladro cuando puedas, que mi padre lo necesita.", "a request"),
            ("If so, send me your CV and two time slots.", "a request"),
            ("Si alguien tiene alergias, dínoslo antes del jueves.", "a request"),
            ("Conserve este número para cualquier reclamo.", "a request"),
            ("No cierres la puerta de atrás.", "a request"),
            ("Do not close the door at the back.", "a request"),
            ("Ne fermez pas la porte du jardin.", "a request"),
            ("Use code SPRING and save ten percent.", "a request"),
            ("Lena, thanks for the release notes, they are good.", COURTESY),
            ("Danke für das Protokoll, es ist gut.", COURTESY),
            ("Gracias por el acta.", COURTESY),
            ("Merci pour le compte rendu.", COURTESY),
            ("Analista de datos (Ayuntamiento de Gijón).", ONLY_NAMES),
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
            ("tel 600123456", "a telephone number or an address"),
            ("Ana Ruiz 600123456.", "a telephone number or an address"),
            ("móvil 600 123 456 o 600 123 457", "a telephone number or an address"),
            ("ana.ruiz@example.org.", "a telephone number or an address"),
            ("Ana Ruiz, Notaría Pérez, Calle Mayor 5, 28001 Madrid.", ONLY_NAMES),
            ("Dr. Ana María Ruiz García.", ONLY_NAMES),
            ("Notaría Pérez & Asociados.", ONLY_NAMES),
            ("Home > News > City", FRAME),
            ("This message is confidential and intended only for the addressee.", FRAME),
            ("Este mensaje es confidencial y está dirigido solo a su destinatario.", FRAME),
            ("If you have received this mail in error, delete it.", FRAME),
            ("Dear Ms Okeke,", COURTESY),
            ("Te adjunto la factura del motor.", "an announcement"),
            ("Te reenvío el comprobante.", "an announcement"),
            ("Just a quick note about the boat.", "an announcement"),
            ("Attached is the signed lease.", "an announcement"),
            ("Please find attached the minutes of the board.", "an announcement"),
            ("Anbei finden Sie die Rechnung.", "an announcement"),
            ("Im Anhang die Fotos vom Dach.", "an announcement"),
            ("Nur eine kurze Notiz zum Boot.", "an announcement"),
            ("Je vous envoie le devis du peintre.", "an announcement"),
            ("Vous trouverez ci-joint le contrat signé.", "an announcement"),
            ("Juste un petit mot sur le bateau.", "an announcement"),
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
            "Order 12345678 arrived.",
            "Invoice 20260305 paid.",
            "Revenue reached 4300000.",
            "La factura 20260305 está pagada.",
            "Bestellung 12345678 angekommen.",
            "订单 12345678 已到达。",
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
            "Attached is the lease that ends in May.",
            "Te adjunto la factura de 340 EUR.",
            "Just a quick note: the boat is ready.",
            "Anbei die Rechnung über 340 EUR.",
            "Voici le plan: nous partons à neuf heures.",
            "Congratulations!",
            "If the pump leaks, the cellar is flooded.",
            "No tienes que pagar la entrada.",
            "Términos y condiciones del contrato cambian en mayo.",
            "Ana signed the contract (Madrid).",
            "Thanks for the 400 euros.",
        ] {
            assert_eq!(states_nothing(said), None, "{said}");
        }
    }

    #[test]
    fn only_the_notice_leaves_a_sentence() {
        for (said, kept) in [
            (
                "The new shears cost 24 EUR. (c) 2026 Garden Tools Ltd. All rights reserved.",
                "The new shears cost 24 EUR.",
            ),
            ("The shears cost 24 EUR (c) 2026 Garden Tools.", "The shears cost 24 EUR"),
            (
                "Las tijeras cuestan 24 EUR. © 2026 Jardín S.A. Todos los derechos reservados.",
                "Las tijeras cuestan 24 EUR.",
            ),
            (
                "Die Schere kostet 24 EUR. © Garten GmbH. Alle Rechte vorbehalten.",
                "Die Schere kostet 24 EUR.",
            ),
            (
                "Le sécateur coûte 24 EUR. Copyright 2026 Jardin. Tous droits réservés.",
                "Le sécateur coûte 24 EUR.",
            ),
            ("(c) 2026 Dr. Smith Inc. All rights reserved.", ""),
        ] {
            assert_eq!(without_notices(said), (kept.to_owned(), true), "{said}");
        }
        for said in [
            "The pump is new. It runs.",
            "Plan (c) is the cheapest of the three.",
            "The flat has (a) 2 rooms (b) 1 bath (c) 3 balconies.",
        ] {
            assert_eq!(without_notices(said), (said.to_owned(), false));
        }
    }
}
