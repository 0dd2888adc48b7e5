//! The control socket of the process that holds a home.
//!
//! It answers from before recovery on. Until the service is up, every answer is `starting`, with
//! what the process does and how far it is.
//!
//! See docs/adr/0036-control-socket-protocol.md.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use crate::control::question::{Answer, Question};
use crate::os::rights;

/// Bytes of the longest question.
const QUESTION_BYTES_MAX: u64 = 2 << 20;
/// Questions that may wait for the service loop.
const WAITING_MAX: usize = 64;
/// How long an asker waits for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Longest path a Unix socket may have, terminator included.
const SOCKET_PATH_MAX: usize = 108;

/// A question that the service loop has not yet taken.
pub struct Asked {
    pub question: Question,
    pub reply: Sender<Answer>,
}

/// How often a question that waits looks whether the service is ending.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The answer of a service that takes no question any more.
const ENDING: &str = "the service is ending: ask again when it has ended";

/// Whether the service answers questions.
#[derive(Debug)]
enum Phase {
    /// What it does before it is up, and how far that is.
    Starting(String, f64),
    Up,
    /// It takes no question any more.
    Ending,
}

/// How far the service is.
#[derive(Debug, Clone)]
pub struct Progress(Arc<Mutex<Phase>>);

impl Progress {
    pub fn starting() -> Progress {
        Progress(Arc::new(Mutex::new(Phase::Starting("opening the log".to_owned(), 0.0))))
    }

    pub fn report(&self, what: &str, part: f64) {
        *self.0.lock() = Phase::Starting(what.to_owned(), part);
    }

    pub fn done(&self) {
        *self.0.lock() = Phase::Up;
    }

    /// From here on no question is taken.
    pub fn end(&self) {
        *self.0.lock() = Phase::Ending;
    }

    fn answer(&self) -> Option<Answer> {
        match &*self.0.lock() {
            Phase::Starting(what, part) => {
                Some(Answer::Starting(format!("{what}, {:.0} %", part * 100.0)))
            }
            Phase::Up => None,
            Phase::Ending => Some(Answer::Refused(ENDING.to_owned())),
        }
    }
}

/// The path of a home's socket. Where it is too long for a Unix socket, a short name is derived from it, in
/// a folder that only this user can write.
pub(crate) fn socket_path(wanted: &Path) -> io::Result<PathBuf> {
    if wanted.as_os_str().len() < SOCKET_PATH_MAX {
        return Ok(wanted.to_owned());
    }
    let name = crate::contract::hash::sha256(wanted.as_os_str().as_encoded_bytes()).hex();
    Ok(rights::runtime_folder()?.join(format!("summarizer-{}.sock", &name[..24])))
}

pub struct ControlServer {
    pub questions: Receiver<Asked>,
    asker: Asker,
    path: PathBuf,
}

impl ControlServer {
    /// Starts answering. The caller holds the home, so a socket that exists is left over from a process
    /// that has ended.
    pub fn start(path: &Path, progress: Progress) -> io::Result<ControlServer> {
        let path = socket_path(path)?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let (inbox, questions) = bounded(WAITING_MAX);
        let asker = Asker { inbox: inbox.clone(), progress: progress.clone() };
        std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let (inbox, progress) = (inbox.clone(), progress.clone());
                // One thread for each caller: callers are few, local and short-lived.
                let _ = std::thread::Builder::new()
                    .name("control-caller".to_owned())
                    .spawn(move || serve_one(stream, &inbox, &progress));
            }
        })?;
        Ok(ControlServer { questions, asker, path })
    }

    /// Lets a group use the socket.
    pub(crate) fn let_group_use(&self, group: &str) -> io::Result<()> {
        rights::let_group_change(&self.path, group)
    }

    /// Where the service says that it takes no question any more.
    pub(crate) fn progress(&self) -> Progress {
        self.asker.progress.clone()
    }

    /// For threads of this process that ask as callers of the socket do.
    pub(crate) fn asker(&self) -> Asker {
        self.asker.clone()
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve_one(stream: UnixStream, inbox: &Sender<Asked>, progress: &Progress) {
    let _ = stream.set_read_timeout(Some(ANSWER_WITHIN));
    let _ = stream.set_write_timeout(Some(ANSWER_WITHIN));
    let Ok(reading) = stream.try_clone() else { return };
    let mut reader = BufReader::new(reading.take(QUESTION_BYTES_MAX));
    let mut writer = stream;
    let mut line = String::new();
    while matches!(reader.read_line(&mut line), Ok(count) if count > 0) {
        let answer = match serde_json::from_str(&line) {
            Ok(question) => {
                progress.answer().unwrap_or_else(|| ask_inbox(question, inbox, progress))
            }
            Err(error) => Answer::Refused(format!("the line is not a question: {error}")),
        };
        let Ok(mut text) = serde_json::to_string(&answer) else { return };
        text.push('\n');
        if writer.write_all(text.as_bytes()).is_err() {
            return;
        }
        line.clear();
        reader.get_mut().set_limit(QUESTION_BYTES_MAX);
    }
}

/// Asks the service loop of this process.
#[derive(Clone)]
pub(crate) struct Asker {
    inbox: Sender<Asked>,
    progress: Progress,
}

impl Asker {
    pub(crate) fn ask(&self, question: Question) -> Answer {
        self.progress.answer().unwrap_or_else(|| ask_inbox(question, &self.inbox, &self.progress))
    }
}

fn ask_inbox(question: Question, inbox: &Sender<Asked>, progress: &Progress) -> Answer {
    let (reply, answer) = bounded(1);
    let mut asked = Asked { question, reply };
    let until = Instant::now() + ANSWER_WITHIN;
    loop {
        asked = match inbox.send_timeout(asked, LOOK_EVERY) {
            Ok(()) => break,
            Err(SendTimeoutError::Disconnected(_)) => return Answer::Refused(ENDING.to_owned()),
            Err(SendTimeoutError::Timeout(asked)) => asked,
        };
        if let Some(ending) = progress.answer() {
            return ending;
        }
        if Instant::now() >= until {
            return Answer::Refused("the service is too busy to answer".to_owned());
        }
    }
    loop {
        match answer.recv_timeout(LOOK_EVERY) {
            Ok(answer) => return answer,
            // The loop ended, for good or for a while.
            Err(RecvTimeoutError::Disconnected) => {
                return progress.answer().unwrap_or_else(|| Answer::Refused(ENDING.to_owned()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(ending) = progress.answer() {
            // The loop may have answered just before it ended.
            return answer.try_recv().unwrap_or(ending);
        }
        if Instant::now() >= until {
            return Answer::Refused("the service did not answer in time".to_owned());
        }
    }
}

pub struct ControlClient {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl ControlClient {
    /// Connects to the process that holds the home.
    pub fn connect(path: &Path) -> io::Result<ControlClient> {
        let stream = UnixStream::connect(socket_path(path)?)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN + Duration::from_secs(5)))?;
        let reader = BufReader::new(stream.try_clone()?);
        Ok(ControlClient { reader, writer: stream })
    }

    pub fn ask(&mut self, question: &Question) -> io::Result<Answer> {
        let mut line = serde_json::to_string(question).map_err(io::Error::other)?;
        line.push('\n');
        self.writer.write_all(line.as_bytes())?;
        let mut answer = String::new();
        if self.reader.read_line(&mut answer)? == 0 {
            let message = "the service closed the connection";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        serde_json::from_str(&answer).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::question::done;

    #[test]
    fn a_question_is_answered_and_another_line_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let progress = Progress::starting();
        let server = ControlServer::start(&path, progress.clone()).unwrap();
        let mut client = ControlClient::connect(&path).unwrap();
        let answer = client.ask(&Question::Status).unwrap();
        assert!(matches!(answer, Answer::Starting(_)), "{answer:?}");
        progress.done();
        let questions = server.questions.clone();
        let answering = std::thread::spawn(move || {
            let asked = questions.recv().unwrap();
            assert_eq!(asked.question, Question::Pause);
            asked.reply.send(done("pause")).unwrap();
        });
        assert_eq!(client.ask(&Question::Pause).unwrap(), done("pause"));
        answering.join().unwrap();
        assert_eq!(client.writer.write(b"hello\n").unwrap(), 6);
        let mut said = String::new();
        client.reader.read_line(&mut said).unwrap();
        assert!(said.contains("not a question"), "{said}");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_service_that_ends_lets_no_question_wait() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let progress = Progress::starting();
        let _server = ControlServer::start(&path, progress.clone()).unwrap();
        progress.done();
        let ending = Answer::Refused(ENDING.to_owned());
        // Nobody takes this question: the loop of the service left it.
        let asker = path.clone();
        let waiting = std::thread::spawn(move || {
            ControlClient::connect(&asker).unwrap().ask(&Question::Status).unwrap()
        });
        std::thread::sleep(Duration::from_millis(200));
        let since = Instant::now();
        progress.end();
        assert_eq!(waiting.join().unwrap(), ending);
        assert_eq!(ControlClient::connect(&path).unwrap().ask(&Question::Pause).unwrap(), ending);
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    }

    #[test]
    fn a_home_with_a_long_path_gets_a_short_socket() {
        let long = PathBuf::from(format!("/{}/summarizer.sock", "x".repeat(200)));
        assert!(socket_path(&long).unwrap().as_os_str().len() < SOCKET_PATH_MAX);
        assert_eq!(socket_path(&long).unwrap(), socket_path(&long).unwrap());
        let short = PathBuf::from("/a/b.sock");
        assert_eq!(socket_path(&short).unwrap(), short);
    }
}
