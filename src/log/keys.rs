//! The keys that bodies are sealed with, and the file they lie in.
//!
//! Contract. The file lies beside the store, carries the name of its keys, and is readable by its owner
//! only. It is written as a whole when the store is made and whenever keys are destroyed. The store names
//! the tree its bodies are sealed with; another file, or none, is an error before anything is read.
//!
//! ```text
//! "summarizer keys\n" · u32 version = 1 · [16] name · u32 nodes
//! for each node: u64 first record · u8 height · [32] secret
//! [32] sha256 of everything before
//! ```
//!
//! With a key of the home the nodes are sealed (ChaCha20-Poly1305, everything before them as associated
//! data): the version is 2, and `[12] nonce · sealed nodes · [16] tag` stand in the place of the nodes.
//!
//! When keys are destroyed, the new file takes the name of the old one, whose bytes are then overwritten. A
//! file system that copies on write, a disk with spare blocks and a snapshot may still hold them, and so
//! may the disk after a crash between the two steps.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use ring::aead;

use crate::contract::hash::{Hasher, push_hex, sha256};
use crate::contract::ids::Seq;
use crate::os::{Disk, Open};

use super::bytes::{array, read_u32, read_u64};
use super::error::{KeysError, LogError};
use super::key_tree::{KeyPath, KeyTree, Node, Secret};

const MAGIC: &[u8; 16] = b"summarizer keys\n";
const VERSION: u32 = 1;
/// With sealed nodes.
const SEALED: u32 = 2;
const HEAD: usize = 40;
const NODE: usize = 41;
const CHECK: usize = 32;
/// Readable by its owner only, whatever the other files of the home are.
const MODE: u32 = 0o600;

/// Bytes of a nonce, which stands before what it was used for.
pub(super) const NONCE: usize = aead::NONCE_LEN;

/// Names a tree: the first bytes of a hash of its root.
pub(crate) type KeysName = [u8; 16];

/// What a new store is made with; an existing one has its own.
#[derive(Clone)]
pub struct Fresh {
    /// The bytes the hash chain starts from.
    pub store_id: [u8; 16],
    /// The keys that bodies are sealed with.
    pub keys: FreshKeys,
}

#[derive(Clone)]
pub enum FreshKeys {
    /// All that can be derived from these bytes.
    Of(Secret),
    /// Those of another copy of the log: the bytes of their file.
    Copied(Vec<u8>),
}

#[cfg(any(test, feature = "internals"))]
impl From<[u8; 16]> for Fresh {
    fn from(store_id: [u8; 16]) -> Fresh {
        Fresh { store_id, keys: FreshKeys::Of(sha256(store_id).0) }
    }
}

/// What the file of the keys is sealed with.
#[derive(Clone, Default)]
pub struct HomeKey {
    /// The key, where the settings name one.
    pub key: Option<Secret>,
    /// Whether the file is sealed with it from now on.
    pub seals: bool,
}

impl std::fmt::Debug for HomeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HomeKey {{ known: {}, seals: {} }}", self.key.is_some(), self.seals)
    }
}

impl HomeKey {
    /// The key that any secret of a person stands for.
    pub fn of(secret: &[u8], seals: bool) -> HomeKey {
        let mut hasher = Hasher::new();
        hasher.update(b"summarizer home key\n").update(secret);
        HomeKey { key: Some(hasher.finish().0), seals }
    }

    fn sealing(&self) -> Option<&Secret> {
        self.key.as_ref().filter(|_| self.seals)
    }
}

/// The keys of one store.
pub(crate) struct Keys {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    name: KeysName,
    tree: RwLock<KeyTree>,
    home: HomeKey,
}

impl Keys {
    /// Where the keys of this name lie. A store that takes the place of another one has its own file.
    fn beside(store: &Path, name: KeysName) -> PathBuf {
        let mut hex = String::new();
        push_hex(&mut hex, &name[..4]);
        store.with_file_name(format!("log-{hex}.keys"))
    }

    /// Their file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the keys of a new store, durably.
    pub(super) fn create(
        disk: Arc<dyn Disk>,
        store: &Path,
        fresh: &FreshKeys,
        home: &HomeKey,
    ) -> Result<Keys, LogError> {
        let keys = Keys::in_memory(disk, store, fresh, home)?;
        let bytes = encode(keys.name, &keys.tree.read(), home.sealing());
        keys.disk.replace(&keys.path, &bytes, MODE).map_err(LogError::io("write the keys"))?;
        Ok(keys)
    }

    /// The same without a file.
    pub(super) fn in_memory(
        disk: Arc<dyn Disk>,
        store: &Path,
        fresh: &FreshKeys,
        home: &HomeKey,
    ) -> Result<Keys, LogError> {
        let (name, tree) = match fresh {
            FreshKeys::Of(secret) => {
                let mut hasher = Hasher::new();
                hasher.update(b"name").update(secret);
                (array(&hasher.finish().0[..16]), KeyTree::whole(*secret))
            }
            FreshKeys::Copied(file) => {
                let read = decode(file, None, "the copied file of keys")?;
                (read.name, read.tree)
            }
        };
        let path = Keys::beside(store, name);
        Ok(Keys { disk, path, name, tree: RwLock::new(tree), home: home.clone() })
    }

    /// Their file as bytes, not sealed.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        encode(self.name, &self.tree.read(), None)
    }

    /// Whether any key was ever destroyed.
    pub(super) fn has_destroyed(&self) -> bool {
        !self.tree.read().is_whole()
    }

    /// The records up to this one whose keys were destroyed.
    pub(super) fn destroyed(&self, until: Seq) -> Vec<Seq> {
        self.tree.read().destroyed(until)
    }

    /// Reads the keys of a store that names them. Their file gets the form that the settings want, unless
    /// somebody only looks.
    pub(super) fn read(
        disk: Arc<dyn Disk>,
        store: &Path,
        name: KeysName,
        home: &HomeKey,
        only_looks: bool,
    ) -> Result<Keys, LogError> {
        let path = Keys::beside(store, name);
        let stored = disk.read_if_present(&path).map_err(LogError::io("read the keys"))?;
        let shown = || path.display().to_string();
        let stored = stored.ok_or_else(|| KeysError::Missing { path: shown() })?;
        let read = decode(&stored, home.key.as_ref(), &shown())?;
        if read.name != name {
            return Err(KeysError::Foreign { path: shown() }.into());
        }
        let tree = RwLock::new(read.tree);
        let keys = Keys { disk, path, name, tree, home: home.clone() };
        if !only_looks && read.is_sealed != home.sealing().is_some() {
            keys.replace(&keys.tree.read())?;
        }
        Ok(keys)
    }

    pub(super) fn name(&self) -> KeysName {
        self.name
    }

    /// Gives new keys to records that the log does not have yet and whose keys are gone: the file was used with a
    /// later state of the log. Returns whether there were any.
    pub(super) fn renew_after(&self, head: Seq, fresh: &FreshKeys) -> Result<bool, LogError> {
        let FreshKeys::Of(secret) = fresh else { return Ok(false) };
        let mut tree = self.tree.write();
        let mut whole = tree.clone();
        if whole.renew(head.next().0, secret) == 0 {
            return Ok(false);
        }
        self.replace(&whole)?;
        *tree = whole;
        Ok(true)
    }

    /// Destroys the keys of these records, durably. What was sealed with them can never be read again.
    pub(super) fn destroy(&self, seqs: &[Seq]) -> Result<(), LogError> {
        let mut tree = self.tree.write();
        let mut rest = tree.clone();
        rest.destroy(seqs.iter().copied());
        if rest == *tree {
            return Ok(());
        }
        self.replace(&rest)?;
        *tree = rest;
        Ok(())
    }

    /// Writes the file anew, and overwrites the old one once the new one is durable under its name.
    fn replace(&self, tree: &KeyTree) -> Result<(), LogError> {
        let bytes = encode(self.name, tree, self.home.sealing());
        // It is opened before another file takes its name.
        let replaced = self.disk.open(&self.path, Open::ReadWrite).and_then(|old| {
            self.disk.replace(&self.path, &bytes, MODE)?;
            let len = usize::try_from(old.stat()?.len).unwrap_or(0);
            old.write_all_at(&vec![0; len], 0)?;
            old.sync()
        });
        replaced.map_err(LogError::io("replace the keys"))
    }

    /// Seals the bytes of `out` from `start` on and leaves the nonce in the room before them. False when
    /// the record's key was destroyed.
    pub(super) fn seal(
        &self,
        path: &mut KeyPath,
        seq: Seq,
        head: &[u8],
        start: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(key) = path.key(&self.tree.read(), seq) else { return false };
        // Made from the body itself: packing the same records again gives the same bytes, and two bodies
        // that were packed for one place never share a nonce.
        let mut hasher = Hasher::new();
        hasher.update(key).update(head).update(&out[start..]);
        let nonce: [u8; NONCE] = array(&hasher.finish().0[..NONCE]);
        let tag = sealer(&key).seal_in_place_separate_tag(
            aead::Nonce::assume_unique_for_key(nonce),
            aead::Aad::from(head),
            &mut out[start..],
        );
        out[start - NONCE..start].copy_from_slice(&nonce);
        out.extend_from_slice(tag.expect("a body is shorter than the cipher allows").as_ref());
        true
    }

    /// Opens in place what `seal` left: nonce, text and tag. `None` when the key was destroyed.
    pub(super) fn open<'b>(
        &self,
        path: &mut KeyPath,
        seq: Seq,
        head: &[u8],
        sealed: &'b mut [u8],
    ) -> Result<Option<&'b [u8]>, String> {
        let Some(key) = path.key(&self.tree.read(), seq) else { return Ok(None) };
        let Some((nonce, text)) = sealed.split_at_mut_checked(NONCE) else {
            return Err("too short".into());
        };
        let nonce = aead::Nonce::assume_unique_for_key(array(nonce));
        let opened = sealer(&key).open_in_place(nonce, aead::Aad::from(head), text);
        let opened = opened.map_err(|_| "it was not sealed with the key of its record")?;
        Ok(Some(opened))
    }

    /// Whether the key of a record was destroyed.
    pub(super) fn is_destroyed(&self, seq: Seq) -> bool {
        !self.tree.read().has(seq)
    }
}

fn sealer(key: &Secret) -> aead::LessSafeKey {
    let key = aead::UnboundKey::new(&aead::CHACHA20_POLY1305, key);
    aead::LessSafeKey::new(key.expect("a key has 32 bytes"))
}

fn encode(name: KeysName, tree: &KeyTree, key: Option<&Secret>) -> Vec<u8> {
    let nodes = tree.nodes();
    let mut out = Vec::with_capacity(HEAD + nodes.len() * NODE + CHECK);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&if key.is_some() { SEALED } else { VERSION }.to_le_bytes());
    out.extend_from_slice(&name);
    out.extend_from_slice(&(nodes.len() as u32).to_le_bytes());
    let mut content = Vec::new();
    for (first, node) in nodes {
        content.extend_from_slice(&first.to_le_bytes());
        content.push(node.height);
        content.extend_from_slice(&node.secret);
    }
    if let Some(key) = key {
        let mut hasher = Hasher::new();
        hasher.update(key).update(&content);
        let nonce: [u8; NONCE] = array(&hasher.finish().0[..NONCE]);
        let unique = aead::Nonce::assume_unique_for_key(nonce);
        let sealed =
            sealer(key).seal_in_place_append_tag(unique, aead::Aad::from(&out), &mut content);
        sealed.expect("the nodes are shorter than the cipher allows");
        out.extend_from_slice(&nonce);
    }
    out.extend_from_slice(&content);
    let check = sha256(&out);
    out.extend_from_slice(&check.0);
    out
}

/// A file of keys, read.
struct ReadKeys {
    name: KeysName,
    tree: KeyTree,
    is_sealed: bool,
}

fn decode(stored: &[u8], key: Option<&Secret>, path: &str) -> Result<ReadKeys, KeysError> {
    let path = || path.to_owned();
    let damaged = |what| KeysError::Damaged { path: path(), what };
    let content = stored.len().checked_sub(CHECK).map(|end| stored.split_at(end));
    let (content, check) = content
        .filter(|(content, _)| content.len() >= HEAD)
        .ok_or_else(|| damaged("it is too short"))?;
    if sha256(content).0 != *check {
        return Err(damaged("its check does not match"));
    }
    let (version, name) = (read_u32(content, 16), array(&content[20..36]));
    if content[..16] != *MAGIC || !matches!(version, VERSION | SEALED) {
        return Err(damaged("it has another form"));
    }
    let (head, rest) = content.split_at(HEAD);
    let is_sealed = version == SEALED;
    let mut nodes = rest.to_vec();
    if is_sealed {
        let key = key.ok_or_else(|| KeysError::Sealed { path: path() })?;
        let sealed = nodes.split_off(NONCE.min(nodes.len()));
        let wrong = || KeysError::WrongKey { path: path() };
        let nonce = aead::Nonce::try_assume_unique_for_key(&nodes).map_err(|_| wrong())?;
        nodes = sealed;
        let opened = sealer(key).open_in_place(nonce, aead::Aad::from(head), &mut nodes);
        let len = opened.map_err(|_| wrong())?.len();
        nodes.truncate(len);
    }
    if nodes.len() != read_u32(content, 36) as usize * NODE {
        return Err(damaged("its length is wrong"));
    }
    let nodes = nodes
        .chunks_exact(NODE)
        .map(|node| (read_u64(node, 0), Node { height: node[8], secret: array(&node[9..NODE]) }));
    let tree = KeyTree::of(nodes).ok_or_else(|| damaged("its nodes do not fit together"))?;
    Ok(ReadKeys { name, tree, is_sealed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::time::Timestamp;
    use crate::log::{Commit, NewRecord, Options, Store};
    use crate::os::sim::SimDisk;

    const WORDS: &[u8] = b"the words of a person, longer than a block of the cipher by some words";

    struct World {
        disk: Arc<dyn Disk>,
        path: PathBuf,
    }

    impl World {
        fn new() -> World {
            World { disk: Arc::new(SimDisk::new()), path: PathBuf::from("/log.redb") }
        }

        fn open(&self) -> Result<Store, LogError> {
            let disk = Arc::clone(&self.disk);
            Store::open(disk, &self.path, Options::beside(&self.path), [7; 16], &mut |_| {})
        }

        fn file(&self) -> PathBuf {
            let store = self.open().unwrap();
            store.keys_file()
        }
    }

    fn add(store: &mut Store, body: &[u8]) {
        let record = NewRecord {
            at: Timestamp(5),
            tag: 1,
            version: 1,
            payload: b"event".to_vec(),
            body: Some(body.to_vec()),
        };
        let first = store.head().0.next();
        let commit = Commit { first, records: &[record], mark: b"", checkpoint: None };
        store.append(commit).unwrap();
    }

    fn holds(bytes: &[u8], words: &[u8]) -> bool {
        bytes.windows(words.len()).any(|window| window == words)
    }

    #[test]
    fn a_body_is_readable_and_its_words_are_in_no_file() {
        let world = World::new();
        let mut store = world.open().unwrap();
        add(&mut store, WORDS);
        store.close().unwrap();
        assert!(!holds(&world.disk.read(&world.path).unwrap(), WORDS));
        let store = world.open().unwrap();
        assert_eq!(store.reader().body(Seq(1)).unwrap().unwrap(), WORDS);
    }

    #[test]
    fn a_forgotten_body_is_gone_for_ever_and_every_other_one_stays() {
        let world = World::new();
        let mut store = world.open().unwrap();
        for number in 0..20u8 {
            add(&mut store, &[WORDS, &[number]].concat());
        }
        let before = world.disk.read(&store.keys_file()).unwrap();
        let log = store.reader();
        let head = log.head();
        store.forget(&[Seq(3), Seq(17)]).unwrap();
        store.forget(&[Seq(3)]).unwrap();
        for _ in 0..2 {
            let log = store.reader();
            for number in 0..20u8 {
                let seq = Seq(u64::from(number) + 1);
                let gone = [Seq(3), Seq(17)].contains(&seq);
                let expected = (!gone).then(|| [WORDS, &[number]].concat());
                assert_eq!(log.body(seq).unwrap(), expected, "{seq}");
                assert_eq!(log.kept_body(seq).unwrap(), expected, "{seq}");
            }
            assert_eq!(log.verify(Seq(1), None, &mut |_| {}).unwrap().last, head);
            store.close().unwrap();
            store = world.open().unwrap();
        }
        let root = &before[HEAD + 9..HEAD + NODE];
        assert!(!holds(&world.disk.read(&store.keys_file()).unwrap(), root));
        add(&mut store, WORDS);
        assert_eq!(store.reader().body(Seq(21)).unwrap().unwrap(), WORDS);
    }

    #[test]
    fn a_body_whose_key_is_gone_counts_as_dropped_before_it_is() {
        let world = World::new();
        let mut store = world.open().unwrap();
        add(&mut store, WORDS);
        store.shared_keys().destroy(&[Seq(1)]).unwrap();
        let log = store.reader();
        assert_eq!(log.body(Seq(1)).unwrap(), None);
        assert!(log.body_is_dropped(Seq(1)).unwrap());
        assert!(log.verify(Seq(1), None, &mut |_| {}).is_ok());
    }

    #[test]
    fn missing_damaged_and_foreign_keys_are_errors_before_anything_is_read() {
        let world = World::new();
        let mut store = world.open().unwrap();
        add(&mut store, WORDS);
        store.close().unwrap();
        let path = world.file();
        let good = world.disk.read(&path).unwrap();
        let fails = |bytes: Option<&[u8]>| {
            world.disk.remove_file(&path).unwrap();
            if let Some(bytes) = bytes {
                world.disk.replace(&path, bytes, MODE).unwrap();
            }
            match world.open() {
                Err(LogError::Keys(error)) => error,
                other => panic!("{:?}", other.err()),
            }
        };
        assert!(matches!(fails(None), KeysError::Missing { .. }));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(matches!(fails(Some(&bad)), KeysError::Damaged { .. }), "{at}");
        }
        assert!(matches!(fails(Some(&good[..50])), KeysError::Damaged { .. }));
        let other = Keys::create(
            Arc::clone(&world.disk),
            Path::new("/other.redb"),
            &FreshKeys::Of([9; 32]),
            &HomeKey::default(),
        );
        let other = other.unwrap().to_bytes();
        assert!(matches!(fails(Some(&other)), KeysError::Foreign { .. }));
        world.disk.replace(&path, &good, MODE).unwrap();
        assert_eq!(world.open().unwrap().reader().body(Seq(1)).unwrap().unwrap(), WORDS);
    }

    #[test]
    fn a_copy_with_the_same_keys_reads_and_seals_the_same_bytes() {
        let (one, two) = (World::new(), World::new());
        let mut first = one.open().unwrap();
        for words in [b"gone".as_slice(), WORDS] {
            add(&mut first, words);
        }
        first.forget(&[Seq(1)]).unwrap();
        let keys = FreshKeys::Copied(first.reader().keys());
        let disk = Arc::clone(&two.disk);
        let fresh = Fresh { store_id: [7; 16], keys };
        let options = Options::beside(&two.path);
        let mut second = Store::open(disk, &two.path, options, fresh, &mut |_| {}).unwrap();
        assert_eq!(second.reader().keys(), first.reader().keys());
        let log = first.reader();
        for number in 1..=2 {
            let copied = log.get(Seq(number)).unwrap().unwrap();
            let record = NewRecord {
                at: copied.at,
                tag: copied.tag,
                version: copied.version,
                payload: copied.payload,
                body: log.kept_body(Seq(number)).unwrap(),
            };
            let (first, records) = (Seq(number), &[record][..]);
            second.append(Commit { first, records, mark: b"", checkpoint: None }).unwrap();
        }
        assert_eq!(second.reader().kept_body(Seq(1)).unwrap(), None);
        assert_eq!(second.reader().body(Seq(2)).unwrap().unwrap(), WORDS);
    }

    #[test]
    fn a_key_of_the_home_seals_the_file_and_can_be_given_up() {
        let world = World::new();
        let open = |home: HomeKey| {
            let options = Options { home_key: home, ..Options::beside(&world.path) };
            let disk = Arc::clone(&world.disk);
            Store::open(disk, &world.path, options, [7; 16], &mut |_| {})
        };
        let mut store = open(HomeKey::default()).unwrap();
        add(&mut store, WORDS);
        let path = store.keys_file();
        store.close().unwrap();
        let plain = world.disk.read(&path).unwrap();
        let root = &plain[HEAD + 9..HEAD + NODE];
        let key = |seals| HomeKey::of(b"a word of a person", seals);
        let looking = Options { home_key: key(true), ..Options::beside(&world.path) };
        let looking = Options { only_looks: true, ..looking };
        let disk = Arc::clone(&world.disk);
        let store = Store::open(disk, &world.path, looking, [7; 16], &mut |_| {}).unwrap();
        assert_eq!(store.reader().body(Seq(1)).unwrap().unwrap(), WORDS);
        store.close().unwrap();
        assert_eq!(world.disk.read(&path).unwrap(), plain);
        for _ in 0..2 {
            let store = open(key(true)).unwrap();
            assert_eq!(store.reader().body(Seq(1)).unwrap().unwrap(), WORDS);
            assert_eq!(store.reader().keys(), plain);
            store.close().unwrap();
            assert!(!holds(&world.disk.read(&path).unwrap(), root));
        }
        let fails = |home| match open(home) {
            Err(LogError::Keys(error)) => error,
            other => panic!("{:?}", other.err()),
        };
        assert!(matches!(fails(HomeKey::default()), KeysError::Sealed { .. }));
        assert!(matches!(fails(HomeKey::of(b"another", true)), KeysError::WrongKey { .. }));
        let mut store = open(key(true)).unwrap();
        add(&mut store, WORDS);
        store.forget(&[Seq(1)]).unwrap();
        store.close().unwrap();
        assert_eq!(read_u32(&world.disk.read(&path).unwrap(), 16), SEALED);
        let store = open(key(false)).unwrap();
        assert_eq!(store.reader().body(Seq(1)).unwrap(), None);
        store.close().unwrap();
        assert_eq!(
            open(HomeKey::default()).unwrap().reader().body(Seq(2)).unwrap().unwrap(),
            WORDS
        );
    }
}
