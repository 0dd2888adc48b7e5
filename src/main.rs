//! Parse, run, exit code.

/// Requests are made on one thread and dropped on another; see `docs/adr/0074-allocator.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    summarizer::run()
}
