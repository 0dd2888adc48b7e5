//! As much of HTTP/1.1 as the page needs: one request a connection, a body only with `POST` and with
//! its length, and unknown parts are refused.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::Instant;

/// Bytes of a request's line and headers.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// What may be done here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Head,
    Post,
}

/// A request that was understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub method: Method,
    pub path: String,
    query: BTreeMap<String, String>,
    /// Bytes of its body.
    pub length: u64,
    host: String,
    origin: Option<String>,
    /// What an `Authorization: Bearer` header names.
    pub token: Option<String>,
    /// Every cookie, by name.
    cookies: Vec<(String, String)>,
}

/// A request that is not answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub status: u16,
    pub why: &'static str,
}

impl Request {
    /// Reads one request up to its body. All of it must arrive by the deadline, however slowly it
    /// trickles.
    pub(super) fn read(
        stream: &mut TcpStream,
        deadline: Instant,
    ) -> Result<(Request, Body), Refused> {
        let mut head = Vec::new();
        loop {
            if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
                let request = Request::parse(&head[..end])?;
                let begun = head.split_off(end + 4);
                let left = request.length.saturating_sub(begun.len() as u64);
                return Ok((request, Body { begun, left, deadline }));
            }
            if head.len() > HEAD_BYTES_MAX {
                return Err(Refused { status: 431, why: "the request is too long" });
            }
            let mut buffer = [0; 1024];
            let count = receive(stream, &mut buffer, deadline)?;
            head.extend_from_slice(&buffer[..count]);
        }
    }

    fn parse(head: &[u8]) -> Result<Request, Refused> {
        let bad = |why| Refused { status: 400, why };
        let head = std::str::from_utf8(head).map_err(|_| bad("the request is not text"))?;
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or_default();
        let mut words = line.split(' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        let (Some(method), Some(target), Some(version), None) =
            (method, target, version, words.next())
        else {
            return Err(bad("the request line is malformed"));
        };
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return Err(Refused { status: 505, why: "only HTTP/1.1 is spoken here" });
        }
        let method = match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            _ => return Err(Refused { status: 405, why: "only GET, HEAD and POST are known" }),
        };
        let (mut hosts, mut lengths) = (Vec::new(), Vec::new());
        let (mut origins, mut tokens, mut cookies) = (Vec::new(), Vec::new(), Vec::new());
        for header in lines {
            let Some((name, value)) = header.split_once(':') else {
                return Err(bad("a header is malformed"));
            };
            match name.to_ascii_lowercase().as_str() {
                "host" => hosts.push(value.trim()),
                "content-length" => lengths.push(value.trim()),
                "origin" => origins.push(value.trim()),
                "authorization" => tokens.push(value.trim()),
                "cookie" => cookies.extend(value.split(';').filter_map(cookie)),
                "transfer-encoding" => {
                    return Err(Refused { status: 411, why: "a body is sent with its length" });
                }
                _ => {}
            }
        }
        let length = match (method, &lengths[..]) {
            (_, []) => 0,
            (Method::Post, [length]) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                length.parse().map_err(|_| bad("the length is malformed"))?
            }
            (Method::Post, _) => return Err(bad("the length is malformed")),
            (_, ["0"]) => 0,
            _ => return Err(Refused { status: 413, why: "only POST has a body here" }),
        };
        let host = match hosts[..] {
            [host] if is_this_machine(host) => host.to_owned(),
            [_] => {
                let why = "ask for this machine by its address or as localhost";
                return Err(Refused { status: 421, why });
            }
            _ => return Err(bad("exactly one Host header is wanted")),
        };
        let only = |values: &[&str]| match values {
            [only] => Some((*only).to_owned()),
            _ => None,
        };
        let token = only(&tokens).and_then(|token| Some(token.strip_prefix("Bearer ")?.to_owned()));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !path.starts_with('/') {
            return Err(bad("the path must begin with a slash"));
        }
        let path = decode(path).ok_or(bad("the path is malformed"))?;
        let mut pairs = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = (decode(name), decode(&value.replace('+', " ")));
            let (Some(name), Some(value)) = decoded else {
                return Err(bad("the query is malformed"));
            };
            pairs.insert(name, value);
        }
        let origin = only(&origins);
        Ok(Request { method, path, query: pairs, length, host, origin, token, cookies })
    }

    /// The values of a cookie. A browser sends several of one name where paths differ.
    pub(crate) fn cookies<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.cookies.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Whether a page of this same server sent it, as browsers say with every `POST`.
    pub(crate) fn is_same_origin(&self) -> bool {
        let from = self.origin.as_deref().and_then(|origin| origin.strip_prefix("http://"));
        from.is_some_and(|from| from.eq_ignore_ascii_case(&self.host))
    }

    /// A parameter that is there and not empty.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.parameter(name)?.parse().ok()
    }
}

fn cookie(pair: &str) -> Option<(String, String)> {
    let (name, value) = pair.trim().split_once('=')?;
    Some((name.to_owned(), value.to_owned()))
}

/// The body of a request, which is read once it is known that it is wanted.
pub(super) struct Body {
    /// What came with the head.
    begun: Vec<u8>,
    left: u64,
    deadline: Instant,
}

impl Body {
    /// The same with another time by which all of it must have arrived.
    pub(super) fn until(self, deadline: Instant) -> Body {
        Body { deadline, ..self }
    }

    pub(super) fn read(self, stream: &mut TcpStream) -> Result<Vec<u8>, Refused> {
        let Body { begun: mut bytes, mut left, deadline } = self;
        let mut buffer = [0; 16 << 10];
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = receive(stream, &mut buffer[..most], deadline)?;
            bytes.extend_from_slice(&buffer[..count]);
            left -= count as u64;
        }
        Ok(bytes)
    }

    /// Reads it into nothing: a caller that still sends would lose the answer. A body that is too
    /// long is left.
    pub(crate) fn discard(mut self, stream: &mut TcpStream, bytes_max: u64) {
        let mut buffer = [0; 16 << 10];
        self.left = self.left.min(bytes_max);
        while self.left > 0 {
            let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
            match receive(stream, &mut buffer[..most], self.deadline) {
                Ok(count) => self.left -= count as u64,
                Err(_) => return,
            }
        }
    }
}

fn receive(stream: &mut TcpStream, buffer: &mut [u8], deadline: Instant) -> Result<usize, Refused> {
    let late = Refused { status: 408, why: "the request took too long" };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(late);
        }
        match stream.read(buffer) {
            Ok(0) => return Err(Refused { status: 400, why: "the request ends early" }),
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(late),
        }
    }
}

/// An address in numbers or `localhost`: no name that somebody else can point here.
fn is_this_machine(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) => (name, port),
            None => return false,
        },
        None => match host.split_once(':') {
            Some((name, _)) => (name, &host[name.len()..]),
            None => (host, ""),
        },
    };
    let port_is_one = match port.strip_prefix(':') {
        Some(port) => port.parse::<u16>().is_ok(),
        None => port.is_empty(),
    };
    port_is_one && (name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok())
}

/// Decodes percent encoding; `None` for invalid encoding, invalid UTF-8 or control characters.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok())?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

/// The status and the message of a request that failed.
pub(super) type HttpFailure = (u16, String);

#[derive(Debug)]
pub(super) struct Response {
    status: u16,
    kind: &'static str,
    policy: String,
    /// A `Set-Cookie` header.
    cookie: Option<String>,
    body: Vec<u8>,
}

impl Response {
    /// A document with its own policy.
    pub(super) fn html(body: Vec<u8>, policy: String) -> Response {
        Response { status: 200, kind: "text/html; charset=utf-8", policy, cookie: None, body }
    }

    pub(super) fn json(status: u16, value: &serde_json::Value) -> Response {
        let body = value.to_string().into_bytes();
        Response {
            status,
            kind: "application/json",
            policy: NOTHING.to_owned(),
            cookie: None,
            body,
        }
    }

    /// Text.
    pub(super) fn plain(status: u16, text: &str) -> Response {
        let body = text.as_bytes().to_vec();
        let (kind, policy) = ("text/plain; charset=utf-8", NOTHING.to_owned());
        Response { status, kind, policy, cookie: None, body }
    }

    /// Text in the exposition format of Prometheus.
    pub(crate) fn exposition(text: String) -> Response {
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        let policy = NOTHING.to_owned();
        Response { status: 200, kind, policy, cookie: None, body: text.into_bytes() }
    }

    /// The same with a cookie.
    pub(crate) fn with_cookie(self, cookie: String) -> Response {
        Response { cookie: Some(cookie), ..self }
    }

    /// Sends it and asks for the connection to be closed.
    pub(super) fn send(&self, stream: &mut impl Write, head_only: bool) -> io::Result<()> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            409 => "Conflict",
            411 => "Length Required",
            413 => "Content Too Large",
            421 => "Misdirected Request",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            505 => "HTTP Version Not Supported",
            _ => "Error",
        };
        let head = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             Content-Security-Policy: {}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
             Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Cross-Origin-Opener-Policy: same-origin\r\nConnection: close\r\n{}\r\n",
            self.status,
            self.kind,
            self.body.len(),
            self.policy,
            self.cookie
                .as_ref()
                .map_or(String::new(), |cookie| format!("Set-Cookie: {cookie}\r\n")),
        );
        stream.write_all(head.as_bytes())?;
        if !head_only {
            stream.write_all(&self.body)?;
        }
        stream.flush()
    }
}

/// The policy of everything that is no document: it may load nothing.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Request, u16> {
        Request::parse(text.as_bytes()).map_err(|refused| refused.status)
    }

    #[test]
    fn understood_requests_are_parsed() {
        let request =
            parse("GET /api/requests?q=a%20b+c&limit=5&x HTTP/1.1\r\nHost: [::1]:80").unwrap();
        assert_eq!((request.path.as_str(), request.method), ("/api/requests", Method::Get));
        assert_eq!(request.parameter("q"), Some("a b c"));
        assert_eq!((request.number("limit"), request.parameter("x")), (Some(5), None));
    }

    #[test]
    fn other_requests_are_refused() {
        let with_host = |line: &str| format!("{line}\r\nHost: localhost:7878");
        let cases = [
            ("DELETE /api/status HTTP/1.1", 405),
            ("GET / HTTP/2", 505),
            ("GET /", 400),
            ("GET  / HTTP/1.1", 400),
            ("GET http://127.0.0.1/ HTTP/1.1", 400),
            ("GET /%zz HTTP/1.1", 400),
            ("GET /%0d%0aSet-Cookie:x HTTP/1.1", 400),
            ("GET /?a=%ff HTTP/1.1", 400),
        ];
        for (line, status) in cases {
            assert_eq!(parse(&with_host(line)), Err(status), "{line}");
        }
        assert_eq!(parse("GET / HTTP/1.1"), Err(400));
        assert_eq!(parse("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost"), Err(400));
        assert_eq!(parse("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3"), Err(413));
        let post = |headers: &str| parse(&format!("POST / HTTP/1.1\r\nHost: localhost{headers}"));
        assert_eq!(post("\r\nTransfer-Encoding: chunked"), Err(411));
        for length in ["-1", "+1", "1\r\nContent-Length: 1", "x", "99999999999999999999"] {
            assert_eq!(post(&format!("\r\nContent-Length: {length}")), Err(400), "{length}");
        }
        assert_eq!(post("\r\nContent-Length: 12").unwrap().length, 12);
    }

    #[test]
    fn only_the_page_of_this_server_is_of_the_same_origin() {
        let is_same = |origin: &str| {
            let head = format!("POST / HTTP/1.1\r\nHost: localhost:7878{origin}");
            parse(&head).unwrap().is_same_origin()
        };
        assert!(is_same("\r\nOrigin: http://localhost:7878"));
        for origin in [
            "",
            "\r\nOrigin: null",
            "\r\nOrigin: http://localhost",
            "\r\nOrigin: https://localhost:7878",
            "\r\nOrigin: http://127.0.0.1:7878",
            "\r\nOrigin: http://evil.example",
            "\r\nOrigin: http://localhost:7878\r\nOrigin: http://localhost:7878",
        ] {
            assert!(!is_same(origin), "{origin:?}");
        }
    }

    #[test]
    fn only_requests_to_a_loopback_host_are_accepted() {
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7878", "[::1]:7878", "192.168.1.4"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:7878",
            "127.0.0.1.evil.example",
            "localhost:x",
            "[::1",
            "[::1]x",
            "",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
