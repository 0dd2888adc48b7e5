//! Every bound of the program in one place, with the relations between them checked at compile
//! time. A user-visible bound is the default of a configuration key; the rest are ours.

/// Longest queue line, terminator excluded (`queue.max_line_bytes`).
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// How many bytes of an over-long line quarantine keeps.
pub const QUARANTINE_PREFIX_BYTES: usize = 4096;
/// Deepest nesting of arrays and objects in a queue line.
pub const JSON_DEPTH_MAX: usize = 64;
/// Violations listed for one record; the rest are counted.
pub const VIOLATIONS_MAX: usize = 100;

/// Most inputs in one commit (`commit.max_batch`).
pub const COMMIT_INPUTS_MAX: usize = 4096;
/// Most payload bytes in one commit (`commit.max_bytes`).
pub const COMMIT_BYTES_MAX: usize = 8 << 20;
/// Payload bytes after which a frame is closed; one commit may hold several frames. A repeated key
/// reads two records of an earlier request, each through its whole frame.
pub const FRAME_BYTES: usize = 32 << 10;
/// Largest single event payload the codec accepts.
pub const EVENT_BYTES_MAX: usize = 16 << 20;
/// Open requests above which intake pauses.
pub const OPEN_REQUESTS_MAX: usize = 2_000_000;
/// Bytes that must stay free on the disk; below it intake stops.
pub const DISK_HEADROOM_BYTES: u64 = 64 << 20;
/// Memory the store may use for pages.
pub const STORE_CACHE_BYTES: usize = 64 << 20;

/// Rows in one page of a query over the control socket.
pub const QUERY_PAGE_ROWS: usize = 1000;

const _: () = assert!(QUARANTINE_PREFIX_BYTES <= LINE_BYTES_MAX);
const _: () = assert!(LINE_BYTES_MAX < EVENT_BYTES_MAX);
const _: () = assert!(LINE_BYTES_MAX <= COMMIT_BYTES_MAX);
const _: () = assert!(JSON_DEPTH_MAX < 128, "serde_json stops at 128");
