//! The reader of the queue compared with a small model of the queue file: appending, tearing, cutting,
//! replacing, rewriting, restarting, adopting, in any order.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]
#![allow(clippy::disallowed_methods, reason = "the tests write the queue as its callers do")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use summarizer::contract::hash::{Digest, sha256};
use summarizer::contract::time::Timestamp;
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;
use summarizer::seam::position::{
    AdoptAt, Change, ConsumedBatch, Position, QueueError, adopt_position, describe_change, link,
    verify_prefix,
};
use summarizer::seam::tail::{Batch, LineForm, TailOptions, Tailer};

const MAX_LINE: usize = 40;
const GRACE_MS: i64 = 1000;
const OPTIONS: TailOptions =
    TailOptions { max_line_bytes: MAX_LINE, partial_line_grace_ms: GRACE_MS };

/// A line as both the model and the reader report it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    number: u64,
    offset: u64,
    length: u64,
    form: LineForm,
    bytes: Vec<u8>,
}

fn lines_of(batch: &Batch) -> Vec<Line> {
    let line = |span: &summarizer::seam::tail::LineSpan| Line {
        number: span.number,
        offset: span.offset,
        length: span.length,
        form: span.form,
        bytes: batch.raw(span).to_vec(),
    };
    batch.lines.iter().map(line).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<u8>),
    Wait(i64),
    Read { lines: usize, bytes: usize },
    Restart,
    Cut(prop::sample::Index),
    Replace(Vec<u8>),
    Copy,
    Remove,
    Flip(prop::sample::Index),
    Adopt(AdoptAt),
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just(b"{\"a\":1}\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"  \r\n".to_vec()),
        Just(b"half".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        Just(b"\0\0\0".to_vec()),
        (MAX_LINE - 2..MAX_LINE + 3).prop_map(|len| [vec![b'x'; len], b"\n".to_vec()].concat()),
        (MAX_LINE - 2..MAX_LINE + 3).prop_map(|len| [vec![b'r'; len], b"\r\n".to_vec()].concat()),
        (MAX_LINE..3 * MAX_LINE).prop_map(|len| vec![b'y'; len]),
    ];
    prop::collection::vec(line, 1..4).prop_map(|pieces| pieces.concat())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => piece().prop_map(Step::Append),
        2 => (-200..GRACE_MS + 200).prop_map(Step::Wait),
        8 => (1..5_usize, 1..200_usize).prop_map(|(lines, bytes)| Step::Read { lines, bytes }),
        1 => Just(Step::Restart),
        1 => any::<prop::sample::Index>().prop_map(Step::Cut),
        1 => piece().prop_map(Step::Replace),
        1 => Just(Step::Copy),
        1 => Just(Step::Remove),
        1 => any::<prop::sample::Index>().prop_map(Step::Flip),
        1 => prop_oneof![Just(AdoptAt::Start), Just(AdoptAt::End), Just(AdoptAt::SameOffset)]
            .prop_map(Step::Adopt),
    ]
}

/// The file, and what the reader should know of it.
struct Model {
    file: Option<Vec<u8>>,
    /// The bytes up to the consumed offset, as they were when they were consumed.
    consumed: Vec<u8>,
    lines: u64,
    /// After lines were consumed, another inode got the name.
    replaced: bool,
    grew: Option<(usize, i64)>,
    now: i64,
}

impl Model {
    fn change(&self) -> Option<Change> {
        if self.consumed.is_empty() {
            return None;
        }
        let Some(file) = &self.file else { return Some(Change::Missing) };
        let same_bytes = file.starts_with(&self.consumed);
        if self.replaced {
            Some(Change::Replaced { same_bytes })
        } else if file.len() < self.consumed.len() {
            Some(Change::Shrunk { consumed: self.consumed.len() as u64, len: file.len() as u64 })
        } else {
            (!same_bytes).then_some(Change::Rewritten)
        }
    }

    /// The lines to read: finished lines, or the unfinished last one after its grace.
    fn expected(&mut self) -> Vec<Line> {
        let Some(file) = &self.file else { return Vec::new() };
        let since = match self.grew {
            Some((len, since)) if len == file.len() && since <= self.now => since,
            _ => self.now,
        };
        self.grew = Some((file.len(), since));
        let mut found = Vec::new();
        let mut start = self.consumed.len();
        let mut push = |start: usize, end: usize, partial: bool| {
            let bytes = &file[start..end];
            let content = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            let too_long =
                if partial { bytes.len() > MAX_LINE + 1 } else { content.len() > MAX_LINE };
            found.push(Line {
                number: self.lines + found.len() as u64 + 1,
                offset: start as u64,
                length: bytes.len() as u64,
                form: match (too_long, partial) {
                    (true, _) => LineForm::TooLong(sha256(bytes)),
                    (false, true) => LineForm::Partial,
                    (false, false) => LineForm::Whole,
                },
                bytes: bytes.to_vec(),
            });
        };
        while let Some(length) = file[start..].iter().position(|byte| *byte == b'\n') {
            push(start, start + length, false);
            start += length + 1;
        }
        let only_partial = start == self.consumed.len() && start < file.len();
        if only_partial && self.now - since >= GRACE_MS {
            push(start, file.len(), true);
        }
        found
    }
}

/// Model, file and tailer together.
struct Run {
    dir: tempfile::TempDir,
    disk: Arc<dyn Disk>,
    model: Model,
    tailer: Option<Tailer>,
    position: Position,
    batches: Vec<ConsumedBatch>,
    buried: usize,
}

impl Run {
    fn new() -> Run {
        let model = Model {
            file: None,
            consumed: Vec::new(),
            lines: 0,
            replaced: false,
            grew: None,
            now: 1_000_000,
        };
        Run {
            dir: tempfile::tempdir().unwrap(),
            disk: Arc::new(HostDisk),
            model,
            tailer: None,
            position: Position::START,
            batches: Vec::new(),
            buried: 0,
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("queue.jsonl")
    }

    /// Moves the file away and keeps it, so that its inode is not reused.
    fn bury(&mut self) {
        self.buried += 1;
        let _ = fs::rename(self.path(), self.dir.path().join(format!("buried{}", self.buried)));
        self.model.file = None;
    }

    /// A new inode under the name.
    fn put_new_file(&mut self, bytes: &[u8]) {
        self.bury();
        fs::write(self.path(), bytes).unwrap();
        self.model.replaced = !self.model.consumed.is_empty();
        self.model.file = Some(bytes.to_vec());
    }

    fn write_in_place(&self) {
        let file = fs::OpenOptions::new().write(true).open(self.path()).unwrap();
        let bytes = self.model.file.as_ref().unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).unwrap();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append(bytes) => match &mut self.model.file {
                Some(file) => {
                    file.extend_from_slice(&bytes);
                    self.write_in_place();
                }
                // A file that comes after one was consumed and removed is another file.
                None => self.put_new_file(&bytes),
            },
            Step::Wait(ms) => self.model.now += ms,
            Step::Read { lines, bytes } => self.read(lines, bytes),
            Step::Restart => {
                self.tailer = None;
                self.model.grew = None;
            }
            Step::Cut(at) => {
                if let Some(file) = &mut self.model.file {
                    file.truncate(at.index(file.len() + 1));
                    self.write_in_place();
                }
            }
            Step::Replace(bytes) => self.put_new_file(&bytes),
            Step::Copy => {
                if let Some(file) = self.model.file.clone() {
                    self.put_new_file(&file);
                }
            }
            Step::Remove => self.bury(),
            Step::Flip(at) => {
                if let Some(file) = &mut self.model.file
                    && !self.model.consumed.is_empty()
                    && !file.is_empty()
                {
                    let reach = file.len().min(self.model.consumed.len());
                    file[at.index(reach)] ^= 1;
                    self.write_in_place();
                }
            }
            Step::Adopt(at) => self.adopt(at),
        }
    }

    fn open(&mut self) -> Result<&mut Tailer, QueueError> {
        if self.tailer.is_none() {
            let disk = Arc::clone(&self.disk);
            self.model.grew = None;
            let position = self.position.clone();
            self.tailer = Some(Tailer::open(disk, &self.path(), position, OPTIONS)?);
        }
        Ok(self.tailer.as_mut().unwrap())
    }

    fn read(&mut self, lines: usize, bytes: usize) {
        let change = self.model.change();
        let described = describe_change(&self.disk, &self.path(), &self.position).unwrap();
        assert_eq!(described, change);
        let now = Timestamp(self.model.now);
        let result = self.open().and_then(|tailer| tailer.next_batch(now, lines, bytes));
        let readable = matches!(change, None | Some(Change::Rewritten));
        let expected = if readable { self.model.expected() } else { Vec::new() };
        match (result, change) {
            (Err(QueueError::Changed { change, .. }), Some(expected)) => {
                assert_eq!(change, expected);
            }
            // An edit in place is looked for only when there is something to read.
            (Ok(None), Some(Change::Rewritten)) => assert!(expected.is_empty()),
            (Ok(None), None) => assert_eq!(expected, []),
            (Ok(Some(batch)), None) => self.accept(&batch, expected, lines, bytes),
            (result, change) => panic!("{result:?} where the model has {change:?}"),
        }
    }

    fn accept(&mut self, batch: &Batch, mut expected: Vec<Line>, lines: usize, bytes: usize) {
        let found = lines_of(batch);
        assert!(!found.is_empty() && found.len() <= lines, "{found:?}");
        expected.truncate(found.len());
        assert_eq!(found, expected);
        let consumed = batch.consumed;
        assert!(found.len() == 1 || consumed.end - consumed.start <= bytes as u64);
        let file = self.model.file.as_ref().unwrap();
        let taken = &file[consumed.start as usize..consumed.end as usize];
        assert_eq!(consumed.start, self.position.offset);
        assert_eq!(consumed.hash, sha256(taken));
        assert_eq!(batch.end.chain, link(self.position.chain, &consumed));
        assert_eq!(batch.end.offset, consumed.end);
        self.model.consumed.extend_from_slice(taken);
        self.model.lines += found.len() as u64;
        assert_eq!(batch.end.lines, self.model.lines);
        assert_eq!(batch.end.tail, sha256(&self.model.consumed));
        assert_eq!(batch.end.identity.as_ref().unwrap().head, sha256(&self.model.consumed));
        self.position = batch.end.clone();
        self.batches.push(consumed);
    }

    fn adopt(&mut self, at: AdoptAt) {
        let adopted = adopt_position(&self.disk, &self.path(), &self.position, at);
        let file = self.model.file.clone().unwrap_or_default();
        let adopted = match (at, adopted) {
            (AdoptAt::SameOffset, Err(QueueError::Changed { .. })) => {
                assert!(self.model.file.is_none() || !file.starts_with(&self.model.consumed));
                return;
            }
            (_, adopted) => adopted.unwrap(),
        };
        if at != AdoptAt::SameOffset {
            let end = file.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
            let end = if at == AdoptAt::End { end } else { 0 };
            self.model.consumed = file[..end].to_vec();
            self.model.lines = file[..end].iter().filter(|byte| **byte == b'\n').count() as u64;
            self.batches.clear();
            self.batches.extend(adopted.passed);
        }
        self.model.replaced = false;
        self.position = adopted.position;
        assert_eq!(self.position.offset, self.model.consumed.len() as u64);
        assert_eq!(self.position.lines, self.model.lines);
        self.tailer = None;
        assert_eq!(describe_change(&self.disk, &self.path(), &self.position).unwrap(), None);
    }

    fn check_whole_prefix(&self) {
        let bad = verify_prefix(&self.disk, &self.path(), &self.batches).unwrap();
        let whole = self.model.file.as_ref().is_some_and(|f| f.starts_with(&self.model.consumed));
        assert_eq!(bad.is_none(), whole || self.batches.is_empty());
        let chain = self.batches.iter().fold(Digest::ZERO, link);
        assert_eq!(chain, self.position.chain);
    }
}

/// An ordinary run takes some seconds with the same cases everywhere; a deep run takes minutes with new
/// cases each time.
fn cases() -> ProptestConfig {
    let deep = std::env::var_os("CI_DEEP").is_some();
    let (cases, rng_seed) = if deep { (20_000, RngSeed::Random) } else { (400, RngSeed::Fixed(7)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn the_tailer_agrees_with_the_model(steps in prop::collection::vec(step(), 1..40)) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
        }
        run.check_whole_prefix();
    }
}

fn queue_with(bytes: &[u8]) -> (tempfile::TempDir, PathBuf, Arc<dyn Disk>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.jsonl");
    fs::write(&path, bytes).unwrap();
    (dir, path, Arc::new(HostDisk))
}

fn open_at(
    disk: &Arc<dyn Disk>,
    path: &std::path::Path,
    position: Position,
    max_line_bytes: usize,
) -> Result<Tailer, QueueError> {
    let options = TailOptions { max_line_bytes, partial_line_grace_ms: GRACE_MS };
    Tailer::open(Arc::clone(disk), path, position, options)
}

/// Reads everything in batches of the given bounds.
fn drain(tailer: &mut Tailer, lines: usize, bytes: usize) -> (Vec<Line>, Vec<ConsumedBatch>) {
    let (mut found, mut batches) = (Vec::new(), Vec::new());
    while let Some(batch) = tailer.next_batch(Timestamp(0), lines, bytes).unwrap() {
        assert!(batch.lines.len() <= lines);
        found.extend(lines_of(&batch));
        batches.push(batch.consumed);
    }
    (found, batches)
}

/// Lines of many lengths, some much longer than every buffer of the reader.
fn big_queue() -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in 0..3000_usize {
        let length = if index % 500 == 7 { 400_000 } else { index * 37 % 900 };
        bytes.extend(std::iter::repeat_n(b'a' + (index % 26) as u8, length));
        bytes.push(b'\n');
    }
    bytes
}

#[test]
fn batches_of_any_size_give_the_same_lines_over_every_buffer_border() {
    let content = big_queue();
    let (_dir, path, disk) = queue_with(&content);
    let open = |max| open_at(&disk, &path, Position::START, max).unwrap();
    let (expected, _) = drain(&mut open(1 << 20), 100_000, 1 << 30);
    assert_eq!(expected.len(), 3000);
    let rebuilt: Vec<u8> =
        expected.iter().flat_map(|line| [line.bytes.as_slice(), b"\n"].concat()).collect();
    assert!(rebuilt == content, "the lines put together are the file");
    for (lines, bytes) in [(1, 1), (7, 100_000), (4096, 300_000), (4096, 1 << 20)] {
        let mut tailer = open(1 << 20);
        let (found, batches) = drain(&mut tailer, lines, bytes);
        assert!(found == expected, "{lines} lines, {bytes} bytes");
        assert_eq!(verify_prefix(&disk, &path, &batches).unwrap(), None);
        assert_eq!(tailer.position().offset, content.len() as u64);
    }
}

#[test]
fn over_long_lines_are_skipped_with_prefix_and_hash() {
    let content = big_queue();
    let (_dir, path, disk) = queue_with(&content);
    let whole = drain(&mut open_at(&disk, &path, Position::START, 1 << 20).unwrap(), 4096, 1 << 20);
    // Below and above the size of one read, so that both code paths run.
    for max in [1000, 300_000] {
        let mut tailer = open_at(&disk, &path, Position::START, max).unwrap();
        let (found, batches) = drain(&mut tailer, 4096, 1 << 20);
        assert_eq!(verify_prefix(&disk, &path, &batches).unwrap(), None);
        assert_eq!(found.len(), 3000);
        for (line, whole) in found.iter().zip(&whole.0) {
            assert_eq!(
                (line.number, line.offset, line.length),
                (whole.number, whole.offset, whole.length)
            );
            if line.length as usize > max {
                assert_eq!(line.form, LineForm::TooLong(sha256(&whole.bytes)));
                assert_eq!(line.bytes, whole.bytes[..4096]);
            } else {
                assert_eq!(line, whole);
            }
        }
    }
}

#[test]
fn an_over_long_line_is_followed_as_it_grows_and_not_read_again() {
    let (_dir, path, disk) = queue_with(b"a\n");
    let mut tailer = open_at(&disk, &path, Position::START, 1000).unwrap();
    assert_eq!(drain(&mut tailer, 10, 1 << 20).0.len(), 1);
    let mut content = b"a\n".to_vec();
    for round in 0..5 {
        content.extend(std::iter::repeat_n(b'b' + round, 300_000));
        append(&path, &content[content.len() - 300_000..]);
        let now = Timestamp(i64::from(round) * 10);
        assert_eq!(tailer.next_batch(now, 10, 1000).unwrap(), None);
        assert_eq!(tailer.partial_due(), Some(now.plus_ms(GRACE_MS)));
    }
    append(&path, b"\nc\n");
    let (found, _) = drain(&mut tailer, 10, 1 << 20);
    let forms: Vec<LineForm> = found.iter().map(|line| line.form).collect();
    assert_eq!(forms, [LineForm::TooLong(sha256(&content[2..])), LineForm::Whole]);
    assert_eq!(tailer.partial_due(), None);
}

fn append(path: &std::path::Path, bytes: &[u8]) {
    use std::io::Write as _;
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn only_the_full_check_finds_an_edit_between_the_edges() {
    let mut content = vec![b'x'; 99];
    content.push(b'\n');
    let content = content.repeat(5000);
    let (_dir, path, disk) = queue_with(&content);
    let mut tailer = open_at(&disk, &path, Position::START, 1000).unwrap();
    let (_, batches) = drain(&mut tailer, 1000, 1 << 20);
    assert_eq!(batches.len(), 5);
    let edited = |at: usize| {
        let mut bytes = content.clone();
        bytes[at] = b'y';
        fs::write(&path, bytes).unwrap();
        (
            describe_change(&disk, &path, tailer.position()).unwrap(),
            verify_prefix(&disk, &path, &batches).unwrap(),
        )
    };
    assert_eq!(edited(10), (Some(Change::HeadRewritten), Some(batches[0])));
    assert_eq!(edited(content.len() - 10), (Some(Change::TailRewritten), Some(batches[4])));
    assert_eq!(edited(content.len() / 2), (None, Some(batches[2])));
    fs::write(&path, &content[..content.len() - 1]).unwrap();
    assert_eq!(verify_prefix(&disk, &path, &batches).unwrap(), Some(batches[4]));
    fs::write(&path, &content).unwrap();
    assert_eq!(verify_prefix(&disk, &path, &[batches[0], batches[2]]).unwrap(), Some(batches[2]));
}

#[test]
fn another_device_number_alone_is_the_same_file() {
    let (_dir, path, disk) = queue_with(b"a\nb\n");
    let mut tailer = open_at(&disk, &path, Position::START, 1000).unwrap();
    tailer.next_batch(Timestamp(0), 1, 1000).unwrap().unwrap();
    let mut position = tailer.position().clone();
    position.identity.as_mut().unwrap().device ^= 1;
    let mut tailer = open_at(&disk, &path, position, 1000).unwrap();
    let batch = tailer.next_batch(Timestamp(0), 9, 1000).unwrap().unwrap();
    assert_eq!(lines_of(&batch)[0].bytes, b"b");
    let stat = disk.stat(&path).unwrap().unwrap();
    assert_eq!(batch.end.identity.unwrap().device, stat.device);
}

#[test]
fn the_message_names_the_command_to_run() {
    let (_dir, path, disk) = queue_with(b"a\n");
    let mut tailer = open_at(&disk, &path, Position::START, 1000).unwrap();
    drain(&mut tailer, 9, 1000);
    fs::write(&path, "").unwrap();
    let message = tailer.next_batch(Timestamp(0), 9, 1000).unwrap_err().to_string();
    assert!(message.contains("shrank: 2 bytes were consumed, it has 0"), "{message}");
    assert!(message.contains("`summarizer queue adopt`"), "{message}");
}

#[test]
fn the_file_is_synced_through_the_open_descriptor() {
    let (_dir, path, disk) = queue_with(b"a\n");
    let mut tailer = open_at(&disk, &path, Position::START, 1000).unwrap();
    tailer.sync().unwrap();
    open_at(&disk, &path.with_file_name("absent"), Position::START, 10).unwrap().sync().unwrap();
}
