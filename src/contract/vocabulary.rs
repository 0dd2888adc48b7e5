//! The closed word lists of the contracts, and the macros that make a closed word list. Each word is
//! an enum variant with one spelling on the wire. A word that the log keeps has a stable number
//! there; numbers are never reused.

/// A closed list of words: each variant has one spelling, for records and for people.
macro_rules! spellings {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident $(= $code:literal)? $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(unreachable_pub, reason = "one form serves public and inner lists")]
        pub enum $name { $($(#[$variant_meta])* #[doc = concat!("`", $text, "`")] $variant $(= $code)?,)+ }

        #[allow(unreachable_pub, reason = "one form serves public and inner lists")]
        impl $name {
            /// Every word, in the order of the contract.
            #[allow(dead_code, reason = "not each list is walked outside tests")]
            pub const ALL: &[$name] = &[$($name::$variant,)+];

            /// The spelling on the wire.
            #[allow(dead_code, reason = "some words are only read")]
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// The word with this spelling.
            #[allow(dead_code, reason = "some words are only written")]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some($name::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                $name::parse(&text).ok_or_else(|| {
                    serde::de::Error::unknown_variant(&text, &[$($text,)+])
                })
            }
        }
    };
}

/// The same, and each word has the number by which the log keeps it.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $code:literal $text:literal,)+ }) => {
        crate::contract::vocabulary::spellings! {
            $(#[$meta])*
            #[repr(u8)]
            $name { $($(#[$variant_meta])* $variant = $code $text,)+ }
        }

        impl $name {
            /// The number in the log.
            #[allow(dead_code, reason = "some lists are never written as numbers")]
            pub fn code(self) -> u8 {
                self as u8
            }

            /// The word with this number.
            #[allow(dead_code, reason = "some lists are never written as numbers")]
            pub(crate) fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

pub(crate) use {spellings, words};

words! {
    /// What is asked for: `work.summary_kind`.
    SummaryKind {
        EventSummary = 1 "event_summary",
        SessionSummary = 2 "session_summary",
        ChunkSetSummary = 3 "chunk_set_summary",
        DocumentSummary = 4 "document_summary",
        Other = 5 "other",
    }
}

words! {
    /// Where the input lives: `input.bus`.
    #[allow(clippy::enum_variant_names, reason = "the contract calls them so")]
    Bus {
        EventBus = 1 "event_bus",
        SessionBus = 2 "session_bus",
        ChunkBus = 3 "chunk_bus",
        Other = 4 "other",
    }
}

words! {
    /// One of the four streams of the Summary Bus.
    Stream {
        Events = 1 "events",
        Sessions = 2 "sessions",
        Documents = 3 "documents",
        ChunkSets = 4 "chunk_sets",
    }
}

words! {
    /// When a request may run.
    Urgency {
        Now = 1 "now",
        Scheduled = 2 "scheduled",
    }
}

words! {
    /// How the input is located: `input.mode`.
    InputMode {
        Ids = 1 "ids",
        SelectionManifest = 2 "selection_manifest",
        Query = 3 "query",
    }
}

words! {
    /// Exactly eight outcomes; everything finer is a [`ReasonCode`].
    AckStatus {
        Accepted = 1 "accepted",
        Completed = 2 "completed",
        RejectedInvalidSchema = 3 "rejected_invalid_schema",
        RejectedUnknownFlow = 4 "rejected_unknown_flow",
        RejectedInvalidInput = 5 "rejected_invalid_input",
        FailedTransient = 6 "failed_transient",
        FailedPermanent = 7 "failed_permanent",
        Duplicate = 8 "duplicate",
    }
}

words! {
    /// Why an outcome is what it is. The list is closed in v1.
    ReasonCode {
        // rejected_unknown_flow
        FlowDisabled = 1 "flow_disabled",
        UnknownVariant = 2 "unknown_variant",
        // rejected_invalid_input
        KindBusMismatch = 10 "kind_bus_mismatch",
        MissingUpstreamManifest = 11 "missing_upstream_manifest",
        ManifestMismatch = 12 "manifest_mismatch",
        UnknownSourceId = 13 "unknown_source_id",
        SelectionHashMismatch = 14 "selection_hash_mismatch",
        PathOutsideBusHome = 15 "path_outside_bus_home",
        RequestIdConflict = 16 "request_id_conflict",
        InvalidParams = 17 "invalid_params",
        QueryTooWide = 18 "query_too_wide",
        SelectionManifestMissing = 19 "selection_manifest_missing",
        SelectionHashInvalid = 20 "selection_hash_invalid",
        // failed_permanent
        OutputSchemaViolation = 30 "output_schema_violation",
        ModelError = 31 "model_error",
        AttemptsExhausted = 32 "attempts_exhausted",
        Cancelled = 33 "cancelled",
        PackIntegrity = 34 "pack_integrity",
        // failed_transient
        Timeout = 40 "timeout",
        RateLimited = 41 "rate_limited",
        Unavailable = 42 "unavailable",
        // duplicate
        KeyInFlight = 50 "key_in_flight",
        OutputExists = 51 "output_exists",
        IdenticalWork = 52 "identical_work",
        // completed with no summary
        SkippedEmptyContent = 60 "skipped_empty_content",
        SkippedEmptySelection = 61 "skipped_empty_selection",
        SkippedBelowMinChars = 62 "skipped_below_min_chars",
        SkippedByPolicy = 63 "skipped_by_policy",
    }
}

words! {
    /// What an attempt met, next to the reason that was derived from it. The list is closed in v1.
    FailureCause {
        ConnectionRefused = 1 "connection_refused",
        Unreachable = 2 "unreachable",
        ConnectionLost = 3 "connection_lost",
        Unauthorized = 4 "unauthorized",
        NotFound = 5 "not_found",
        RateLimit = 6 "rate_limit",
        QuotaUsedUp = 7 "quota_used_up",
        ServerError = 8 "server_error",
        Timeout = 9 "timeout",
        ContextTooLong = 10 "context_too_long",
        Declined = 11 "declined",
        BadRequest = 12 "bad_request",
        InvalidAnswer = 13 "invalid_answer",
        CutOff = 14 "cut_off",
        Schema = 15 "schema",
        Budget = 16 "budget",
        Configuration = 17 "configuration",
        Program = 18 "program",
        Batch = 19 "batch",
        NotLocal = 20 "not_local",
        WorkerCrashed = 21 "worker_crashed",
        OutOfMemory = 22 "out_of_memory",
    }
}

words! {
    /// What a request's acks warn of. The list is closed in v1.
    Warning {
        FlowDeprecated = 0 "flow_deprecated",
        DeadlineMissed = 1 "deadline_missed",
        IdempotencyKeyReusedWithDifferentWork = 2 "idempotency_key_reused_with_different_work",
        NotBeforeIsSoft = 3 "not_before_is_soft",
        UnknownParam = 4 "unknown_param",
        ForeignSelectionManifest = 5 "foreign_selection_manifest",
        TimestampWithoutOffset = 6 "timestamp_without_offset",
        RepeatedIds = 7 "repeated_ids",
        UpstreamDaysMissing = 8 "upstream_days_missing",
        SourceChanged = 9 "source_changed",
        SourcePrivate = 10 "source_private",
        SourceMissing = 11 "source_missing",
        ParamIgnored = 12 "param_ignored",
    }
}

words! {
    /// Why a queue line was quarantined.
    QuarantineReason {
        NotUtf8 = 1 "not_utf8",
        MalformedJson = 2 "malformed_json",
        NotAnObject = 3 "not_an_object",
        DuplicateMember = 4 "duplicate_member",
        TooDeep = 5 "too_deep",
        LineTooLong = 6 "line_too_long",
        PartialLine = 7 "partial_line",
        SchemaViolation = 8 "schema_violation",
    }
}

words! {
    /// The six classes of the shared error taxonomy; anything finer is a subtype.
    ErrorClass {
        InputMissing = 1 "INPUT_MISSING",
        SchemaMismatch = 2 "SCHEMA_MISMATCH",
        IntegrityMismatch = 3 "INTEGRITY_MISMATCH",
        StorageUnavailable = 4 "STORAGE_UNAVAILABLE",
        ModelFailure = 5 "MODEL_FAILURE",
        PublishFailure = 6 "PUBLISH_FAILURE",
    }
}

/// A set of warnings, listed in the order of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Warnings(pub u16);

impl Warnings {
    /// The set with one more.
    #[must_use]
    pub fn with(self, warning: Warning) -> Warnings {
        Warnings(self.0 | 1 << warning.code())
    }

    /// Both sets together.
    #[must_use]
    pub fn union(self, other: Warnings) -> Warnings {
        Warnings(self.0 | other.0)
    }

    /// The set without what became of the sources since a summary was made: a request that reads them
    /// itself has no older summary.
    #[must_use]
    pub(crate) fn without_sources(self) -> Warnings {
        let of_sources = [Warning::SourceChanged, Warning::SourcePrivate, Warning::SourceMissing];
        Warnings(of_sources.into_iter().fold(self.0, |all, one| all & !(1 << one.code())))
    }

    /// Whether the set holds a warning.
    pub fn contains(self, warning: Warning) -> bool {
        self.0 & (1 << warning.code()) != 0
    }

    /// The warnings, in order.
    pub fn iter(self) -> impl Iterator<Item = Warning> {
        Warning::ALL.iter().copied().filter(move |warning| self.contains(*warning))
    }
}

impl SummaryKind {
    /// Whether a request of this kind may take its input from `bus`.
    pub fn fits(self, bus: Bus) -> bool {
        match self {
            SummaryKind::EventSummary => bus == Bus::EventBus,
            SummaryKind::SessionSummary => bus == Bus::SessionBus,
            SummaryKind::DocumentSummary => matches!(bus, Bus::ChunkBus | Bus::Other),
            SummaryKind::ChunkSetSummary => bus == Bus::ChunkBus,
            SummaryKind::Other => true,
        }
    }

    /// The stream that a request counts in while its input is not known.
    pub(crate) fn stream_of_request(self, bus: Option<Bus>) -> Stream {
        let bus = bus.unwrap_or(match self {
            SummaryKind::EventSummary => Bus::EventBus,
            SummaryKind::SessionSummary => Bus::SessionBus,
            SummaryKind::DocumentSummary | SummaryKind::ChunkSetSummary => Bus::ChunkBus,
            SummaryKind::Other => Bus::Other,
        });
        self.stream(bus)
    }

    /// The stream its items go to.
    pub fn stream(self, bus: Bus) -> Stream {
        match (self, bus) {
            (SummaryKind::EventSummary, _) | (SummaryKind::Other, Bus::EventBus) => Stream::Events,
            (SummaryKind::SessionSummary, _) | (SummaryKind::Other, Bus::SessionBus) => {
                Stream::Sessions
            }
            (SummaryKind::DocumentSummary, _) | (SummaryKind::Other, Bus::Other) => {
                Stream::Documents
            }
            (SummaryKind::ChunkSetSummary, _) | (SummaryKind::Other, Bus::ChunkBus) => {
                Stream::ChunkSets
            }
        }
    }
}

impl FailureCause {
    /// Whether a limit was kept and nothing went wrong: the request continues later.
    pub(crate) fn puts_off(self) -> bool {
        matches!(self, FailureCause::Batch | FailureCause::Budget | FailureCause::RateLimit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip_by_spelling_and_by_number() {
        for status in AckStatus::ALL {
            assert_eq!(AckStatus::parse(status.as_str()), Some(*status));
            assert_eq!(AckStatus::from_code(status.code()), Some(*status));
        }
        for reason in ReasonCode::ALL {
            assert_eq!(ReasonCode::parse(reason.as_str()), Some(*reason));
            assert_eq!(ReasonCode::from_code(reason.code()), Some(*reason));
        }
        assert_eq!(AckStatus::ALL.len(), 8);
        assert_eq!(ReasonCode::from_code(0), None);
        assert_eq!(serde_json::to_string(&Bus::ChunkBus).unwrap(), "\"chunk_bus\"");
        assert!(serde_json::from_str::<Bus>("\"bus\"").is_err());
    }

    #[test]
    fn warnings_are_a_set_in_contract_order() {
        let set = Warnings::default().with(Warning::RepeatedIds).with(Warning::FlowDeprecated);
        let words: Vec<_> = set.iter().map(Warning::as_str).collect();
        assert_eq!(words, ["flow_deprecated", "repeated_ids"]);
        assert!(!set.contains(Warning::UnknownParam));
    }

    #[test]
    fn each_kind_names_the_buses_it_fits() {
        let fitting: Vec<String> = SummaryKind::ALL
            .iter()
            .map(|kind| {
                let buses: Vec<_> = Bus::ALL
                    .iter()
                    .filter(|bus| kind.fits(**bus))
                    .map(|bus| bus.as_str())
                    .collect();
                format!("{kind}: {}", buses.join(" "))
            })
            .collect();
        assert_eq!(
            fitting,
            [
                "event_summary: event_bus",
                "session_summary: session_bus",
                "chunk_set_summary: chunk_bus",
                "document_summary: chunk_bus other",
                "other: event_bus session_bus chunk_bus other",
            ]
        );
        assert_eq!(SummaryKind::Other.stream(Bus::Other), Stream::Documents);
        assert_eq!(SummaryKind::Other.stream(Bus::ChunkBus), Stream::ChunkSets);
    }
}
