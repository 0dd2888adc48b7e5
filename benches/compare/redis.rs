//! A queue in a stream of Redis, with a script for each batch, so that a batch is one write of its file.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Queue, Row, free_port, log_file};

/// Arguments: the position, then id, key and line of each request; a line that is no request has an empty key.
const TAKE_IN: &str = "
for i = 2, #ARGV, 3 do
  local id, key, line = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if key == '' then redis.call('RPUSH', 'bad', id, line)
  else
    local before = redis.call('HGET', 'ids', id)
    if before and before ~= key then redis.call('RPUSH', 'bad', 'request_id_conflict', line)
    elseif redis.call('HSETNX', 'keys', key, id) == 1 then
      redis.call('HSET', 'ids', id, key)
      redis.call('XADD', 'queue', '*', 'line', line)
    end
  end
end
redis.call('SET', 'position', ARGV[1])
return 0";

/// Arguments: how many, and the item.
const COMPLETE: &str = "
local found = redis.call('XREADGROUP', 'GROUP', 'workers', 'one', 'COUNT', ARGV[1], 'STREAMS', 'queue', '>')
if not found then return 0 end
local entries = found[1][2]
for _, entry in ipairs(entries) do
  redis.call('HSET', 'items', entry[1], ARGV[2])
  redis.call('XACK', 'queue', 'workers', entry[1])
end
return #entries";

pub(crate) struct Redis {
    server: Child,
    stream: BufReader<TcpStream>,
}

impl Redis {
    pub(crate) fn start(dir: &Path) -> std::io::Result<Redis> {
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--dir"]).arg(dir);
        command.stdin(Stdio::null()).stdout(log_file(dir)?).stderr(Stdio::null());
        let server = command.spawn()?;
        let until = Instant::now() + Duration::from_secs(20);
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        stream.set_nodelay(true)?;
        let mut redis = Redis { server, stream: BufReader::new(stream) };
        let group: [&[u8]; 6] = [b"XGROUP", b"CREATE", b"queue", b"workers", b"0", b"MKSTREAM"];
        redis.call(&group);
        Ok(redis)
    }

    /// Sends a command and reads its answer, which must be a number or a word.
    fn call(&mut self, parts: &[&[u8]]) -> String {
        let mut out = format!("*{}\r\n", parts.len()).into_bytes();
        for part in parts {
            out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            out.extend_from_slice(part);
            out.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&out).expect("write to Redis");
        let mut answer = String::new();
        let read = self.stream.by_ref().take(1 << 16).read_line(&mut answer);
        read.expect("read from Redis");
        assert!(answer.starts_with([':', '+']), "Redis answered {answer:?}");
        answer[1..].trim_end().to_owned()
    }
}

impl Queue for Redis {
    fn take_in(&mut self, rows: &[Row<'_>], offset: u64) {
        let offset = offset.to_string();
        let mut parts: Vec<&[u8]> = vec![b"EVAL", TAKE_IN.as_bytes(), b"0", offset.as_bytes()];
        for row in rows {
            match *row {
                Row::Request { id, key, line, .. } => parts.extend([id.as_bytes(), key, line]),
                Row::Bad { reason, raw } => parts.extend([reason.as_bytes(), b"".as_slice(), raw]),
            }
        }
        self.call(&parts);
    }

    fn complete(&mut self, most: usize, item: &[u8]) -> u64 {
        let most = most.to_string();
        let count = self.call(&[b"EVAL", COMPLETE.as_bytes(), b"0", most.as_bytes(), item]);
        count.parse().expect("a number")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
