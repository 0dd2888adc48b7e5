//! The rules `verify` checks, each with the class its violation belongs to. Ids follow the
//! published contract tests (T001 events, T002 sessions, T003 summaries, T004 digests, T006
//! manifests, T007 ids, T008 run records); `CB` are the chunk bus rules, `SM` those of
//! selection manifests, `AF` those of feeds; `LOG` and `BACKUP` need the log of a home.

use crate::contract::vocabulary::ErrorClass;

/// One thing that must hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    pub id: &'static str,
    /// The class of a violation.
    pub class: ErrorClass,
    pub holds: &'static str,
}

macro_rules! rules {
    ($($name:ident = $id:literal $class:ident $holds:literal;)+) => {
        $(#[doc = $holds] pub static $name: Rule =
            Rule { id: $id, class: ErrorClass::$class, holds: $holds };)+

        pub static ALL: &[&Rule] = &[$(&$name,)+];
    };
}

rules! {
    EVENT_LINE_JSON = "T001.line_json" SchemaMismatch "every line of an event day is a JSON object";
    EVENT_LINE_SCHEMA = "T001.line_schema" SchemaMismatch "every event satisfies event.v1";
    EVENT_DUPLICATE = "T001.duplicate_id" IntegrityMismatch "an event id occurs once in its day";
    EVENT_KIND = "T001.kind_registry" SchemaMismatch "kinds are in the set the manifest closes";
    EVENT_BREAKDOWN = "T001.breakdown" IntegrityMismatch "counts by role, kind and domain are those of the lines";
    SESSION_LINE_JSON = "T002.line_json" SchemaMismatch "every line of a sessions day is a JSON object";
    SESSION_LINE_SCHEMA = "T002.line_schema" SchemaMismatch "every session satisfies session.v1";
    SESSION_DUPLICATE = "T002.duplicate_id" IntegrityMismatch "a session id occurs once in its day";
    SESSION_EVENTS = "T002.unknown_event_id" IntegrityMismatch "every event of a session exists";
    SESSION_COUNT = "T002.event_count" IntegrityMismatch "event_count is the number of event_ids";
    SESSION_DAY = "T002.day" IntegrityMismatch "a session lies in the partition of its day";
    CHUNK_LINE_JSON = "CB.line_json" SchemaMismatch "every line of a chunk partition is a JSON object";
    CHUNK_LINE_SCHEMA = "CB.line_schema" SchemaMismatch "every chunk satisfies chunks.v1";
    CHUNK_DUPLICATE = "CB.duplicate_id" IntegrityMismatch "a chunk id occurs once in its partition";
    SUMMARY_LINE_JSON = "T003.line_json" SchemaMismatch "every line of a summary day is a JSON object";
    SUMMARY_LINE_SCHEMA = "T003.line_schema" SchemaMismatch "every summary satisfies the schema of its stream";
    SUMMARY_DUPLICATE = "T003.duplicate_id" IntegrityMismatch "a summary id occurs once in its partition";
    SUMMARY_DAY = "T003.day" IntegrityMismatch "a summary lies in the partition of its day";
    SUMMARY_SOURCES = "T003.source_missing" IntegrityMismatch "the sources of a summary exist upstream and can be read";
    SUMMARY_HASH = "T003.source_text_hash" IntegrityMismatch "source_text_hash recomputes from upstream";
    SUMMARY_HIERARCHY = "T003.hierarchy" SchemaMismatch "a hierarchy has the structure its version promises";
    SUMMARY_RECONCILE = "T003.reconcile" IntegrityMismatch "eligible = produced + skipped + failed";
    SUMMARY_SKIPS = "T003.skip_reasons" IntegrityMismatch "skip reasons add up to skipped";
    SUMMARY_FAILS = "T003.fail_reasons" IntegrityMismatch "fail reasons add up to failed";
    DIGEST_INDEX_MISSING = "T004.index_missing" PublishFailure "the required index files exist where bags do";
    DIGEST_INDEX_SCHEMA = "T004.index_schema" SchemaMismatch "an index file satisfies its schema";
    DIGEST_INDEX_HASH = "T004.index_hash" IntegrityMismatch "index.sha256 speaks of the index files as they are";
    DIGEST_DANGLING = "T004.dangling" PublishFailure "a bag that an index names exists";
    DIGEST_INDEXES = "T004.indexes_agree" IntegrityMismatch "all indexes name the bags of the registry, and no others";
    DIGEST_ENTRY = "T004.index_entry" IntegrityMismatch "every index says of a bag what the registry and bag.json say";
    DIGEST_DUPLICATE = "T004.duplicate_bag" IntegrityMismatch "a bag is in the registry once";
    DIGEST_STRAY = "T004.stray" PublishFailure "the folders of bags hold folders and nothing else";
    DIGEST_ORPHAN = "T004.orphan" PublishFailure "a published bag is in the registry, live or retired";
    BAG_FILE = "T004.file_missing" PublishFailure "a bag has bag.json, trace.json, memo/index.json and every memo it lists";
    BAG_SCHEMA = "T004.bag_schema" SchemaMismatch "the files of a bag satisfy their schemas";
    BAG_HASH = "T004.bag_hash" IntegrityMismatch "the hashes in the registry are those of the files";
    BAG_TREE = "T004.bag_dir_hash" IntegrityMismatch "bag_dir_sha256 recomputes from the files of the bag";
    BAG_NAME = "T004.bag_name" IntegrityMismatch "all files of a bag speak of the bag whose folder they are in";
    BAG_ID = "T004.bag_id" IntegrityMismatch "a bag id is the stable id of what the bag consists of";
    BAG_ENTRY = "T004.bag_entry" IntegrityMismatch "the registry says of a bag what bag.json says";
    BAG_WINDOW = "T004.window" IntegrityMismatch "label, first and last day of a window are those of one window";
    BAG_LINK = "T004.link" PublishFailure "a bag is a folder of files in the bus home, and no link to another place";
    BAG_COUNTS = "T004.counts" IntegrityMismatch "candidates are selected or dropped for a reason, and the numbers agree";
    BAG_MEMOS = "T004.published_memos" IntegrityMismatch "published_memos is the number of memos in the memo index";
    TRACE_LINKAGE = "T004.trace_linkage" IntegrityMismatch "a trace leads to its summaries and their sources";
    TRACE_RULES = "T004.trace_rules" IntegrityMismatch "bag, trace and memos name the same selector, and its hash is right";
    TRACE_IDS = "T004.summary_ids" IntegrityMismatch "summary ids of a bag are well-formed and occur once";
    TRACE_KNOWN = "T004.summary_missing" IntegrityMismatch "the summaries of a bag are on the Summary Bus";
    MEMO_SIDECAR = "T004.sidecar" PublishFailure "a memo has a sidecar, a sidecar a memo, and the memo index names both";
    MEMO_HASH = "T004.memo_hash" IntegrityMismatch "the hashes of a memo are that of its text";
    MEMO_TRACE = "T004.memo_trace" IntegrityMismatch "the summaries of a memo are those of its bag";
    DIGEST_RUN = "T004.run_record" PublishFailure "the run that published a bag has a record that says it was staged, then promoted, or why its promotion had to follow";
    DIGEST_RUN_HASH = "T004.run_hash" IntegrityMismatch "a bag is what the record of its run says was published";
    UPSTREAM_NO_MANIFEST = "T006.upstream_manifest_missing" InputMissing "upstream data has a manifest";
    UPSTREAM_NO_DATA = "T006.upstream_data_missing" InputMissing "the data of an upstream manifest exists";
    NO_MANIFEST = "T006.manifest_missing" PublishFailure "a published data file has a manifest";
    NO_DATA = "T006.data_missing" PublishFailure "the data of a published manifest exists";
    MANIFEST_SCHEMA = "T006.manifest_schema" SchemaMismatch "a manifest satisfies its schema";
    MANIFEST_NAME = "T006.partition" IntegrityMismatch "a manifest speaks of the partition its name says";
    MANIFEST_HASH = "T006.hash" IntegrityMismatch "the hash in a manifest is that of the data";
    MANIFEST_BYTES = "T006.bytes" IntegrityMismatch "the length in a manifest is that of the data";
    MANIFEST_COUNTS = "T006.counts" IntegrityMismatch "the counts in a manifest are those of the lines";
    MANIFEST_TWINS = "T006.twins" IntegrityMismatch "fields that say the same thing agree";
    SUMMARY_ID = "T007.summary_id" IntegrityMismatch "a summary id is the stable id of what it names";
    RUN_SCHEMA = "T008.record_schema" SchemaMismatch "a run record satisfies run_record.v1";
    RUN_NAME = "T008.record_name" IntegrityMismatch "a run record lies under its run id";
    RUN_COUNTERS = "T008.counters" IntegrityMismatch "errors_count and warnings_count are what is listed";
    RUN_STATUS = "T008.status" IntegrityMismatch "a run that failed says why";
    RUN_PATHS = "T008.paths" IntegrityMismatch "paths in a run record are relative and stay inside";
    ROW_SCHEMA = "T008.row_schema" SchemaMismatch "every row of the run-records bus satisfies its schema";
    ROW_RECORD = "T008.row_without_record" IntegrityMismatch "every row has its run record";
    ROW_HASH = "T008.record_hash" IntegrityMismatch "a run record is the one that its row was written for";
    FEED = "AF.feed" IntegrityMismatch "a feed shows the newest summaries of its day as the Summary Bus has them";
    READABLE = "T006.unreadable" InputMissing "what a bus home holds are files, and no pipes, links out of it or folders in their place";
    LOG = "LOG.files" IntegrityMismatch "every file that follows from the log of a home is what the log says";
    BACKUP = "BACKUP.files" IntegrityMismatch "a copy that `backup` made is what its backup.json says, until it is used as a home";
    SELECTION_SCHEMA = "SM.schema" SchemaMismatch "a selection manifest satisfies its schema";
    SELECTION_HASH = "SM.hash" IntegrityMismatch "selection_hash is the hash of the selection";
}
