//! Finds passwords in command lines: `mysql -pSECRET`, `redis-cli -a SECRET`, `curl -u name:SECRET`.

use std::ops::Range;

/// Bytes before a word that are searched for the program.
const LINE_BYTES: usize = 200;

/// How a program takes its password.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Only without a space; with a space the program asks for the password, and the next word is something else.
    Attached,
    /// With or without a space.
    Any,
}

const PROGRAMS: [(&str, &str, Form); 27] = [
    ("mysql", "-p", Form::Attached),
    ("mysqldump", "-p", Form::Attached),
    ("mysqladmin", "-p", Form::Attached),
    ("mysqlimport", "-p", Form::Attached),
    ("mysqlcheck", "-p", Form::Attached),
    ("mysqlsh", "-p", Form::Attached),
    ("mariadb", "-p", Form::Attached),
    ("mariadb-dump", "-p", Form::Attached),
    ("mariadb-admin", "-p", Form::Attached),
    ("mycli", "-p", Form::Attached),
    ("7z", "-p", Form::Attached),
    ("7za", "-p", Form::Attached),
    ("rar", "-p", Form::Attached),
    ("unrar", "-p", Form::Attached),
    ("sshpass", "-p", Form::Any),
    ("mongo", "-p", Form::Any),
    ("mongosh", "-p", Form::Any),
    ("mongodump", "-p", Form::Any),
    ("mongorestore", "-p", Form::Any),
    ("redis-cli", "-a", Form::Any),
    ("redis-cli", "--pass", Form::Any),
    ("ldapsearch", "-w", Form::Any),
    ("ldapadd", "-w", Form::Any),
    ("ldapmodify", "-w", Form::Any),
    ("sqlcmd", "-P", Form::Any),
    ("zip", "-P", Form::Any),
    ("unzip", "-P", Form::Any),
];
/// Programs whose `-u` is a name and a password with a colon between them.
const WITH_USER: [&str; 3] = ["curl", "http", "https"];

/// The words of a line before a place in it.
struct Before<'t>(Vec<&'t str>);

impl<'t> Before<'t> {
    fn of(text: &'t str, at: usize) -> Before<'t> {
        let floor = super::prefix(text, at.saturating_sub(LINE_BYTES)).len();
        let line = text[floor..at].rfind('\n').map_or(floor, |end| floor + end + 1);
        let is_end = |c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | '$' | '(' | '|');
        Before(text[line..at].split(is_end).filter(|word| !word.is_empty()).collect())
    }

    /// How the program before takes a password after the flag, if it does.
    fn form(&self, flag: &str) -> Option<Form> {
        self.0.iter().rev().find_map(|word| {
            let name = word.rsplit('/').next()?;
            let known = PROGRAMS.iter().find(|one| one.0 == name && one.1 == flag);
            known.map(|one| one.2)
        })
    }

    fn has_program_with_user(&self) -> bool {
        self.0.iter().any(|word| word.rsplit('/').next().is_some_and(|n| WITH_USER.contains(&n)))
    }

    /// Whether the last words are `-u NAME`, or `-uNAME`.
    fn ends_with_user(&self) -> bool {
        match &*self.0 {
            [.., "-u" | "--user" | "--username", name] => !name.starts_with('-'),
            [.., one] => one.len() > 2 && one.starts_with("-u"),
            [] => false,
        }
    }
}

/// Whether a word at this place can hold a password of a command line, or be one. It is cheap.
fn may_be(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\t', '"', '\'']);
    let start = before.len() - before.bytes().rev().take(10).take_while(|b| *b > b' ').count();
    let flag = before.as_bytes().get(start) == Some(&b'-');
    flag || text[at..].starts_with('-')
}

/// The password of a command line at `at`. `value` says where a value ends that begins at a place.
pub(super) fn find(
    text: &str,
    at: usize,
    value: impl Fn(usize, Option<char>) -> Range<usize>,
) -> Option<Range<usize>> {
    if !may_be(text, at) {
        return None;
    }
    let before = Before::of(text, at);
    if let Some(flag) = text.get(at..at + 2).filter(|flag| flag.starts_with('-') && *flag != "--") {
        let first = text[at + 2..].chars().next()?;
        let quote = Some(first).filter(|c| matches!(c, '"' | '\''));
        let found = value(at + 2 + usize::from(quote.is_some()), quote);
        let word = &text[found.clone()];
        let is_password = match flag {
            "-u" => before.has_program_with_user() && is_pair(word),
            "-p" if before.ends_with_user() => !is_ports(word),
            _ => before.form(flag).is_some(),
        };
        return (is_password && !word.is_empty() && first != '=').then_some(found);
    }
    let (flag, words) = before.0.split_last()?;
    let words = Before(words.to_vec());
    let quote = text[..at].chars().next_back().filter(|c| matches!(c, '"' | '\''));
    let found = value(at, quote);
    let word = &text[found.clone()];
    let form = words.form(flag);
    let is_password = match *flag {
        "-u" | "--user" => is_pair(word),
        "-p" if form.is_none() => words.ends_with_user() && !is_ports(word),
        _ => form == Some(Form::Any),
    };
    (is_password && !word.is_empty()).then_some(found)
}

/// Whether the word after `-p` is something else than a password: ports, or what `mysql -p` opens.
pub(super) fn is_no_password(text: &str, at: usize, word: &str) -> bool {
    is_ports(word) || Before::of(text, at).form("-p") == Some(Form::Attached)
}

/// `name:password`, and no numbers of a user and a group.
fn is_pair(word: &str) -> bool {
    let pair = word.split_once(':');
    pair.is_some_and(|(name, password)| !name.is_empty() && !password.is_empty()) && !is_ports(word)
}

/// Numbers with signs between them, as of ports: `8080:80`.
pub(super) fn is_ports(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit() || matches!(b, b':' | b'.' | b'-' | b'/'))
}
