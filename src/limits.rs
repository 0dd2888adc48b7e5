//! Limits that several rooms share, and limits that must fit them. The relations between them are
//! checked at compile time. A limit that a user can change is a key of the configuration; any other
//! limit of one room stands in that room.

/// Longest queue line, terminator excluded (`queue.max_line_bytes`).
pub(crate) const LINE_BYTES_MAX: usize = 1 << 20;
/// How many bytes of an over-long line quarantine keeps.
pub(crate) const QUARANTINE_PREFIX_BYTES: usize = 4096;
/// Deepest nesting of arrays and objects in a queue line.
pub const JSON_DEPTH_MAX: usize = 64;
/// Violations listed for one record; the rest are counted.
pub const VIOLATIONS_MAX: usize = 100;

/// Payload bytes after which a frame is closed; one commit may hold several frames. A repeated key
/// reads two records of an earlier request, each through its whole frame.
pub(crate) const FRAME_BYTES: usize = 32 << 10;
/// Largest single event payload the codec accepts.
pub(crate) const EVENT_BYTES_MAX: usize = 16 << 20;
/// Memory the store may use for pages.
pub(crate) const STORE_CACHE_BYTES: usize = 64 << 20;

/// Rows in one page of a query over the control socket.
pub(crate) const QUERY_PAGE_ROWS: usize = 1000;

const _: () = assert!(QUARANTINE_PREFIX_BYTES <= LINE_BYTES_MAX);
const _: () = assert!(LINE_BYTES_MAX < EVENT_BYTES_MAX);
const _: () = assert!(JSON_DEPTH_MAX < 128, "serde_json stops at 128");
