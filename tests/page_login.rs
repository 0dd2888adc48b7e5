//! Who may read the page, and that slow connections keep no reader out.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at a surprise")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use support::process::ProcessHome;
use support::requests::{ACTIVE, lines, request};
use support::running::until;

/// A word of a source, which only a reader with the token may get.
const WORD: &str = "Quetzalfeather";

struct Served {
    home: ProcessHome,
    service: Child,
    address: String,
}

impl Served {
    fn start(settings: &str) -> Served {
        let home = ProcessHome::new();
        let settings = format!("[status]\nhttp = \"127.0.0.1:0\"\n{settings}\n");
        std::fs::write(home.path("summarizer.toml"), settings).unwrap();
        home.note("letter.txt", &format!("The {WORD} letter says that the rent rises in May."));
        home.append(&lines(&[request("letter", ACTIVE, json!({}))]));
        Served::again(home)
    }

    fn again(home: ProcessHome) -> Served {
        let mut service = home.command(&["serve"]).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(service.stderr.take().unwrap()).lines();
        let mut before = Vec::new();
        let address = said.find_map(|line| {
            let line = line.unwrap();
            assert!(!line.contains("token="), "a journal is read by others: {line}");
            let page = line.strip_prefix("status page: http://");
            let address = page.map(|page| page.trim_end_matches('/').to_owned());
            before.push(line);
            address
        });
        let address = address.unwrap_or_else(|| panic!("no page: {before:?}"));
        std::thread::spawn(move || said.for_each(drop));
        Served { home, service, address }
    }

    fn send(&self, head: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let _ = stream.write_all(head.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, path: &str, headers: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.address))
    }

    fn post(&self, path: &str, headers: &str) -> String {
        let (host, length) = (&self.address, "Content-Length: 0\r\n");
        let origin = format!("Origin: http://{host}\r\n");
        self.send(&format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{origin}{headers}{length}\r\n"))
    }

    /// The token of the link that `open` prints.
    fn token(&self) -> String {
        let ran = self.home.run(&["--json", "open", "--print"]);
        assert_eq!(ran.exit, Some(0), "{}", ran.err);
        let link: Value = serde_json::from_str(&ran.out).unwrap();
        let (_, rest) = link["url"].as_str().unwrap().split_once("#token=").unwrap();
        rest.split('&').next().unwrap().to_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

fn status_of(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

const PATHS: &[&str] = &[
    "/api/status",
    "/api/requests",
    "/api/request?id=letter",
    "/api/newest",
    "/api/newest?q=letter",
    "/api/explain?id=letter",
    "/api/days",
    "/api/quarantine",
    "/api/bags",
    "/api/runs",
    "/api/nothing",
];

#[test]
fn reading_needs_the_token_or_the_cookie_that_it_was_exchanged_for() {
    let served = Served::start("");
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let token = served.token();
    until("the letter is shown", || served.get("/api/newest", &bearer(&token)).contains(WORD));
    let wrong = "0".repeat(token.len());
    let (wrong_bearer, empty) = (bearer(&wrong), bearer(""));
    for path in PATHS {
        for headers in ["", wrong_bearer.as_str(), empty.as_str(), "Cookie: summarizer=1\r\n"] {
            let answer = served.get(path, headers);
            assert_eq!(status_of(&answer), 401, "{path} {headers}: {answer}");
            assert!(answer.contains("summarizer open") && !answer.contains(WORD), "{answer}");
        }
    }
    assert_eq!(status_of(&served.get("/api/status", &bearer(&token))), 200);
    assert_eq!(status_of(&served.get(&format!("/api/status?token={token}"), "")), 401);

    let exchanged = served.post("/api/do/check", &bearer(&token));
    let header = exchanged.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).unwrap();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(header.contains(word), "{header}");
    }
    assert!(!header.contains(&token), "the cookie is another value than the token");
    let pair = header.split(';').next().unwrap().to_owned();
    let cookie = format!("Cookie: a=b; {pair}\r\n");
    assert_eq!(status_of(&served.get("/api/status", &cookie)), 200);
    assert_eq!(status_of(&served.post("/api/do/pause", &cookie)), 401, "a cookie reads only");
    let value = pair.split_once('=').unwrap().1;
    assert_eq!(status_of(&served.get("/api/status", &bearer(value))), 401);
    assert!(!served.post("/api/do/check", &bearer(&wrong)).contains("Set-Cookie"));

    // The page, metrics and the sign of life hold nothing of the home.
    let name = served.home.path("").to_string_lossy().into_owned();
    for path in ["/", "/metrics", "/health"] {
        let answer = served.get(path, "");
        assert_eq!(status_of(&answer), 200, "{path}");
        for secret in [WORD, "letter", token.as_str(), name.trim_end_matches('/')] {
            let is_word_of_page = path == "/" && secret == "letter";
            assert!(is_word_of_page || !answer.contains(secret), "{path}: {secret}");
        }
    }
}

#[test]
fn a_token_and_a_cookie_end_with_the_service() {
    let mut served = Served::start("");
    let bearer = format!("Authorization: Bearer {}\r\n", served.token());
    let exchanged = served.post("/api/do/check", &bearer);
    let header = exchanged.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).unwrap();
    let cookie = format!("Cookie: {}\r\n", header.split(';').next().unwrap());
    assert_eq!(status_of(&served.get("/api/status", &cookie)), 200);
    let _ = served.service.kill();
    let _ = served.service.wait();
    // A directory that goes away with the first value would take the home along.
    let home = std::mem::replace(&mut served.home, ProcessHome::new());
    drop(served);
    let served = Served::again(home);
    for old in [bearer.as_str(), cookie.as_str()] {
        assert_eq!(status_of(&served.get("/api/status", old)), 401);
    }
}

#[test]
fn a_setting_opens_the_page_for_reading_only() {
    let served = Served::start("login = false");
    assert_eq!(status_of(&served.get("/api/status", "")), 200);
    assert_eq!(status_of(&served.post("/api/do/pause", "")), 401);
}

#[test]
fn slow_connections_keep_no_reader_out() {
    let served = Served::start("");
    let bearer = format!("Authorization: Bearer {}\r\n", served.token());
    let slow = |count: usize| -> Vec<TcpStream> {
        let open = |_| {
            let mut stream = TcpStream::connect(&served.address).unwrap();
            stream.write_all(b"GET /api/status HTTP/1.1\r\nHost: 127").unwrap();
            stream
        };
        (0..count).map(open).collect()
    };
    // More of them than the budget holds too.
    for count in [64, 300] {
        let held = slow(count);
        for _ in 0..20 {
            let answer = served.get("/api/status", &bearer);
            assert_eq!(status_of(&answer), 200, "{count}: {answer}");
        }
        drop(held);
    }
    // One that sends its request a byte at a time ends, and so does one that sends nothing.
    let mut dripping = TcpStream::connect(&served.address).unwrap();
    dripping.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut silent = slow(1).pop().unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    for byte in b"GET / HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat_n(&b'a', 10_000)) {
        if dripping.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        let mut answer = [0; 12];
        dripping.set_nonblocking(true).unwrap();
        let read = dripping.peek(&mut answer);
        dripping.set_nonblocking(false).unwrap();
        if read.is_ok() {
            break;
        }
    }
    let mut answer = String::new();
    let _ = dripping.read_to_string(&mut answer);
    assert_eq!(status_of(&answer), 408, "{answer}");
    answer.clear();
    let _ = silent.read_to_string(&mut answer);
    assert_eq!(status_of(&answer), 408, "{answer}");
}
