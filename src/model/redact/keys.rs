//! Finds keys and passwords: by the form that a service gives them, by the word before them, and by
//! their place in an address.

use std::ops::Range;

use super::{commands, is_space, words_before};
use crate::markup::prefix;

/// Bytes before a word that are searched for a label.
const LABEL_BYTES: usize = 80;
/// Longest secret after a label, and longest user part of an address.
const VALUE_BYTES_MAX: usize = 4096;

/// A key by its first characters.
struct Form {
    start: &'static str,
    /// Fewest characters in all.
    least: usize,
    /// Whether no name in a program begins like this, so that a key need not have a digit.
    is_certain: bool,
}

const fn form(start: &'static str, least: usize) -> Form {
    Form { start, least, is_certain: false }
}

const fn certain(start: &'static str, least: usize) -> Form {
    Form { start, least, is_certain: true }
}

/// The forms of well-known services.
const FORMS: [Form; 76] = [
    form("sk-", 20),
    form("sk_", 16),
    form("pk_", 16),
    form("rk_", 16),
    form("whsec_", 20), // OpenAI, Anthropic, Stripe
    certain("gsk_", 20),
    certain("r8_", 20),
    certain("hf_", 16),
    form("nvapi-", 20),
    form("xai-", 20),
    form("pplx-", 20),
    certain("ghp_", 16),
    certain("gho_", 16),
    certain("ghs_", 16),
    certain("ghu_", 16),
    certain("ghr_", 16),
    form("github_pat_", 20),
    certain("glpat-", 16),
    certain("gldt-", 16),
    certain("glrt-", 16),
    form("ATATT3", 20),
    form("ATBB", 20), // GitLab, Atlassian
    certain("xoxb-", 16),
    certain("xoxp-", 16),
    form("xoxa-", 16),
    form("xoxe-", 16),
    form("xoxs-", 16),
    form("xapp-", 16),
    form("hooks.slack.com/services/", 40),
    form("discord.com/api/webhooks/", 40),
    form("AKIA", 16),
    form("ASIA", 16),
    certain("AIza", 30),
    form("ya29.", 16),
    form("GOCSPX-", 20), // AWS, Google
    certain("npm_", 16),
    form("pypi-", 16),
    form("rubygems_", 20),
    form("dckr_pat_", 16),
    form("crates_", 20),
    form("SG.", 16),
    form("dop_v1_", 20),
    form("HRKU-", 20),
    form("shpat_", 20),
    form("shpss_", 20),
    form("sq0atp-", 16),
    form("lin_api_", 16),
    form("ntn_", 20),
    form("secret_", 20),
    form("dapi", 32),
    form("dp.pt.", 20),
    form("hvs.", 20),
    form("PMAK-", 20),
    form("NRAK-", 16),
    form("sntrys_", 20),
    form("AGE-SECRET-KEY-1", 30),
    form("fo1_", 20),
    form("tskey-", 16),
    form("sbp_", 20),
    form("eyJ", 30),
    certain("glsa_", 20),
    form("glc_", 24), // Grafana
    certain("figd_", 20),
    form("EAAA", 40), // Square
    form("EAA", 60),
    form("IGQV", 60),
    form("IGAA", 60), // Facebook, Instagram
    form("pat-na1-", 30),
    form("pat-eu1-", 30), // HubSpot
    form("xkeysib-", 40), // Brevo
    form("shpca_", 20),
    form("shppa_", 20), // Shopify
    form("pk.eyJ", 40),
    form("sk.eyJ", 40), // Mapbox
    form("lsv2_", 30),
    form("sl.", 60), // Dropbox
];

/// Words after which `:` or `=` announces a secret; `_` and `-` between words count as spaces. A name that ends with one after `_`, `-`, `.` or a
/// space counts too.
const LABELS: [&str; 41] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "pass",
    "pw",
    "pin",
    "otp",
    "secret",
    "token",
    "apikey",
    "api key",
    "access key",
    "accountkey",
    "account key",
    "secret key",
    "private key",
    "privatekey",
    "client secret",
    "bearer",
    "credential",
    "credentials",
    "contraseña",
    "contrasena",
    "clave",
    "passwort",
    "kennwort",
    "mot de passe",
    "code secret",
    "recovery code",
    "verification code",
    "login code",
    "código de verificación",
    "passwords",
    "senha",
    "wachtwoord",
    "lösenord",
    "hasło",
    "parola",
    "пароль",
];
/// Words after which `:` or `=` announces a secret of several words.
const PHRASES: [&str; 11] = [
    "passphrase",
    "pass phrase",
    "password phrase",
    "seed phrase",
    "seed words",
    "recovery phrase",
    "recovery words",
    "backup phrase",
    "mnemonic phrase",
    "frase semilla",
    "phrase de récupération",
];
/// Most words of such a secret.
const PHRASE_WORDS_MAX: usize = 24;
/// Those that also end a longer word: `Benutzerpasswort`, `dbpassword`.
const IN_COMPOUNDS: [&str; 7] =
    ["password", "passwd", "passphrase", "passwort", "kennwort", "wachtwoord", "lösenord"];
/// Labels that announce a secret without a verb or a colon: "wifi password hunter2".
const BARE_LABELS: [&str; 15] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "pw",
    "pin",
    "contraseña",
    "contrasena",
    "passwort",
    "kennwort",
    "senha",
    "wachtwoord",
    "lösenord",
    "пароль",
];
/// Ends of the names of variables: `PGPASSWORD`.
const VARIABLES: [&str; 5] = ["PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN"];
/// Headers whose value is secret up to the end of the line.
const HEADERS: [&str; 8] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "x-auth-token",
    "x-amz-security-token",
    "x-goog-api-key",
];
const SCHEMES: [&str; 6] = ["basic", "bearer", "digest", "token", "apikey", "negotiate"];
/// Words between a label and a secret: "the password is hunter2".
const VERBS: [&str; 13] =
    ["is", "was", "are", "be", "es", "era", "será", "sea", "ist", "war", "lautet", "est", "sera"];
/// Words that may stand behind the verb: "the password is now hunter2".
const FILLERS: [&str; 6] = ["now", "still", "ahora", "jetzt", "maintenant", "agora"];
/// Words between a label and a colon: "password for the wifi: hunter2".
const WORDS_TO_COLON: usize = 4;

/// Other words directly before a secret.
const CALLS: [&str; 5] = ["bearer", "basic", "-u", "--user", "-p"];
/// Words before a label that belongs to a sentence.
const ARTICLES: [&str; 12] =
    ["a", "the", "his", "her", "their", "un", "una", "el", "la", "ein", "eine", "le"];
/// What stands behind a label without quotes where there is no secret: what programs write for nothing, for yes and no, and
/// for the kind of a value.
const NO_VALUES: [&str; 18] = [
    "null",
    "none",
    "nil",
    "undefined",
    "true",
    "false",
    "yes",
    "no",
    "string",
    "str",
    "bytes",
    "number",
    "bool",
    "boolean",
    "int",
    "integer",
    "any",
    "object",
];
/// Labels that are ordinary words too: "token: the smallest unit of a text".
const ORDINARY: [&str; 9] =
    ["token", "secret", "pass", "pin", "otp", "bearer", "credential", "credentials", "clave"];
/// Words behind an ordinary word after such a label that make a sentence of it.
const SENTENCE_WORDS: usize = 3;
/// Words of a label that has a line of its own.
const ALONE_WORDS_MAX: usize = 3;
/// Backslashes before a quote: a text in a text in a text has seven.
const ESCAPES_MAX: usize = 7;
/// Bytes of a key that must hold a digit, and in which its least length is counted.
const FORM_BYTES: usize = 512;
/// Fewest letters of a key without a digit.
const LETTERS_MIN: usize = 16;

/// Adds each secret in the text to `found`.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
    blocks(text, found);
    let blocks = found.len();
    let mut next_block = 0;
    let mut from = 0;
    let mut previous = None;
    for (at, c) in text.char_indices() {
        let starts_word = !previous.is_some_and(is_word);
        let after_sign =
            previous.is_none_or(|p| is_space(p) || is_mark(p) || p == '\n' || p == '\t');
        previous = Some(c);
        if next_block < blocks && at >= found[next_block].start {
            from = from.max(found[next_block].end);
            next_block += 1;
        }
        if at < from || is_space(c) || c.is_control() {
            continue;
        }
        let in_address =
            (c == '/' && text[at..].starts_with("//")).then(|| in_address(text, at + 2)).flatten();
        let may_begin = after_sign && !is_mark(c) && !is_escaped_quote(&text[at..]);
        let by_label = || may_begin.then(|| labelled(text, at)).flatten();
        let by_form =
            || starts_word.then(|| formed(&text[at..])).flatten().map(|length| at..at + length);
        if let Some(secret) = in_address.or_else(by_label).or_else(by_form) {
            from = secret.end;
            previous = text[..from].chars().next_back();
            if secret.start < secret.end {
                found.push(secret);
            }
        }
    }
    found.sort_by_key(|secret| secret.start);
}

/// `-----BEGIN … PRIVATE KEY-----` up to its end, or to the end of the text.
fn blocks(text: &str, found: &mut Vec<Range<usize>>) {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    let mut from = 0;
    while let Some(at) = text[from..].find(BEGIN) {
        let start = from + at;
        from = start + BEGIN.len();

        let head = text[from..ceil(text, from + 80)].lines().next().unwrap_or_default();
        if !head.contains("PRIVATE KEY") {
            continue;
        }
        from = text[from..].find(END).map_or(text.len(), |end| {
            let end = from + end + END.len();
            text[end..].find("-----").map_or(text.len(), |close| end + close + 5)
        });
        found.push(start..from);
    }
}

/// `//user:password@host`: the password.
fn in_address(text: &str, start: usize) -> Option<Range<usize>> {
    let limit = ceil(text, start + 512);
    let authority =
        text[start..limit].split(|c: char| c.is_whitespace() || "/?#\"'<>".contains(c)).next()?;
    let at = authority.rfind('@')?;
    let colon = authority[..at].find(':')?;
    (colon + 1 < at).then_some(start + colon + 1..start + at)
}

/// The secret at `at`, when the text before it announces one.
fn labelled(text: &str, at: usize) -> Option<Range<usize>> {
    let floor = floor(text, at.saturating_sub(LABEL_BYTES));
    let line = text[floor..at].rfind('\n').map_or(floor, |end| floor + end + 1);
    let in_command = commands::find(text, at, |at, quote| value(text, at, quote));
    if in_command.is_some() {
        return in_command;
    }
    let before = text[line..at].trim_end_matches(|c| is_space(c) || c == '\t');
    let quote = before.chars().next_back().filter(|c| matches!(c, '"' | '\'' | '`' | '“' | '«'));
    let bare =
        before.trim_end_matches(|c: char| is_space(c) || is_quote(c) || "*<([{>\\".contains(c));
    let value = || value(text, at, quote);
    if let Some(label) = bare.strip_suffix([':', '=', '：']) {
        let label = without_signs(label);
        let announced = announced_by(label, || &text[value()], quote.is_some())?;
        let is_prose = || !bare.ends_with('=') && is_sentence(text, label, value());
        if is_no_secret(text, value(), quote)
            || announced == Announced::Value && quote.is_none() && is_prose()
        {
            return None;
        }
        return Some(match announced {
            Announced::Value => value(),
            Announced::Phrase if quote.is_some() => value(),
            Announced::Phrase => phrase(text, at),
            Announced::Header => header_value(text, at),
        });
    }
    if text[..line].ends_with('\n') && bare.trim_end_matches(['-', '+', '•', '|', ' ']).is_empty()
    {
        return below_label(text, (line, at), quote);
    }
    if is_in_cell(before) || is_in_element(before) {
        let value = value();
        return looks_secret(&text[value.clone()]).then_some(value);
    }
    let mut words = words_before(text, at, LABEL_BYTES);
    if let [.., verb, filler] = &*words
        && VERBS.contains(&verb.as_str())
        && FILLERS.contains(&filler.as_str())
    {
        words.pop();
    }
    let last = words.last()?.as_str();
    if BARE_LABELS.contains(&last) {
        let value = value();
        let word = &text[value.clone()];
        let has_digit = word.chars().any(|c| c.is_ascii_digit());
        return (has_digit && looks_secret(word)).then_some(value);
    }
    let is_flag = || {
        let name = last.strip_prefix("--").map(|name| name.replace('-', " "));
        name.is_some_and(|name| LABELS.iter().any(|label| ends_with_word(&name, label)))
    };
    if !VERBS.contains(&last) && !CALLS.contains(&last) && !is_flag() {
        return None;
    }
    let value = value();
    let secretive = looks_secret(&text[value.clone()]);
    let announced = match last {
        "bearer" | "basic" => secretive && value.len() >= 8,
        "-u" | "--user" => secretive && !commands::is_ports(&text[value.clone()]),
        "-p" => secretive && !commands::is_no_password(text, at, &text[value.clone()]),
        flag if flag.starts_with("--") => secretive,
        _ if secretive => {
            let said = words[..words.len() - 1].join(" ");
            // "My PIN for the door is 4711": up to three words may stand between.
            LABELS.iter().any(|label| ends_with_word(&said, label))
                || words
                    .iter()
                    .rev()
                    .skip(2)
                    .take(3)
                    .any(|word| LABELS[..10].contains(&word.as_str()))
        }
        _ => false,
    };
    announced.then_some(value)
}

/// A label without the signs behind it: quotes, also escaped ones, and brackets.
fn without_signs(label: &str) -> &str {
    label.trim_end_matches(|c: char| is_space(c) || is_quote(c) || "*)]\\".contains(c))
}

/// Whether what stands behind a label is no secret: nothing, the name of a kind, or the name of another value.
fn is_no_secret(text: &str, value: Range<usize>, quote: Option<char>) -> bool {
    let Some(quote) = quote else {
        let word = &text[value];
        let is_known = || NO_VALUES.contains(&&*word.to_lowercase());
        return !word.contains(char::is_alphanumeric) || word.len() < LABEL_BYTES && is_known();
    };
    // `"password": {"type": "string"}`.
    let behind = text[value.end..].trim_start_matches('\\').strip_prefix(quote);
    behind.is_some_and(|behind| behind.starts_with(':'))
}

/// Whether a word behind a label begins a sentence: an article, or several ordinary words behind an ordinary word.
fn is_sentence(text: &str, label: &str, value: Range<usize>) -> bool {
    let (word, rest) = (&text[value.clone()], &text[value.end..]);
    if word.len() > LABEL_BYTES || looks_secret(word) {
        return false;
    }
    let line = &rest[..rest.len().min(ceil(rest, LABEL_BYTES))];
    let line = line.split(['\n', '.', ',', ';', ':']).next().unwrap_or_default();
    let follow = if line.starts_with(' ') { line.split_whitespace().count() } else { 0 };
    let is_ordinary = || {
        let label = label.to_lowercase();
        ORDINARY.iter().any(|one| ends_with_word(&label, one))
    };
    let is_article = ARTICLES.contains(&&*word.to_lowercase());
    follow > 0 && is_article
        || follow >= SENTENCE_WORDS && word.chars().all(char::is_lowercase) && is_ordinary()
}

/// The secret that begins a line, when the line above it is its label, or ends with it.
fn below_label(
    text: &str,
    (line, at): (usize, usize),
    quote: Option<char>,
) -> Option<Range<usize>> {
    let above = text[floor(text, line.saturating_sub(LABEL_BYTES))..line].trim_end();
    let above = above.rsplit('\n').next()?;
    // YAML has a sign behind the colon where the value has lines of its own.
    let above = above.trim_end_matches(['|', '>', '-', '*', '_', '`', ' ', '\t']);
    let value = value(text, at, quote);
    let word = &text[value.clone()];
    let behind = text[value.end..]
        .trim_start_matches(|c: char| is_quote(c) || "*.,;!?)]}\\ \t\r".contains(c));
    let is_alone = behind.is_empty() || behind.starts_with('\n');
    let Some(label) = above.strip_suffix([':', '=', '：']).map(without_signs) else {
        let label = above.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let is_label = BARE_LABELS.contains(&&*label) && is_alone && looks_secret(word);
        return (is_label && !word.contains("://")).then_some(value);
    };
    match announced_by(label, || word, quote.is_some())? {
        _ if is_no_secret(text, value.clone(), quote) || word.contains("://") => None,
        Announced::Value | Announced::Phrase if quote.is_some() => Some(value),
        Announced::Phrase => {
            let words = phrase(text, at);
            let ends = text[words.end..].trim_start_matches([' ', '\t', '\r']);
            (ends.is_empty() || ends.starts_with('\n')).then_some(words)
        }
        Announced::Header => {
            text[line..at].starts_with([' ', '\t']).then(|| header_value(text, at))
        }
        Announced::Value => {
            let words = words_before(label, label.len(), LABEL_BYTES);
            let is_word = words.len() <= ALONE_WORDS_MAX
                && words.last().is_some_and(|word| BARE_LABELS.contains(&&**word));
            (is_alone && word.len() >= 4 && (is_word || looks_secret(word))).then_some(value)
        }
    }
}

/// What a label before a colon announces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Announced {
    /// A word.
    Value,
    /// Words.
    Phrase,
    /// The rest of the line.
    Header,
}

/// A name with a space between a small letter and a large one behind it.
fn with_spaces(name: &str) -> String {
    let mut spaced = String::with_capacity(name.len() + 4);
    let mut is_small = false;
    for c in name.chars() {
        if is_small && c.is_uppercase() {
            spaced.push(' ');
        }
        is_small = c.is_lowercase();
        spaced.push(c);
    }
    spaced
}

/// What the text before a colon or `=` announces. `word` is the one behind it.
fn announced_by<'t>(label: &str, word: impl Fn() -> &'t str, is_quoted: bool) -> Option<Announced> {
    let is_secret = || is_quoted || looks_secret(word());
    let is_spoken = |label: &str, word: &str| {
        let spoken = words_before(label, label.len() - word.len(), LABEL_BYTES);
        spoken.last().is_some_and(|word| ARTICLES.contains(&word.as_str()))
    };
    let name = label.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
    let is_variable = name.chars().all(|c| c.is_uppercase() || c.is_ascii_digit() || c == '_');
    if is_variable && VARIABLES.iter().any(|end| name.ends_with(end)) {
        return Some(Announced::Value);
    }
    let (written, label) = (label, label.to_lowercase());
    if let Some(header) = HEADERS.iter().find(|header| ends_with_word(&label, header)) {
        // "The cookie: a history" announces a sentence.
        return (!is_spoken(&label, header) || is_secret()).then_some(Announced::Header);
    }
    // `dbPassword` ends with the word after its last small letter.
    for label in [&label, &with_spaces(written).to_lowercase()] {
        let label = label.replace(['_', '-'], " ");
        // "My password is: hunter2".
        let verb = VERBS.iter().find(|verb| ends_with_word(&label, verb));
        let label = verb.map_or(&*label, |verb| label[..label.len() - verb.len()].trim_end());
        if let Some(word) = PHRASES.iter().find(|word| ends_with_word(label, word)) {
            return (!is_spoken(label, word) || is_secret()).then_some(Announced::Phrase);
        }
        let is_label = |word: &&&str| {
            ends_with_word(label, word) || (IN_COMPOUNDS.contains(*word) && label.ends_with(**word))
        };
        if let Some(word) = LABELS.iter().find(is_label) {
            // "She had a secret: nobody knew" announces a sentence.
            return (!is_spoken(label, word) || is_secret()).then_some(Announced::Value);
        }
    }
    let label = label.replace(['_', '-'], " ");
    let words = words_before(&label, label.len(), LABEL_BYTES);
    let is_near =
        words.iter().rev().take(WORDS_TO_COLON).any(|word| BARE_LABELS.contains(&word.as_str()));
    let has_digit = || word().chars().any(|c| c.is_ascii_digit());
    (is_near && has_digit() && is_secret()).then_some(Announced::Value)
}

/// `| password | hunter2 |`: whether the cell before is a label.
fn is_in_cell(before: &str) -> bool {
    let cell = before.strip_suffix('|').and_then(|row| row.rsplit('|').next());
    cell.is_some_and(|cell| LABELS.contains(&cell.trim().to_lowercase().as_str()))
}

/// `<password>hunter2</password>`: whether the element is a label.
fn is_in_element(before: &str) -> bool {
    let name = before.strip_suffix('>').and_then(|text| text.rsplit('<').next());
    name.is_some_and(|name| LABELS.contains(&name.to_lowercase().replace(['_', '-'], " ").as_str()))
}

/// The rest of a header's line, without the name of the scheme.
fn header_value(text: &str, at: usize) -> Range<usize> {
    let end = ceil(text, at + VALUE_BYTES_MAX);
    let length = text[at..end].find(['\n', '\r', '"', '\'']).unwrap_or(end - at);
    let line = &text[at..at + length];
    let scheme = line.split(' ').next().unwrap_or_default();
    let skipped = if SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        line.len() - line[scheme.len()..].trim_start().len()
    } else {
        0
    };
    at + skipped..at + line.trim_end().len().max(skipped)
}

/// From `at` to the closing quote, or to the next space without the punctuation of the sentence.
fn value(text: &str, at: usize, quote: Option<char>) -> Range<usize> {
    let end = ceil(text, at + VALUE_BYTES_MAX);
    let rest = &text[at..end];
    if let Some(quote) = quote {
        let close = match quote {
            '“' => '”',
            '«' => '»',
            same => same,
        };
        let line = rest.find('\n').unwrap_or(rest.len());
        if let Some(length) = quoted(&rest[..line], close, escapes_before_quote(text, at)) {
            return at..at + length;
        }
    }
    let address = text[..at].chars().rev().take(LABEL_BYTES).any(|c| c == '?' || c == '&');
    let ends = |c: char| {
        c.is_whitespace() || is_space(c) || is_quote(c) || c == '<' || (address && c == '&')
    };
    let word = rest.split(ends).next().unwrap_or_default();
    at..at + word.trim_end_matches(['.', ',', ';', ':', ')', ']', '}', '!', '?', '*']).len()
}

/// Whether a text begins with a quote that is written within another text: `\"`.
fn is_escaped_quote(text: &str) -> bool {
    let escapes = text.bytes().take(ESCAPES_MAX).take_while(|byte| *byte == b'\\').count();
    escapes > 0 && text[escapes..].starts_with(is_quote)
}

/// The backslashes before the quote that stands before `at`: the text is then written within another text.
fn escapes_before_quote(text: &str, at: usize) -> usize {
    let before = text[..at].trim_end_matches(|c| is_space(c) || c == '\t');
    let mut before = before.chars().rev();
    before.next();
    before.take(ESCAPES_MAX).take_while(|c| *c == '\\').count()
}

/// The length of a text up to the quote that ends it. A quote within it has more backslashes than the one before it.
fn quoted(text: &str, close: char, escapes: usize) -> Option<usize> {
    let mut before = 0;
    for (at, c) in text.char_indices() {
        let ends = match escapes {
            0 => before % 2 == 0,
            _ => before <= escapes,
        };
        if c == close && ends {
            return Some(if escapes == 0 { at } else { at - before });
        }
        before = if c == '\\' { before + 1 } else { 0 };
    }
    None
}

/// From `at`, the words of a line up to a sign, without the blanks behind them.
fn phrase(text: &str, at: usize) -> Range<usize> {
    let end = ceil(text, at + VALUE_BYTES_MAX);
    let first = value(text, at, None);
    let is_sign = |c: char| c.is_control() || is_quote(c) || ".,;:!?()[]{}<>|*".contains(c);
    let line = text[first.end..end].split(is_sign).next().unwrap_or_default();
    let (mut place, mut last, mut words) = (first.end, first.end, 1);
    for piece in line.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        if words == PHRASE_WORDS_MAX {
            break;
        }
        if !word.is_empty() {
            (last, words) = (place + word.len(), words + 1);
        }
        place += piece.len();
    }
    at..last
}

/// Whether a word is no ordinary word: it has a digit, a sign inside, or capitals inside.
fn looks_secret(word: &str) -> bool {
    let digit = word.chars().any(|c| c.is_ascii_digit());
    let sign =
        word.chars().any(|c| !c.is_alphanumeric() && !matches!(c, '-' | '\'' | '’' | '.' | '/'));
    let capitals =
        word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    word.chars().count() >= 4 && (digit || sign || capitals)
}

/// The length of a key of a known form at the start of the text.
fn formed(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let Some(form) = FORMS.iter().find(|form| text.starts_with(form.start)) else {
        return by_shape(text);
    };
    // Reject by a bounded part first: the starts of forms may stand side by side in one long word.
    let length = |most: usize| {
        let length = bytes.iter().take(most).take_while(|byte| is_key_byte(**byte)).count();
        text[..length].trim_end_matches(['.', '-', '/']).len()
    };
    let part = length(FORM_BYTES);
    let digits = bytes[..part].iter().any(u8::is_ascii_digit);
    // A key of letters alone has large and small ones.
    let rest = &bytes[form.start.len().min(part)..part];
    let has = |of: fn(&u8) -> bool| rest.iter().any(of);
    let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let is_one = !rest.iter().any(|byte| matches!(byte, b'.' | b'/'));
    let is_key = digits || (form.is_certain && is_mixed && is_one && rest.len() >= LETTERS_MIN);
    (part >= form.least && is_key).then(|| length(bytes.len()))
}

/// Keys that have a shape and no first characters of their own.
fn by_shape(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let count = |of: fn(&u8) -> bool, from: usize| {
        bytes[from..].iter().take(100).take_while(|b| of(b)).count()
    };
    let hex = |from: usize| count(|b| b.is_ascii_hexdigit(), from);
    let word = |from: usize| count(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'), from);
    let ends = |at: usize| !bytes.get(at).is_some_and(|b| is_key_byte(*b) && *b != b'.');
    for (start, length) in [("AC", 34), ("SK", 34), ("key-", 36)] {
        // Twilio, Mailgun: 32 hexadecimal digits.
        if text.starts_with(start) && hex(start.len()) == 32 && ends(length) {
            // The token of an account of Twilio stands behind its name.
            let signs = count(|b| matches!(b, b':' | b' ' | b',' | b'/' | b'|'), length);
            let token = length + signs;
            let has_token = (1..=3).contains(&signs) && hex(token) == 32 && ends(token + 32);
            return Some(if has_token { token + 32 } else { length });
        }
    }
    // Mailchimp: the same with the place of its server.
    if hex(0) == 32 && bytes.get(32..35) == Some(b"-us") {
        let digits = count(u8::is_ascii_digit, 35);
        return ((1..=2).contains(&digits) && ends(35 + digits)).then_some(35 + digits);
    }
    let alphanumeric = |from: usize| count(u8::is_ascii_alphanumeric, from);
    // Airtable: a token with its secret part, and a key of before.
    if text.starts_with("pat") && alphanumeric(3) == 14 && bytes.get(17) == Some(&b'.') {
        return (hex(18) == 64 && ends(82)).then_some(82);
    }
    if text.starts_with("key") && alphanumeric(3) == 14 && ends(17) {
        let among = |of: fn(&u8) -> bool| bytes[3..17].iter().filter(|b| of(b)).count();
        let is_mixed = among(u8::is_ascii_uppercase) >= 3
            && among(u8::is_ascii_lowercase) >= 2
            && among(u8::is_ascii_digit) >= 1;
        return is_mixed.then_some(17);
    }
    // Refresh tokens of Google.
    for (start, least) in [("1//", 30), ("1/", 43)] {
        let rest = text.strip_prefix(start).map_or(0, |_| word(start.len()));
        if rest >= least {
            let part = &bytes[start.len()..start.len() + rest];
            let has = |of: fn(&u8) -> bool| part.iter().any(of);
            let is_mixed = has(u8::is_ascii_uppercase)
                && has(u8::is_ascii_lowercase)
                && has(u8::is_ascii_digit);
            let all = bytes[start.len()..].iter().take_while(|b| is_key_byte(**b)).count();
            return is_mixed
                .then(|| text[..start.len() + all].trim_end_matches(['.', '-', '/']).len());
        }
    }
    // An app of Facebook: its number and its secret.
    let number = count(u8::is_ascii_digit, 0);
    if (13..=17).contains(&number) && bytes.get(number) == Some(&b'|') && word(number + 1) == 27 {
        return Some(number + 28);
    }
    // A client secret of Azure: three characters, a digit, `Q~`, and 31 to 35 more.
    if bytes.get(3).is_some_and(u8::is_ascii_digit) && bytes.get(4..6) == Some(b"Q~") {
        let all = count(|b| is_key_byte(*b) && *b != b'/' && *b != b'+', 0);
        let length = text[..all].trim_end_matches(['.', '-']).len();
        return (37..=41).contains(&length).then_some(length);
    }
    // In an address of Telegram, `bot` stands before it.
    let lead = if text.starts_with("bot") { 3 } else { 0 };
    let digits = count(u8::is_ascii_digit, lead);
    let colon = lead + digits;
    if (8..=10).contains(&digits) && bytes.get(colon) == Some(&b':') {
        let rest = word(colon + 1);
        let begins = bytes.get(colon + 1..colon + 3) == Some(b"AA");
        if rest == 35 || begins && (32..=37).contains(&rest) {
            return Some(colon + 1 + rest); // a bot of Telegram
        }
    }
    let first = word(0);
    if (23..=28).contains(&first)
        && bytes.get(first) == Some(&b'.')
        && word(first + 1) == 6
        && bytes.get(first + 7) == Some(&b'.')
    {
        let last = word(first + 8);
        return (last >= 27).then_some(first + 8 + last); // a bot of Discord
    }
    // A secret key of AWS: 40 characters of base64 with all kinds of them.
    let base64 = count(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'), 0);
    let has = |of: fn(&u8) -> bool| bytes[..base64.min(40)].iter().any(of);
    let mixed =
        has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit);
    let path = bytes[..base64.min(40)].iter().filter(|b| **b == b'/').count() > 3;
    (base64 == 40 && mixed && !path && ends(40)).then_some(40)
}

/// Whether the text ends with the word, and no letter stands before it.
fn ends_with_word(text: &str, word: &str) -> bool {
    // A text within a text has `\n` for the end of a line.
    let is_end_of_line = |head: &str| ["\\n", "\\r", "\\t"].iter().any(|end| head.ends_with(end));
    text.strip_suffix(word).is_some_and(|head| {
        !head.chars().next_back().is_some_and(char::is_alphanumeric) || is_end_of_line(head)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

fn is_mark(c: char) -> bool {
    is_quote(c) || matches!(c, ':' | '=' | '*' | '<' | '(' | '[' | '{' | '>' | ',' | ';' | '：')
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`' | '“' | '”' | '«' | '»')
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./+~".contains(&byte)
}

fn floor(text: &str, at: usize) -> usize {
    prefix(text, at).len()
}

fn ceil(text: &str, at: usize) -> usize {
    (at.min(text.len())..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}
