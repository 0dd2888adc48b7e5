//! The pager of the person, for more lines than a terminal shows.

use std::io::Write as _;
use std::process::{Command, ExitStatus, Stdio};

use super::Context;
use super::failure::Exit;
use super::plain::written;
use super::prose::Prose;
use crate::os::signals::{leave_interrupts_to_child, was_interrupted};

/// Lines that a terminal shows without a pager when its height is unknown.
const ROWS: usize = 24;

/// Prints lines; on a terminal that is too small for them through a pager.
pub(super) fn show(context: &Context, prose: Prose, lines: &[String]) -> Exit {
    let rows = terminal_size::terminal_size().map_or(ROWS, |(_, height)| usize::from(height.0));
    if prose.is_terminal()
        && lines.len() >= rows
        && let Some(ended) = page(lines)
    {
        return if was_interrupted(ended) { Exit::Interrupted } else { Exit::Done };
    }
    lines.iter().for_each(|line| context.ui.out(line));
    Exit::Done
}

/// Shows lines in the pager of the person. `None` when the environment names no pager.
fn page(lines: &[String]) -> Option<ExitStatus> {
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    let mut words = pager.split_whitespace();
    let mut command = Command::new(words.next()?);
    command.args(words).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Colours are kept, and a text that fits is left on the screen.
        command.env("LESS", "FRX");
    }
    let mut child = command.spawn().ok()?;
    // For `less` it is a key that ends a search. Without its parent, the shell would read the same keys as it. The pager
    // itself runs already: it would inherit what is blocked.
    leave_interrupts_to_child();
    if let Some(mut stdin) = child.stdin.take() {
        // A write error means that the reader left the pager before the end.
        let _ = stdin.write_all(format!("{}\n", written(&lines.join("\n"))).as_bytes());
    }
    child.wait().ok()
}
