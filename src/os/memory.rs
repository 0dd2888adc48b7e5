//! Pages of memory of a process with many threads.

/// Asks the system for small pages. A thread that waits for a model uses little memory, and one large
/// page (2 MiB) is more than all that it needs. Where the system refuses, memory is only larger.
///
/// See docs/adr/0106-calls-in-flight.md.
pub(crate) fn use_small_pages() {
    if let Err(error) = nix::sys::prctl::set_thp_disable(true) {
        tracing::debug!(%error, "the system does not allow small memory pages");
    }
}
