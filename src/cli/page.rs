//! The page of a running service: started at a configured address, or when `open` asks for it.

use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::failure::{Exit, Failure};
use super::held_home::importing;
use super::identity::random_bytes;
use super::intake::{RequestSettings, not_added, rename_for_home, take_in};
use super::pasted::TEXTS;
use super::registry::selectors;
use super::settings::load_config;
use super::{Context, names, pasted, ui};
use crate::config::Config;
use crate::contract::ids::Seq;
use crate::control::question::Answer;
use crate::control::socket::Asker;
use crate::digest::project::ProjectRules;
#[cfg(feature = "cluster")]
use crate::export::Committed;
use crate::home::Home;
use crate::import::collect::collect;
use crate::log::Reader;
use crate::os::Disk;
use crate::service::{ShowPage, Watch};
use crate::upstream::file_names::files_with_words;
use crate::web::{self, Actions, FileNames, FindFiles, Given, Login, Shown, Tally};

/// Bytes of the name of such a text.
const NAME_BYTES_MAX: usize = 120;
/// How long the files of one search are kept.
const FILE_NAMES_KEPT: Duration = Duration::from_secs(10);
/// Texts of the same name.
const SAME_NAME_MAX: u32 = 10_000;

/// The page of a service. It counts from the start of the service on, whether it is shown or not.
#[derive(Clone)]
pub(super) struct Page {
    context: Context,
    shown: Shown,
    log: Reader,
    /// The end of the log when the service started.
    until: Seq,
    address: Arc<Mutex<Option<SocketAddr>>>,
}

/// What a search of the page asks for the names of files. The page asks the same several times, for each part of its
/// answer, and the buses are read once for all of them.
fn file_names(disk: Arc<dyn Disk>, buses: PathBuf) -> FindFiles {
    let kept: Mutex<Option<FoundNames>> = Mutex::new(None);
    Arc::new(move |words| {
        let mut kept = kept.lock();
        if let Some(found) = &*kept
            && found.words == words
            && found.at.elapsed() < FILE_NAMES_KEPT
        {
            return Arc::clone(&found.files);
        }
        let files = Arc::new(files_with_words(&*disk, &buses, words));
        let (at, words) = (Instant::now(), words.to_vec());
        *kept = Some(FoundNames { at, words, files: Arc::clone(&files) });
        files
    })
}

/// The files of the last search.
struct FoundNames {
    at: Instant,
    words: Vec<String>,
    files: Arc<FileNames>,
}

impl Page {
    pub(super) fn new(
        context: &Context,
        asker: Asker,
        config: &Config,
        home: &Home,
        log: &Reader,
    ) -> Result<Page, Failure> {
        let random = random_bytes::<16>().map_err(|error| {
            Failure::new(Exit::Storage, "cannot make the token of the page").because(&error)
        })?;
        let taking = context.clone();
        let actions = Actions {
            disk: Arc::clone(&context.machine.disk),
            queue: home.queue.clone(),
            take_in: Arc::new(move |given| {
                take_given(&taking, given).map_err(|failure| failure.in_short())
            }),
        };
        let root = std::path::absolute(&home.root).unwrap_or_else(|_| home.root.clone());
        let login = Login {
            token: random.iter().map(|byte| format!("{byte:02x}")).collect(),
            for_reading: config.status_login,
            home: root.to_string_lossy().into_owned(),
        };
        let (reading, kept) = (context.clone(), Mutex::new(ProjectRules::default()));
        let shown = Shown {
            asker,
            tally: Arc::new(Tally::new(config)),
            home: root,
            buses: home.buses.clone(),
            snapshots: home.snapshots(),
            actions,
            login,
            project_rules: Arc::new(move || {
                // A file that does not read any more changes nothing, as at a reload.
                let mut kept = kept.lock();
                if let Ok(selectors) = selectors(&reading) {
                    *kept = selectors.rules();
                }
                kept.clone()
            }),
            files_with_words: file_names(Arc::clone(&context.machine.disk), home.buses.clone()),
        };
        let (log, until) = (log.clone(), log.head().0);
        Ok(Page { context: context.clone(), shown, log, until, address: Arc::default() })
    }

    /// Starts it; says where it is when it was started already.
    pub(super) fn start(&self, wanted: SocketAddr) -> Result<SocketAddr, Failure> {
        let mut started = self.address.lock();
        if let Some(address) = *started {
            return Ok(address);
        }
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Config, format!("cannot show the page on {wanted}"))
                .because(&error)
                .hint("set status.http to another address, or to \"off\"")
        };
        let address = web::start(wanted, self.shown.clone()).map_err(failed)?;
        *started = Some(address);
        let (tally, log, until) = (Arc::clone(&self.shown.tally), self.log.clone(), self.until);
        let now = self.context.machine.clock.now();
        let thread = std::thread::Builder::new().name("spend".to_owned());
        thread.spawn(move || tally.read_spend(&log, until, now)).map_err(failed)?;
        let ui = self.context.ui;
        // A journal keeps what a service says, and others may read it.
        let link = match std::io::stderr().is_terminal() {
            true => format!("#token={}", self.shown.login.token),
            false => String::new(),
        };
        ui.talk(format!("status page: http://{address}/{link}"));
        if link.is_empty() && self.shown.login.for_reading {
            ui.talk("`summarizer open` opens it with its token");
        }
        if !address.ip().is_loopback() {
            let who = match self.shown.login.for_reading {
                true => "the token and the texts go there unencrypted",
                false => "the page has no login",
            };
            let warning = ui::yellow("warning:");
            ui.talk(format!("{warning} {address} can be reached from other machines, and {who}"));
        }
        Ok(address)
    }

    /// Counts events of a host that follows.
    #[cfg(feature = "cluster")]
    pub(super) fn observe(&self, events: &[Committed]) {
        self.shown.tally.observe(events);
    }

    /// What counts the events of this host. It starts before the first event is committed, so no event is counted
    /// twice or missed.
    pub(super) fn observer(&self) -> Watch {
        let tally = Arc::clone(&self.shown.tally);
        Box::new(move |events, _| tally.observe(events))
    }

    /// The address of the page. Starts it on this machine when no address is configured.
    pub(super) fn answerer(self) -> ShowPage {
        Arc::new(move || match self.start((Ipv4Addr::LOCALHOST, 0).into()) {
            Ok(address) => Answer::Ok(json!({
                "address": address.to_string(), "token": self.shown.login.token,
            })),
            Err(failure) => Answer::Refused(failure.in_short()),
        })
    }
}

/// Keeps a text in the home and asks for its summary, as `add` does with a file.
fn take_given(context: &Context, given: Given) -> Result<Value, Failure> {
    let config = names::with_flow_ids(context, load_config(context)?)?;
    let home = Home::new(&context.home, &config);
    let flow =
        given.flow.as_deref().map(|flow| names::registered_flow(context, flow)).transpose()?;
    let disk = &*context.machine.disk;
    let alone = importing(context, &home)?;
    let kept = keep(disk, &home.root.join(TEXTS), &given).and_then(|path| {
        pasted::remember(disk, &home, &path, &given.bytes)?;
        Ok(path)
    });
    drop(alone);
    let path = kept.map_err(|error| {
        let what = format!("cannot keep the text in {}", home.root.join(TEXTS).display());
        Failure::new(Exit::Storage, what).because(&error)
    })?;
    let mut found = collect(disk, &home, &[path]).map_err(|error| not_added(&error))?;
    rename_for_home(disk, &home.root, &mut found);
    let project = given.project.as_deref();
    let wish = RequestSettings { folders: &[], flow: flow.as_deref(), project, again: false };
    let taken = take_in(context, &config, &home, found, &wish)?;
    if !taken.unread.is_empty() {
        let what = format!("{} is not read: the service ends", given.name);
        return Err(Failure::new(Exit::Busy, what).hint("give it again when the service runs"));
    }
    if taken.requests.is_empty() {
        let why: Vec<&str> = taken.skipped.iter().map(|one| one.why.as_str()).collect();
        let why = if why.is_empty() { "it holds no text".to_owned() } else { why.join("; ") };
        return Err(Failure::new(Exit::Input, format!("{} is not read: {why}", given.name)));
    }
    let requests: Vec<Value> =
        taken.requests.iter().map(|(id, name)| json!({"request_id": id, "name": name})).collect();
    Ok(json!({"done": "asked", "requests": requests}))
}

/// Writes a text under its name, or under the next free one where another text has it. The caller holds the lock of
/// imports.
fn keep(disk: &dyn Disk, folder: &Path, given: &Given) -> std::io::Result<PathBuf> {
    disk.create_dir_all(folder)?;
    let name = plain_name(&given.name);
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
        _ => (name.as_str(), String::new()),
    };
    for number in 1..SAME_NAME_MAX {
        let number = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("{stem}{number}{extension}"));
        match disk.read_if_present(&path)? {
            Some(bytes) if bytes == given.bytes => return Ok(path),
            Some(_) => {}
            // A file beside the home that would have the same name is another source.
            None if disk.stat(&beside_home(folder, &path))?.is_some() => {}
            None => {
                disk.replace(&path, &given.bytes, 0o640)?;
                return Ok(path);
            }
        }
    }
    Err(std::io::Error::other(format!("too many texts are named {name}")))
}

/// The file beside the home that has the name of this file of its folder.
fn beside_home(folder: &Path, path: &Path) -> PathBuf {
    let names = [folder.file_name(), path.file_name()].into_iter().flatten();
    let home = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let around = home.ancestors().nth(2).unwrap_or(Path::new("/"));
    around.join(names.collect::<PathBuf>())
}

/// A file name of one part that is not hidden and has no odd character.
fn plain_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | '(' | ')');
    let kept: String = last.chars().filter(is_kept).collect();
    let mut kept = kept.trim_matches([' ', '.']).to_owned();
    while kept.len() > NAME_BYTES_MAX {
        // The end is kept: it says what kind of file it is.
        kept.remove(0);
    }
    let kept = kept.trim_start_matches([' ', '.', '-']);
    if kept.is_empty() { "pasted.txt".to_owned() } else { kept.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    #[test]
    fn names_of_given_texts_stay_in_their_folder() {
        for (name, plain) in [
            ("roof.md", "roof.md"),
            ("../../etc/passwd", "passwd"),
            ("C:\\notes\\año nuevo.docx", "año nuevo.docx"),
            (".hidden", "hidden"),
            ("..", "pasted.txt"),
            ("a\0b\u{202e}<c>.txt", "abc.txt"),
            ("", "pasted.txt"),
        ] {
            assert_eq!(plain_name(name), plain, "{name:?}");
        }
        assert!(plain_name(&format!("{}.pdf", "é".repeat(500))).ends_with("é.pdf"));
    }

    #[test]
    fn another_text_of_the_same_name_gets_a_name_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let give = |name: &str, text: &str| {
            let given = Given {
                name: name.to_owned(),
                bytes: text.as_bytes().to_vec(),
                project: None,
                flow: None,
            };
            let path = keep(&HostDisk, dir.path(), &given).unwrap();
            path.file_name().unwrap().to_string_lossy().into_owned()
        };
        assert_eq!(give("roof.md", "one"), "roof.md");
        assert_eq!(give("roof.md", "two"), "roof-2.md");
        assert_eq!(give("roof.md", "one"), "roof.md");
        assert_eq!(give("roof", "three"), "roof");
        assert_eq!(give("roof", "four"), "roof-2");
        // The folder of the test stands for `texts` in the home `..`.
        let around = dir.path().parent().unwrap().parent().unwrap();
        let beside = beside_home(dir.path(), &dir.path().join("roof.md"));
        assert_eq!(beside, around.join(dir.path().file_name().unwrap()).join("roof.md"));
    }
}
