//! The files that the given paths lead to, each with its kind and its name, and the skipped files with the
//! reasons.
//!
//! Contract: a file that is found in a folder is opened without following a link, also one that takes the place of
//! the file meanwhile. Files under a folder come sorted. Hidden files and folders inside a folder are skipped, and so are links. The files of a home are skipped too: otherwise its summaries would be summarized again. A path that is given
//! directly is always taken.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::attached::Place;
use super::export_archive::{head_of, of_archive};
use super::kind::{FileKind, Refusal, is_conversations, may_lose_text};
use super::{DOCUMENT_BYTES_MAX, FOLDER_DEPTH_MAX, ImportError, LeftOut, disk_error};
use crate::home::Home;
use crate::os::{Disk, DiskFile, InPlace, Open, Stat, read_up_to};

/// Why the files of a home are passed over.
const OWN_FILES: &str = "the own files of a home";

/// Why a file or a folder whose name begins with a full stop is passed over.
pub(super) const HIDDEN: &str = "hidden";

/// Why a file that an export of chats keeps for itself is passed over.
pub(crate) const PART_OF_EXPORT: &str = "part of the export";

/// What ChatGPT and Claude put beside the conversations: who the user is, what they liked and shared, and their own page
/// of all chats.
const BESIDE_CONVERSATIONS: [&str; 10] = [
    "chat.html",
    "export_manifest.json",
    "group_chats.json",
    "message_feedback.json",
    "model_comparisons.json",
    "shared_conversations.json",
    "shopping.json",
    "user.json",
    "user_settings.json",
    "users.json",
];

/// Why a link inside a folder is passed over.
const LINK: &str = "a link";

/// Why a pipe, a socket or a device is passed over.
const NOT_A_FILE: &str = "not a regular file";

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedFile {
    pub path: PathBuf,
    /// The path by which it was found in a folder; `path` is then its real path, and no link is followed when the
    /// file is opened. A file that a person names may be a link.
    pub in_folder: Option<PathBuf>,
    /// The path as the person gave it, with the rest below a folder.
    pub name: String,
    pub kind: FileKind,
}

impl NamedFile {
    /// Whether it was found in a folder or an archive, so that the files beside it are read too.
    pub(crate) fn is_found(&self) -> bool {
        self.in_folder.is_some()
    }

    /// Where it lies, for what is attached to its messages.
    pub(super) fn place(&self) -> Place<'_> {
        Place { path: &self.path, is_found: self.is_found() }
    }

    /// The path as it was given or found.
    pub(crate) fn given(&self) -> &Path {
        self.in_folder.as_deref().unwrap_or(&self.path)
    }

    /// The disk that opens it: without links where it was found in a folder.
    pub(crate) fn disk<'d>(&self, disk: &'d dyn Disk, in_place: &'d InPlace<'d>) -> &'d dyn Disk {
        if self.in_folder.is_some() { in_place } else { disk }
    }
}

/// A file that is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub name: String,
    /// The part of the file that is not read, where the rest is.
    pub part: Option<String>,
    pub why: String,
    /// Whether the person named it, and not a folder above it.
    pub named: bool,
    /// Whether its kind has a reader, and it could not be read.
    pub is_fault: bool,
}

impl Skipped {
    /// A file of which nothing is read. The person named a folder above it.
    pub(crate) fn whole(name: String, why: String, is_fault: bool) -> Skipped {
        Skipped { name, part: None, why, named: false, is_fault }
    }

    /// What a reader left out of a file.
    pub(crate) fn left_out(name: String, why: &LeftOut) -> Skipped {
        let (part, reason) = match why {
            LeftOut::Entry { name, why } => {
                return Skipped::whole(name.clone(), why.clone(), false);
            }
            LeftOut::InPart { part, why } => (Some(part.clone()), why.to_string()),
            why => (None, why.to_string()),
        };
        Skipped { part, ..Skipped::whole(name, reason, why.is_fault()) }
    }

    /// The reason, behind the part of the file.
    pub(crate) fn told(&self) -> String {
        let part = self.part.as_ref().map(|part| format!("{part}: ")).unwrap_or_default();
        format!("{part}{}", self.why)
    }

    /// Whether the command exits with 1.
    pub(crate) fn is_told(&self) -> bool {
        self.named || self.is_fault
    }

    /// Whether it stands for the own files of a home.
    pub(crate) fn is_own(&self) -> bool {
        self.why == OWN_FILES
    }

    /// Whether its name begins with a full stop.
    pub(crate) fn is_hidden(&self) -> bool {
        self.why == HIDDEN
    }

    /// Whether its path leads to another file.
    pub(crate) fn is_link(&self) -> bool {
        self.why == LINK
    }

    /// Whether the command names the file, and does not only count it. Advice stands after a colon.
    pub(crate) fn is_named(&self) -> bool {
        self.is_told()
            || self.why == NOT_A_FILE
            || self.why == PART_OF_EXPORT
            || may_lose_text(&self.name, &self.why)
            || self.why.contains(':')
    }
}

/// What some paths lead to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    pub files: Vec<NamedFile>,
    pub skipped: Vec<Skipped>,
}

/// Walks the paths in their order. `own` is the home of the command.
pub(crate) fn collect(
    disk: &dyn Disk,
    own: &Home,
    paths: &[PathBuf],
) -> Result<Collected, ImportError> {
    let mut found = Collected::default();
    for path in paths {
        let stat = disk.stat(path).map_err(disk_error("inspect", path))?;
        match stat {
            None if paths.len() == 1 => {
                return Err(ImportError::Missing { path: path.display().to_string() });
            }
            None => {
                let why = "there is no such file or folder".to_owned();
                let skipped = Skipped::whole(shown(path), why, true);
                found.skipped.push(Skipped { named: true, ..skipped });
            }
            Some(stat) if stat.is_dir => {
                let Collected { files, skipped } = &mut found;
                let mut walk = Walk::new(disk, own);
                walk.folder(path, 0, &mut |path, real, _| {
                    take(disk, path, Some(real), files, skipped);
                })?;
                skipped.extend(walk.passed_over);
            }
            Some(_) => take(disk, path, None, &mut found.files, &mut found.skipped),
        }
    }
    Ok(found)
}

/// The files below a folder, each with what the disk knows about it, as [`collect`] finds them. Gives back what
/// cannot be read.
pub(crate) fn files_below(
    disk: &dyn Disk,
    own: &Home,
    folder: &Path,
    each: &mut dyn FnMut(&Path, Stat),
) -> Result<Vec<Skipped>, ImportError> {
    let mut walk = Walk::new(disk, own);
    walk.folder(folder, 0, &mut |path, _, stat| each(path, stat))?;
    Ok(walk.passed_over.into_iter().filter(|one| one.is_fault).collect())
}

/// Takes files that [`files_below`] found in a folder. What has become a link meanwhile, or lies behind one, is
/// skipped.
pub(crate) fn collect_below(disk: &dyn Disk, folder: &Path, paths: &[PathBuf]) -> Collected {
    let mut found = Collected::default();
    let root = disk.real_path(folder).ok();
    for path in paths {
        let rest = path.strip_prefix(folder).ok();
        let real = root.as_ref().zip(rest).map(|(root, rest)| root.join(rest));
        match real.filter(|real| disk.real_path(path).is_ok_and(|now| now == *real)) {
            Some(real) => take(disk, path, Some(&real), &mut found.files, &mut found.skipped),
            None => {
                let (name, why) = (shown(path), LINK.to_owned());
                found.skipped.push(Skipped::whole(name, why, false));
            }
        }
    }
    found
}

/// Hears of a file: the path to it, the same without links, and what the disk knows.
type EachFile<'e> = dyn FnMut(&Path, &Path, Stat) + 'e;

/// A walk through a folder.
struct Walk<'a> {
    disk: &'a dyn Disk,
    /// Where homes keep their own files: the home of the command, and each home on the way. Each with the folder of its home.
    own: BTreeMap<PathBuf, PathBuf>,
    passed_over: Vec<Skipped>,
}

impl Walk<'_> {
    fn new<'a>(disk: &'a dyn Disk, own: &Home) -> Walk<'a> {
        let mut walk = Walk { disk, own: BTreeMap::new(), passed_over: Vec::new() };
        walk.learn(own);
        walk
    }

    fn learn(&mut self, home: &Home) {
        let real = |place: PathBuf| self.disk.real_path(&place).ok();
        let places: Vec<PathBuf> = home.own_places().into_iter().filter_map(real).collect();
        self.own.extend(places.into_iter().map(|place| (place, home.root.clone())));
    }

    fn folder(
        &mut self,
        folder: &Path,
        depth: usize,
        each: &mut EachFile<'_>,
    ) -> Result<(), ImportError> {
        if depth == FOLDER_DEPTH_MAX {
            self.pass_over(folder, format!("deeper than {FOLDER_DEPTH_MAX} folders"));
            return Ok(());
        }
        match self.below(folder, depth, each) {
            Err(ImportError::Disk { source, .. }) if depth > 0 => {
                self.cannot_read(folder, &source);
                Ok(())
            }
            done => done,
        }
    }

    fn below(
        &mut self,
        folder: &Path,
        depth: usize,
        each: &mut EachFile<'_>,
    ) -> Result<(), ImportError> {
        let disk = self.disk;
        let real = disk.real_path(folder).map_err(disk_error("inspect", folder))?;
        if self.is_own(&real) {
            return Ok(());
        }
        if let Some(home) = Home::in_folder(disk, folder).map_err(disk_error("inspect", folder))? {
            self.learn(&home);
        }
        let mut names = disk.list(folder).map_err(disk_error("list", folder))?;
        names.sort();
        for name in &names {
            let inner = folder.join(name);
            if name.starts_with('.') {
                self.pass_over(&inner, HIDDEN.to_owned());
                continue;
            }
            match disk.real_path(&inner) {
                Ok(at) if at == real.join(name) => {}
                // The disk gives names as text, with a sign for each byte that is no text.
                Err(_) if name.contains(char::REPLACEMENT_CHARACTER) => {
                    let why = "its name is not UTF-8".to_owned();
                    let name = shown(&inner);
                    self.passed_over.push(Skipped::whole(name, why, true));
                    continue;
                }
                _ => {
                    self.pass_over(&inner, LINK.to_owned());
                    continue;
                }
            }
            match disk.stat(&inner) {
                Ok(Some(stat)) if stat.is_dir => self.folder(&inner, depth + 1, each)?,
                Ok(Some(_)) if self.is_own(&real.join(name)) => {}
                Ok(Some(stat)) => each(&inner, &real.join(name), stat),
                Ok(None) => {}
                Err(error) => self.cannot_read(&inner, &error),
            }
        }
        Ok(())
    }

    /// Whether a home keeps it for itself. Each home is told once.
    fn is_own(&mut self, real: &Path) -> bool {
        let Some(home) = self.own.get(real) else { return false };
        let name = shown(home);
        if !self.passed_over.iter().any(|one| one.name == name) {
            let why = OWN_FILES.to_owned();
            self.passed_over.push(Skipped::whole(name, why, false));
        }
        true
    }

    fn cannot_read(&mut self, path: &Path, error: &io::Error) {
        self.passed_over.push(Skipped::whole(shown(path), unread(error), true));
    }

    fn pass_over(&mut self, path: &Path, why: String) {
        self.passed_over.push(Skipped::whole(shown(path), why, false));
    }
}

/// A path as a person reads it.
fn shown(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}

/// Takes a file. `real` is its path without links, where it was found in a folder.
fn take(
    disk: &dyn Disk,
    path: &Path,
    real: Option<&Path>,
    files: &mut Vec<NamedFile>,
    skipped: &mut Vec<Skipped>,
) {
    let (name, named) = (shown(path), real.is_none());
    let in_place = InPlace(disk, None);
    let kind = match real {
        Some(real) if is_part_of_export(&in_place, real) => Ok(Err(Refusal::new(PART_OF_EXPORT))),
        Some(real) => kind_of(&in_place, real),
        None => kind_of(disk, path),
    };
    match kind {
        Ok(Ok(kind)) => {
            let in_folder = real.map(|_| path.to_owned());
            files.push(NamedFile { path: real.unwrap_or(path).to_owned(), in_folder, name, kind });
        }
        Ok(Err(refusal)) => {
            let is_fault = refusal.is_fault_of(path);
            skipped.push(Skipped { named, ..Skipped::whole(name, refusal.0, is_fault) });
        }
        Err(error) => {
            let why = unread(&error);
            skipped.push(Skipped { named, ..Skipped::whole(name, why, true) });
        }
    }
}

fn unread(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "no permission".to_owned(),
        _ => error.to_string(),
    }
}

/// The kind of a file; `None` where it has no reader.
pub(crate) fn known_kind(disk: &dyn Disk, path: &Path) -> Option<FileKind> {
    kind_of(disk, path).ok()?.ok()
}

/// The kind of a file, or why it has no reader; an error when it cannot be read.
fn kind_of(disk: &dyn Disk, path: &Path) -> io::Result<Result<FileKind, Refusal>> {
    // Some devices do something when they are opened.
    if !std::fs::metadata(path)?.is_file() {
        return Ok(Err(Refusal(NOT_A_FILE.to_owned())));
    }
    kind_within(&disk.open(path, Open::Read)?, path)
}

/// The kind of a file that is open, by its content and this name.
pub(crate) fn kind_within(
    file: &Arc<dyn DiskFile>,
    name: &Path,
) -> io::Result<Result<FileKind, Refusal>> {
    let head = head_of(file.as_ref())?;
    if head.starts_with(b"PK\x03\x04")
        && let Some(found) = of_archive(file)?
    {
        return Ok(found);
    }
    if file.stat()?.len > DOCUMENT_BYTES_MAX {
        return Ok(Err(Refusal(format!("larger than {} MiB", DOCUMENT_BYTES_MAX >> 20))));
    }
    FileKind::of(name, &head, &mut || read_up_to(file.as_ref(), u64::MAX))
}

/// Whether a file stands beside the conversations of an export and holds what its program keeps for itself.
pub(crate) fn is_part_of_export(disk: &dyn Disk, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !BESIDE_CONVERSATIONS.contains(&name) {
        return false;
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let names = disk.list(folder).unwrap_or_default();
    let first = names.iter().find(|name| is_conversations(name));
    let kind = first.map(|first| {
        let path = folder.join(first);
        kind_within(&disk.open(&path, Open::Read)?, &path)
    });
    matches!(kind, Some(Ok(Ok(FileKind::ChatGpt | FileKind::Claude))))
}

/// What was left out, counted by the reason and the end of the name:
/// `skipped 3: 2 .key (no reader), 1 .bin (binary)`.
pub(crate) fn in_short(skipped: &[Skipped]) -> String {
    let mut groups: Vec<(String, usize)> = Vec::new();
    for one in skipped {
        let extension = super::kind::extension(Path::new(&one.name));
        // The text after a colon is advice for a single file, so it is left out here.
        let why = one.why.split(':').next().unwrap_or_default();
        let group = match extension.as_str() {
            _ if one.why == OWN_FILES || one.is_hidden() => format!("({why})"),
            "" => format!("({why})"),
            extension => format!(".{extension} ({why})"),
        };
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, count)) => *count += 1,
            None => groups.push((group, 1)),
        }
    }
    groups.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let groups: Vec<String> =
        groups.iter().map(|(name, count)| format!("{count} {name}")).collect();
    format!("skipped {}: {}", skipped.len(), groups.join(", "))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "files of a test need not be durable")]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::os::real::HostDisk;

    fn home_at(root: &Path) -> Home {
        Home::new(root, &Config::load(None, &BTreeMap::new(), 1).unwrap())
    }

    #[test]
    fn parts_of_files_are_counted_by_their_reason() {
        let unread = |number| LeftOut::Unread("not JSON: key".to_owned()).in_part("line", number);
        let skipped =
            [2, 13].map(|number| Skipped::left_out("a.jsonl".to_owned(), &unread(number)));
        assert_eq!(in_short(&skipped), "skipped 2: 2 .jsonl (not JSON)");
        assert_eq!(skipped[1].told(), "line 13: not JSON: key");
        let silent = LeftOut::NoText("no words".to_owned()).in_part("item", 3);
        let silent = Skipped::left_out("a.json".to_owned(), &silent);
        assert!(skipped[0].is_told() && !silent.is_told());
    }

    #[test]
    fn a_folder_gives_its_files_sorted_and_says_what_it_leaves_out() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        for (name, bytes) in [
            ("b.md", &b"# B"[..]),
            ("a.txt", b"words"),
            ("sub/c.key", b"\0\x01\x02"),
            ("sub/d.key", b"\0\x01\x02"),
            ("empty.txt", b""),
            (".hidden.txt", b"hidden"),
        ] {
            let path = dir.path().join(name);
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.replace(&path, bytes, 0o640).unwrap();
        }
        std::os::unix::fs::symlink("a.txt", dir.path().join("link.txt")).unwrap();
        let home = home_at(&dir.path().join("elsewhere"));
        let found = collect(disk, &home, &[dir.path().to_owned()]).unwrap();
        let names: Vec<_> = found.files.iter().map(|file| file.path.file_name().unwrap()).collect();
        assert_eq!(names, ["a.txt", "b.md"]);
        assert_eq!(
            in_short(&found.skipped),
            "skipped 5: 2 .key (binary), 1 (hidden), 1 .txt (a link), 1 .txt (empty)"
        );
        let link = collect(disk, &home, &[dir.path().join("link.txt")]).unwrap();
        assert_eq!(link.files.len(), 1, "a link that is named is taken");
        assert!(collect(disk, &home, &[dir.path().join("nowhere")]).is_err());
    }

    /// A link takes the place of a file after the walk, or of a folder above it.
    #[test]
    fn a_file_that_becomes_a_link_is_not_read() {
        let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let disk: &dyn Disk = &HostDisk;
        let (root, secret) = (dir.path(), out.path().join("a.txt"));
        std::fs::write(&secret, "a secret of somebody else").unwrap();
        std::fs::create_dir(root.join("sub")).unwrap();
        let files = [root.join("a.txt"), root.join("sub/a.txt")];
        files.iter().for_each(|file| std::fs::write(file, "some words").unwrap());
        let home = home_at(&root.join("elsewhere"));
        let mut paths = Vec::new();
        files_below(disk, &home, root, &mut |path, _| paths.push(path.to_owned())).unwrap();
        assert_eq!(paths, files);
        let walked = collect(disk, &home, &[root.to_owned()]).unwrap().files;
        let below = collect_below(disk, root, &paths).files;
        assert_eq!(walked, below);
        let readable = |file: &NamedFile| {
            let in_place = InPlace(disk, None);
            file.disk(disk, &in_place).read(&file.path)
        };
        assert!(below.iter().all(|file| readable(file).unwrap() == b"some words"));
        std::fs::remove_file(&files[0]).unwrap();
        std::os::unix::fs::symlink(&secret, &files[0]).unwrap();
        std::fs::remove_dir_all(root.join("sub")).unwrap();
        std::os::unix::fs::symlink(out.path(), root.join("sub")).unwrap();
        assert!(below.iter().all(|file| readable(file).is_err()));
        let again = collect_below(disk, root, &paths);
        assert_eq!((again.files.len(), again.skipped.len()), (0, 2), "{again:?}");
        assert!(again.skipped.iter().all(Skipped::is_link));
    }

    #[test]
    fn what_homes_keep_for_themselves_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.replace(&path, text.as_bytes(), 0o640).unwrap();
        };
        // The home of the command lies among the notes and has its buses elsewhere in the folder; a
        // second home has settings of its own; the notes are a third home.
        for place in ["mine/run/ack.jsonl", "mine/flow_registry/a.json", "shared/news/summaries.md"]
        {
            write(place, "words");
        }
        write("second/summarizer.toml", "bus_home = \"out\"\nqueue.path = \"asked.jsonl\"\n");
        for place in ["second/out/digest.md", "second/asked.jsonl", "second/run/a.txt"] {
            write(place, "words");
        }
        for place in ["summarizer.toml", "run/summarizer.redb", "buses/digest_bus/memo.md"] {
            write(place, "# words");
        }
        for text in ["a.txt", "mine/texts/b.txt", "second/c.txt", "runs/d.txt", "shared.txt"] {
            write(text, "words");
        }
        let mut own = home_at(&dir.path().join("mine"));
        own.buses = dir.path().join("shared");
        let found = collect(disk, &own, &[dir.path().to_owned()]).unwrap();
        let below = |path: &Path| path.strip_prefix(dir.path()).unwrap().display().to_string();
        let names: Vec<String> = found.files.iter().map(|file| below(&file.path)).collect();
        let texts = ["a.txt", "mine/texts/b.txt", "runs/d.txt", "second/c.txt", "shared.txt"];
        assert_eq!(names, texts, "{:?}", found.skipped);
        assert!(found.skipped.iter().all(|one| one.why == OWN_FILES && !one.is_told()));
        let named = dir.path().join("buses/digest_bus/memo.md");
        assert_eq!(collect(disk, &own, &[named]).unwrap().files.len(), 1, "a named file is taken");
        // Buses that lie in the folder of the texts.
        own = home_at(dir.path());
        own.buses = dir.path().to_owned();
        write("summaries/events/a.jsonl", "{}");
        let found = collect(disk, &own, &[dir.path().to_owned()]).unwrap();
        let is_own = |path: &Path| below(path).starts_with("summaries/");
        assert!(!found.files.iter().any(|file| is_own(&file.path)), "{found:?}");
    }
}
