//! Parse, run, exit code.

fn main() -> std::process::ExitCode {
    summarizer::cli::run()
}
