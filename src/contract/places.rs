//! The places of data: what rules about privacy name a text by.
//!
//! Contract: pure. A rule is `PLACE:NAME`, with the words that selectors and the rules of projects use.
//! A name that ends with `*` stands for all that begin so. Letter case and forms of letters do not
//! count, because a rule that misses lets a text out.
//!
//! See docs/adr/0118-rules-about-data.md.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization as _;

use super::versions::file_of;
use super::vocabulary::spellings;

spellings! {
    /// What a rule names data by.
    DataPlace {
        /// The upstream bus.
        Bus "bus",
        /// A folder on the path of the file.
        Folder "folder",
        Mailbox "mailbox",
        Feed "feed",
        /// A label or tag.
        Label "label",
        /// The project that the source or the request names.
        Project "project",
        /// `requested_by.repo`.
        Repo "repo",
        /// The name or the address of the author.
        Author "author",
    }
}

/// The places of a text, or of several.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DataPlaces(BTreeSet<(DataPlace, String)>);

impl DataPlaces {
    pub(crate) fn add(&mut self, place: DataPlace, name: &str) {
        let name = folded(name);
        let name = if place == DataPlace::Label { label(&name) } else { &name };
        if !name.is_empty() {
            self.0.insert((place, name.to_owned()));
        }
    }

    /// The folders on the path of a file, and the mailboxes that the path names.
    pub(crate) fn add_file(&mut self, path: &str) {
        mailbox_of_file(path).into_iter().for_each(|name| self.add(DataPlace::Mailbox, name));
        folder_of(path).into_iter().for_each(|folder| self.add_folder(folder));
    }

    /// A folder with those above it, and the mailboxes that they are.
    pub(crate) fn add_folder(&mut self, path: &str) {
        self.add(DataPlace::Folder, path);
        mailboxes_on(path).for_each(|name| self.add(DataPlace::Mailbox, name));
    }

    /// What the `meta` of an item says of the places of its sources.
    pub(crate) fn add_item(&mut self, named: &dyn Fn(&str) -> Option<String>) {
        let kept = [
            DataPlace::Mailbox,
            DataPlace::Feed,
            DataPlace::Label,
            DataPlace::Project,
            DataPlace::Repo,
            DataPlace::Folder,
        ];
        for place in kept {
            named(place.as_str()).iter().for_each(|name| self.add(place, name));
        }
        named("source_name").iter().for_each(|path| self.add_file(path));
    }

    /// The folders of the files that a summary was made from. Its name need not be that of a file.
    pub(crate) fn add_origins<'o>(&mut self, origins: impl Iterator<Item = &'o str>) {
        origins.filter_map(file_of).for_each(|path| self.add_file(path));
    }

    /// The names of one kind of place, folded.
    pub(crate) fn named(&self, wanted: DataPlace) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(place, _)| *place == wanted).map(|(_, name)| name.as_str())
    }

    pub(crate) fn extend(&mut self, other: &DataPlaces) {
        self.0.extend(other.0.iter().cloned());
    }
}

/// One rule of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataRule {
    place: DataPlace,
    name: String,
    is_beginning: bool,
    /// As the settings have it.
    written: String,
    around: Around,
}

/// Which folders lie in the folder of a rule as a whole. A file that lies there is named from there, so its path does not
/// name the folder of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Around {
    home: bool,
    /// The folder in which the home lies.
    beside: bool,
    /// The folder of the person.
    person: bool,
}

/// The paths of a home and of its person, each as it may be written.
#[derive(Debug, Clone, Default)]
pub(crate) struct HomePaths {
    pub(crate) home: Vec<String>,
    pub(crate) person: Option<String>,
}

/// Why a rule cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadRule {
    /// It is not of the form `PLACE:NAME`.
    Form,
    /// No such place; the word as written.
    Place(String),
}

impl DataRule {
    pub(crate) fn parse(written: &str) -> Result<DataRule, BadRule> {
        let (place, name) = written.split_once(':').ok_or(BadRule::Form)?;
        let place = place.trim();
        let place = DataPlace::parse(place).ok_or_else(|| BadRule::Place(place.to_owned()))?;
        let name = name.trim();
        let (name, is_beginning) = match name.strip_suffix('*') {
            Some(beginning) => (folded(beginning), true),
            None => (folded(name), false),
        };
        if name.is_empty() && !is_beginning {
            return Err(BadRule::Form);
        }
        let name = match place {
            DataPlace::Folder => name.trim_end_matches('/').to_owned(),
            DataPlace::Label => label(&name).trim_end_matches('/').to_owned(),
            _ => name,
        };
        let around = Around::default();
        Ok(DataRule { place, name, is_beginning, written: written.trim().to_owned(), around })
    }

    /// Tells the rule where the home lies.
    pub(crate) fn set_home(&mut self, paths: &HomePaths) {
        if self.place != DataPlace::Folder {
            return;
        }
        let below_person = |path: &str| {
            let rest = path.strip_prefix(&*folded(paths.person.as_deref()?))?.strip_prefix('/')?;
            Some(format!("~/{rest}"))
        };
        let fits = |path: &str| {
            let path = folded(path);
            self.fits_folder(&path)
                || below_person(&path).is_some_and(|path| self.fits_folder(&path))
        };
        let around = Around {
            home: paths.home.iter().any(|home| fits(home)),
            beside: paths.home.iter().filter_map(|home| folder_of(home)).any(&fits),
            person: paths.person.as_deref().is_some_and(fits) || self.fits_folder("~"),
        };
        self.around = around;
    }

    pub(crate) fn is_about(&self, place: DataPlace) -> bool {
        self.place == place
    }

    /// As the settings have it.
    pub(crate) fn written(&self) -> &str {
        &self.written
    }

    pub(crate) fn fits(&self, places: &DataPlaces) -> bool {
        let own = places.0.iter().filter(|(place, _)| *place == self.place);
        let mut names = own.map(|(_, name)| name.as_str());
        match self.place {
            DataPlace::Folder => {
                let mut has_folder = false;
                let fits = names.any(|path| {
                    has_folder = true;
                    self.fits_folder(path) || self.holds(path)
                });
                // What has no folder on record lies in the home.
                fits || !has_folder && self.around.home
            }
            // `health/back` is a label within `health`.
            DataPlace::Label => names.any(|name| {
                let outer =
                    name.strip_prefix(&*self.name).is_some_and(|rest| rest.starts_with('/'));
                outer || self.fits_name(name)
            }),
            _ => names.any(|name| self.fits_name(name)),
        }
    }

    fn fits_name(&self, name: &str) -> bool {
        match self.is_beginning {
            true => name.starts_with(&self.name),
            false => name == self.name,
        }
    }

    /// Whether the place from which a folder is named lies in the folder of the rule.
    fn holds(&self, path: &str) -> bool {
        let is_in = |folder: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match path {
            path if path.starts_with('/') => false,
            _ if is_in("~") => self.around.person,
            _ if is_in("..") => self.around.beside,
            _ => self.around.home,
        }
    }

    /// Whether a folder of this name, or of this path, is on the way to a file. A home names a file from
    /// its own folder or from the folder of its user, so the end of an absolute path fits the beginning
    /// of a relative one.
    fn fits_folder(&self, path: &str) -> bool {
        let is_on = |name: &str, path: &str| {
            path.strip_prefix(name)
                .is_some_and(|rest| self.is_beginning || rest.is_empty() || rest.starts_with('/'))
        };
        let starts = |text: &'_ str| -> Vec<usize> {
            let inner = text.match_indices('/').map(|(at, _)| at + 1);
            std::iter::once(0).chain(inner).collect()
        };
        if starts(path).into_iter().any(|at| is_on(&self.name, &path[at..])) {
            return true;
        }
        let relative = path.strip_prefix("~/").unwrap_or(path);
        let is_absolute = self.name.starts_with('/') || self.name.starts_with("~/");
        let ends = || starts(&self.name).into_iter().skip(1).map(|at| &self.name[at..]);
        is_absolute
            && !relative.starts_with('/')
            && ends().filter(|end| !end.is_empty()).any(|end| is_on(end, relative))
    }
}

/// The folder of a file, by the path of the file.
pub(crate) fn folder_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(folder, _)| folder).filter(|folder| !folder.is_empty())
}

/// The mailbox that a file is by the end of its name.
pub(crate) fn mailbox_of_file(path: &str) -> Option<&str> {
    without_end(path.rsplit('/').next().unwrap_or(path), ".mbox")
}

/// The mailboxes that folders on a path are: `NAME.mbox`, `NAME.sbd`, and `NAME` where mails lie in `NAME/cur`.
fn mailboxes_on(path: &str) -> impl Iterator<Item = &str> {
    let parts = || path.split('/');
    let named = parts().flat_map(|part| [".mbox", ".sbd"].map(|end| without_end(part, end)));
    let of_mails = parts().zip(parts().skip(1)).map(|(part, inner)| {
        let is_inner = ["cur", "new"].iter().any(|name| inner.eq_ignore_ascii_case(name));
        // The folders of a mailbox begin with a full stop there.
        Some(part.trim_start_matches('.')).filter(|name| is_inner && !name.is_empty())
    });
    named.chain(of_mails).flatten()
}

/// A name without this end, in any letter case.
fn without_end<'n>(name: &'n str, end: &str) -> Option<&'n str> {
    let (stem, own) = name.split_at_checked(name.len().checked_sub(end.len())?)?;
    (own.eq_ignore_ascii_case(end) && !stem.is_empty()).then_some(stem)
}

/// A label without the sign that notes write before it.
fn label(name: &str) -> &str {
    name.trim_start_matches('#')
}

/// A name as it is compared: letter case, the form of its characters and the number of blanks do not matter.
pub(crate) fn folded(name: &str) -> String {
    let name: String = name.nfkc().flat_map(char::to_lowercase).collect();
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text for comparing: lower case, without accents.
pub(crate) fn without_accents(text: &str) -> String {
    let lower = text.to_lowercase();
    let is_mark = |c: &char| matches!(*c, '\u{300}'..='\u{36f}');
    lower.nfd().filter(|c| !is_mark(c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(rule: &str, place: DataPlace, name: &str) -> bool {
        let mut places = DataPlaces::default();
        match place {
            DataPlace::Folder => places.add_file(name),
            _ => places.add(place, name),
        }
        DataRule::parse(rule).unwrap().fits(&places)
    }

    #[test]
    fn a_rule_fits_whole_names_and_beginnings_in_any_letter_case() {
        for (rule, place, name, expected) in [
            ("label:health", DataPlace::Label, "Health", true),
            ("label:health", DataPlace::Label, "#Health", true),
            ("label:#health", DataPlace::Label, "health/back", true),
            ("author:ana  ruiz", DataPlace::Author, "Ana\u{a0} Ruiz", true),
            ("label:health", DataPlace::Label, "healthcare", false),
            ("label:health*", DataPlace::Label, "healthcare", true),
            ("label:health", DataPlace::Feed, "health", false),
            ("author:ana@example.org", DataPlace::Author, "Ana@Example.org", true),
            ("bus:session_bus", DataPlace::Bus, "session_bus", true),
            ("project:*", DataPlace::Project, "any", true),
            ("label:caf\u{e9}", DataPlace::Label, "CAFE\u{301}", true),
        ] {
            assert_eq!(fits(rule, place, name), expected, "{rule} {name}");
        }
    }

    #[test]
    fn a_rule_about_a_folder_fits_everything_below_it() {
        for (rule, path, expected) in [
            ("folder:clients", "clients/a.md", true),
            ("folder:clients", "~/Work/Clients/acme/2026/a.md", true),
            ("folder:clients", "clients-old/a.md", false),
            ("folder:clients*", "office/clients-old/a.md", true),
            ("folder:clients", "myclients/a.md", false),
            ("folder:clients/acme", "~/office/clients/acme/a.md", true),
            ("folder:clients/acme/", "~/office/clients/acme/a.md", true),
            ("folder:clients/acme", "~/office/clients/b/acme/a.md", false),
            ("folder:clients", "clients", false),
            ("folder:/home/ana/clients", "~/clients/a.md", true),
            ("folder:~/clients", "/srv/clients/a.md", false),
            ("folder:/srv/data*", "/srv/database/a.md", true),
            ("folder:/home/ana/notes", "clients/notes/a.md", false),
        ] {
            assert_eq!(fits(rule, DataPlace::Folder, path), expected, "{rule} {path}");
        }
    }

    #[test]
    fn a_rule_about_a_folder_around_the_home_fits_what_is_named_from_there() {
        let paths = HomePaths {
            home: vec!["/home/ana/Sum".to_owned(), "/data/sum".to_owned()],
            person: Some("/home/ana".to_owned()),
        };
        for (rule, path, expected) in [
            ("folder:/home/ana/sum", "notes/a.md", true),
            ("folder:/home/ana/sum/", "a.md", true),
            ("folder:sum", "notes/a.md", true),
            ("folder:~/sum", "notes/a.md", true),
            ("folder:/data/sum", "notes/a.md", true),
            ("folder:/home/ana", "notes/a.md", true),
            ("folder:/home", "~/notes/a.md", true),
            ("folder:/home/ana", "~/a.md", true),
            ("folder:~", "~/notes/a.md", true),
            ("folder:/home/ana", "../notes/a.md", true),
            ("folder:/home/ana/sum", "../notes/a.md", false),
            ("folder:/home/ana/sum", "~/notes/a.md", false),
            ("folder:/home/ana/sum", "/srv/notes/a.md", false),
            ("folder:/home/ana", "/srv/notes/a.md", false),
            ("folder:/home/ana/sum/notes", "notes/a.md", true),
            ("folder:/home/ana/sum/notes", "other/a.md", false),
            ("folder:/home/ana/summary", "notes/a.md", false),
            ("folder:other", "a.md", false),
        ] {
            let mut places = DataPlaces::default();
            places.add_file(path);
            let mut rule = DataRule::parse(rule).unwrap();
            rule.set_home(&paths);
            assert_eq!(rule.fits(&places), expected, "{} {path}", rule.written());
        }
    }

    #[test]
    fn a_rule_that_cannot_be_read_says_why() {
        assert_eq!(DataRule::parse("clients"), Err(BadRule::Form));
        assert_eq!(DataRule::parse("folder: "), Err(BadRule::Form));
        assert_eq!(DataRule::parse("foldr:a"), Err(BadRule::Place("foldr".into())));
        assert_eq!(DataRule::parse(" label : a ").unwrap().written(), "label : a");
    }
}
